//! The embedded stack: everything of AWS that Longhaul needs, on 127.0.0.1, in one process and its child processes.

pub mod gateway;
pub mod lambda;
pub mod rehearsal;
pub mod stores;
