//! Real processes, really killed, stopped and lied to, and an auditor who reads all books afterwards: every journal, the
//! table, the queues, and the model server's own count of what it was asked.
//!
//! | File | What goes wrong |
//! |---|---|
//! | `killed` | function processes are killed at random moments |
//! | `stopped` | a worker stands still for longer than its lease and goes on |
//! | `stores` | the table and the queues answer in every wrong way that there is |
//! | `clocks` | each worker's clock is wrong by another amount |
//! | `tickets` | a worker is killed at each place between a request and its checkpoint |
//! | `together` | all of it at once |
//! | `soak` | `longhaul soak` says what it found, and its exit code too |
//!
//! Loads are small here. `make verify-stack` runs the same with 500 jobs (`LONGHAUL_LOAD_JOBS`); `LONGHAUL_SEED` picks
//! other moments. A failure prints the seed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a panic is how a test fails"
)]

mod clocks;
mod field;
mod killed;
mod soak;
mod stopped;
mod stores;
mod tickets;
mod together;
