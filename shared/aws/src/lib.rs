//! Longhaul on AWS: DynamoDB, SQS, S3 and the WebSocket gateway behind the engine's own words.
//!
//! This is the only crate that names the AWS SDKs, so that nothing else has to change with them. [`AwsStore`] is the
//! [`Store`](longhaul::store::Store) of the real system; the embedded stack runs the same code against servers on
//! the loopback.

pub mod claim_check;
pub mod clients;
pub mod config;
pub mod connections;
mod connector;
pub mod counts;
pub mod credentials;
pub mod deliveries;
pub mod dynamo;
mod first_try;
pub mod functions;
pub mod kept;
pub mod metrics;
pub mod pollers;
pub mod push;
pub mod secrets;
mod signed;
pub mod sqs;
pub mod telemetry;
pub mod tenants;

pub use clients::Clients;
pub use config::{Config, ConfigError};
pub use dynamo::AwsStore;
