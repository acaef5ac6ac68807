//! SQS → function: polls a queue, invokes with batches, deletes what is done and gives back what failed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::failures::{Verdict, judge};
use super::{Mapping, packing, queue_event};
use crate::lambda::functions::{Function, InvokeError};
use crate::stores::sqs::{QueueName, ReceiptHandle, ReceivedMessage, Sqs, SqsError};

/// Largest batch of a standard queue.
const BATCH_MAX: usize = 10_000;

/// Largest batch without a window; more cannot come from one receive.
const BATCH_MAX_WITHOUT_WINDOW: usize = 10;

/// Longest batching window.
const WINDOW_MAX: Duration = Duration::from_secs(300);

/// Bounds of the number of batches at once (`ScalingConfig.MaximumConcurrency`).
const CONCURRENCY: std::ops::RangeInclusive<usize> = 2..=1000;

/// How long one poll waits for a message (SQS's own maximum).
const POLL: Duration = Duration::from_secs(20);

/// First and longest time that a failed message waits under [`Redelivery::Prompt`], and the poller after a receive that
/// failed: soon enough that a person watching sees it go on, and slow enough that what always fails does not keep a core busy.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(1);

/// Tries to delete what is done, within two seconds. What stays is worked on again, and counts as received once more: after
/// some rounds the queue would make dead letters of messages that went well each time.
const DELETE_TRIES: u32 = 5;

/// When failed messages come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redelivery {
    /// As on AWS: a failed message stays invisible until its visibility timeout ends, whatever made it fail.
    Lifelike,
    /// As suits a person who watches: at once when the function's process died, and within a second otherwise. They come one
    /// by one, since one of them may be what the process died of.
    Prompt,
}

/// An event source mapping from a queue to a function.
#[derive(Clone, Debug)]
pub struct QueueMapping {
    /// The queues.
    pub sqs: Sqs,
    /// The queue that is polled.
    pub queue: QueueName,
    /// The function that is invoked.
    pub function: Function,
    /// Most messages of a batch: 1 to 10,000; over 10 needs a window of a second at least.
    pub batch_size: usize,
    /// How long a batch is gathered, up to 5 min. Zero: the function is invoked at once with what is there.
    pub window: Duration,
    /// Most batches at once: 2 to 1,000.
    pub max_concurrency: usize,
    /// Whether the function's answer tells which items failed (`ReportBatchItemFailures`). Without it, any answer
    /// means success of the whole batch.
    pub report_batch_item_failures: bool,
    /// When failed messages come back.
    pub redelivery: Redelivery,
}

/// Why a mapping is refused; AWS refuses the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueMappingError {
    /// The batch size is outside 1 to 10,000.
    #[error("a batch has 1 to {BATCH_MAX} messages, not {0}")]
    BatchSize(usize),
    /// The batch size is over 10, and there is no window.
    #[error("a batch of more than {BATCH_MAX_WITHOUT_WINDOW} messages needs a window of at least 1 s")]
    WindowMissing,
    /// The window is too long.
    #[error("a batch is gathered for at most {WINDOW_MAX:?}, not {0:?}")]
    Window(Duration),
    /// The concurrency is outside 2 to 1,000.
    #[error("the maximum concurrency is 2 to 1000, not {0}")]
    Concurrency(usize),
}

impl QueueMapping {
    /// Starts polling.
    ///
    /// # Errors
    /// When a setting is one that AWS refuses.
    pub fn start(self) -> Result<Mapping, QueueMappingError> {
        if !(1..=BATCH_MAX).contains(&self.batch_size) {
            return Err(QueueMappingError::BatchSize(self.batch_size));
        }
        if self.batch_size > BATCH_MAX_WITHOUT_WINDOW && self.window < Duration::from_secs(1) {
            return Err(QueueMappingError::WindowMissing);
        }
        if self.window > WINDOW_MAX {
            return Err(QueueMappingError::Window(self.window));
        }
        if !CONCURRENCY.contains(&self.max_concurrency) {
            return Err(QueueMappingError::Concurrency(self.max_concurrency));
        }
        Ok(Mapping::start(|stop| poll(Arc::new(self), stop)))
    }

    /// How many batches are taken in at once. AWS takes in more than the function may run and has the rest throttled,
    /// at the cost of a receive each time; that is for those who want to see it.
    fn batches_at_once(&self) -> usize {
        match self.redelivery {
            Redelivery::Lifelike => self.max_concurrency,
            Redelivery::Prompt => self.max_concurrency.min(self.function.max_concurrency()),
        }
    }

    /// Receives one batch; empty when nothing came. `apart`: a message that comes again comes by itself.
    async fn gather(&self, apart: bool) -> Result<Vec<ReceivedMessage>, SqsError> {
        let mut batch = self.receive(self.batch_size, POLL, apart).await?;
        let until = Instant::now() + self.window;
        while !batch.is_empty() && batch.len() < self.batch_size && Instant::now() < until {
            let room = self.batch_size.saturating_sub(batch.len());
            batch.extend(self.receive(room, until.saturating_duration_since(Instant::now()), false).await?);
        }
        Ok(batch)
    }

    async fn receive(&self, max: usize, wait: Duration, apart: bool) -> Result<Vec<ReceivedMessage>, SqsError> {
        match apart {
            true => self.sqs.receive_apart(&self.queue, max, wait).await,
            false => self.sqs.receive(&self.queue, max, wait, None).await,
        }
    }

    /// Invokes the function for a batch, in several invocations when one event cannot hold it.
    async fn work(&self, batch: Vec<ReceivedMessage>) {
        let (messages, records) = self.records(batch);
        for run in packing::pack(&records) {
            if let (Some(messages), Some(records)) = (messages.get(run.clone()), records.get(run)) {
                let failed = self.invoke(messages, packing::event(records)).await;
                self.settle(messages, &failed).await;
            }
        }
    }

    /// The messages and their records.
    fn records(&self, batch: Vec<ReceivedMessage>) -> (Vec<ReceivedMessage>, Vec<String>) {
        let arn = self.sqs.queue_arn(&self.queue);
        let with_record = |message: ReceivedMessage| match queue_event::record(&message, &arn, self.function.region()) {
            Ok(record) => Some((message, record)),
            Err(error) => {
                // It stays invisible and ends in the dead-letter queue, where a person finds it.
                tracing::error!(%error, message_id = message.message_id, "a message cannot be put into an event");
                None
            }
        };
        batch.into_iter().filter_map(with_record).unzip()
    }

    /// Deletes the messages that are done and gives back the others.
    async fn settle(&self, messages: &[ReceivedMessage], failed: &Failed) {
        let receipts = |failed_ones: bool| -> Vec<ReceiptHandle> {
            let wanted = messages.iter().enumerate().filter(|(at, _)| failed.contains(*at) == failed_ones);
            wanted.map(|(_, message)| message.receipt.clone()).collect()
        };
        let done = receipts(false);
        if !done.is_empty()
            && let Err(error) = self.delete(&done).await
        {
            // They come again, which every function of a queue has to stand.
            tracing::warn!(queue = %self.queue, %error, "finished messages were not deleted");
        }
        self.give_back(messages, &receipts(true), failed).await;
    }

    async fn delete(&self, done: &[ReceiptHandle]) -> Result<(), SqsError> {
        let mut tries = 1;
        loop {
            match self.sqs.delete(&self.queue, done).await {
                Err(error) if tries < DELETE_TRIES && !matches!(error, SqsError::Stopped) => {
                    tracing::debug!(queue = %self.queue, %error, tries, "finished messages were not deleted yet");
                    tokio::time::sleep(retry_after(tries)).await;
                    tries = tries.saturating_add(1);
                }
                last => return last,
            }
        }
    }

    async fn invoke(&self, messages: &[ReceivedMessage], event: String) -> Failed {
        // A message that comes again may be what its last process died of.
        let again = messages.iter().any(|message| message.receive_count > 1);
        let invoked = match again {
            true => self.function.invoke_alone(event, trace_of(messages)).await,
            false => self.function.invoke(event, trace_of(messages)).await,
        };
        match invoked {
            Ok(answer) if self.report_batch_item_failures => {
                let identifiers: Vec<_> = messages.iter().map(|message| message.message_id.as_str()).collect();
                match judge(&answer, &identifiers) {
                    Verdict::Items(items) => Failed::Items(items),
                    Verdict::Whole(malformed) => {
                        tracing::warn!(function = self.function.name(), %malformed,
                            "a report of failed items is malformed, so its whole batch counts as failed");
                        Failed::All { at_once: false }
                    }
                }
            }
            Ok(_) => Failed::Items(Vec::new()),
            Err(error) => {
                tracing::warn!(function = self.function.name(), %error, messages = messages.len(), "a batch failed");
                match error {
                    // Given back now, they would be received again and again by a stack that is going down, and each
                    // time counts. The next stack frees them at its start.
                    InvokeError::Stopped => Failed::Kept,
                    _ => Failed::All { at_once: error.process_died() },
                }
            }
        }
    }

    /// Makes failed messages visible again when they should not wait for their visibility timeout.
    async fn give_back(&self, messages: &[ReceivedMessage], receipts: &[ReceiptHandle], failed: &Failed) {
        if receipts.is_empty() || self.redelivery == Redelivery::Lifelike {
            return;
        }
        let wait = match failed {
            Failed::Kept => return,
            Failed::All { at_once: true } => Duration::ZERO,
            Failed::All { at_once: false } | Failed::Items(_) => {
                let received = messages.iter().map(|message| message.receive_count).min().unwrap_or(1);
                retry_after(received)
            }
        };
        if let Err(error) = self.sqs.change_visibility(&self.queue, receipts, wait).await {
            // They come back anyway when their visibility timeout ends.
            tracing::warn!(queue = %self.queue, %error, "failed messages were not given back early");
        }
    }
}

/// Which messages of a batch failed.
#[derive(Debug)]
enum Failed {
    Items(Vec<usize>),
    All {
        /// Whether they can come back at once, because nothing works on them any more.
        at_once: bool,
    },
    /// All, and nobody is to have them before their visibility timeout.
    Kept,
}

impl Failed {
    fn contains(&self, position: usize) -> bool {
        match self {
            Self::Items(items) => items.contains(&position),
            Self::All { .. } | Self::Kept => true,
        }
    }
}

/// How long to wait after so many failures.
fn retry_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(8);
    RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_LONGEST)
}

/// The trace that all messages of a batch are in; nothing when they are in several.
fn trace_of(messages: &[ReceivedMessage]) -> Option<String> {
    let (first, others) = messages.split_first()?;
    let trace = first.trace_header.as_ref()?;
    others.iter().all(|other| other.trace_header.as_ref() == Some(trace)).then(|| trace.clone())
}

async fn poll(mapping: Arc<QueueMapping>, stop: CancellationToken) {
    let turns = Arc::new(Semaphore::new(mapping.batches_at_once()));
    let mut under_way = JoinSet::new();
    while let Some((turn, batch)) = next(&mapping, &turns, &stop).await {
        while under_way.try_join_next().is_some() {}
        let mapping = Arc::clone(&mapping);
        under_way.spawn(async move {
            mapping.work(batch).await;
            drop(turn);
        });
    }
    // Without the handle that is waiting for it this goes on all the same: a dropped set would abort its tasks, and
    // finished messages would come back.
    while under_way.join_next().await.is_some() {}
}

/// The next batch and the right to work on it; nothing when the mapping is to stop.
async fn next(
    mapping: &QueueMapping,
    turns: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<(OwnedSemaphorePermit, Vec<ReceivedMessage>)> {
    let polling = async {
        let turn = Arc::clone(turns).acquire_owned().await.ok()?;
        let mut failed_in_a_row: u32 = 0;
        loop {
            // As long as there is room: many that come again must not take the places of all others.
            let room = turns.available_permits() > mapping.batches_at_once() / 2;
            match mapping.gather(room && mapping.redelivery == Redelivery::Prompt).await {
                Ok(batch) if batch.is_empty() => failed_in_a_row = 0,
                Ok(batch) => return Some((turn, batch)),
                Err(SqsError::Stopped) => return None,
                Err(error) => {
                    tracing::warn!(queue = %mapping.queue, %error, "a queue could not be polled");
                    failed_in_a_row = failed_in_a_row.saturating_add(1);
                    tokio::time::sleep(retry_after(failed_in_a_row)).await;
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => None,
        batch = polling => batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_a_little_longer() {
        for (failures, ms) in [(0, 100), (1, 100), (2, 200), (3, 400), (4, 800), (5, 1000), (1_000_000, 1000)] {
            assert_eq!(retry_after(failures), Duration::from_millis(ms), "{failures}");
        }
    }
}
