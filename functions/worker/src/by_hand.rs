//! A person's own worker: goes through a job that came as a file, some outcomes at a time, and asks one model only.

use std::rc::Rc;
use std::time::Duration;

use longhaul::drive::{DriveError, Handled, Invocation};
use longhaul::outside::fresh_nonce;
use longhaul::store::{Continuation, JobRef};
use longhaul::{Clock, Registry};
use longhaul_agent::Settings;
use longhaul_agent::defined::equipment::Equipment;
use longhaul_aws::AwsStore;

use crate::RunError;
use crate::definitions::Definitions;

/// How long one go may take: an invocation's own limit.
const GO_SECONDS: u64 = 900;

/// Drives an imported job on by `outcomes_max` outcomes at most. Every question goes to the model of `settings`.
///
/// # Errors
/// [`RunError::Driven`] when the store or the journal gives out; others when the agents cannot be made ready.
pub async fn step_by_hand(
    store: &AwsStore,
    settings: &Settings,
    job: &JobRef,
    outcomes_max: u64,
) -> Result<(), RunError> {
    let registry = registry(store, settings)?;
    let clock = Clock::of_machine();
    let deadline = clock.now().plus(Duration::from_secs(GO_SECONDS));
    let session = format!("by-hand-{}", fresh_nonce().as_uuid()).parse().map_err(RunError::Session)?;
    let invocation = Invocation::begin(store, &registry, session, clock, deadline).by_hand(outcomes_max);
    let driven = |error| RunError::Driven(Box::new(error));
    invocation.announce().await.map_err(|error| driven(DriveError::Store(error)))?;
    let continuation = Continuation::job(job.clone());
    let handled = tokio::select! {
        biased;
        handled = Box::pin(invocation.handle(&continuation)) => handled,
        never = invocation.keep_alive(Vec::new()) => never,
    };
    invocation.end().await;
    match handled.map_err(driven)? {
        Handled::Acknowledge | Handled::GiveBack => Ok(()),
    }
}

fn registry(store: &AwsStore, settings: &Settings) -> Result<Registry, RunError> {
    let mut registry = longhaul_agent::shipped(settings)?;
    let equipment = Equipment::of(settings).map_err(RunError::Equipment)?;
    let equipment = equipment.with_one_model(settings);
    registry.set_source(Rc::new(Definitions::new(store.clone(), Rc::new(equipment))));
    Ok(registry)
}
