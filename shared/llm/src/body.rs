//! A response body, told apart by what stands in it.
//!
//! A stream is always asked for, yet some servers answer with one JSON object, and the content type is wrong often
//! enough to be no guide. The first byte is: JSON begins with a brace, an event stream never does.

use bytes::Bytes;
use futures::stream::{self, StreamExt};
use reqwest::Response;

use crate::error::{ModelError, ModelErrorKind};
use crate::http::{RESPONSE_MAX_BYTES, transport_error};
use crate::sse::{Chunks, Events};

/// An answer's body.
pub(crate) enum Body {
    /// One JSON text.
    Json(String),
    /// An event stream, still flowing.
    Events(Events),
}

/// Reads as far as the first byte that means something.
pub(crate) async fn open(mut chunks: Chunks) -> Result<Body, ModelError> {
    let mut head = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        let first = chunk.iter().copied().find(|byte| !is_blank(*byte));
        head.push(Ok(chunk));
        match first {
            None => {}
            Some(b'{' | b'[') => return whole(stream::iter(head).chain(chunks).boxed()).await.map(Body::Json),
            Some(_) => break,
        }
    }
    Ok(Body::Events(Events::new(stream::iter(head).chain(chunks).boxed())))
}

/// White space, and the bytes of a byte-order mark.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0xEF | 0xBB | 0xBF)
}

/// The chunks of a body, up to the largest answer accepted.
pub(crate) fn limited(response: Response) -> Chunks {
    let mut room = RESPONSE_MAX_BYTES;
    response
        .bytes_stream()
        .map(move |chunk| {
            let chunk: Bytes = chunk.map_err(transport_error)?;
            room = room.checked_sub(chunk.len()).ok_or_else(|| {
                ModelError::new(ModelErrorKind::Transient, "the answer is larger than any model's output limit")
            })?;
            Ok(chunk)
        })
        .boxed()
}

/// All of a body as text.
pub(crate) async fn whole(mut chunks: Chunks) -> Result<String, ModelError> {
    let mut body = Vec::new();
    while let Some(chunk) = chunks.next().await {
        body.extend_from_slice(&chunk?);
    }
    Ok(String::from_utf8_lossy(&body).trim_start_matches('\u{feff}').to_owned())
}
