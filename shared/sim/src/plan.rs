//! One thing that goes wrong once, at a place that a run without it has counted.
//!
//! Chance finds what nobody thought of; a count finds what chance passes by. A clean run says how many calls and messages
//! there are, and then each of them goes wrong in turn.

use std::time::Duration;

use crate::crash::{Death, Moment};

/// What goes wrong with one call of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallMishap {
    /// The worker dies at it.
    Dies(Moment, Death),
    /// The worker stops before it, for so long, and goes on as if nothing had been.
    Freezes(Duration),
    /// It fails and nothing happened.
    FailsBefore,
    /// It fails though it took effect.
    FailsAfter,
    /// A write is made twice.
    Repeats,
    /// It fails, and a write takes effect so much later.
    Late(Duration),
}

/// What goes wrong with one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageMishap {
    /// It is never delivered.
    Lost,
    /// It is delivered a second time, so much later.
    Doubled(Duration),
    /// It comes so much later.
    Late(Duration),
}

/// Where something goes wrong, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planned {
    /// At this call of all workers together.
    Call(u64, CallMishap),
    /// At this message of all that are sent.
    Message(u64, MessageMishap),
}
