//! Answers that come piece by piece, as a function URL with response streaming gives them: what stands in front (status and
//! headers as JSON, then eight zero bytes) becomes the response's head, and the rest its body, as it is written.

use std::time::Duration;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, StreamExt as _};
use tokio::sync::mpsc;

use super::{Refusal, answer};
use crate::lambda::functions::{Function, Reply};

/// What stands between head and body.
const SEPARATOR: [u8; 8] = [0; 8];
/// Bytes that the head may have, as the headers of a function's answer may have on AWS.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Whether a request asks for a stream of events.
pub(super) fn asked(parts: &Parts) -> bool {
    let accepts = parts.headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepts.flat_map(|value| value.split(','));
    parts.method == Method::GET
        && parts.uri.path().ends_with("/events")
        && types.any(|kind| kind.trim().to_ascii_lowercase().starts_with("text/event-stream"))
}

/// The function's answer as soon as its head is there.
pub(super) async fn answer(
    function: &Function,
    event: Bytes,
    trace: Option<String>,
    timeout: Duration,
) -> Result<Response, Refusal> {
    let begun = async {
        match function.invoke_streaming(event, trace).await.map_err(Refusal::Invocation)? {
            Reply::Whole(whole) => answer::read(&whole).map_err(Refusal::Malformed),
            Reply::Pieces(pieces) => head(pieces).await,
        }
    };
    tokio::time::timeout(timeout, begun).await.map_err(|_| Refusal::TimedOut)?
}

async fn head(mut pieces: mpsc::Receiver<Bytes>) -> Result<Response, Refusal> {
    let mut read = BytesMut::new();
    loop {
        if let Some(at) = read.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
            let head = read.split_to(at);
            let rest = read.split_off(SEPARATOR.len()).freeze();
            let mut response = answer::read(&head).map_err(Refusal::Malformed)?;
            let first = stream::iter(Some(rest).filter(|rest| !rest.is_empty()));
            let others = stream::unfold(pieces, async |mut pieces| pieces.recv().await.map(|piece| (piece, pieces)));
            *response.body_mut() = Body::from_stream(first.chain(others).map(Ok::<_, std::convert::Infallible>));
            return Ok(response);
        }
        match pieces.recv().await {
            Some(piece) if read.len() <= HEAD_BYTES_MAX => read.extend_from_slice(&piece),
            Some(_) | None => return Err(Refusal::NoHead),
        }
    }
}
