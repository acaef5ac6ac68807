//! The queue file: SQLite in WAL mode, the truth that everything in memory can be rebuilt from.
//!
//! Writes of one group of requests share one transaction. A write that fails spoils its whole group: the
//! group is rolled back, and nobody of it is told that something is stored. Unless it is to be durable, `synchronous =
//! NORMAL` survives the death of the process at any point; the loss of power can cost the last moments, which the
//! protocol above bears, because continuations may be lost.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::error::SqsError;
use super::ids::{MessageKey, Millis, QueueId, QueueName};
use super::message::NewMessage;
use super::moves::{MoveStatus, MoveTask};
use super::settings::AttributeMap;

/// Raised when the tables change in a way that an older program cannot read.
const FILE_VERSION: i64 = 1;

/// Another program (a person with the SQLite shell) may look at the file; wait for it this long.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// Statements that are kept prepared; there are about twenty.
const STATEMENTS_KEPT: usize = 48;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS queues (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        attributes TEXT NOT NULL,
        tags TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        modified_at INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS messages (
        key INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        message_id TEXT NOT NULL,
        body TEXT NOT NULL,
        attributes TEXT,
        trace_header TEXT,
        group_name TEXT,
        source_arn TEXT,
        sent_at INTEGER NOT NULL,
        visible_at INTEGER NOT NULL,
        received_at INTEGER,
        receives INTEGER NOT NULL,
        first_received_at INTEGER
    );
    CREATE TABLE IF NOT EXISTS moves (
        handle TEXT PRIMARY KEY,
        source TEXT NOT NULL,
        destination TEXT,
        rate INTEGER,
        status TEXT NOT NULL,
        moved INTEGER NOT NULL,
        to_move INTEGER NOT NULL,
        started_at INTEGER NOT NULL,
        failure TEXT
    );";

/// A queue as it is stored.
pub(super) struct StoredQueue {
    pub(super) id: QueueId,
    pub(super) name: String,
    pub(super) attributes: String,
    pub(super) tags: String,
    pub(super) created_at: Millis,
    pub(super) modified_at: Millis,
}

/// What the shelf needs to know of a stored message.
pub(super) struct StoredMessage {
    pub(super) key: MessageKey,
    pub(super) queue: QueueId,
    pub(super) group: Option<Arc<str>>,
    pub(super) sent_at: Millis,
    pub(super) visible_at: Millis,
    pub(super) received_at: Option<Millis>,
    pub(super) receives: u32,
}

/// What a receiver gets, as it stands in the file after the receive was recorded.
pub(super) struct HandedOut {
    pub(super) message_id: String,
    pub(super) body: String,
    pub(super) attributes: Option<String>,
    pub(super) trace_header: Option<String>,
    pub(super) group: Option<String>,
    pub(super) source_arn: Option<String>,
    pub(super) sent_at: Millis,
    pub(super) receives: u32,
    pub(super) first_received_at: Millis,
}

/// The open file, and the transaction of the group of requests at hand.
#[derive(Debug)]
pub(super) struct QueueFile {
    connection: Connection,
    in_group: bool,
    fault: Option<Arc<rusqlite::Error>>,
}

impl QueueFile {
    /// Opens the file, making it when it is not there.
    pub(super) fn open(path: &Path, durable: bool) -> Result<Self, SqsError> {
        let connection =
            connect(path, durable).map_err(|source| SqsError::Open { path: path.to_path_buf(), source })?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(not_stored)?;
        if version > FILE_VERSION {
            return Err(SqsError::Unreadable(format!("file version {version}")));
        }
        connection.execute_batch(TABLES).map_err(not_stored)?;
        connection.pragma_update(None, "user_version", FILE_VERSION).map_err(not_stored)?;
        Ok(Self { connection, in_group: false, fault: None })
    }

    /// Runs a write inside the group's transaction, which begins with the first write.
    fn write<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, SqsError> {
        let outcome = self.begin().and_then(|()| work(&self.connection));
        outcome.map_err(|fault| {
            let fault = Arc::new(fault);
            self.fault = Some(Arc::clone(&fault));
            SqsError::NotStored(fault)
        })
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        if !self.in_group {
            self.connection.execute_batch("BEGIN IMMEDIATE")?;
            self.in_group = true;
        }
        Ok(())
    }

    /// Ends the group: everything of it is stored, or nothing and the fault says why.
    pub(super) fn end_group(&mut self) -> Result<(), Arc<rusqlite::Error>> {
        let fault = self.fault.take();
        if !std::mem::take(&mut self.in_group) {
            return fault.map_or(Ok(()), Err);
        }
        let outcome = match fault {
            None => self.connection.execute_batch("COMMIT").map_err(Arc::new),
            Some(fault) => Err(fault),
        };
        if outcome.is_err() && !self.connection.is_autocommit() {
            // A failed rollback leaves a connection on which every later BEGIN fails, so nothing is lost unseen.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        outcome
    }

    /// All queues.
    pub(super) fn queues(&self) -> Result<Vec<StoredQueue>, SqsError> {
        self.read("SELECT id, name, attributes, tags, created_at, modified_at FROM queues ORDER BY id", |row| {
            Ok(StoredQueue {
                id: QueueId(row.get(0)?),
                name: row.get(1)?,
                attributes: row.get(2)?,
                tags: row.get(3)?,
                created_at: Millis(row.get(4)?),
                modified_at: Millis(row.get(5)?),
            })
        })
    }

    /// All messages, without their bodies.
    pub(super) fn messages(&self) -> Result<Vec<StoredMessage>, SqsError> {
        self.read(
            "SELECT key, queue, group_name, sent_at, visible_at, received_at, receives FROM messages ORDER BY key",
            |row| {
                Ok(StoredMessage {
                    key: MessageKey(row.get(0)?),
                    queue: QueueId(row.get(1)?),
                    group: row.get::<_, Option<String>>(2)?.map(Arc::from),
                    sent_at: Millis(row.get(3)?),
                    visible_at: Millis(row.get(4)?),
                    received_at: row.get::<_, Option<i64>>(5)?.map(Millis),
                    receives: row.get(6)?,
                })
            },
        )
    }

    fn read<T>(&self, sql: &str, map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>) -> Result<Vec<T>, SqsError> {
        let rows = || -> rusqlite::Result<Vec<T>> {
            let mut statement = self.connection.prepare_cached(sql)?;
            statement.query_map([], map)?.collect()
        };
        rows().map_err(not_stored)
    }

    pub(super) fn insert_queue(
        &mut self,
        name: &QueueName,
        attributes: &AttributeMap,
        tags: &AttributeMap,
        now: Millis,
    ) -> Result<QueueId, SqsError> {
        let (attributes, tags) = (to_json(attributes)?, to_json(tags)?);
        self.write(|connection| {
            connection
                .prepare_cached(
                    "INSERT INTO queues (name, attributes, tags, created_at, modified_at) VALUES (?1, ?2, ?3, ?4, ?4)",
                )?
                .execute(params![name.as_str(), attributes, tags, now.0])?;
            Ok(QueueId(connection.last_insert_rowid()))
        })
    }

    pub(super) fn update_queue(
        &mut self,
        id: QueueId,
        attributes: &AttributeMap,
        tags: &AttributeMap,
        now: Millis,
    ) -> Result<(), SqsError> {
        let (attributes, tags) = (to_json(attributes)?, to_json(tags)?);
        self.execute(
            "UPDATE queues SET attributes = ?2, tags = ?3, modified_at = ?4 WHERE id = ?1",
            params![id.0, attributes, tags, now.0],
        )
    }

    pub(super) fn delete_queue(&mut self, id: QueueId) -> Result<(), SqsError> {
        self.execute("DELETE FROM queues WHERE id = ?1", params![id.0])?;
        self.delete_messages_of(id)
    }

    pub(super) fn delete_messages_of(&mut self, id: QueueId) -> Result<(), SqsError> {
        self.execute("DELETE FROM messages WHERE queue = ?1", params![id.0])
    }

    pub(super) fn insert_message(
        &mut self,
        key: MessageKey,
        queue: QueueId,
        message: &NewMessage,
        sent_at: Millis,
        visible_at: Millis,
    ) -> Result<(), SqsError> {
        let attributes = if message.attributes.is_empty() {
            None
        } else {
            Some(serde_json::to_string(&message.attributes).map_err(SqsError::Malformed)?)
        };
        self.execute(
            "INSERT INTO messages (key, queue, message_id, body, attributes, trace_header, group_name, sent_at, \
             visible_at, receives) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0)",
            params![
                key.0,
                queue.0,
                message.message_id.to_string(),
                message.body,
                attributes,
                message.trace_header,
                message.group,
                sent_at.0,
                visible_at.0
            ],
        )
    }

    /// Records a receive and gives back the message.
    pub(super) fn hand_out(&mut self, key: MessageKey, now: Millis, visible_at: Millis) -> Result<HandedOut, SqsError> {
        self.write(|connection| {
            connection
                .prepare_cached(
                    "UPDATE messages SET visible_at = ?2, received_at = ?3, receives = receives + 1, \
                     first_received_at = COALESCE(first_received_at, ?3) WHERE key = ?1 \
                     RETURNING message_id, body, attributes, trace_header, group_name, source_arn, sent_at, \
                     receives, first_received_at",
                )?
                .query_row(params![key.0, visible_at.0, now.0], |row| {
                    Ok(HandedOut {
                        message_id: row.get(0)?,
                        body: row.get(1)?,
                        attributes: row.get(2)?,
                        trace_header: row.get(3)?,
                        group: row.get(4)?,
                        source_arn: row.get(5)?,
                        sent_at: Millis(row.get(6)?),
                        receives: row.get(7)?,
                        first_received_at: Millis(row.get(8)?),
                    })
                })
        })
    }

    pub(super) fn set_visible_at(&mut self, key: MessageKey, visible_at: Millis) -> Result<(), SqsError> {
        self.execute("UPDATE messages SET visible_at = ?2 WHERE key = ?1", params![key.0, visible_at.0])
    }

    pub(super) fn delete_message(&mut self, key: MessageKey) -> Result<(), SqsError> {
        self.execute("DELETE FROM messages WHERE key = ?1", params![key.0])
    }

    /// Moves a message that was received too often to the dead-letter queue. It stays the same message.
    pub(super) fn bury(
        &mut self,
        key: MessageKey,
        queue: QueueId,
        source_arn: &str,
        now: Millis,
    ) -> Result<(), SqsError> {
        self.execute(
            "UPDATE messages SET queue = ?2, source_arn = ?3, visible_at = ?4, received_at = NULL WHERE key = ?1",
            params![key.0, queue.0, source_arn, now.0],
        )
    }

    /// The queue that a message of a dead-letter queue came from.
    pub(super) fn source_arn(&self, key: MessageKey) -> Result<Option<String>, SqsError> {
        let row = || -> rusqlite::Result<Option<Option<String>>> {
            self.connection
                .prepare_cached("SELECT source_arn FROM messages WHERE key = ?1")?
                .query_row(params![key.0], |row| row.get(0))
                .optional()
        };
        row().map(Option::flatten).map_err(not_stored)
    }

    /// Moves a message back to a source queue: a new message with a new id, as SQS has it.
    pub(super) fn revive(
        &mut self,
        key: MessageKey,
        new_key: MessageKey,
        queue: QueueId,
        now: Millis,
    ) -> Result<(), SqsError> {
        let message_id = uuid::Uuid::new_v4().to_string();
        self.execute(
            "INSERT INTO messages (key, queue, message_id, body, attributes, trace_header, group_name, sent_at, \
             visible_at, receives) SELECT ?2, ?3, ?4, body, attributes, trace_header, group_name, ?5, ?5, 0 \
             FROM messages WHERE key = ?1",
            params![key.0, new_key.0, queue.0, message_id, now.0],
        )?;
        self.delete_message(key)
    }

    /// All move tasks, the latest first.
    pub(super) fn moves(&self) -> Result<Vec<MoveTask>, SqsError> {
        self.read(
            "SELECT handle, source, destination, rate, status, moved, to_move, started_at, failure FROM moves \
             ORDER BY started_at DESC",
            |row| {
                let name = |text: String| QueueName::parse(&text).map_err(|_| rusqlite::Error::InvalidQuery);
                let status: String = row.get(4)?;
                Ok(MoveTask {
                    handle: row.get(0)?,
                    source: name(row.get(1)?)?,
                    destination: row.get::<_, Option<String>>(2)?.map(name).transpose()?,
                    rate: row.get(3)?,
                    status: MoveStatus::read(&status, row.get(8)?).ok_or(rusqlite::Error::InvalidQuery)?,
                    moved: row.get(5)?,
                    to_move: row.get(6)?,
                    started_at: Millis(row.get(7)?),
                })
            },
        )
    }

    pub(super) fn put_move(&mut self, task: &MoveTask) -> Result<(), SqsError> {
        self.execute(
            "INSERT OR REPLACE INTO moves (handle, source, destination, rate, status, moved, to_move, started_at, \
             failure) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                task.handle,
                task.source.as_str(),
                task.destination.as_ref().map(QueueName::as_str),
                task.rate,
                task.status.name(),
                task.moved,
                task.to_move,
                task.started_at.0,
                task.status.failure()
            ],
        )
    }

    pub(super) fn forget_moves_before(&mut self, moment: Millis) -> Result<(), SqsError> {
        self.execute("DELETE FROM moves WHERE status <> 'RUNNING' AND started_at < ?1", params![moment.0])
    }

    fn execute(&mut self, sql: &str, values: &[&dyn rusqlite::ToSql]) -> Result<(), SqsError> {
        self.write(|connection| connection.prepare_cached(sql)?.execute(values).map(|_| ()))
    }
}

fn connect(path: &Path, durable: bool) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", if durable { "FULL" } else { "NORMAL" })?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    Ok(connection)
}

fn not_stored(fault: rusqlite::Error) -> SqsError {
    SqsError::NotStored(Arc::new(fault))
}

fn to_json(map: &AttributeMap) -> Result<String, SqsError> {
    serde_json::to_string(map).map_err(SqsError::Malformed)
}
