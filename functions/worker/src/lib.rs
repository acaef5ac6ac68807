//! The worker: takes batches of continuations off the queue and drives their jobs on, all of them at once.
//!
//! It keeps nothing between two invocations but its clients. What a job is, where it stands and who may drive it is in
//! the store; how it is driven is in `longhaul::drive`. This crate joins the two to Lambda: it reads messages, gives
//! each invocation its session and its deadline, and tells the queue which messages are done with.

mod batch;
mod chain;
mod redrive;

use aws_lambda_events::sqs::SqsEvent;
use lambda_runtime::{LambdaEvent, service_fn};
use longhaul_agent::{Settings, SettingsError, ShippedError};
use longhaul_aws::{AwsStore, Config, ConfigError, telemetry};

pub use batch::{BatchError, Worker};

/// Why the worker could not begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The environment.
    #[error("the worker cannot begin")]
    Config(#[from] ConfigError),
    /// The settings of the agents.
    #[error("the settings of the agents cannot be read")]
    Settings(#[from] SettingsError),
    /// The agents.
    #[error("the agents cannot be made ready")]
    Agents(#[from] ShippedError),
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
    serve().await.inspect_err(|error| tracing::error!(error = %chain::chain(error), "the worker ends"))
}

async fn serve() -> Result<(), RunError> {
    let config = Config::from_env()?;
    let registry = longhaul_agent::shipped(&Settings::from_env()?)?;
    let worker = Worker::new(AwsStore::connect(config).await, registry);
    let worker = &worker;
    let handler = service_fn(async move |event: LambdaEvent<SqsEvent>| {
        let LambdaEvent { payload, context } = event;
        let answer = worker.handle(payload, &context.request_id, context.deadline).await?;
        Ok::<_, lambda_runtime::Error>(answer)
    });
    Box::pin(lambda_runtime::run(handler)).await.map_err(RunError::Runtime)
}
