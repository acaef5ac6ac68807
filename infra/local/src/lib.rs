//! The embedded stack: everything of AWS that Longhaul needs, on 127.0.0.1, in one process and its child processes.

pub mod bench;
pub mod cli;
pub mod corpus;
pub mod cost;
pub mod gateway;
pub mod lambda;
pub mod soak;
pub mod stack;
pub mod stores;

pub use longhaul_rehearsal as rehearsal;
