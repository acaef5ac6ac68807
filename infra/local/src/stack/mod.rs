//! The embedded stack put together: stores, stand-in model, functions, event sources and gateways, in one process.
//!
//! The functions are child processes of this same program. They reach everything through the AWS SDKs over loopback,
//! with the same environment that the template sets on AWS.

mod folder;
mod issuer;
mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul::clock::OFFSET_VARIABLE;
use longhaul::engine::ids::SessionId;
use longhaul_aws::{AwsStore, Config};

use crate::corpus;
use crate::gateway::{HttpGateway, HttpGatewayConfig, WebSocketGateway, WebSocketGatewayConfig};
use crate::lambda::event_sources::{
    Mapping, QueueMapping, QueueMappingError, Redelivery, ScheduleMapping, StreamMapping, StreamMappingError,
};
use crate::lambda::functions::{Function, FunctionConfig, Functions, FunctionsConfig, InstanceInfo, SetupError};
use crate::rehearsal::{self, Rehearsal, RehearsalError, RehearsalHandle};
use crate::stores::dynamodb::DynamoDbError;
use crate::stores::faults::FaultPlan;
use crate::stores::{self, Credentials, Stores, StoresConfig, StoresError};

pub use folder::{Addresses, Folder, FolderError, access, make_folder, running};
pub use issuer::{AUDIENCE, ISSUER, Issuer, IssuerError, TENANT_DEFAULT};
pub use model::ModelChoice;

/// The stage of the WebSocket API.
const STAGE: &str = "live";
/// Messages of a batch: what AWS allows without a window.
const BATCH_SIZE: usize = 10;
/// Stream records of a batch. Many entries of many jobs go in one invocation when there is much to push.
const STREAM_BATCH_SIZE: usize = 200;
/// How long they are gathered: nobody sees the difference, and steps that follow each other share an invocation, the
/// look at who watches, and the reading of the stream. On AWS a stream is read every quarter of a second.
const STREAM_WINDOW: Duration = Duration::from_millis(5);
/// Time limit of the functions that answer people.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Calls of the api function at once, each long poll one of them, and how many of them share a process.
const API_CONCURRENCY: usize = 64;
const API_PER_PROCESS: usize = 32;
/// Time limit of a stream of events, which its reader then resumes.
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);
/// Streams of events at once, one a reader, and how many of them share a process.
const STREAM_CONCURRENCY: usize = 64;
const STREAM_PER_PROCESS: usize = 16;
/// Events that the websocket function is told at once, and how many of them share a process.
const WEBSOCKET_CONCURRENCY: usize = 32;
const WEBSOCKET_PER_PROCESS: usize = 16;
/// Batches that one worker process drives at once. Jobs wait for models most of their time and cost a process next to
/// nothing then; what bounds them is its memory, some 50 KB for each job.
const WORKER_PER_PROCESS: usize = 128;
/// Batches that all of them drive at once: what AWS allows a queue's event source.
const WORKER_CONCURRENCY_MAX: usize = 1_000;
/// The functions, each of which signs with a key of its own, as each has a role of its own on AWS.
const FUNCTIONS: [&str; 5] = ["api", "streams", "worker", "websocket", "sweeper"];
/// Batches of webhook deliveries that are made at once. A receiver that hangs holds a process of the websocket function
/// for some seconds, so not all of them.
const WEBHOOK_BATCHES_AT_ONCE: usize = 4;
/// How long a call waits for a free process before it is answered 429.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the sweeper runs: each minute as on AWS, or soon, for the person who watches.
const SWEEP_LIFELIKE: Duration = Duration::from_secs(60);
const SWEEP_PROMPT: Duration = Duration::from_secs(5);

/// How a stack is set up.
#[derive(Debug, Clone)]
pub struct StackOptions {
    /// The data folder.
    pub data: PathBuf,
    /// The program whose `function NAME` command runs a function: this one.
    pub program: PathBuf,
    /// The port of the API on 127.0.0.1; 0: any.
    pub api_port: u16,
    /// The port of the WebSocket API on 127.0.0.1; 0: any.
    pub websocket_port: u16,
    /// How long one invocation of the worker may take.
    pub worker_timeout: Duration,
    /// Processes of the worker at most. Each drives many jobs at once, unless the stack is to behave as AWS does.
    pub workers: usize,
    /// Whether to behave as AWS does where the stack could do better: nobody sees a worker die, its messages stay
    /// invisible, the sweeper comes once a minute.
    pub lifelike: bool,
    /// Whether each commit of the stores reaches the disk before it is answered, as [`stores::StoresConfig::durable`].
    pub durable: bool,
    /// The model that answers; none: the stand-in.
    pub model: Option<ModelChoice>,
    /// How the stand-in behaves.
    pub rehearsal: Rehearsal,
    /// Further variables for the functions.
    pub env: BTreeMap<String, String>,
    /// What goes wrong in the stores. None: nothing.
    pub faults: Option<FaultPlan>,
    /// By how many seconds the clocks of worker processes are wrong, in turn; for tests.
    pub worker_clock_offsets_seconds: Vec<i64>,
}

impl StackOptions {
    /// The usual setup on a data folder.
    #[must_use]
    pub fn new(data: PathBuf, program: PathBuf) -> Self {
        Self {
            data,
            program,
            api_port: 0,
            websocket_port: 0,
            worker_timeout: Duration::from_secs(900),
            workers: 4,
            lifelike: false,
            durable: false,
            model: None,
            rehearsal: Rehearsal::default(),
            env: BTreeMap::new(),
            faults: None,
            worker_clock_offsets_seconds: Vec::new(),
        }
    }

    /// Batches that are worked on at once, in all worker processes and in one of them.
    const fn worker_batches(&self) -> (usize, usize) {
        // Lambda gives a process one invocation at a time; and clocks at odds need processes that all have work.
        if self.lifelike || !self.worker_clock_offsets_seconds.is_empty() {
            return (self.workers, 1);
        }
        let at_once = self.workers.saturating_mul(WORKER_PER_PROCESS);
        (if at_once < WORKER_CONCURRENCY_MAX { at_once } else { WORKER_CONCURRENCY_MAX }, WORKER_PER_PROCESS)
    }
}

/// Why the stack does not run.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The data folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// What the worker is told of models.
    #[error(transparent)]
    Settings(#[from] longhaul_agent::SettingsError),
    /// What the worker would make of it.
    #[error("the models cannot be asked as the settings say")]
    Agents(#[from] longhaul_agent::ShippedError),
    /// What definitions run with.
    #[error("what definitions run with cannot be made ready")]
    Equipment(#[from] longhaul_agent::defined::equipment::EquipmentError),
    /// The signing key.
    #[error(transparent)]
    Issuer(#[from] IssuerError),
    /// The storage services.
    #[error("the stores do not start")]
    Stores(#[from] StoresError),
    /// The stand-in model.
    #[error(transparent)]
    Rehearsal(#[from] RehearsalError),
    /// The functions.
    #[error("the functions cannot be set up")]
    Functions(#[from] SetupError),
    /// The queue's event source.
    #[error("the queue's event source mapping is refused")]
    Queue(#[from] QueueMappingError),
    /// The stream's event source.
    #[error("the stream's event source mapping is refused")]
    Stream(#[from] StreamMappingError),
    /// The stream.
    #[error("the stream cannot be read")]
    Reader(#[from] DynamoDbError),
    /// The queues.
    #[error("the queues do not answer")]
    Sqs(#[from] stores::sqs::SqsError),
    /// A gateway.
    #[error("the {what} cannot listen on 127.0.0.1:{port}")]
    Gateway {
        /// Which.
        what: &'static str,
        /// On which port.
        port: u16,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The shipped corpus and samples.
    #[error("the shipped corpus cannot be written into the data folder")]
    Corpus(#[source] std::io::Error),
    /// Our own configuration of our own functions.
    #[error("the functions' configuration is not one")]
    Config(#[from] longhaul_aws::ConfigError),
    /// The table, as the functions use it.
    #[error("the table does not answer")]
    Table(#[from] longhaul::store::StoreError),
}

/// A running stack. It ends when it is shut down or dropped; what it was doing goes on at the next start.
pub struct Stack {
    addresses: Addresses,
    issuer: Issuer,
    functions: Functions,
    mappings: Vec<Mapping>,
    http: HttpGateway,
    websocket: WebSocketGateway,
    rehearsal: Option<RehearsalHandle>,
    stores: Stores,
    // Last, so that nobody takes the folder over while something still works in it.
    _folder: Folder,
}

/// The four functions, and the api a second time, for streams of events.
struct Four {
    api: Function,
    streams: Function,
    worker: Function,
    websocket: Function,
    sweeper: Function,
}

impl Stack {
    /// Starts a stack and whatever jobs it was doing when it last ran.
    ///
    /// # Errors
    /// See [`StackError`].
    pub async fn start(options: StackOptions) -> Result<Self, StackError> {
        let folder = Folder::take(&options.data)?;
        let issuer = Issuer::open(&options.data)?;
        let shipped = corpus::unpack(&options.data).map_err(StackError::Corpus)?;
        let stores = stores::start(StoresConfig {
            jobs_visibility_seconds: u32::try_from(options.worker_timeout.as_secs()).unwrap_or(u32::MAX).max(1),
            faults: options.faults.clone(),
            durable: options.durable,
            callers: FUNCTIONS.map(str::to_owned).to_vec(),
            ..StoresConfig::new(&options.data)
        })
        .await?;
        let rehearsal = match options.model {
            Some(_) => None,
            None => Some(rehearsal::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), options.rehearsal).await?),
        };
        let ports = Ports::choose(&options)?;
        let secret = issuer::webhook_secret(&options.data)?;
        let env = environment(&options, &stores, rehearsal.as_ref(), ports, &shipped, &secret);
        folder.say_access(&access_of(&env))?;
        let config = Config::from_lookup(|name| env.get(name).cloned())?;
        look_at_settings(&env)?;
        let store = AwsStore::connect(config).await;
        let functions = Functions::start(FunctionsConfig::new(&options.data)).await?;
        let four = add_functions(&functions, &options, &stores.credentials, env).await?;

        // Whoever held a message or a lease died with the last stack.
        stores.sqs.sqs.release_in_flight(&stores.sqs.jobs).await?;
        stores.sqs.sqs.release_in_flight(&stores.sqs.webhooks).await?;
        if !options.lifelike {
            store.end_all_sessions().await?;
            // Of what no worker could drive, the messages may be used up and the sweeper's looks far apart: there may be one now.
            match longhaul_sweeper::Sweeper::new(store.clone()).call_up_unclaimed().await {
                Ok(0) => {}
                Ok(jobs) => tracing::info!(jobs, "jobs that nobody had claimed were called up"),
                Err(error) => tracing::warn!(%error, "jobs that nobody had claimed wait for the sweeper"),
            }
            tokio::spawn(end_sessions_of_the_dead(functions.clone(), store));
        }

        let gateway = |what, port| move |source| StackError::Gateway { what, port, source };
        let http = HttpGateway::start(HttpGatewayConfig {
            routes: issuer.routes()?,
            streams: Some(four.streams.clone()),
            ..HttpGatewayConfig::new(ports.api, four.api.clone())
        })
        .await
        .map_err(gateway("HTTP gateway", ports.api))?;
        let actions = ["subscribe", "unsubscribe", "ping"].map(str::to_owned);
        let websocket = WebSocketGateway::start(WebSocketGatewayConfig {
            routes: BTreeSet::from(actions),
            usage: stores.usage.clone(),
            ..WebSocketGatewayConfig::new(ports.websocket, STAGE, four.websocket.clone())
        })
        .await
        .map_err(gateway("WebSocket gateway", ports.websocket))?;
        let mappings = start_mappings(&options, &stores, &four)?;
        let addresses = Addresses {
            pid: std::process::id(),
            api: http.url(),
            websocket: websocket.url(),
            rehearsal: rehearsal.as_ref().map(|running| running.base_url.clone()),
            dynamodb: stores.dynamodb.endpoint().to_owned(),
            sqs: stores.sqs.endpoint.clone(),
            calls: stores.usage_endpoint.clone(),
            faults: stores.faults_endpoint.clone(),
        };
        folder.say(&addresses)?;
        Ok(Self { addresses, issuer, functions, mappings, http, websocket, rehearsal, stores, _folder: folder })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Its issuer of tokens.
    #[must_use]
    pub const fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// The living processes of the functions.
    #[must_use]
    pub fn processes(&self) -> Vec<InstanceInfo> {
        self.functions.instances()
    }

    /// Ends the stack. Jobs that are being driven go on at the next start.
    pub async fn shutdown(self) {
        let Self { functions, mappings, http, websocket, rehearsal, stores, .. } = self;
        drop((http, websocket));
        // The processes first: a mapping waits for the invocations that it has begun.
        functions.shutdown().await;
        for mapping in mappings {
            mapping.stop().await;
        }
        if let Some(rehearsal) = rehearsal {
            rehearsal.shutdown().await;
        }
        stores.shutdown().await;
    }
}

/// What the functions would stumble over when they start, where nobody sees it and every job waits: said here instead.
fn look_at_settings(env: &BTreeMap<String, String>) -> Result<(), StackError> {
    let settings = longhaul_agent::Settings::read(|name| env.get(name).cloned())?;
    longhaul_agent::shipped(&settings)?;
    longhaul_agent::defined::equipment::Equipment::of(&settings)?;
    Ok(())
}

/// The ports of the two gateways. They are known before the gateways are there, since the functions are told.
#[derive(Debug, Clone, Copy)]
struct Ports {
    api: u16,
    websocket: u16,
}

impl Ports {
    fn choose(options: &StackOptions) -> Result<Self, StackError> {
        // Both at once, so that they are not the same one.
        let (api, websocket) = (reserve(options.api_port)?, reserve(options.websocket_port)?);
        let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port()).unwrap_or_default();
        Ok(Self { api: port(&api), websocket: port(&websocket) })
    }
}

fn reserve(port: u16) -> Result<TcpListener, StackError> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|source| StackError::Gateway {
        what: "gateway",
        port,
        source,
    })
}

/// The file of the data folder that holds the keys of tools and model servers (docs/running.md).
const SECRETS_FILE: &str = "secrets.json";

/// What the functions are told, as the template tells them on AWS.
fn environment(
    options: &StackOptions,
    stores: &Stores,
    rehearsal: Option<&RehearsalHandle>,
    ports: Ports,
    shipped: &Path,
    webhook_secret: &str,
) -> BTreeMap<String, String> {
    let sqs = &stores.sqs;
    let secrets = options.data.join(SECRETS_FILE);
    let mut env = BTreeMap::from(
        [
            ("LONGHAUL_TABLE", stores.dynamodb.table().to_owned()),
            ("LONGHAUL_QUEUE_URL", sqs.sqs.queue_url(&sqs.jobs)),
            ("LONGHAUL_DEAD_LETTER_QUEUE_URL", sqs.sqs.queue_url(&sqs.dead_letters)),
            ("LONGHAUL_WEBHOOK_QUEUE_URL", sqs.sqs.queue_url(&sqs.webhooks)),
            ("LONGHAUL_BUCKET", stores.s3.bucket.clone()),
            ("LONGHAUL_PUSH_ENDPOINT", format!("http://127.0.0.1:{}/{STAGE}", ports.websocket)),
            ("LONGHAUL_JWKS_URL", format!("http://127.0.0.1:{}/.well-known/jwks.json", ports.api)),
            ("LONGHAUL_JWT_ISSUER", ISSUER.to_owned()),
            ("LONGHAUL_JWT_AUDIENCE", AUDIENCE.to_owned()),
            ("LONGHAUL_CORPUS", shipped.join(corpus::CORPUS_FOLDER).display().to_string()),
            ("LONGHAUL_LOG_FORMAT", "text".to_owned()),
            ("LONGHAUL_SECRETS_FILE", secrets.display().to_string()),
            // The same rest as on AWS, for workers that may live less long here.
            ("LONGHAUL_ERASURE_REST_SECONDS", options.worker_timeout.as_secs().saturating_add(60).to_string()),
            // Nobody calls the functions of a real account from here: where they run on this machine is for the person to
            // say (docs/running.md), and this address answers nobody until then.
            ("AWS_ENDPOINT_URL_LAMBDA", "http://127.0.0.1:3001".to_owned()),
            ("LONGHAUL_WEBHOOK_LOOPBACK", "1".to_owned()),
            ("LONGHAUL_WEBHOOK_SECRETS", serde_json::json!({ TENANT_DEFAULT: webhook_secret }).to_string()),
            ("AWS_ENDPOINT_URL_DYNAMODB", stores.dynamodb.endpoint().to_owned()),
            ("AWS_ENDPOINT_URL_SQS", sqs.endpoint.clone()),
            ("AWS_ENDPOINT_URL_S3", stores.s3.endpoint.clone()),
            ("AWS_ACCESS_KEY_ID", stores.credentials.access_key_id.clone()),
            ("AWS_SECRET_ACCESS_KEY", stores.credentials.secret_access_key.clone()),
            ("AWS_REGION", stores.region.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let mut set = |name: &str, value: &str| env.insert(name.to_owned(), value.to_owned());
    if let Some(model) = &options.model {
        set("LONGHAUL_MODEL_URL", &model.url);
        set("LONGHAUL_MODEL", &model.model);
        if let Some(key) = &model.key {
            set("LONGHAUL_MODEL_KEY", key);
        }
    } else if let Some(rehearsal) = rehearsal {
        set("LONGHAUL_MODEL_URL", &rehearsal.base_url);
        set("LONGHAUL_MODEL", rehearsal::MODEL_NAME);
    }
    env.extend(options.env.clone());
    env
}

/// Of the functions' variables those by which the stores are reached and documents found: no key of any model.
fn access_of(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    const NAMES: [&str; 6] = [
        "LONGHAUL_TABLE",
        "LONGHAUL_QUEUE_URL",
        "LONGHAUL_DEAD_LETTER_QUEUE_URL",
        "LONGHAUL_BUCKET",
        "LONGHAUL_CORPUS",
        "LONGHAUL_DOCUMENTS",
    ];
    let shown = |name: &str| NAMES.contains(&name) || name.starts_with("AWS_");
    env.iter().filter(|(name, _)| shown(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

async fn add_functions(
    functions: &Functions,
    options: &StackOptions,
    credentials: &Credentials,
    env: BTreeMap<String, String>,
) -> Result<Four, SetupError> {
    let env_of = |name: &str| {
        let mut env = env.clone();
        env.insert("AWS_ACCESS_KEY_ID".to_owned(), credentials.id_of(name));
        env
    };
    let function = |name: &str, timeout: Duration, max_concurrency: usize, per_process: usize| FunctionConfig {
        name: name.to_owned(),
        program: options.program.clone(),
        args: vec!["function".into(), name.into()],
        env: env_of(name),
        timeout,
        memory_mb: 256,
        max_concurrency,
        per_process,
        patience: PATIENCE,
        env_in_turn: Vec::new(),
    };
    let offsets = options.worker_clock_offsets_seconds.iter();
    let env_in_turn = offsets.map(|seconds| (OFFSET_VARIABLE.to_owned(), seconds.to_string())).collect();
    let streaming = [("LONGHAUL_RESPONSE_STREAM".to_owned(), "1".to_owned())];
    let streams = FunctionConfig {
        args: vec!["function".into(), "api".into()],
        env: env_of("streams").into_iter().chain(streaming).collect(),
        ..function("streams", STREAM_TIMEOUT, STREAM_CONCURRENCY, STREAM_PER_PROCESS)
    };
    let (at_once, per_process) = options.worker_batches();
    let worker = FunctionConfig { env_in_turn, ..function("worker", options.worker_timeout, at_once, per_process) };
    Ok(Four {
        api: functions.add(function("api", ANSWER_TIMEOUT, API_CONCURRENCY, API_PER_PROCESS)).await?,
        streams: functions.add(streams).await?,
        worker: functions.add(worker).await?,
        websocket: functions
            .add(function("websocket", ANSWER_TIMEOUT, WEBSOCKET_CONCURRENCY, WEBSOCKET_PER_PROCESS))
            .await?,
        sweeper: functions.add(function("sweeper", ANSWER_TIMEOUT, 1, 1)).await?,
    })
}

fn start_mappings(options: &StackOptions, stores: &Stores, four: &Four) -> Result<Vec<Mapping>, StackError> {
    let every = if options.lifelike { SWEEP_LIFELIKE } else { SWEEP_PROMPT };
    let queue = QueueMapping {
        sqs: stores.sqs.sqs.clone(),
        queue: stores.sqs.jobs.clone(),
        function: four.worker.clone(),
        batch_size: BATCH_SIZE,
        window: Duration::ZERO,
        max_concurrency: options.worker_batches().0.max(2),
        report_batch_item_failures: true,
        redelivery: if options.lifelike { Redelivery::Lifelike } else { Redelivery::Prompt },
    };
    let webhooks = QueueMapping {
        queue: stores.sqs.webhooks.clone(),
        function: four.websocket.clone(),
        max_concurrency: WEBHOOK_BATCHES_AT_ONCE,
        ..queue.clone()
    };
    let reader = stores.dynamodb.stream_reader("websocket")?;
    let stream = StreamMapping::new(reader, four.websocket.clone(), STREAM_BATCH_SIZE).gathered_for(STREAM_WINDOW);
    let sweep = ScheduleMapping {
        name: "sweep".to_owned(),
        every,
        first_after: Duration::from_millis(500),
        function: four.sweeper.clone(),
    };
    Ok(vec![queue.start()?, webhooks.start()?, stream.start()?, sweep.start()])
}

/// Marks the session of a worker that died as ended, so that its jobs are free at once. On AWS nobody sees a death,
/// and the silence of the session is waited for.
async fn end_sessions_of_the_dead(functions: Functions, store: AwsStore) {
    let mut deaths = functions.watch_deaths();
    drop(functions);
    while let Some(notice) = deaths.recv().await {
        let death = &notice.death;
        if death.request_ids.is_empty() {
            continue;
        }
        let invocations = death.request_ids.len();
        tracing::info!(function = death.function, pid = death.pid, cause = ?death.cause, invocations, "a function process died in mid-invocation");
        let sessions = death.request_ids.iter().filter_map(|id| id.parse::<SessionId>().ok());
        let ended = sessions.map(async |session| {
            if let Err(error) = longhaul::store::Store::end_session(&store, &session).await {
                tracing::warn!(%session, %error, "the session of a dead worker was not ended; its silence will end it");
            }
        });
        // Side by side, since the invocations' errors are held back until all are done.
        futures::future::join_all(ended).await;
    }
}
