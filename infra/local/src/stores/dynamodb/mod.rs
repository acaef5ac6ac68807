//! DynamoDB for the embedded stack: `dynoxide`, file-backed, behind a front that counts calls.
//!
//! Functions reach the table through the AWS SDK over loopback, as on AWS. The stream's event source mapping of
//! the same process reads the stream with a [`StreamReader`].
//!
//! The engine answers each request on the thread that received it, under one lock and with a flush to disk.
//! So it has a runtime of its own: the rest of the stack never waits for its disk.

mod appends;
mod direct;
mod front;
mod position;
mod stream;
mod table;
mod upkeep;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::http::uri::Authority;
use dynoxide::Database;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::StoresError;
use super::calls::CallCounts;
use super::faults::Faults;
use super::serving::{StopSignal, listen, serve};
use super::usage::{Of, Usage};
use appends::Appends;
use front::{Front, WriteSignal};
use position::Positions;
use stream::{Records, StreamAddress};
pub use stream::{StreamReader, StreamRecord};
use upkeep::StreamRecords;

/// One to be in the engine's lock, one to read and write sockets meanwhile.
const RUNTIME_THREADS: usize = 2;

/// Why the table failed.
#[derive(Debug, thiserror::Error)]
pub enum DynamoDbError {
    /// The engine refused or failed.
    #[error("the table's engine failed")]
    Engine(#[from] dynoxide::DynoxideError),
    /// A request of ours or a record of the engine's was not understood.
    #[error("the table's engine and its host do not understand each other")]
    Request(#[source] serde_json::Error),
    /// The stream's records could not be looked after.
    #[error("the stream's records cannot be read or trimmed")]
    Stream(#[source] rusqlite::Error),
    /// The table has no stream.
    #[error("the table {0} has no stream")]
    NoStream(String),
    /// The name of a stream reader is not made of letters, digits, `-` and `_`.
    #[error("{0:?} cannot name a stream reader")]
    ReaderName(String),
    /// A sequence number is none of this stream.
    #[error("{0:?} is no sequence number of this stream")]
    SequenceNumber(String),
    /// A reader's position could not be read or written.
    #[error("the stream position {path} cannot be read or written")]
    Position {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The data folder's path is not Unicode text, which the engine needs.
    #[error("the path {0} is not Unicode text")]
    Path(PathBuf),
    /// The system refused the threads of the engine.
    #[error("the threads of the table's engine cannot be started")]
    Threads(#[source] std::io::Error),
    /// The engine's own server gave no usable address.
    #[error("the table's engine has no address")]
    Address(#[source] axum::http::uri::InvalidUri),
    /// The table has stopped.
    #[error("the table has stopped")]
    Stopped,
}

/// Where the table lives.
#[derive(Debug, Clone)]
pub(super) struct DynamoDbConfig {
    pub(super) folder: PathBuf,
    pub(super) port: u16,
    pub(super) table: String,
    pub(super) durable: bool,
    pub(super) faults: Faults,
    pub(super) usage: Usage,
}

/// The running table.
pub struct DynamoDbHandle {
    parts: Parts,
    // Behind the parts, so that what they hold is dropped before their threads end.
    runtime: EngineRuntime,
}

/// Everything that lives on the engine's runtime.
struct Parts {
    endpoint: String,
    table: String,
    database: Database,
    stream: Records,
    counts: CallCounts,
    writes: WriteSignal,
    positions: Positions,
    records: Arc<Mutex<StreamRecords>>,
    front_stop: StopSignal,
    engine_stop: StopSignal,
    front: JoinHandle<()>,
    engine: JoinHandle<()>,
    upkeep: JoinHandle<()>,
}

/// The engine's runtime. A runtime must not be waited for where async code runs, which is where it is dropped.
struct EngineRuntime(Option<Runtime>);

impl Drop for EngineRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl std::fmt::Debug for DynamoDbHandle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("DynamoDbHandle")
            .field("endpoint", &self.parts.endpoint)
            .field("table", &self.parts.table)
            .finish_non_exhaustive()
    }
}

impl DynamoDbHandle {
    /// Opens the table and serves it.
    pub(super) async fn start(config: DynamoDbConfig) -> Result<Self, StoresError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(RUNTIME_THREADS)
            .thread_name("longhaul-dynamodb")
            .enable_all()
            .build()
            .map_err(DynamoDbError::Threads)?;
        let opening = runtime.spawn(Parts::open(config));
        let runtime = EngineRuntime(Some(runtime));
        let parts = opening.await.map_err(|_| DynamoDbError::Stopped)??;
        Ok(Self { parts, runtime })
    }

    /// The endpoint for SDKs: `http://127.0.0.1:<port>`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.parts.endpoint
    }

    /// The name of the table.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.parts.table
    }

    /// How often each action was called through the endpoint.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.parts.counts.all()
    }

    /// A reader of the table's stream. Its name keeps its position: the reader of that name goes on there
    /// after a restart, and a new name begins at the oldest record that is kept. Open one reader a name.
    ///
    /// # Errors
    /// When the name is not made of letters, digits, `-` and `_`, or the position cannot be written.
    pub fn stream_reader(&self, name: &str) -> Result<StreamReader, DynamoDbError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(DynamoDbError::ReaderName(name.to_owned()));
        }
        Ok(StreamReader {
            name: name.to_owned(),
            records: self.parts.stream.clone(),
            position: self.parts.positions.of(name)?,
            positions: self.parts.positions.clone(),
            writes: self.parts.writes.subscribe(),
            // What was written before this start.
            more: true,
        })
    }

    /// Removes expired items now rather than at the next round, and gives back how many those were.
    ///
    /// # Errors
    /// When the engine fails.
    pub async fn sweep_expired(&self) -> Result<usize, DynamoDbError> {
        upkeep::sweep_now(&self.parts.database, &self.parts.writes).await
    }

    /// Removes the stream records that every reader is past now rather than at the next round, and gives back
    /// how many those were.
    ///
    /// # Errors
    /// When the file fails.
    pub async fn trim_stream(&self) -> Result<usize, DynamoDbError> {
        upkeep::trim_now(&self.parts.records, &self.parts.positions).await
    }

    /// Stops the service: running requests end, the file is closed.
    pub async fn shutdown(self) {
        let Self { parts, runtime } = self;
        // The front first: requests that it has taken still need the engine. A task that panicked has ended
        // too, and has said so in its log.
        parts.front_stop.stop();
        let _ = parts.front.await;
        parts.engine_stop.stop();
        let _ = parts.engine.await;
        parts.upkeep.abort();
        let _ = parts.upkeep.await;
        drop(runtime);
    }
}

impl Parts {
    async fn open(config: DynamoDbConfig) -> Result<Self, StoresError> {
        let file = config.folder.join("dynamodb.sqlite");
        // The engine takes its path as text; a rewritten path would be another file.
        let path = file.to_str().ok_or_else(|| DynamoDbError::Path(file.clone()))?;
        let database = Database::new(path).map_err(DynamoDbError::Engine)?;
        if !config.durable {
            // The engine opens its file with SQLite's default, a flush for each commit, and has no setting for it. The end
            // of its bulk loading is what sets `synchronous = NORMAL`; a load that never began has nothing else to undo.
            database.disable_bulk_loading().map_err(DynamoDbError::Engine)?;
        }
        table::ensure(&database, &config.table)?;
        let records = Arc::new(Mutex::new(StreamRecords::open(&file, &config.table)?));
        let positions = Positions::load(&config.folder)?;
        let stream = Records::open(&file, &config.table, stream_of(&database, &config.table)?)?;
        let (counts, writes) = (CallCounts::default(), WriteSignal::new(0));
        let (front_stop, engine_stop) = (StopSignal::new(), StopSignal::new());

        let (listener, engine_endpoint) = listen(0).await?;
        let engine = serve_engine(listener, database.clone(), &engine_stop);
        let (listener, endpoint) = listen(config.port).await?;
        let authority: Authority =
            engine_endpoint.trim_start_matches("http://").parse().map_err(DynamoDbError::Address)?;
        let appends = Appends::open(&file, &config.table, config.durable, writes.clone())?;
        let router =
            Front::new(authority, database.clone(), appends, counts.clone(), writes.clone(), config.faults).router();
        let router = config.usage.beside(Of::DynamoDb, router);
        let front = serve(listener, router, &front_stop);
        let upkeep =
            tokio::spawn(upkeep::run(database.clone(), Arc::clone(&records), positions.clone(), writes.clone()));
        Ok(Self {
            endpoint,
            table: config.table,
            database,
            stream,
            counts,
            writes,
            positions,
            records,
            front_stop,
            engine_stop,
            front,
            engine,
            upkeep,
        })
    }
}

/// Serves the engine on a listener that only the front knows.
fn serve_engine(listener: TcpListener, database: Database, stop: &StopSignal) -> JoinHandle<()> {
    let stopped = stop.stopped();
    tokio::spawn(async move {
        if let Err(fault) = dynoxide::server::serve_with_shutdown(listener, database, stopped).await {
            tracing::error!(fault, "the table's engine ended");
        }
    })
}

/// The stream of a table.
fn stream_of(database: &Database, table: &str) -> Result<StreamAddress, DynamoDbError> {
    let none = || DynamoDbError::NoStream(table.to_owned());
    let listed = database.list_streams(table::request(json!({"TableName": table}))?)?;
    let arn = listed.streams.into_iter().next().ok_or_else(none)?.stream_arn;
    let described = database.describe_stream(table::request(json!({"StreamArn": arn}))?)?;
    let view = described.stream_description.stream_view_type;
    Ok(StreamAddress { arn: arn.into(), view: view.into() })
}
