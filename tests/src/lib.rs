//! Tests over the whole house: what one room alone cannot show.
//!
//! The library part holds what more than one test file needs: scenarios, and the stages that they are played on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "everything here is a test, and a panic is how a test fails"
)]

pub mod conformance;
pub mod program;
pub mod sample;
pub mod stage;
pub mod tools;
