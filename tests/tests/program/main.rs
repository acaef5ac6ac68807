//! The program end to end: real processes, real wire formats, what a person sees.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]

mod dead_letters;
mod definitions;
mod deployments;
mod erasing;
mod files;
mod outside;
mod refusals;
mod refused;
mod reports;
mod schedules;
mod survival;
mod threads;
mod watching;
mod webhooks;
