//! Appends: the write of a step, made beside the engine.
//!
//! A job's step is one put of a new item that is in no index. The engine makes a dozen statements of it, prepares each of
//! them anew, and commits it alone. Here such a put is two prepared statements, and all that come while one transaction
//! is being written go together into the next. They write what the engine would write, into its own tables of its own
//! file. Whatever else there is, and whatever is refused, is the engine's: it answers in its own words.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use dynoxide::storage::compute_hash_prefix;
use dynoxide::streams::shard_id;
use dynoxide::types::{AttributeValue, number_size};
use longhaul_aws::dynamo::table_definition;
use rusqlite::{Connection, TransactionBehavior, params};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::DynamoDbError;
use super::front::{WriteSignal, written};
use super::upkeep::BUSY_WAIT;

/// The condition of an append.
const NEW: &str = "attribute_not_exists(PK)";
/// Bytes that DynamoDB takes as a partition key, as a sort key and as an item; what has more is for the engine to refuse.
const PARTITION_BYTES_MAX: usize = 2_048;
const SORT_BYTES_MAX: usize = 1_024;
const ITEM_BYTES_MAX: usize = 400 * 1_024;
/// Digits that DynamoDB keeps of a number.
const DIGITS_MAX: usize = 38;

/// A request that may be an append, as far as appends go: with anything else in it, it is none.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Put<'a> {
    #[serde(borrow)]
    table_name: Cow<'a, str>,
    #[serde(borrow)]
    item: BTreeMap<Cow<'a, str>, Attribute<'a>>,
    #[serde(borrow)]
    condition_expression: Cow<'a, str>,
    #[serde(borrow, default)]
    return_values_on_condition_check_failure: Option<Cow<'a, str>>,
}

/// The attributes of appended items are flat.
#[derive(Serialize, Deserialize)]
enum Attribute<'a> {
    S(#[serde(borrow)] Cow<'a, str>),
    N(#[serde(borrow)] Cow<'a, str>),
    B(#[serde(borrow)] Cow<'a, str>),
}

impl Attribute<'_> {
    /// Its bytes as DynamoDB counts them; none where it is not written as the engine would store it.
    fn bytes(&self) -> Option<usize> {
        match self {
            Attribute::S(text) => Some(text.len()),
            Attribute::N(digits) => {
                let plain = digits.len() <= DIGITS_MAX && digits.bytes().all(|digit| digit.is_ascii_digit());
                let plain = plain && (&**digits == "0" || !digits.starts_with('0')) && !digits.is_empty();
                plain.then(|| number_size(digits))
            }
            Attribute::B(text) => BASE64_STANDARD.decode(text.as_bytes()).ok().map(|bytes| bytes.len()),
        }
    }
}

/// A put that can be made here.
#[derive(Debug)]
pub(super) struct Append {
    partition: String,
    sort: String,
    keys: String,
    item: String,
    bytes: usize,
    hash_prefix: String,
}

/// Makes appends. Clones share the connection.
#[derive(Debug, Clone)]
pub(super) struct Appends(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    table: String,
    shard: String,
    /// The keys of each index: an item that has all of one's is in that index.
    indexes: Vec<Vec<String>>,
    insert: String,
    connection: Mutex<Connection>,
    /// Held by whoever writes, the engine as well: SQLite has one writer, and lets another sleep for milliseconds.
    writing: Mutex<()>,
    queue: Mutex<Queue>,
    writes: WriteSignal,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// Whether somebody is writing, who will take what waits.
    led: bool,
}

#[derive(Debug)]
struct Waiting {
    append: Append,
    made: oneshot::Sender<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Appends {
    /// Opens the file that the engine has opened before.
    pub(super) fn open(file: &Path, table: &str, durable: bool, writes: WriteSignal) -> Result<Self, DynamoDbError> {
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(file)?;
            connection.busy_timeout(BUSY_WAIT)?;
            connection.pragma_update(None, "synchronous", if durable { "FULL" } else { "NORMAL" })?;
            Ok(connection)
        };
        let connection = Mutex::new(open().map_err(DynamoDbError::Stream)?);
        let insert = format!(
            "INSERT INTO \"{}\" (pk, sk, item_json, item_size, hash_prefix) VALUES (?1, ?2, ?3, ?4, ?5) \
             ON CONFLICT DO NOTHING",
            table.replace('"', "\"\"")
        );
        let indexes = indexes(&table_definition(table));
        let (shard, table) = (shard_id(table), table.to_owned());
        let (writing, queue) = (Mutex::default(), Mutex::default());
        Ok(Self(Arc::new(Shared { table, shard, indexes, insert, connection, writing, queue, writes })))
    }

    /// Waits until nobody else writes to the file, and keeps them from it.
    pub(super) fn writing(&self) -> MutexGuard<'_, ()> {
        lock(&self.0.writing)
    }

    /// The append that a request to put an item is, if it is one.
    pub(super) fn read(&self, body: &[u8]) -> Option<Append> {
        let put: Put<'_> = serde_json::from_slice(body).ok()?;
        let told = put.return_values_on_condition_check_failure.as_deref();
        if put.table_name != self.0.table
            || put.condition_expression != NEW
            || !matches!(told, None | Some("NONE" | "ALL_OLD"))
            || self.0.indexes.iter().any(|keys| keys.iter().all(|key| put.item.contains_key(key.as_str())))
        {
            return None;
        }
        let (Some(Attribute::S(partition)), Some(Attribute::S(sort))) = (put.item.get("PK"), put.item.get("SK")) else {
            return None;
        };
        let fits = (1..=PARTITION_BYTES_MAX).contains(&partition.len()) && (1..=SORT_BYTES_MAX).contains(&sort.len());
        let mut bytes = 0;
        for (name, value) in &put.item {
            bytes += name.len() + value.bytes().filter(|_| !name.is_empty())?;
        }
        if !fits || bytes > ITEM_BYTES_MAX {
            return None;
        }
        Some(Append {
            keys: serde_json::to_string(&BTreeMap::from([("PK", put.item.get("PK")), ("SK", put.item.get("SK"))]))
                .ok()?,
            item: serde_json::to_string(&put.item).ok()?,
            bytes,
            hash_prefix: compute_hash_prefix(&AttributeValue::S(partition.clone().into_owned())),
            // As the engine tells keys of different types apart.
            partition: format!("S:{partition}"),
            sort: format!("S:{sort}"),
        })
    }

    /// Makes an append. False where nothing was written: something stands there, or the file failed, and the engine is to
    /// say which.
    pub(super) async fn make(&self, append: Append) -> bool {
        let (made, answer) = oneshot::channel();
        let leads = {
            let mut queue = lock(&self.0.queue);
            queue.waiting.push(Waiting { append, made });
            !std::mem::replace(&mut queue.led, true)
        };
        if leads {
            // A task of its own: others wait for it too, and this caller may hang up.
            tokio::spawn(Self(Arc::clone(&self.0)).lead());
        }
        answer.await.unwrap_or(false)
    }

    /// Writes what waits until nothing does.
    async fn lead(self) {
        let leader = Leader(&self.0);
        loop {
            // Requests that are here already come along.
            tokio::task::yield_now().await;
            let waiting = leader.take();
            if waiting.is_empty() {
                return;
            }
            let (appends, answers): (Vec<Append>, Vec<_>) =
                waiting.into_iter().map(|Waiting { append, made }| (append, made)).unzip();
            let outcome = self.0.write(&appends).unwrap_or_else(|fault| {
                let error = &fault as &dyn std::error::Error;
                tracing::warn!(error, "appends were not written and are the engine's to write");
                vec![false; appends.len()]
            });
            if outcome.contains(&true) {
                written(&self.0.writes);
            }
            for (answer, made) in answers.into_iter().zip(outcome) {
                // Who has hung up needs no answer.
                let _ = answer.send(made);
            }
        }
    }
}

/// The one who writes. Should it end in the middle, those who wait are let go, and the next one leads.
struct Leader<'a>(&'a Shared);

impl Leader<'_> {
    /// What waits. Nothing: nobody leads any more.
    fn take(&self) -> Vec<Waiting> {
        let mut queue = lock(&self.0.queue);
        queue.led = !queue.waiting.is_empty();
        std::mem::take(&mut queue.waiting)
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut queue = lock(&self.0.queue);
            queue.led = false;
            queue.waiting.clear();
        }
    }
}

impl Shared {
    /// Writes appends in one transaction. Which of them were written: all but those in whose place something stood.
    fn write(&self, appends: &[Append]) -> rusqlite::Result<Vec<bool>> {
        let _alone = lock(&self.writing);
        let mut connection = lock(&self.connection);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, micros) = (since.as_secs().cast_signed(), i64::try_from(since.as_micros()).unwrap_or(i64::MAX));
        let mut outcome = Vec::with_capacity(appends.len());
        {
            let mut insert = transaction.prepare_cached(&self.insert)?;
            let mut record = transaction.prepare_cached(
                "INSERT INTO _stream_records (table_name, event_name, keys_json, new_image, sequence_number, shard_id, \
                 created_at, event_id) VALUES (?1, 'INSERT', ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            // One past the last and never behind the clock, as the engine numbers records.
            let mut number: i64 = transaction
                .prepare_cached(
                    "SELECT COALESCE(MAX(CAST(sequence_number AS INTEGER)), 0) FROM _stream_records WHERE table_name = ?1",
                )?
                .query_row([&self.table], |row| row.get(0))?;
            for append in appends {
                let Append { partition, sort, keys, item, bytes, hash_prefix } = append;
                let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
                let made = insert.execute(params![partition, sort, item, bytes, hash_prefix])? == 1;
                if made {
                    number = number.saturating_add(1).max(micros);
                    let id = Uuid::new_v4().simple().to_string();
                    record.execute(params![self.table, keys, item, number.to_string(), self.shard, seconds, id])?;
                }
                outcome.push(made);
            }
        }
        transaction.commit()?;
        Ok(outcome)
    }
}

/// The key attributes of each index of a table's definition.
fn indexes(definition: &Value) -> Vec<Vec<String>> {
    let list = |of: &Value, name: &str| of.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let name = |key: &Value| key.get("AttributeName").and_then(Value::as_str).map(str::to_owned);
    let keys = |index: &Value| list(index, "KeySchema").iter().filter_map(name).collect();
    list(definition, "GlobalSecondaryIndexes").iter().map(keys).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

    use dynoxide::Database;
    use serde_json::json;

    use super::super::table;
    use super::*;

    fn appends() -> (tempfile::TempDir, Database, Appends) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("dynamodb.sqlite");
        let database = Database::new(file.to_str().unwrap()).unwrap();
        table::ensure(&database, "tested").unwrap();
        let appends = Appends::open(&file, "tested", false, WriteSignal::new(0)).unwrap();
        (folder, database, appends)
    }

    fn put(item: Value) -> Value {
        json!({ "TableName": "tested", "ConditionExpression": NEW, "Item": item })
    }

    fn item(attribute: &str, value: Value) -> Value {
        json!({ "PK": { "S": "JOB#1" }, "SK": { "S": "J#1" }, attribute: value })
    }

    #[test]
    fn an_append_is_a_flat_new_item_that_is_in_no_index() {
        let (_folder, _database, appends) = appends();
        let with = |name: &str, value: &str| {
            let mut put = put(item("a", json!({ "S": "" })));
            put[name] = json!(value);
            put
        };
        let mut indexed = item("tenant", json!({ "S": "acme" }));
        indexed["listed"] = json!({ "S": "1#a" });
        let long = "9".repeat(DIGITS_MAX + 1);
        let rows = [
            (put(item("a", json!({ "S": "" }))), true),
            (put(item("a", json!({ "N": "120" }))), true),
            (put(item("a", json!({ "B": "AAE=" }))), true),
            (put(item("tenant", json!({ "S": "acme" }))), true),
            (with("ReturnValuesOnConditionCheckFailure", "ALL_OLD"), true),
            (with("ReturnValuesOnConditionCheckFailure", "SOME"), false),
            (with("ReturnValues", "ALL_OLD"), false),
            (with("TableName", "other"), false),
            (with("ConditionExpression", "attribute_not_exists(SK)"), false),
            (put(indexed), false),
            (put(json!({ "PK": { "S": "JOB#1" } })), false),
            (put(json!({ "PK": { "S": "JOB#1" }, "SK": { "N": "1" } })), false),
            (put(json!({ "PK": { "S": "" }, "SK": { "S": "a" } })), false),
            (put(json!({ "PK": { "S": "a" }, "SK": { "S": "a".repeat(SORT_BYTES_MAX + 1) } })), false),
            (put(item("", json!({ "S": "a" }))), false),
            (put(item("a", json!({ "S": "a".repeat(ITEM_BYTES_MAX) }))), false),
            (put(item("a", json!({ "M": {} }))), false),
            (put(item("a", json!({ "BOOL": true }))), false),
            (put(item("a", json!({ "S": "a", "N": "1" }))), false),
            (put(item("a", json!({ "B": "A" }))), false),
            // Numbers that the engine would write in another way, or refuse.
            (put(item("a", json!({ "N": "" }))), false),
            (put(item("a", json!({ "N": "01" }))), false),
            (put(item("a", json!({ "N": "1.50" }))), false),
            (put(item("a", json!({ "N": "-0" }))), false),
            (put(item("a", json!({ "N": long }))), false),
        ];
        for (body, expected) in rows {
            assert_eq!(appends.read(body.to_string().as_bytes()).is_some(), expected, "{body}");
        }
        assert!(appends.read(b"{").is_none());
    }

    #[tokio::test]
    async fn what_stands_somewhere_stays_and_the_engine_sees_what_was_appended() {
        let (_folder, database, appends) = appends();
        let read = |value: &str| appends.read(put(item("a", json!({ "S": value }))).to_string().as_bytes()).unwrap();
        let outcomes = futures::future::join_all([appends.make(read("first")), appends.make(read("second"))]).await;
        assert_eq!(outcomes, [true, false]);
        let get =
            table::request(json!({ "TableName": "tested", "Key": { "PK": { "S": "JOB#1" }, "SK": { "S": "J#1" } } }));
        let found = database.get_item(get.unwrap()).unwrap().item.unwrap();
        assert_eq!(found.get("a"), Some(&AttributeValue::S("first".to_owned())));
        let put = table::request(json!({ "TableName": "tested", "Item": item("a", json!({ "S": "engine" })) }));
        database.put_item(put.unwrap()).unwrap();
        assert!(!appends.make(read("third")).await);
    }

    #[tokio::test]
    async fn those_who_wait_are_let_go_when_the_leader_ends() {
        let (_folder, _database, appends) = appends();
        let append = appends.read(put(item("a", json!({ "S": "" }))).to_string().as_bytes()).unwrap();
        let (made, answer) = oneshot::channel();
        {
            let mut queue = lock(&appends.0.queue);
            queue.waiting.push(Waiting { append, made });
            queue.led = true;
        }
        let shared = Arc::clone(&appends.0);
        let ended = std::thread::spawn(move || {
            let _leader = Leader(&shared);
            std::panic::resume_unwind(Box::new("the leader ends"));
        });
        assert!(ended.join().is_err());
        assert!(answer.await.is_err(), "nobody will answer");
        assert!(!lock(&appends.0.queue).led);
    }
}
