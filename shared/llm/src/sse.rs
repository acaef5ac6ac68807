//! Server-sent events from a response body, whatever the network did to it.
//!
//! The decoder is the `sse-stream` crate (one UTF-8 stream over all chunks, BOM, comments, unknown fields); this module
//! adds what model servers need: a last event that lacks its blank line, and the knowledge whether the body had ended
//! when the decoder failed, since half a character in the middle is a broken server and at the end a cut line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use sse_stream::SseByteStream;
use tokio::time::timeout;

use crate::error::{ModelError, ModelErrorKind};
use crate::error_class::cut_off;

/// The chunks of a body.
pub(crate) type Chunks = BoxStream<'static, Result<Bytes, ModelError>>;

/// How long the rest of a body is read when its answer is whole.
const DRAIN_MS: u64 = 50;

/// What ends an event.
const BLANK_LINE: &[u8] = b"\n\n";

/// The events of a body, one by one.
pub(crate) struct Events {
    decoder: SseByteStream<Chunks>,
    body_ended: Arc<AtomicBool>,
}

impl Events {
    pub(crate) fn new(chunks: Chunks) -> Self {
        let body_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&body_ended);
        // Some servers close right after the last `data:` line. A line that was cut is no JSON, so ending it here
        // cannot make half an event look whole.
        let last = stream::once(async move {
            ended.store(true, Ordering::Relaxed);
            Ok(Bytes::from_static(BLANK_LINE))
        });
        Self { decoder: SseByteStream::new(chunks.chain(last).boxed()), body_ended }
    }

    /// Reads what is left behind the answer's end, so that the connection can be used again. A server that leaves the body
    /// open is not waited for.
    pub(crate) async fn drain(mut self) {
        let rest = async { while self.next().await.is_some() {} };
        let _ended_or_left = timeout(Duration::from_millis(DRAIN_MS), rest).await;
    }

    /// The data of the next event that has any; `None` when the body has ended.
    pub(crate) async fn next(&mut self) -> Option<Result<String, ModelError>> {
        loop {
            match self.decoder.next().await? {
                Ok(event) => match event.data {
                    Some(data) if !data.trim().is_empty() => return Some(Ok(data)),
                    Some(_) | None => {}
                },
                Err(sse_stream::Error::Body(error)) => {
                    return Some(Err(match error.downcast::<ModelError>() {
                        Ok(error) => *error,
                        Err(error) => cut_off("the connection broke in mid-answer").with_source(error),
                    }));
                }
                Err(error) => return Some(Err(self.garbled("the event stream is not readable", error))),
            }
        }
    }

    /// An error for data that makes no sense: a cut where the body had ended, a broken server otherwise.
    pub(crate) fn garbled(&self, message: &str, source: impl std::error::Error + Send + Sync + 'static) -> ModelError {
        if self.body_ended.load(Ordering::Relaxed) {
            cut_off("the answer ended in the middle of an event").with_source(source)
        } else {
            ModelError::new(ModelErrorKind::Transient, message).with_source(source)
        }
    }
}
