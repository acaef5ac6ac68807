//! The worker: takes batches of continuations off the queue and drives their jobs on, all of them at once.
//!
//! It keeps nothing between two invocations but its clients and, for a minute, definitions. What a job is, where it stands
//! and who may drive it is in the store; how it is driven is in `longhaul::drive`. This crate joins the two to Lambda: it
//! reads messages, gives each invocation its session and its deadline, and tells the queue which messages are done with.

mod batch;
mod broadcast;
mod by_hand;
mod callables;
mod definitions;
mod keys;
mod metrics;
mod newer;
mod outbox;
mod redrive;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::rc::Rc;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use futures::FutureExt as _;
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use longhaul::Clock;
use longhaul::engine::Timestamp;
use longhaul_agent::defined::equipment::Equipment;
use longhaul_agent::model_keys::KeySource;
use longhaul_agent::{Settings, SettingsError, ShippedError};
use longhaul_aws::functions::LambdaFunctions;
use longhaul_aws::pollers::{self, Pollers};
use longhaul_aws::secrets::{AwsSecrets, NoPlace, SecretPlace};
use longhaul_aws::{AwsStore, Config, ConfigError, telemetry};

pub use batch::{BatchError, Worker};
pub use broadcast::Broadcast;
pub use by_hand::step_by_hand;
pub use definitions::Definitions;
pub use newer::{often_received, put_off};

use crate::callables::Callables;
use crate::keys::Keys;
use crate::metrics::{Meter, Metered};

/// Why the worker could not begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The environment.
    #[error("the worker cannot begin")]
    Config(#[from] ConfigError),
    /// The settings of the agents.
    #[error("the settings of the agents cannot be read")]
    Settings(#[from] SettingsError),
    /// The settings name a key's place that is none.
    #[error("{place} is no place of a key")]
    KeyPlace {
        /// What they name.
        place: String,
        /// What it should be.
        #[source]
        source: NoPlace,
    },
    /// The agents.
    #[error("the agents cannot be made ready")]
    Agents(#[from] ShippedError),
    /// What definitions run with.
    #[error("what definitions run with cannot be made ready")]
    Equipment(#[source] longhaul_agent::defined::equipment::EquipmentError),
    /// A session's name.
    #[error("the session has no name")]
    Session(#[source] longhaul::engine::ids::IdError),
    /// A job that a person drives.
    #[error("the job was not driven on")]
    Driven(#[source] Box<longhaul::drive::DriveError>),
    /// The Lambda runtime.
    #[error("the Lambda runtime ended")]
    Runtime(#[source] lambda_runtime::Error),
}

/// Serves invocations until the environment is taken away. Agents are driven on the calling thread, which needs a
/// current-thread runtime and no more.
///
/// # Errors
/// [`RunError`]; it has been logged.
pub async fn run() -> Result<(), RunError> {
    telemetry::init();
    serve().await.inspect_err(|error| tracing::error!(error = %telemetry::chain(error), "the worker ends"))
}

async fn serve() -> Result<(), RunError> {
    let config = Config::from_env()?;
    let store = AwsStore::connect(config.clone()).await;
    let broadcast = Broadcast::of(&store, &config);
    let mut settings = Settings::from_env()?;
    for place in settings.key_places() {
        place.parse::<SecretPlace>().map_err(|source| RunError::KeyPlace { place: place.to_owned(), source })?;
    }
    let keys = Rc::new(keys(&store));
    settings.keys = KeySource::new(keys.clone());
    let workplace = Workplace { store, settings, keys, broadcast, meter: Meter::default(), worker: OnceCell::new() };
    let workplace = &workplace;
    let at_once = pollers::at_once();
    let polling = pollers::serve(at_once, |pollers: Pollers| {
        let handler = service_fn(move |event: LambdaEvent<SqsEvent>| {
            let busy = pollers.busy();
            workplace.answer(event, at_once).inspect(move |_| drop(busy))
        });
        // Boxed: it is large, and there may be many.
        Box::pin(lambda_runtime::run(handler))
    });
    let ended = tokio::select! {
        ended = polling => ended,
        never = workplace.send_on(), if at_once > 1 => never,
    };
    ended.map_err(RunError::Runtime)
}

/// The keys of this deployment: out of a file where one is named, as on one's own machine, else out of AWS.
fn keys(store: &AwsStore) -> Keys {
    match std::env::var_os("LONGHAUL_SECRETS_FILE").filter(|file| !file.is_empty()) {
        Some(file) => Keys::of_file(PathBuf::from(file)),
        None => {
            let clients = store.clients();
            let secrets = AwsSecrets::new(clients, store.config().secrets_prefix.clone());
            Keys::of_aws(secrets, clients.role().clone())
        }
    }
}

/// What is known before the first batch comes, and the worker from then on. Making the agents' clients costs more than
/// all the rest of a start; the function asks for work first.
struct Workplace {
    store: AwsStore,
    settings: Settings,
    keys: Rc<Keys>,
    broadcast: Option<Rc<Broadcast>>,
    meter: Meter,
    worker: OnceCell<Worker<Metered<AwsStore>>>,
}

impl Workplace {
    /// Answers one invocation.
    async fn answer(&self, event: LambdaEvent<SqsEvent>, at_once: usize) -> Result<SqsBatchResponse, Diagnostic> {
        let LambdaEvent { payload, context } = event;
        let worker = self.worker(at_once).map_err(|error| failed("RunError", &error))?;
        let often = often_received(&payload.records);
        let answered = worker.handle(payload, &context.request_id, context.deadline).await;
        self.meter.print();
        let mut answer = answered.map_err(|error| failed("BatchError", &error))?;
        if !often.is_empty() {
            put_off(&self.store, &often, &mut answer, Timestamp::from_millis(context.deadline)).await;
        }
        Ok(answer)
    }

    /// Sends on what the steps of all invocations say: none of them can do it for the others, since it may end before.
    async fn send_on(&self) -> ! {
        match &self.broadcast {
            Some(broadcast) => broadcast.send_on(&Clock::of_machine()).await,
            None => std::future::pending().await,
        }
    }

    fn worker(&self, at_once: usize) -> Result<&Worker<Metered<AwsStore>>, RunError> {
        if let Some(worker) = self.worker.get() {
            return Ok(worker);
        }
        let mut registry = longhaul_agent::shipped(&self.settings)?;
        let functions = LambdaFunctions::new(self.store.clients(), self.store.config().tool_functions.clone());
        let equipment = Equipment::of(&self.settings)
            .map_err(RunError::Equipment)?
            .with_secrets(self.keys.clone())
            .with_functions(Rc::new(Callables(functions)));
        registry.set_source(Rc::new(Definitions::new(self.store.clone(), Rc::new(equipment))));
        let store = Metered::new(self.store.clone(), self.meter.clone());
        Ok(self.worker.get_or_init(|| {
            let worker = Worker::new(store, registry).heard_by(self.broadcast.clone());
            if at_once > 1 { worker.sent_on_by_others() } else { worker }
        }))
    }
}

/// An error as the Lambda runtime logs and reports it.
fn failed(kind: &str, error: &(dyn std::error::Error + 'static)) -> Diagnostic {
    Diagnostic { error_type: kind.to_owned(), error_message: telemetry::chain(error) }
}
