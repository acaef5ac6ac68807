//! AWS event streams: binary frames with headers and checksums.
//!
//! What a frame means stands in its headers alone, errors in mid-stream included; a client that looks at the payload
//! only takes a throttled answer for a short one. The decoder is AWS's own crate.
//!
//! Format: <https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html>.

use aws_smithy_eventstream::frame::{DecodedFrame, MessageFrameDecoder};
use aws_smithy_types::event_stream::Message;
use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;

use crate::error::{ModelError, ModelErrorKind};
use crate::error_class::cut_off;
use crate::sse::Chunks;

/// One frame.
#[derive(Debug)]
pub(crate) enum Frame {
    /// A piece of the answer.
    Event {
        /// Which.
        kind: String,
        /// JSON.
        payload: Bytes,
    },
    /// An error of the service's model.
    Exception {
        /// Which.
        kind: String,
        /// JSON.
        payload: Bytes,
    },
    /// An error below the service's model.
    Error {
        /// Which.
        code: String,
        /// In words.
        message: String,
    },
}

/// The frames of a body, one by one.
pub(crate) struct Frames {
    chunks: Chunks,
    buffer: BytesMut,
    decoder: MessageFrameDecoder,
}

impl Frames {
    pub(crate) fn new(chunks: Chunks) -> Self {
        Self { chunks, buffer: BytesMut::new(), decoder: MessageFrameDecoder::new() }
    }

    /// The next frame; `None` when the body has ended between two frames.
    pub(crate) async fn next(&mut self) -> Option<Result<Frame, ModelError>> {
        loop {
            match self.decoder.decode_frame(&mut self.buffer) {
                Ok(DecodedFrame::Complete(message)) => return Some(Ok(frame(&message))),
                Ok(DecodedFrame::Incomplete) => {}
                Err(error) => {
                    let message = "a frame of the event stream is damaged";
                    return Some(Err(ModelError::new(ModelErrorKind::Transient, message).with_source(error)));
                }
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Some(Err(error)) => return Some(Err(error)),
                None if self.buffer.has_remaining() => {
                    return Some(Err(cut_off("the answer ended in the middle of a frame")));
                }
                None => return None,
            }
        }
    }
}

fn frame(message: &Message) -> Frame {
    let header = |name: &str| {
        let header = message.headers().iter().find(|header| header.name().as_str() == name);
        header
            .and_then(|header| header.value().as_string().ok())
            .map_or_else(String::new, |text| text.as_str().to_owned())
    };
    let payload = message.payload().clone();
    match header(":message-type").as_str() {
        "exception" => Frame::Exception { kind: header(":exception-type"), payload },
        "error" => Frame::Error { code: header(":error-code"), message: header(":error-message") },
        _ => Frame::Event { kind: header(":event-type"), payload },
    }
}
