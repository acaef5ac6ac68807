//! What AWS allows and what it costs. Looked up on 2026-11-30 in AWS's developer guides, for us-east-1.

/// Batches that a queue's event source begins with, and how many it adds in a minute while messages are left (Lambda
/// Developer Guide, "Configuring scaling behavior for SQS event source mappings").
pub const BATCHES_FIRST: f64 = 5.0;
/// See [`BATCHES_FIRST`].
pub const BATCHES_MORE_A_MINUTE: f64 = 300.0;
/// The most batches that one event source works on at once (same page).
pub const BATCHES_MAX: usize = 1_000;
/// Invocations at once that an account may have until it asks for more (Lambda quotas).
pub const CONCURRENCY_OF_ACCOUNT: usize = 1_000;
/// Messages of a standard queue that may be received and not yet deleted (SQS quotas).
pub const IN_FLIGHT_MAX: usize = 120_000;
/// Write units a second that a new table takes on demand (DynamoDB Developer Guide, "Warm throughput").
pub const WARM_WRITE_UNITS: f64 = 4_000.0;
/// A table on demand takes twice its last peak, and grows to that within so many minutes (same page).
pub const GROWTH_MINUTES: u64 = 30;
/// Write units a second of one partition, whatever the table takes (same page).
pub const PARTITION_WRITE_UNITS: f64 = 1_000.0;

/// US dollars.
pub const WRITE_UNIT_DOLLARS: f64 = 0.625e-6;
/// An SQS request.
pub const SQS_REQUEST_DOLLARS: f64 = 0.40e-6;
/// A gigabyte of memory for a second, on arm64.
pub const LAMBDA_GB_SECOND_DOLLARS: f64 = 0.000_013_333_4;
/// An invocation.
pub const LAMBDA_REQUEST_DOLLARS: f64 = 0.20e-6;
