//! The functions over the real stores: DynamoDB, SQS and S3 of the embedded stack, spoken to by the AWS SDKs, and events
//! as Lambda sends them.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::large_futures,
    reason = "a test may panic: that is how it fails"
)]

mod agents;
mod deltas;
mod erasing;
mod far_end;
mod faulty;
mod front;
mod fuzz;
mod ground;
mod priority;
mod pushes;
mod queue_faults;
mod schedules;
mod second_writes;
mod stream;
mod sweeper;
mod table_faults;
mod threads;
mod warm;
mod watchers;
mod webhooks;
mod worker;
