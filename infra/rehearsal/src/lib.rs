//! The stand-in for a model server: real wire format, no model.
//!
//! Long jobs must be tried, tested and shown without an account or a network, and a canned answer would prove nothing.
//! So this server computes its answers from the messages that it is given, by plain rules that anybody can follow: a
//! report on other sources is another report, a quote stands letter by letter in its source, equal requests get equal
//! answers. It never passes for a model: it answers as `rehearsal` with the fingerprint `rehearsal-no-model`, and free
//! text begins with `[rehearsal, no model]`.
//!
//! # Routes
//! - `POST /v1/chat/completions`, streamed and whole, with usage (a token is four characters, rounded up);
//!   `GET /v1/models`. Any key and any model name will do.
//! - `GET /rehearsal/requests`: the list of [`RequestRecord`]s, oldest first.
//! - `POST /rehearsal/faults`: a list of [`Fault`]s, each applied once:
//!   `[{"schema": "reading_notes", "nth": 1, "status": 429, "retry_after": 1}, {"cut_after_bytes": 900}, {"refuse": true}]`.
//!   Answers `{"waiting": n}`.
//!
//! # Answers
//! They depend on `response_format.json_schema.name`. The JSON Schemas and the prompts that go with them lie with the
//! agents (`shared/agent/src/research`, `shared/agent/src/compliance`; a file has its schema's name). Input is read
//! from tagged sections of the last user message: an opening tag with attributes in double quotes and a closing tag, each
//! alone on a line, and between them the material as it is. So that material cannot close its own section, whoever fills
//! a prompt puts a space before a line that begins with `</`.
//!
//! | schema | reads | answers |
//! |---|---|---|
//! | `research_plan` | `<topic>` | queries and outline from the topic's words |
//! | `reading_notes` | `<topic>`, `<source file="" title="">` with the text | whether it is relevant, a summary of its sentences, up to five verbatim quotes |
//! | `report` (or `section`) | `<topic>`, `<outline>` (a heading a line), `<note number="" file="" title="">` with the object of `reading_notes` each | title, summary, sections of prose with `[n]` citations |
//! | `compliance_finding` | `<rule id="" title="">` with the requirement, `<keywords>`, `<page number="">` with the text each | verdict by words in common, denials and amounts, with verbatim quotes |
//! | `ticket` | `<rule …>`, `<finding>` with the object of `compliance_finding` | title, body, severity |
//! | any other | the whole message | the smallest instance of the schema, with the input's words as its texts |
//! | none | the last tool results, or the user's message | the sentences that say the most |
//!
//! Where a tool named `search` is on offer and the last message is the user's, it is called with the topic first. In a
//! report, sentences of a note's quotes stand in “curly quotes” with their number behind them; a quote that itself holds
//! quotation marks, and sentences of a summary, stand without. A line break within a quote becomes a space.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

mod answer;
mod compliance;
mod facets;
mod instance;
mod ledger;
mod material;
mod notes;
mod plan;
mod prompt;
mod quantity;
mod ranking;
mod report;
mod sentences;
mod server;
mod ticket;
mod wire;
mod words;

use serde_json::Value;

pub use ledger::{Fault, RequestRecord};
pub use wire::{FINGERPRINT, MODEL_NAME};

/// Wait for open answers at shutdown. Whoever still reads then reads a cut stream, as from any server that goes away.
const SHUTDOWN_GRACE_MS: u64 = 500;

/// What the server answers to this body of a Chat Completions request, whole, without a server: for simulations, in
/// which time stands still for no socket. The same function makes the server's answers.
///
/// # Errors
/// What is wrong with the request.
pub fn completion(body: &Value) -> Result<Value, String> {
    let asked = wire::Asked::read(body)?;
    let content = wire::Content::Answer(answer::answer(&asked));
    Ok(wire::Reply::new(0, 0, &asked, content).whole())
}

/// How the stand-in behaves in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rehearsal {
    /// Time before each answer.
    pub think_time: Duration,
    /// Pace of streamed answers; as fast as possible when absent.
    pub tokens_per_second: Option<u32>,
}

/// Why the stand-in cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The address is not on this machine, where everybody could ask.
    #[error("the rehearsal listens on loopback only, not on {address}")]
    NotLoopback {
        /// The refused address.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("the rehearsal cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A running stand-in. It stops when this is dropped.
#[derive(Debug)]
pub struct RehearsalHandle {
    /// What a Chat Completions client takes as its base address: ends in `/v1`.
    pub base_url: String,
    /// Where it listens.
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl RehearsalHandle {
    /// Stops listening and waits a moment for answers under way.
    pub async fn shutdown(mut self) {
        if let Some(stop) = self.stop.take() {
            // The server may have ended by itself.
            let _ = stop.send(());
        }
        let grace = Duration::from_millis(SHUTDOWN_GRACE_MS);
        let _ = tokio::time::timeout(grace, &mut self.serving).await;
    }
}

impl Drop for RehearsalHandle {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Starts the stand-in on a loopback address; port 0 takes a free one.
///
/// # Errors
/// [`RehearsalError`] when it cannot listen there.
pub async fn start(listen: SocketAddr, options: Rehearsal) -> Result<RehearsalHandle, RehearsalError> {
    if !listen.ip().is_loopback() {
        return Err(RehearsalError::NotLoopback { address: listen });
    }
    let failed = |source| RehearsalError::Listen { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    // Small pieces must leave at once: held back for the client's acknowledgement, an answer takes 40 ms longer.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection stays slow");
        }
    });
    let router = server::router(options);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let server = axum::serve(listener, router).with_graceful_shutdown(async {
            // A dropped sender means the same as a sent word.
            let _ = stopped.await;
        });
        if let Err(error) = server.await {
            tracing::error!(%error, "the rehearsal ended");
        }
    });
    Ok(RehearsalHandle { base_url: format!("http://{address}/v1"), address, stop: Some(stop), serving })
}
