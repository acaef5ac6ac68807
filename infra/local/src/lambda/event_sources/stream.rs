//! Stream → function: hands over the records of the table's stream in order, and holds its place until they are dealt
//! with.

use std::ops::Range;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::failures::{Verdict, judge};
use super::retry::{Next, Progress, RetryPolicy};
use super::{Mapping, packing};
use crate::lambda::functions::{Function, InvokeError};
use crate::stores::dynamodb::{DynamoDbError, StreamReader, StreamRecord};

/// Largest batch, as on AWS. A reader gives at most 1,000 records at once, as the Streams API does.
const BATCH_MAX: usize = 10_000;

/// Longest batching window.
const WINDOW_MAX: Duration = Duration::from_secs(300);

/// How often a record of [`StreamMapping::new`] is tried again. What people watch must not wait long behind one record
/// that cannot be pushed: with the pauses between them, five retries take about three seconds.
pub const RETRIES_USUAL: u32 = 5;

/// How long one look at the stream waits for a record.
const LOOK: Duration = Duration::from_secs(20);

/// First and longest pause before records are tried again.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// Which records are worth an invocation (AWS: `FilterCriteria`). The others are passed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamFilter {
    /// `INSERT`, `MODIFY` or `REMOVE`; none means all.
    pub event_name: Option<String>,
    /// What the sort key `SK` begins with; none means all.
    pub sort_key_prefix: Option<String>,
}

impl StreamFilter {
    /// Journal entries that were appended.
    #[must_use]
    pub fn journal_entries() -> Self {
        Self { event_name: Some("INSERT".to_owned()), sort_key_prefix: Some("J#".to_owned()) }
    }

    /// New jobs, which get their places in the index `search`.
    #[must_use]
    pub fn new_jobs() -> Self {
        Self { event_name: Some("INSERT".to_owned()), sort_key_prefix: Some("JOB".to_owned()) }
    }

    /// Job items that expired: their journals go after them.
    #[must_use]
    pub fn expired_jobs() -> Self {
        Self { event_name: Some("REMOVE".to_owned()), sort_key_prefix: Some("JOB".to_owned()) }
    }

    fn lets_through(&self, record: &StreamRecord) -> bool {
        let name = self.event_name.as_deref().is_none_or(|name| record.event_name() == name);
        name && self.sort_key_prefix.as_deref().is_none_or(|prefix| record.sort_key_begins_with(prefix))
    }
}

/// An event source mapping from the table's stream to a function.
#[derive(Debug)]
pub struct StreamMapping {
    /// Reads the stream and remembers how far it has come, across restarts.
    pub reader: StreamReader,
    /// The function that is invoked.
    pub function: Function,
    /// Most records of a batch: 1 to 10,000.
    pub batch_size: usize,
    /// How long a batch is gathered, up to 5 min. Zero: the function is invoked at once with what is there.
    pub window: Duration,
    /// Which records are handed over: those that any of these lets through.
    pub filters: Vec<StreamFilter>,
    /// What happens to records that fail.
    pub retry: RetryPolicy,
    /// Whether the function's answer tells at which record it failed (`ReportBatchItemFailures`).
    pub report_batch_item_failures: bool,
}

/// Why a mapping is refused; AWS refuses the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamMappingError {
    /// The batch size is outside 1 to 10,000.
    #[error("a batch has 1 to {BATCH_MAX} records, not {0}")]
    BatchSize(usize),
    /// The window is too long.
    #[error("a batch is gathered for at most {WINDOW_MAX:?}, not {0:?}")]
    Window(Duration),
}

impl StreamMapping {
    /// The mapping of Longhaul's stream consumer, as the template sets it up: new journal entries, new
    /// jobs and expired ones, handed over at once, with reports of failed records, halving and [`RETRIES_USUAL`] retries.
    #[must_use]
    pub fn new(reader: StreamReader, function: Function, batch_size: usize) -> Self {
        Self {
            reader,
            function,
            batch_size,
            window: Duration::ZERO,
            filters: vec![StreamFilter::journal_entries(), StreamFilter::new_jobs(), StreamFilter::expired_jobs()],
            retry: RetryPolicy { max_retries: RETRIES_USUAL, bisect: true },
            report_batch_item_failures: true,
        }
    }

    /// The same with batches that are gathered for so long.
    #[must_use]
    pub const fn gathered_for(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Starts reading.
    ///
    /// # Errors
    /// When a setting is one that AWS refuses.
    pub fn start(self) -> Result<Mapping, StreamMappingError> {
        if !(1..=BATCH_MAX).contains(&self.batch_size) {
            return Err(StreamMappingError::BatchSize(self.batch_size));
        }
        if self.window > WINDOW_MAX {
            return Err(StreamMappingError::Window(self.window));
        }
        Ok(Mapping::start(|stop| self.run(stop)))
    }

    async fn run(mut self, stop: CancellationToken) {
        let stopped = stop.clone();
        loop {
            let batch = tokio::select! {
                biased;
                () = stopped.cancelled() => return,
                batch = self.gather() => batch,
            };
            let outcome = match batch {
                Ok(batch) => self.work(batch, &stop).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => {}
                Err(DynamoDbError::Stopped) => return,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "the stream could not be read");
                    pause(RETRY_LONGEST, &stop).await;
                }
            }
        }
    }

    async fn gather(&mut self) -> Result<Vec<StreamRecord>, DynamoDbError> {
        match self.window.is_zero() {
            true => self.reader.next_batch(self.batch_size, LOOK).await,
            false => self.reader.gathered_batch(self.batch_size, self.window).await,
        }
    }

    /// Deals with one batch. The place in the stream moves on with every portion that is done or given up.
    async fn work(&mut self, batch: Vec<StreamRecord>, stop: &CancellationToken) -> Result<(), DynamoDbError> {
        let Some(last) = batch.last().map(StreamRecord::sequence_number) else {
            return Ok(());
        };
        let wanted: Vec<&StreamRecord> =
            batch.iter().filter(|record| self.filters.iter().any(|filter| filter.lets_through(record))).collect();
        let records: Vec<String> = wanted.iter().map(|record| record.json(self.function.region())).collect();
        let numbers: Vec<String> = wanted.iter().map(|record| record.sequence_number()).collect();
        let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
        let mut progress = Progress::new(self.retry, packing::pack(&records));
        while let Some(portion) = progress.current() {
            if stop.is_cancelled() {
                return Ok(());
            }
            match self.invoke(&records, &numbers, portion.clone()).await {
                Tried::Done => {
                    progress.succeeded();
                    self.move_on(&numbers, portion).await?;
                }
                Tried::FailedAt(record) => match progress.failed(record) {
                    Next::Again(failures) => pause(retry_after(failures), stop).await,
                    Next::GivenUp(given_up) => {
                        tracing::error!(function = self.function.name(), records = ?numbers.get(given_up.clone()),
                            "records of the stream failed too often and are passed over");
                        self.move_on(&numbers, given_up).await?;
                    }
                },
                Tried::NotYet => pause(RETRY_LONGEST / 10, stop).await,
            }
        }
        self.reader.commit(&last).await
    }

    async fn move_on(&mut self, numbers: &[&str], done: Range<usize>) -> Result<(), DynamoDbError> {
        match numbers.get(done).and_then(<[_]>::last) {
            Some(number) => self.reader.commit(number).await,
            None => Ok(()),
        }
    }

    async fn invoke(&self, records: &[String], numbers: &[&str], portion: Range<usize>) -> Tried {
        let first = portion.start;
        let (Some(records), Some(numbers)) = (records.get(portion.clone()), numbers.get(portion)) else {
            return Tried::Done;
        };
        match self.function.invoke(packing::event(records), None).await {
            Ok(answer) if self.report_batch_item_failures => match judge(&answer, numbers) {
                // Of several, the first one in the stream is where the next try begins.
                Verdict::Items(items) => items.first().map_or(Tried::Done, |item| Tried::FailedAt(first + item)),
                Verdict::Whole(malformed) => {
                    tracing::warn!(function = self.function.name(), %malformed,
                        "a report of failed records is malformed, so its whole batch counts as failed");
                    Tried::FailedAt(first)
                }
            },
            Ok(_) => Tried::Done,
            Err(InvokeError::Throttled | InvokeError::Stopped) => Tried::NotYet,
            Err(error) => {
                tracing::warn!(function = self.function.name(), %error, records = records.len(),
                    "a batch of stream records failed");
                Tried::FailedAt(first)
            }
        }
    }
}

/// What came of one try.
#[derive(Debug)]
enum Tried {
    Done,
    /// It failed at this record of the batch; those before it are done.
    FailedAt(usize),
    /// The function could not be invoked. That is nobody's failure and counts as none.
    NotYet,
}

/// How long records wait that have failed this often in a row.
fn retry_after(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(8);
    RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_LONGEST)
}

async fn pause(time: Duration, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_let_through_what_they_say() {
        let record =
            |name, key: &str| StreamRecord::of(name, &format!(r#"{{"SK":{{"S":"{key}"}},"PK":{{"S":"JOB#1"}}}}"#));
        let entries = StreamFilter::journal_entries();
        for (filter, record, through) in [
            (&entries, record("INSERT", "J#0000000001"), true),
            (&entries, record("MODIFY", "J#0000000001"), false),
            (&entries, record("INSERT", "JOB"), false),
            (&entries, record("REMOVE", "J#0000000001"), false),
            (&entries, StreamRecord::of("INSERT", "{}"), false),
            (&entries, record("INSERT", "J\\u00230000000001"), true),
            (&StreamFilter::new_jobs(), record("INSERT", "JOB"), true),
            (&StreamFilter::new_jobs(), record("MODIFY", "JOB"), false),
            (&StreamFilter::expired_jobs(), record("REMOVE", "JOB"), true),
            (&StreamFilter::expired_jobs(), record("MODIFY", "JOB"), false),
            (&StreamFilter::default(), record("REMOVE", "x"), true),
        ] {
            assert_eq!(filter.lets_through(&record), through, "{record:?}");
        }
    }

    #[test]
    fn failed_records_wait_a_little_longer_each_time() {
        for (failures, ms) in [(0, 100), (1, 100), (2, 200), (6, 3200), (7, 5000), (1_000_000, 5000)] {
            assert_eq!(retry_after(failures), Duration::from_millis(ms), "{failures}");
        }
    }
}
