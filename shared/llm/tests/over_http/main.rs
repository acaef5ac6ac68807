//! The client against a real server on loopback: broken answers, and the path that nothing disturbs.

// Reason: a test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]

mod across;
mod background;
mod blocks;
mod calls;
mod configuration;
mod fallback;
mod faults;
mod faults_of_blocks;
mod golden;
mod server;
mod wires;
