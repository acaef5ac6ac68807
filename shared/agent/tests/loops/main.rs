//! The loop that runs definitions, under virtual time: real code, a model that plays a script, tools in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]
#![allow(clippy::disallowed_methods, reason = "models and tools of a test take their time outside of any agent")]

mod answers;
mod background;
mod budgets;
mod calls;
mod canned;
mod crashes;
mod long;
mod people;
mod repeats;
mod room;
mod waits;
mod wire_faults;
