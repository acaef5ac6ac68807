//! The api: what callers ask over HTTP, checked, turned into the protocol's own calls, and answered.
//!
//! It decides nothing about jobs. What may happen to one is decided by `longhaul::outside` over the store; what stands
//! on the wire is defined in `longhaul-wire`. This crate joins the two: routes, tokens, inputs held to the agents'
//! schemas, and waits that end before API Gateway gives up.

mod admission;
mod agents;
mod answer;
mod console;
mod definitions;
mod event;
mod extract;
mod fence;
mod frame;
mod pages;
mod parameters;
mod routes;
mod service;
mod stage;
mod watch;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul_aws::pollers::{self, Pollers};
use longhaul_aws::{AwsStore, Config, ConfigError, telemetry};
use longhaul_definition::Policy;
use longhaul_wire::TokenCheck;
use tower::Service as _;

pub use definitions::card_of;
pub use event::readable;
pub use routes::{openapi, router, streams};
pub use service::Service;

/// Why the api could not begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The environment.
    #[error("the api cannot begin")]
    Config(#[from] ConfigError),
    /// A host that tools may reach is none.
    #[error("LONGHAUL_TOOL_HOSTS: the entry {entry:?} can never match: it {fault}")]
    ToolHost {
        /// The entry.
        entry: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The list of agents.
    #[error("the list of agents cannot be read")]
    Agents(#[source] serde_json::Error),
    /// The Lambda runtime.
    #[error("the Lambda runtime ended")]
    Runtime(#[source] lambda_http::Error),
}

/// Serves invocations until the environment is taken away.
///
/// # Errors
/// [`RunError`]; it has been logged.
pub async fn run() -> Result<(), RunError> {
    telemetry::init();
    serve().await.inspect_err(|error| tracing::error!(error = %telemetry::chain(error), "the api ends"))
}

async fn serve() -> Result<(), RunError> {
    let config = Config::from_env()?;
    let streaming = config.response_stream;
    let policy = Policy { allowed_hosts: config.tool_hosts.clone(), ..Policy::default() };
    if let Some((entry, fault)) = policy.fault() {
        return Err(RunError::ToolHost { entry: entry.to_owned(), fault });
    }
    let tokens = TokenCheck::new(config.tokens()?.clone());
    let agents = longhaul_wire::agents::shipped().map_err(RunError::Agents)?;
    let service = Service::new(AwsStore::connect(config).await, tokens, agents);
    let routes = if streaming { streams(service) } else { router(service) };
    let routes = tower::ServiceBuilder::new().map_request(stage::without_stage).service(routes);
    let polling = pollers::serve(pollers::at_once(), |pollers: Pollers| {
        let routes = routes.clone();
        // Boxed: they are large, and there may be several.
        let polling: LocalBoxFuture<'_, Result<(), lambda_http::Error>> = if streaming {
            let begins = move |request| {
                // An answer goes on being written when its handler is done, so nobody knows when a poller is free again.
                pollers.busy_for_good();
                event::readable(request)
            };
            let adapter = lambda_http::StreamAdapter::from(routes);
            Box::pin(lambda_http::lambda_runtime::run(
                tower::ServiceBuilder::new().map_request(begins).service(adapter),
            ))
        } else {
            let adapter = lambda_http::Adapter::from(routes);
            let mut service = tower::ServiceBuilder::new().map_request(event::readable).service(adapter);
            let service = tower::service_fn(move |event| {
                let busy = pollers.busy();
                service.call(event).inspect(move |_| drop(busy))
            });
            Box::pin(lambda_http::lambda_runtime::run(service))
        };
        polling
    });
    polling.await.map_err(RunError::Runtime)
}
