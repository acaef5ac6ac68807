//! What stands on the wire: the public types of the service, and who may speak to it.
//!
//! Requests, answers, events and problems are defined here once, so that the functions, the command line and the
//! description in OpenAPI cannot disagree. The crate holds no server: the api function and the WebSocket function both
//! check tokens and write problems through it.

pub mod agents;
pub mod deliveries;
pub mod erasures;
pub mod events;
pub mod export;
pub mod jobs;
pub mod journal;
pub mod limits;
mod names;
pub mod problem;
pub mod requests;
pub mod schedules;
mod schemas;
pub mod socket;
pub mod text;
pub mod token;

pub use agents::AgentCard;
pub use events::Event;
pub use jobs::{JobList, JobView};
pub use problem::Problem;
pub use token::{Caller, Scope, TokenCheck};
