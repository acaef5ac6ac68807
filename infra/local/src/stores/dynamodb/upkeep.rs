//! What the engine leaves to its host: the order index of the stream, trimming it, and forgetting expired items.
//!
//! With a stream on, every write of the engine looks for the last sequence number among all stream records,
//! for which it has no index; and it never removes a record. AWS keeps records for a day. Here a record goes
//! when every reader is past it, or after a day as on AWS, whichever comes first. The last record always
//! stays, because the next sequence number is reckoned from it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dynoxide::Database;
use rusqlite::{Connection, params};
use tokio::time::Instant;

use super::DynamoDbError;
use super::front::{WriteSignal, written};
use super::position::Positions;

/// How often expired items are looked for. AWS takes up to days, so readers check expiry themselves.
const TTL_SWEEP_EVERY: Duration = Duration::from_secs(60);

/// How often the stream is trimmed.
const TRIM_EVERY: Duration = Duration::from_secs(10);

/// Stream records live for a day at most, as on AWS.
const RECORDS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// Records removed in one transaction; each holds the file's write lock for some milliseconds.
const TRIM_CHUNK_RECORDS: usize = 100;

/// What the engine gets between two such transactions.
const TRIM_PAUSE: Duration = Duration::from_millis(2);

/// The engine may be in the middle of a long transaction.
pub(super) const BUSY_WAIT: Duration = Duration::from_secs(30);

const ORDER_INDEX: &str = "CREATE INDEX IF NOT EXISTS longhaul_stream_order \
     ON _stream_records(table_name, CAST(sequence_number AS INTEGER))";

/// The oldest records that may go: passed by every reader, or too old, and never the last. Records are in
/// order of both number and time, so looking at the oldest few is enough.
const MAY_GO: &str = "FROM (
    SELECT id, created_at, CAST(sequence_number AS INTEGER) AS number FROM _stream_records
    WHERE table_name = ?1
      AND CAST(sequence_number AS INTEGER) <
          (SELECT MAX(CAST(sequence_number AS INTEGER)) FROM _stream_records WHERE table_name = ?1)
    ORDER BY number LIMIT ?4)
    WHERE number <= ?2 OR created_at < ?3";

/// A second connection to the engine's file, for its stream records alone.
#[derive(Debug)]
pub(super) struct StreamRecords {
    connection: Connection,
    table: String,
}

impl StreamRecords {
    /// Opens the file that the engine has opened before, and makes the index.
    pub(super) fn open(file: &Path, table: &str) -> Result<Self, DynamoDbError> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(file)?;
            connection.busy_timeout(BUSY_WAIT)?;
            connection.execute_batch(ORDER_INDEX)?;
            Ok(connection)
        };
        Ok(Self { connection: open().map_err(DynamoDbError::Stream)?, table: table.to_owned() })
    }

    /// Removes records up to a position, and those that are too old. Gives back how many went.
    pub(super) fn trim(&self, passed: u64, now: SystemTime) -> Result<usize, DynamoDbError> {
        let horizon = now
            .checked_sub(RECORDS_KEPT)
            .and_then(|horizon| horizon.duration_since(UNIX_EPOCH).ok())
            .map_or(0, |since| since.as_secs());
        let mut removed = 0;
        loop {
            let chunk = self.trim_chunk(passed, horizon).map_err(DynamoDbError::Stream)?;
            removed += chunk;
            if chunk < TRIM_CHUNK_RECORDS {
                return Ok(removed);
            }
            // SQLite's lock is not fair: without a pause the engine's next write could wait for the whole trim.
            std::thread::sleep(TRIM_PAUSE);
        }
    }

    fn trim_chunk(&self, passed: u64, horizon: u64) -> rusqlite::Result<usize> {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let chunk = i64::try_from(TRIM_CHUNK_RECORDS).unwrap_or(i64::MAX);
        let values = params![self.table, number(passed), number(horizon), chunk];
        // Looking takes no write lock, so a stream with nothing to trim costs the engine nothing.
        let any: bool = self
            .connection
            .prepare_cached(&format!("SELECT EXISTS (SELECT 1 {MAY_GO})"))?
            .query_row(values, |row| row.get(0))?;
        if !any {
            return Ok(0);
        }
        self.connection
            .prepare_cached(&format!("DELETE FROM _stream_records WHERE id IN (SELECT id {MAY_GO})"))?
            .execute(values)
    }
}

/// Looks after the stream and the expired items until the runtime that it runs on ends.
pub(super) async fn run(
    database: Database,
    records: Arc<Mutex<StreamRecords>>,
    positions: Positions,
    writes: WriteSignal,
) {
    let mut sweep = tokio::time::interval(TTL_SWEEP_EVERY);
    // Not at once: the readers of this start have to come first.
    let mut trim = tokio::time::interval_at(Instant::now() + TRIM_EVERY, TRIM_EVERY);
    loop {
        let outcome = tokio::select! {
            _ = sweep.tick() => sweep_now(&database, &writes).await,
            _ = trim.tick() => trim_now(&records, &positions).await,
        };
        if let Err(fault) = outcome {
            tracing::warn!(error = &fault as &dyn std::error::Error, "upkeep of the table failed; it is tried again");
        }
    }
}

/// Removes expired items, which puts their removal on the stream.
pub(super) async fn sweep_now(database: &Database, writes: &WriteSignal) -> Result<usize, DynamoDbError> {
    let database = database.clone();
    let swept = blocking(move || Ok(database.sweep_ttl()?)).await?;
    if swept > 0 {
        written(writes);
    }
    Ok(swept)
}

/// Trims the stream up to where every reader is.
pub(super) async fn trim_now(
    records: &Arc<Mutex<StreamRecords>>,
    positions: &Positions,
) -> Result<usize, DynamoDbError> {
    let passed = positions.lowest();
    let records = Arc::clone(records);
    blocking(move || {
        let records = records.lock().unwrap_or_else(PoisonError::into_inner);
        records.trim(passed, SystemTime::now())
    })
    .await
}

/// Runs what blocks on a thread that may be blocked.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DynamoDbError> + Send + 'static,
) -> Result<T, DynamoDbError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| DynamoDbError::Stopped)?
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

    use serde_json::json;

    use super::super::table;
    use super::*;

    /// A table with some records on its stream, and the connection that looks after them.
    fn records(count: usize) -> (tempfile::TempDir, StreamRecords) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dynamodb.sqlite");
        let database = Database::new(file.to_str().unwrap()).unwrap();
        table::ensure(&database, "tested").unwrap();
        for number in 0..count {
            let item = json!({"PK": {"S": format!("JOB#{number}")}, "SK": {"S": "JOB"}});
            let put = table::request(json!({"TableName": "tested", "Item": item})).unwrap();
            database.put_item(put).unwrap();
        }
        let records = StreamRecords::open(&file, "tested").unwrap();
        (folder, records)
    }

    #[test]
    fn the_engine_finds_its_last_record_by_our_index() {
        let (_folder, records) = records(3);
        // The question that the engine asks at every write.
        let plan: String = records
            .connection
            .query_row(
                "EXPLAIN QUERY PLAN SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) + 1 \
                 FROM _stream_records WHERE table_name = 'tested'",
                [],
                |row| row.get("detail"),
            )
            .unwrap();
        assert!(plan.contains("longhaul_stream_order"), "{plan}");
    }

    #[test]
    fn records_that_nobody_reads_go_after_a_day() {
        let (_folder, records) = records(TRIM_CHUNK_RECORDS + 10);
        let now = SystemTime::now();
        assert_eq!(records.trim(0, now).unwrap(), 0);
        let tomorrow = now + RECORDS_KEPT + Duration::from_secs(60);
        assert_eq!(records.trim(0, tomorrow).unwrap(), TRIM_CHUNK_RECORDS + 9, "all but the last");
        assert_eq!(records.trim(0, tomorrow).unwrap(), 0);
    }
}
