//! The storage services of AWS that Longhaul needs, in process, on 127.0.0.1, in files of one folder.
//!
//! | Service | Is | Keeps its data in |
//! |---|---|---|
//! | [`dynamodb`] | `dynoxide` behind a counting front | `dynamodb.sqlite`, `stream-*.position` |
//! | [`sqs`] | our own | `sqs.sqlite` |
//! | `s3` | `s3s` with `s3s-fs` | the folder `s3` |
//!
//! Everything survives the death of the process at any moment. [`start`] makes what Longhaul needs (table,
//! bucket, two queues) when it is not there and takes it up as it stands otherwise. Clients use the AWS SDKs
//! with the endpoints, region and credentials that [`Stores`] names. Calls go wrong on order, see [`faults`].

mod calls;
pub mod dynamodb;
pub mod faults;
mod s3;
mod serving;
pub mod sqs;
pub mod usage;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::task::JoinHandle;

use dynamodb::{DynamoDbConfig, DynamoDbError, DynamoDbHandle};
use faults::{FaultPlan, Faults};
use serving::{StopSignal, listen, serve};
use sqs::{QueueName, Sqs, SqsConfig, SqsError};
use usage::{Of, Usage};

/// Receives that a continuation may have before SQS gives it up. A job that cannot be driven is failed by the
/// protocol long before; this catches messages that nobody can even read.
const CONTINUATION_RECEIVES_MAX: u32 = 10;

/// Dead letters wait for a person as long as SQS allows: fourteen days.
const DEAD_LETTER_RETENTION_SECONDS: u32 = 1_209_600;

/// How long a message about a webhook delivery stays hidden: longer than the function that makes it may take, and long
/// enough for another try of Lambda's after a throttle.
const WEBHOOK_VISIBILITY_SECONDS: u32 = 180;

/// The ports of the services on 127.0.0.1; 0 lets the system choose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorePorts {
    /// DynamoDB and DynamoDB Streams.
    pub dynamodb: u16,
    /// SQS.
    pub sqs: u16,
    /// S3.
    pub s3: u16,
}

/// What clients sign their requests with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key_id: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: String,
}

impl Credentials {
    /// The key's id of one of those who call, by which their calls are told apart. The secret is the same.
    #[must_use]
    pub fn id_of(&self, caller: &str) -> String {
        format!("{}-{caller}", self.access_key_id)
    }
}

/// How the storage services are set up.
#[derive(Debug, Clone)]
pub struct StoresConfig {
    /// The folder that holds all data; it is made when it is not there.
    pub data_dir: PathBuf,
    /// Where the services listen.
    pub ports: StorePorts,
    /// The region in addresses (ARNs).
    pub region: String,
    /// What S3 checks signatures with.
    pub credentials: Credentials,
    /// Callers that have a key of their own ([`Credentials::id_of`]).
    pub callers: Vec<String>,
    /// The name of the table.
    pub table: String,
    /// The name of the bucket of claim checks.
    pub bucket: String,
    /// The name of the continuation queue.
    pub jobs_queue: String,
    /// The name of the dead-letter queue.
    pub dead_letter_queue: String,
    /// The name of the queue of webhook deliveries.
    pub webhook_queue: String,
    /// How long a received continuation stays invisible, in seconds: at least the worker's time limit.
    pub jobs_visibility_seconds: u32,
    /// Whether each commit reaches the disk before it is answered (SQLite's `synchronous = FULL`). Otherwise it is in the
    /// hands of the system (`NORMAL`): an answered write survives the death of every process, but not a power failure.
    pub durable: bool,
    /// What goes wrong. None: nothing, and nobody can order it later.
    pub faults: Option<FaultPlan>,
}

impl StoresConfig {
    /// The usual setup in a folder: any free ports, Longhaul's names, and a secret of its own for this start.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            ports: StorePorts::default(),
            region: "us-east-1".to_owned(),
            credentials: Credentials {
                access_key_id: "longhaul-local".to_owned(),
                secret_access_key: uuid::Uuid::new_v4().simple().to_string(),
            },
            callers: Vec::new(),
            table: "longhaul".to_owned(),
            bucket: "longhaul".to_owned(),
            jobs_queue: "longhaul-jobs".to_owned(),
            dead_letter_queue: "longhaul-dead-letters".to_owned(),
            webhook_queue: "longhaul-webhooks".to_owned(),
            jobs_visibility_seconds: 900,
            durable: false,
            faults: None,
        }
    }
}

/// Why the storage services could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StoresError {
    /// A port cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A folder cannot be made.
    #[error("the folder {path} cannot be made")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The object folder cannot be used.
    #[error("the object folder {path} cannot be used: {reason}")]
    Objects {
        /// The folder.
        path: PathBuf,
        /// What the object service said.
        reason: String,
    },
    /// The queues cannot be opened or made.
    #[error("the queues cannot be opened")]
    Sqs(#[from] SqsError),
    /// The table cannot be opened or made.
    #[error("the table cannot be opened")]
    DynamoDb(#[from] DynamoDbError),
}

/// The queues and where they are.
#[derive(Debug, Clone)]
pub struct SqsStore {
    /// The queues, in process.
    pub sqs: Sqs,
    /// The endpoint for SDKs: `http://127.0.0.1:<port>`.
    pub endpoint: String,
    /// The continuation queue.
    pub jobs: QueueName,
    /// The dead-letter queue.
    pub dead_letters: QueueName,
    /// The queue of webhook deliveries.
    pub webhooks: QueueName,
}

/// The objects and where they are.
#[derive(Debug, Clone)]
pub struct S3Store {
    /// The endpoint for SDKs, which must use path-style addresses.
    pub endpoint: String,
    /// The bucket of claim checks.
    pub bucket: String,
}

/// The running storage services. Dropping it stops them as a crash would, and nothing is lost by that.
#[derive(Debug)]
pub struct Stores {
    /// The table and its stream.
    pub dynamodb: DynamoDbHandle,
    /// The queues.
    pub sqs: SqsStore,
    /// The objects.
    pub s3: S3Store,
    /// What clients sign with.
    pub credentials: Credentials,
    /// The region clients name.
    pub region: String,
    /// Which rights were used by whom.
    pub usage: Usage,
    /// Where that is told (`http://127.0.0.1:<port>/calls`).
    pub usage_endpoint: String,
    /// Where the fault plan is read and changed (`http://127.0.0.1:<port>/faults`), if there is one.
    pub faults_endpoint: Option<String>,
    _queues: StopOnDrop,
    stop: StopSignal,
    servers: Vec<JoinHandle<()>>,
}

/// Stops the queues when the stores are dropped. Handles to them may live on elsewhere (a long poll that waits),
/// and must not hand out messages of a file that someone may have opened anew.
#[derive(Debug)]
struct StopOnDrop(Sqs);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop_unawaited();
    }
}

/// Starts the storage services.
///
/// # Errors
/// When a port is taken, or a file or folder cannot be used. What was started is stopped again.
pub async fn start(config: StoresConfig) -> Result<Stores, StoresError> {
    let objects = config.data_dir.join("s3");
    std::fs::create_dir_all(&objects).map_err(|source| StoresError::Folder { path: objects.clone(), source })?;
    let stop = StopSignal::new();
    let faults = Faults::default();
    let usage = Usage::default();
    let dynamodb = DynamoDbHandle::start(DynamoDbConfig {
        folder: config.data_dir.clone(),
        port: config.ports.dynamodb,
        table: config.table.clone(),
        durable: config.durable,
        faults: faults.clone(),
        usage: usage.clone(),
    })
    .await?;
    let (listener, endpoint) = listen(config.ports.sqs).await?;
    let sqs = open_queues(&config, endpoint, faults.clone()).await?;
    let queue_server = serve(listener, usage.beside(Of::Sqs, sqs.sqs.router()), &stop);
    let (listener, endpoint) = listen(config.ports.s3).await?;
    let router = s3::router(&objects, &config)?;
    let object_server = serve(listener, usage.beside(Of::S3, router), &stop);
    let mut servers = vec![queue_server, object_server];
    let mut routes = usage.routes();
    let planned = config.faults.is_some();
    if let Some(plan) = config.faults {
        // From here on: what the stores needed to come up has gone well.
        faults.set(plan);
        routes = routes.merge(faults::router(faults));
    }
    let (listener, told_at) = listen(0).await?;
    servers.push(serve(listener, routes, &stop));
    Ok(Stores {
        dynamodb,
        _queues: StopOnDrop(sqs.sqs.clone()),
        sqs,
        s3: S3Store { endpoint, bucket: config.bucket },
        credentials: config.credentials,
        region: config.region,
        usage,
        usage_endpoint: format!("{told_at}/calls"),
        faults_endpoint: planned.then(|| format!("{told_at}/faults")),
        stop,
        servers,
    })
}

/// Opens the queue file and makes Longhaul's queues.
async fn open_queues(config: &StoresConfig, endpoint: String, faults: Faults) -> Result<SqsStore, StoresError> {
    let sqs = Sqs::open(SqsConfig {
        file: config.data_dir.join("sqs.sqlite"),
        region: config.region.clone(),
        endpoint: endpoint.clone(),
        durable: config.durable,
    })?
    .with_faults(faults);
    let jobs = QueueName::parse(&config.jobs_queue)?;
    let dead_letters = QueueName::parse(&config.dead_letter_queue)?;
    let retention = BTreeMap::from([("MessageRetentionPeriod".to_owned(), DEAD_LETTER_RETENTION_SECONDS.to_string())]);
    sqs.ensure_queue(&dead_letters, retention).await?;
    let redrive = serde_json::json!({
        "deadLetterTargetArn": sqs.queue_arn(&dead_letters),
        "maxReceiveCount": CONTINUATION_RECEIVES_MAX,
    });
    let attributes = BTreeMap::from([
        ("VisibilityTimeout".to_owned(), config.jobs_visibility_seconds.to_string()),
        ("RedrivePolicy".to_owned(), redrive.to_string()),
    ]);
    sqs.ensure_queue(&jobs, attributes).await?;
    let webhooks = QueueName::parse(&config.webhook_queue)?;
    let visibility = BTreeMap::from([("VisibilityTimeout".to_owned(), WEBHOOK_VISIBILITY_SECONDS.to_string())]);
    sqs.ensure_queue(&webhooks, visibility).await?;
    Ok(SqsStore { sqs, endpoint, jobs, dead_letters, webhooks })
}

impl Stores {
    /// Stops the services: receivers that wait are sent away, running requests end, files are closed.
    pub async fn shutdown(self) {
        // The queues first: a long poll would otherwise hold its server for up to twenty seconds.
        self.sqs.sqs.stop().await;
        self.stop.stop();
        for server in self.servers {
            // A server that panicked has ended too, and has said so in its log.
            let _ = server.await;
        }
        self.dynamodb.shutdown().await;
    }
}
