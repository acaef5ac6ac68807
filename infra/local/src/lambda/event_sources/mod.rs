//! Event source mappings: what invokes functions without anybody calling them.
//!
//! | Mapping | Invokes for |
//! |---|---|
//! | [`QueueMapping`] | messages of an SQS queue, in batches, with partial batch failures |
//! | [`StreamMapping`] | records of the table's stream, in order, with retries and halving |
//! | [`ScheduleMapping`] | the clock |
//!
//! They follow Lambda's own pollers, its traps included: a malformed report of failures fails a whole batch, and what
//! failed is delivered again.

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

mod failures;
mod packing;
mod queue;
mod queue_event;
mod retry;
mod schedule;
mod stream;

pub use queue::{QueueMapping, QueueMappingError, Redelivery};
pub use retry::RetryPolicy;
pub use schedule::ScheduleMapping;
pub use stream::{RETRIES_USUAL, StreamFilter, StreamMapping, StreamMappingError};

/// A running event source mapping. It takes nothing more in when it is dropped; invocations under way go on.
#[derive(Debug)]
pub struct Mapping {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Mapping {
    fn start<F: Future<Output = ()> + Send + 'static>(run: impl FnOnce(CancellationToken) -> F) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(stop.clone()));
        Self { stop, task }
    }

    /// Takes nothing more in and waits until what was taken in is done with.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "an event source mapping ended badly");
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
