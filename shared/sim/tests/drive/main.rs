//! The drive loop: real agents' code over the simulated store, what they come to and what they cost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod budgets;
mod children;
mod crashes;
mod fork_requests;
mod forks;
mod ground;
mod half_replays;
mod outside;
mod steps;
mod watchdogs;
