//! The stand-in for a model server, asked over HTTP: what it answers, how it behaves in time, and what it remembers.

// Reason: a test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]

mod answers;
mod behaviour;
mod prompts;
mod quotes;
