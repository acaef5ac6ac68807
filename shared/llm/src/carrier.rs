//! Who carries requests to servers: HTTP as a rule, a recording in a test.
//!
//! What goes over a wire is built and read by the same code either way, so that a test with recorded traffic tests
//! that code too, also under virtual time, which stands still for no socket.

use std::fmt;

use futures::future::BoxFuture;
use reqwest::{Client, Request, Response};

/// An answer on its way.
pub type Carried<'a> = BoxFuture<'a, Result<Response, CarrierError>>;

/// Carries requests to servers and brings their answers.
pub trait Carrier: fmt::Debug + Send + Sync {
    /// Carries one request. `client` is the one that would have sent it, with its rules about names and proxies.
    fn carry<'a>(&'a self, client: &'a Client, request: Request) -> Carried<'a>;
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CarrierError {
    /// As HTTP says it.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    /// The carrier takes no such request: what is wrong with it. Asking again does not help.
    #[error("{0}")]
    Refused(String),
}
