//! The rules of the durable protocol, as pure functions.
//!
//! Every decision that keeps a job from being lost or paid for twice is made here: who may drive a job, what an append
//! that met another writer must do, when a step is tried again, when a job has crashed too often. Nothing here waits,
//! reads a clock or draws a random number; the time is an argument. So the same functions run in the worker, in the
//! simulator under virtual time and in the model checker.

// A lifecycle that gets a new state must be looked at wherever it is decided about.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod admission;
pub mod append;
pub mod budget;
pub mod claim;
pub mod delivery;
pub mod entry;
pub mod erasure;
pub mod failure;
pub mod fork;
pub mod ids;
pub mod job;
pub mod journal;
pub mod limits;
pub mod retry;
pub mod schedule;
pub mod sweep;
pub mod thread;
pub mod time;
pub mod wait;
pub mod walk;

pub use delivery::{Delivery, DeliveryState};
pub use entry::{Batch, Entry, StepKind};
pub use erasure::{Erasure, ErasureId};
pub use failure::{ErrorClass, Failure};
pub use ids::{AgentRef, Epoch, JobId, Nonce, Seq, SessionId, SignalKey, StepKey, TenantId, ThreadId};
pub use job::{Job, JobState, Lease, Usage};
pub use journal::Journal;
pub use time::Timestamp;
