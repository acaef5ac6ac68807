//! The provider layer against two model servers that others wrote: aimock (npm) and llmock (PyPI). What they send was
//! made to look like the providers by people who do not know this crate, and llmock judges its client.
//!
//! They are installed into `target/tools` by `make tools`, which the tests call themselves where they are missing. A
//! machine without what that needs fails these tests; they are never left out.

// Reason: a test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]

mod aimock;
mod llmock;
mod servers;
mod tools;
