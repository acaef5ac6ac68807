//! The whole system in one run: everything that people do with jobs, on the embedded stack with real processes, and then
//! a look at what all of it has used and left behind.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]

mod canaries;
mod everything;
mod outside;
mod rights;
mod shelves;
mod upgrade;
