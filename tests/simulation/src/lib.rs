//! Every agent that ships, driven by the real worker in virtual time, while things go wrong.
//!
//! The store, the queue, the model and the ticket server are in this process, and everything that may differ between two
//! runs comes from a seed: so a failure is a seed, and a seed is one run for ever. What went wrong is written down by the
//! simulation; whether a promise was broken is said by [`audit`], which reads what is stored and what the far end was
//! asked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "this crate is part of tests: a simulation that cannot be set up has failed"
)]

pub mod agents;
pub mod audit;
pub mod far_end;
pub mod jobs;
pub mod journals;
pub mod picked;
mod plan;
pub mod seeds;
pub mod threads;
pub mod turns;
