//! An open connection as the management API sees it: a bounded buffer towards the client, and a way to close it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::{mpsc, watch};

use super::BUFFERED_MESSAGES;
use super::event::Client;

/// Why the gateway closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// A function asked for it.
    Deleted,
    /// It has been silent for too long.
    Idle,
    /// It has lived for too long.
    Old,
    /// The client sent a frame or message over the limit.
    TooBig,
    /// The client sent bytes where text is expected.
    Binary,
    /// The client broke the protocol.
    Protocol,
    /// The gateway goes down.
    GoingAway,
}

impl Closing {
    /// The close code on the wire.
    pub(super) fn code(self) -> u16 {
        match self {
            Self::Deleted => 1000,
            Self::Idle | Self::Old | Self::GoingAway => 1001,
            Self::Protocol => 1002,
            Self::Binary => 1003,
            Self::TooBig => 1009,
        }
    }

    /// The reason in the words of `$disconnect` events and close frames.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Deleted => "Connection Closed Normally",
            Self::Idle => "Going away: idle timeout",
            Self::Old => "Going away: maximum connection duration",
            Self::GoingAway => "Going away",
            Self::Protocol => "Protocol error",
            Self::Binary => "Binary frames are not supported",
            Self::TooBig => "Message too big",
        }
    }
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The client is too slow, and its buffer is full.
    Full,
    /// The connection is ending.
    Gone,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    outgoing: mpsc::Sender<String>,
    closing: watch::Sender<Option<Closing>>,
    opened: Instant,
    /// When something last went over the connection, in milliseconds after it was opened.
    active_ms: AtomicU64,
}

impl Connection {
    /// A connection, and what is to be sent on it.
    pub(super) fn new(client: Client) -> (Self, mpsc::Receiver<String>) {
        let (outgoing, inbox) = mpsc::channel(BUFFERED_MESSAGES);
        let closing = watch::Sender::new(None);
        (Self { client, outgoing, closing, opened: Instant::now(), active_ms: AtomicU64::new(0) }, inbox)
    }

    /// Puts a message into the client's buffer. Never waits.
    pub(super) fn post(&self, text: String) -> Result<(), NotTaken> {
        if self.closing.borrow().is_some() {
            return Err(NotTaken::Gone);
        }
        self.outgoing.try_send(text).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => NotTaken::Full,
            mpsc::error::TrySendError::Closed(_) => NotTaken::Gone,
        })
    }

    /// Has the connection closed. The first reason given is the one that counts.
    pub(super) fn close(&self, closing: Closing) {
        self.closing.send_if_modified(|before| {
            let first = before.is_none();
            if first {
                *before = Some(closing);
            }
            first
        });
    }

    /// Waits until the connection is to be closed.
    pub(super) async fn closing(&self) -> Closing {
        let mut closing = self.closing.subscribe();
        match closing.wait_for(Option::is_some).await.map(|closing| *closing) {
            Ok(Some(closing)) => closing,
            // The sender lives in this very value.
            Ok(None) | Err(_) => Closing::GoingAway,
        }
    }

    /// Notes that something went over the connection.
    pub(super) fn touch(&self) {
        let ms = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.active_ms.store(ms, Ordering::Relaxed);
    }

    /// When something last went over the connection.
    pub(super) fn last_active(&self) -> Instant {
        self.opened + Duration::from_millis(self.active_ms.load(Ordering::Relaxed))
    }

    /// The same as a time of day.
    pub(super) fn last_active_at(&self) -> SystemTime {
        SystemTime::now() - self.last_active().elapsed()
    }
}
