//! Agent definitions: agents that a team writes as JSON or YAML instead of Rust.
//!
//! A [`Definition`] says what an agent is told, which models it may ask, which tools it may use and what it may spend; it
//! runs on the built-in agent loop. This crate is what everyone who touches a definition shares: the api that takes one
//! in, the worker that runs it and the command line that checks it on its author's machine. So it is pure: no clock, no
//! network, nothing of ours.
//!
//! [`check()`] reads a text and says everything that is wrong with it, each with line and field; [`read()`] gives the
//! definition when nothing is. [`json_schema()`] is the published form, for editors, and [`digest()`] names a version by
//! its content.

mod address;
mod check;
mod definition;
mod digest;
mod document;
pub mod headers;
pub mod limits;
mod rules;
mod schema;
mod secret;
mod template;
mod tools;

pub use address::{AddressError, Policy, is_public};
pub use check::{Checked, Finding, Format, check, read, read_within};
pub use definition::{Budget, Context, Definition, Limits, ModelChoice, OnInterrupted, Retry};
pub use digest::{canonical, digest};
pub use schema::json_schema;
pub use secret::{SecretError, SecretRef, SecretStore};
pub use template::{Piece, Template, TemplateError};
pub use tools::{
    AskPersonTool, Auth, DocumentsTool, Effect, HttpTool, LambdaTool, McpTool, Method, RunAgentTool, SearchTool, Tool,
};
