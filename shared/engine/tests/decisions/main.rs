//! The engine's decisions as tables: one row a situation.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod claiming;
mod ground;
mod journals;
mod steps;
