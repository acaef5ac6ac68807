//! The agents that ship, driven by the real drive loop over the simulated store, with the stand-in model's real server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod cards;
mod compliance;
mod research;
mod room;
mod synthetic;
mod tickets;
