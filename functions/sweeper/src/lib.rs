//! The sweeper: the net under everything else. Once a minute it looks for jobs whose due time has passed and sends each
//! a continuation.
//!
//! A job whose message was lost, whose worker died unnoticed, or whose long wait is over is in the `due` index with a
//! time in the past, and nowhere else is it found again. So a sweep drops nothing: it moves the due time first, and
//! what it could not do is due again at the next sweep.
//!
//! Beside that it submits what schedules have come to, drives erasures on, and counts tenants' open jobs.

mod erasing;
mod metrics;
mod schedules;
mod sweep;

use std::time::Duration;

use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use longhaul::Clock;
use longhaul::engine::Timestamp;
use longhaul_aws::{AwsStore, Config, ConfigError, telemetry};
use serde_json::Value;

/// Most time that the count of open jobs takes of a sweep, which has about a minute.
const COUNT_TIME_MAX: Duration = Duration::from_secs(15);
/// Most time that schedules take of a sweep; those that have not fired by then are due at the next.
const SCHEDULES_TIME_MAX: Duration = Duration::from_secs(15);
/// Time before the deadline at which no piece of an erasure begins any more: what has begun is done by then.
const ERASING_RESERVE: Duration = Duration::from_secs(10);

pub use erasing::{Eraser, Erasings};
pub use schedules::{Fired, fire};
pub use sweep::{SweepError, Sweeper, Swept};

/// Why the sweeper could not begin, or ended.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The environment.
    #[error("the sweeper cannot begin")]
    Config(#[from] ConfigError),
    /// The Lambda runtime.
    #[error("the Lambda runtime ended")]
    Runtime(#[source] lambda_runtime::Error),
}

/// Serves invocations until the environment is taken away. What the scheduled event says does not matter: a sweep is
/// asked for by its coming.
///
/// # Errors
/// [`RunError`]; it has been logged.
pub async fn run() -> Result<(), RunError> {
    telemetry::init();
    serve().await.inspect_err(|error| tracing::error!(error = %telemetry::chain(error), "the sweeper ends"))
}

async fn serve() -> Result<(), RunError> {
    let store = AwsStore::connect(Config::from_env()?).await;
    let sweeper = Sweeper::new(store.clone());
    let (sweeper, store) = (&sweeper, &store);
    let handler = service_fn(async move |event: LambdaEvent<Value>| {
        // First, since a sweep may take all the time there is, and for a while only, so that a count never costs a sweep.
        if tokio::time::timeout(COUNT_TIME_MAX, count_open_jobs(store)).await.is_err() {
            tracing::warn!("open jobs were not all counted in time; tenants are bound by what was");
        }
        let fired = fire_schedules(store).await;
        let swept = sweeper.handle(event.context.deadline).await.map_err(|error| Diagnostic {
            error_type: "SweepError".to_owned(),
            error_message: telemetry::chain(&error),
        })?;
        metrics::print(&Swept { failed: swept.failed.saturating_add(fired.failed), ..swept });
        // Last, with what time is left: jobs that wait go before data that goes.
        let erased = Eraser::new(store, time_left(event.context.deadline)).sweep().await;
        if erased.due > 0 {
            tracing::info!(due = erased.due, done = erased.done, failed = erased.failed, "erasures were driven on");
        }
        Ok::<_, Diagnostic>(swept)
    });
    Box::pin(lambda_runtime::run(handler)).await.map_err(RunError::Runtime)
}

/// What is left of an invocation that must have answered by `deadline_ms`, for what is given up in the middle without harm.
fn time_left(deadline_ms: u64) -> Duration {
    let left = Clock::of_machine().now().until(Timestamp::from_millis(deadline_ms));
    left.saturating_sub(ERASING_RESERVE)
}

/// Submits what schedules have come to. Before the sweep, which may take all the time there is, and for a while only. It may
/// be given up at any point: what was submitted is met again.
async fn fire_schedules(store: &AwsStore) -> Fired {
    let fired = match tokio::time::timeout(SCHEDULES_TIME_MAX, fire(store, Clock::of_machine().now())).await {
        Ok(Ok(fired)) => fired,
        Ok(Err(error)) => {
            tracing::error!(error = %telemetry::chain(&error), "schedules were not looked at");
            Fired { failed: 1, ..Fired::default() }
        }
        Err(_) => {
            tracing::warn!("not all schedules fired in time; the next sweep goes on with them");
            Fired { failed: 1, ..Fired::default() }
        }
    };
    if fired != Fired::default() {
        let Fired { submitted, refused, failed } = fired;
        tracing::info!(submitted, refused, failed, "schedules fired");
    }
    fired
}

/// Sets the counts of tenants' open jobs right, by which submissions are held to their limits. One that fails leaves them
/// as they are for a minute more.
async fn count_open_jobs(store: &AwsStore) {
    match store.count_open_jobs(Clock::of_machine().now()).await {
        Ok(Some(tenants)) => tracing::debug!(tenants, "open jobs were counted"),
        Ok(None) => {
            tracing::warn!("there are more open jobs than one sweep counts; tenants are bound by their rate alone")
        }
        Err(error) => tracing::error!(error = %telemetry::chain(&error), "open jobs were not counted"),
    }
}
