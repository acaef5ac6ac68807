//! Reading the table's stream, for the stream's event source mapping.
//!
//! The engine keeps the stream's records as JSON, and reads each of them into its own types for whoever asks it. What goes
//! to a function is JSON again, so a reader has a connection of its own to the engine's file and takes the text as it
//! stands. Readers wait for the front to say that something was written instead of polling.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags, Row, params};
use serde::Deserialize;
use tokio::sync::watch;

use super::DynamoDbError;
use super::position::{Positions, position_of, sequence_number_of};
use super::upkeep::{BUSY_WAIT, blocking};

/// The net under the signal: a client that hung up before its answer may have written unseen.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A reader gives at most this many records at once, as AWS does.
const RECORDS_MAX: usize = 1_000;

/// Behind a position, in the order of the index that `upkeep` makes.
const BEHIND: &str = "SELECT event_name, keys_json, new_image, old_image, CAST(sequence_number AS INTEGER), created_at, \
     user_identity, event_id FROM _stream_records \
     WHERE table_name = ?1 AND CAST(sequence_number AS INTEGER) > ?2 \
     ORDER BY CAST(sequence_number AS INTEGER) LIMIT ?3";

/// Which stream to read.
#[derive(Debug, Clone)]
pub(super) struct StreamAddress {
    pub(super) arn: Arc<str>,
    pub(super) view: Arc<str>,
}

/// One record of the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamRecord {
    address: (Arc<str>, Arc<str>),
    name: String,
    keys: String,
    new_image: Option<String>,
    old_image: Option<String>,
    number: u64,
    created_at: i64,
    user_identity: Option<String>,
    id: String,
}

impl StreamRecord {
    /// `INSERT`, `MODIFY` or `REMOVE`.
    #[must_use]
    pub fn event_name(&self) -> &str {
        &self.name
    }

    /// Its number as AWS writes it, of 21 digits.
    #[must_use]
    pub fn sequence_number(&self) -> String {
        sequence_number_of(self.number)
    }

    /// Whether the sort key of what it is about begins so.
    #[must_use]
    pub fn sort_key_begins_with(&self, prefix: &str) -> bool {
        #[derive(Deserialize)]
        struct Keys<'a> {
            #[serde(borrow, rename = "SK")]
            sort: Text<'a>,
        }
        #[derive(Deserialize)]
        struct Text<'a> {
            #[serde(borrow, rename = "S")]
            text: std::borrow::Cow<'a, str>,
        }
        serde_json::from_str::<Keys<'_>>(&self.keys).is_ok_and(|keys| keys.sort.text.starts_with(prefix))
    }

    /// The record as it stands in the event that Lambda hands over, of a table in this region.
    #[must_use]
    pub fn json(&self, region: &str) -> String {
        let images = self.new_image.as_ref().map_or(0, String::len) + self.old_image.as_ref().map_or(0, String::len);
        let mut json = String::with_capacity(images + self.keys.len() + 512);
        let (arn, view) = &self.address;
        // Nothing here needs escaping: names are ours or the engine's, and what was JSON is JSON.
        let _ = write!(
            json,
            r#"{{"eventID":"{}","eventName":"{}","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"{region}","dynamodb":{{"Keys":{}"#,
            self.id, self.name, self.keys
        );
        for (name, image) in [("NewImage", &self.new_image), ("OldImage", &self.old_image)] {
            if let Some(image) = image {
                let _ = write!(json, r#","{name}":{image}"#);
            }
        }
        let _ = write!(
            json,
            r#","SequenceNumber":"{}","SizeBytes":{},"StreamViewType":"{view}","ApproximateCreationDateTime":{}.0}}"#,
            self.sequence_number(),
            self.keys.len() + images,
            self.created_at
        );
        if let Some(identity) = &self.user_identity {
            let _ = write!(json, r#","userIdentity":{identity}"#);
        }
        let _ = write!(json, r#","eventSourceARN":"{arn}"}}"#);
        json
    }
}

#[cfg(test)]
impl StreamRecord {
    /// A record of this name about these keys.
    pub(crate) fn of(name: &str, keys: &str) -> Self {
        Self {
            address: ("arn:stream".into(), "NEW_IMAGE".into()),
            name: name.to_owned(),
            keys: keys.to_owned(),
            new_image: None,
            old_image: None,
            number: 1,
            created_at: 1_790_000_000,
            user_identity: None,
            id: "1".to_owned(),
        }
    }
}

/// A connection to the engine's file that reads its stream.
#[derive(Debug, Clone)]
pub(super) struct Records {
    connection: Arc<Mutex<Connection>>,
    table: Arc<str>,
    address: StreamAddress,
}

impl Records {
    /// Opens the file that the engine has opened before.
    pub(super) fn open(file: &Path, table: &str, address: StreamAddress) -> Result<Self, DynamoDbError> {
        let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|connection| connection.busy_timeout(BUSY_WAIT).map(|()| connection))
            .map_err(DynamoDbError::Stream)?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)), table: Arc::from(table), address })
    }

    fn behind(&self, position: u64, max: usize) -> rusqlite::Result<Vec<StreamRecord>> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let position = i64::try_from(position).unwrap_or(i64::MAX);
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let mut found = connection.prepare_cached(BEHIND)?;
        let records = found.query_map(params![&*self.table, position, max], |row| self.record(row))?;
        records.collect()
    }

    fn record(&self, row: &Row<'_>) -> rusqlite::Result<StreamRecord> {
        let number = row.get::<_, i64>(4)?.unsigned_abs();
        Ok(StreamRecord {
            address: (Arc::clone(&self.address.arn), Arc::clone(&self.address.view)),
            name: row.get(0)?,
            keys: row.get(1)?,
            new_image: row.get(2)?,
            old_image: row.get(3)?,
            number,
            created_at: row.get(5)?,
            user_identity: row.get(6)?,
            // A record of an older version of the engine has none.
            id: row.get::<_, Option<String>>(7)?.unwrap_or_else(|| number.to_string()),
        })
    }
}

/// One reader of the stream, which remembers across restarts how far it has come.
///
/// Delivery is at least once: [`StreamReader::next_batch`] gives the records behind the last one committed,
/// the same ones again until [`StreamReader::commit`] says that they are dealt with.
pub struct StreamReader {
    pub(super) name: String,
    pub(super) records: Records,
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
        &self.records.address.arn
    }

    /// Up to `max` records (at most 1,000) behind the last committed one, oldest first, waiting up to `wait`
    /// for the first.
    ///
    /// # Errors
    /// When the file cannot be read, or the table has stopped.
    pub async fn next_batch(&mut self, max: usize, wait: Duration) -> Result<Vec<StreamRecord>, DynamoDbError> {
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
    /// When the file cannot be read, or the table has stopped.
    pub async fn gathered_batch(&mut self, max: usize, window: Duration) -> Result<Vec<StreamRecord>, DynamoDbError> {
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

    async fn read(&self, max: usize) -> Result<Vec<StreamRecord>, DynamoDbError> {
        let (records, position) = (self.records.clone(), self.position);
        blocking(move || records.behind(position, max).map_err(DynamoDbError::Stream)).await
    }
}
