//! The embedded stack put together: stores, stand-in model, functions, event sources and gateways, in one process.
//!
//! The functions are child processes of this same program. They reach everything through the AWS SDKs over loopback,
//! with the same environment that the template sets on AWS.

mod environment;
mod folder;
mod issuer;
mod model;
mod options;
mod wiring;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use longhaul::engine::ids::SessionId;
use longhaul_aws::{AwsStore, Config};
use tokio::net::TcpListener;

use crate::corpus;
use crate::gateway::{HttpGateway, HttpGatewayConfig, WebSocketGateway, WebSocketGatewayConfig, listen};
use crate::lambda::event_sources::{Mapping, QueueMappingError, StreamMappingError};
use crate::lambda::functions::{Function, Functions, FunctionsConfig, InstanceInfo, SetupError};
use crate::rehearsal::{self, RehearsalError, RehearsalHandle};
use crate::stores::dynamodb::DynamoDbError;
use crate::stores::{self, Stores, StoresConfig, StoresError};

pub use folder::{Addresses, Folder, FolderError, access, make_folder, running};
pub use issuer::{AUDIENCE, ISSUER, Issuer, IssuerError, TENANT_DEFAULT};
pub use model::ModelChoice;
pub use options::StackOptions;

use environment::{access_of, environment, look_at_settings};
use wiring::{add_functions, start_mappings};

/// The stage of the WebSocket API.
const STAGE: &str = "live";
/// The functions, each of which signs with a key of its own, as each has a role of its own on AWS.
const FUNCTIONS: [&str; 5] = ["api", "streams", "worker", "websocket", "sweeper"];

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
    #[error("the {what} cannot listen on 127.0.0.1:{port}; choose other ports with --port and --websocket-port")]
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
        let (api, websocket) = listeners(&options).await?;
        let ports = Ports { api: port_of(&api), websocket: port_of(&websocket) };
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
            ..HttpGatewayConfig::new(api, four.api.clone())
        })
        .map_err(gateway("HTTP gateway", ports.api))?;
        let actions = ["subscribe", "unsubscribe", "ping"].map(str::to_owned);
        let websocket = WebSocketGateway::start(WebSocketGatewayConfig {
            routes: BTreeSet::from(actions),
            usage: stores.usage.clone(),
            ..WebSocketGatewayConfig::new(websocket, STAGE, four.websocket.clone())
        })
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

/// The ports of the two gateways. They are known before the gateways are there, since the functions are told.
#[derive(Debug, Clone, Copy)]
struct Ports {
    api: u16,
    websocket: u16,
}

/// What the two gateways listen at, open from here on: a number that was only looked up is somebody else's by the time
/// that the gateway starts, when several stacks start at once.
async fn listeners(options: &StackOptions) -> Result<(TcpListener, TcpListener), StackError> {
    let refused = |what, port| move |source| StackError::Gateway { what, port, source };
    let api = listen(options.api_port).await.map_err(refused("HTTP gateway", options.api_port))?;
    let websocket =
        listen(options.websocket_port).await.map_err(refused("WebSocket gateway", options.websocket_port))?;
    Ok((api, websocket))
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().map(|address| address.port()).unwrap_or_default()
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
