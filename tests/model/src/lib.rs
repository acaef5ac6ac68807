//! The model check: every order of calls, crashes and faults within bounds, over the engine's own decisions.
//!
//! A state machine in which each call to the store or the queue is one step. What a worker, the sweeper, the watchdog or
//! the api decides between two calls is asked of `longhaul-engine`, in the order in which `longhaul::drive`,
//! `longhaul::outside` and the sweeper ask; `docs/model-check.md` says what is left out and why that is sound.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "everything here is a test, and a panic is how a test fails"
)]

pub mod broken;
mod claiming;
mod driving;
pub mod forks;
pub mod instances;
mod items;
pub mod ledger;
pub mod model;
pub mod mutants;
mod outside;
mod quiet;
pub mod rules;
pub mod script;
pub mod state;
pub mod steps;
pub mod threads;
pub mod trace;
mod worker;
mod writing;
