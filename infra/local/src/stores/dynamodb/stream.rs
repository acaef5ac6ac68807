//! Reading the table's stream, for the stream's event source mapping.
//!
//! Readers ask the engine in process, in the terms of the Streams API (iterator, records). They wait for the
//! front to say that something was written instead of polling.

use std::time::{Duration, Instant};

use dynoxide::Database;
use dynoxide::actions::get_records::GetRecordsRequest;
use dynoxide::actions::get_shard_iterator::GetShardIteratorRequest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::DynamoDbError;
use super::position::{Positions, position_of, sequence_number_of};
use super::table::request;
use super::upkeep::blocking;

/// The net under the signal: a client that hung up before its answer may have written unseen.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The engine gives at most this many records at once, as AWS does.
const RECORDS_MAX: usize = 1_000;

/// Which stream to read.
#[derive(Debug, Clone)]
pub(super) struct StreamAddress {
    pub(super) arn: String,
    pub(super) shard: String,
}

/// One reader of the stream, which remembers across restarts how far it has come.
///
/// Delivery is at least once: [`StreamReader::next_batch`] gives the records behind the last one committed,
/// the same ones again until [`StreamReader::commit`] says that they are dealt with.
pub struct StreamReader {
    pub(super) name: String,
    pub(super) database: Database,
    pub(super) address: StreamAddress,
    pub(super) positions: Positions,
    pub(super) writes: watch::Receiver<u64>,
    pub(super) position: u64,
    /// Whether there may be more behind the last batch.
    pub(super) more: bool,
}

impl std::fmt::Debug for StreamReader {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("StreamReader")
            .field("name", &self.name)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl StreamReader {
    /// The ARN of the stream, as the Lambda event names its source.
    #[must_use]
    pub fn stream_arn(&self) -> &str {
        &self.address.arn
    }

    /// Up to `max` records (at most 1,000) behind the last committed one, oldest first, waiting up to `wait`
    /// for the first. Each is a record of the Lambda event: `{"eventID", "eventName", "dynamodb": {"Keys",
    /// "NewImage", "SequenceNumber", …}, "eventSourceARN", …}`.
    ///
    /// # Errors
    /// When the engine fails or has stopped.
    pub async fn next_batch(&mut self, max: usize, wait: Duration) -> Result<Vec<Value>, DynamoDbError> {
        let deadline = Instant::now() + wait;
        loop {
            // Before reading: what is written while we read must wake the wait that follows.
            self.writes.mark_unchanged();
            let records = self.read(max.clamp(1, RECORDS_MAX)).await?;
            let left = deadline.saturating_duration_since(Instant::now());
            if !records.is_empty() || left.is_zero() {
                return Ok(records);
            }
            match tokio::time::timeout(left.min(LOOK_AGAIN), self.writes.changed()).await {
                Ok(Ok(())) | Err(_) => {}
                Ok(Err(_)) => return Err(DynamoDbError::Stopped),
            }
        }
    }

    /// Up to `max` records as [`StreamReader::next_batch`] gives them, gathered for `window` from the first one on, unless
    /// there are more than `max` anyway.
    ///
    /// # Errors
    /// When the engine fails or has stopped.
    pub async fn gathered_batch(&mut self, max: usize, window: Duration) -> Result<Vec<Value>, DynamoDbError> {
        if !self.more {
            match tokio::time::timeout(LOOK_AGAIN, self.writes.changed()).await {
                Ok(Ok(())) => tokio::time::sleep(window).await,
                // Nobody said anything: a look under the net.
                Err(_) => {}
                Ok(Err(_)) => return Err(DynamoDbError::Stopped),
            }
        }
        let batch = self.next_batch(max, Duration::ZERO).await?;
        self.more = batch.len() >= max;
        Ok(batch)
    }

    /// Remembers that the record with this `SequenceNumber`, and all before it, are dealt with.
    ///
    /// # Errors
    /// When it is no sequence number of this stream, or the position cannot be written.
    pub async fn commit(&mut self, sequence_number: &str) -> Result<(), DynamoDbError> {
        let position =
            position_of(sequence_number).ok_or_else(|| DynamoDbError::SequenceNumber(sequence_number.to_owned()))?;
        if position > self.position {
            self.position = position;
            let (positions, name) = (self.positions.clone(), self.name.clone());
            blocking(move || positions.advance(&name, position)).await?;
        }
        Ok(())
    }

    async fn read(&self, max: usize) -> Result<Vec<Value>, DynamoDbError> {
        let (database, address, position) = (self.database.clone(), self.address.clone(), self.position);
        blocking(move || read(&database, &address, position, max)).await
    }
}

fn read(database: &Database, address: &StreamAddress, position: u64, max: usize) -> Result<Vec<Value>, DynamoDbError> {
    let mut place = json!({"StreamArn": address.arn, "ShardId": address.shard, "ShardIteratorType": "TRIM_HORIZON"});
    if position > 0 {
        place = json!({
            "StreamArn": address.arn,
            "ShardId": address.shard,
            "ShardIteratorType": "AFTER_SEQUENCE_NUMBER",
            "SequenceNumber": sequence_number_of(position),
        });
    }
    let iterator = database.get_shard_iterator(request::<GetShardIteratorRequest>(place)?)?;
    let found = database.get_records(request::<GetRecordsRequest>(json!({
        "ShardIterator": iterator.shard_iterator,
        "Limit": max,
    }))?)?;
    found
        .records
        .iter()
        .map(|record| {
            let mut record = serde_json::to_value(record).map_err(DynamoDbError::Request)?;
            if let Some(fields) = record.as_object_mut() {
                fields.insert("eventSourceARN".to_owned(), Value::from(address.arn.as_str()));
            }
            Ok(record)
        })
        .collect()
}
