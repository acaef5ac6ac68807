//! Jobs as files: out of any deployment, into the embedded stack, and there step by step.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use longhaul::clock::Clock;
use longhaul::outside::fresh_nonce;
use longhaul::store::{Append, JobRef, Store, Submit};
use longhaul_agent::Settings;
use longhaul_aws::dynamo::SavedDefinition;
use longhaul_aws::{AwsStore, Config};
use longhaul_definition::{Format, Policy, read_within};
use longhaul_engine::{Batch, Job};
use longhaul_wire::export::Export;
use longhaul_wire::requests::{EditRequest, ReplayRequest};
use serde_json::{Value, json};

use super::commands::{job_id, print_json};
use super::connect::Connected;
use super::output::{print, say};
use super::{CliError, Output, Place, tables};
use crate::rehearsal;
use crate::stack::access;

/// Writes a job as JSON on standard output.
pub(super) async fn export(connected: &Connected, id: &str) -> Result<ExitCode, CliError> {
    print_json(&connected.client.export(id).await?)?;
    Ok(ExitCode::SUCCESS)
}

/// Brings a job in from a file. What is wrong with the file is found before anything is stored.
pub(super) async fn import(place: &Place, path: &Path, output: Output) -> Result<ExitCode, CliError> {
    let text =
        std::fs::read(path).map_err(|source| CliError::File { argument: "FILE", path: path.to_owned(), source })?;
    let export = Export::read(&text)?;
    let definition = export.definition.clone();
    let now = Clock::of_machine().now();
    let (batches, job) = export.into_job(place.tenant.clone(), now, fresh_nonce)?;
    let connected = place.connect().await?;
    let done = bring_in(place, &connected, &batches, &job, definition.as_ref()).await;
    let shown = match done {
        Ok(()) => connected.client.job(&job.order.id.to_string()).await,
        Err(error) => Err(error),
    };
    connected.end().await;
    let view = shown?;
    if output.json {
        print_json(&view)?;
    } else {
        print(&view.id.to_string())?;
        say(&format!(
            "imported {} ({}), {} journal entries",
            view.agent,
            view.status.as_str(),
            job.progress.tail.0.saturating_sub(1)
        ));
        say(&format!("look at it:      longhaul jobs show {}", view.id));
        say(&format!("step through it: longhaul jobs step {} [--from POSITION]", view.id));
    }
    Ok(ExitCode::SUCCESS)
}

async fn bring_in(
    place: &Place,
    connected: &Connected,
    batches: &[Batch],
    job: &Job,
    definition: Option<&Value>,
) -> Result<(), CliError> {
    let refused = |what: String| CliError::Import { job: job.order.id, what };
    let store = store_of(place).await?;
    let reference = JobRef { tenant: job.order.tenant.clone(), job: job.order.id };
    // The api refuses what is new of a tenant whose data goes; this writes past it.
    if store.erasure_under_way(&reference.tenant).await?.is_some() {
        let what = "all data of the tenant is being erased; import it when that is done (`longhaul tenant erasures`)";
        return Err(refused(what.to_owned()));
    }
    if store.job(&reference).await?.is_some() {
        return Err(refused("it is here already; take another data folder with --data".to_owned()));
    }
    bring_definition(&store, connected, job, definition).await?;
    for batch in batches {
        match store.append(&reference, batch).await? {
            Append::Written => {}
            // Left over from an import that was cut off.
            Append::Conflict(found) if found.at == batch.at && found.entries == batch.entries => {}
            Append::Conflict(_) => {
                return Err(refused(format!("another journal stands at position {} under its id", batch.at)));
            }
        }
    }
    // The item goes last: until it is there, there is no job.
    match store.submit(job).await? {
        Submit::Created => Ok(()),
        Submit::Exists(_) => Err(refused("it is here already".to_owned())),
    }
}

/// What definitions may reach here: as for `agents check`, and for the stack that this command may have started itself.
fn policy() -> Policy {
    Policy::allowing(&std::env::var("LONGHAUL_TOOL_HOSTS").unwrap_or_default())
}

/// Brings the agent's definition along, under the very version that the job names.
async fn bring_definition(
    store: &AwsStore,
    connected: &Connected,
    job: &Job,
    definition: Option<&Value>,
) -> Result<(), CliError> {
    let agent = &job.order.agent;
    let refused = |what: String| CliError::Import { job: job.order.id, what };
    let Some(source) = definition else {
        if connected.client.agent(&agent.to_string()).await.is_err() {
            say(&format!("note: this stack has no agent {agent}; the job can be looked at and not stepped through"));
        }
        return Ok(());
    };
    let checked = read_within(&source.to_string(), Format::Json, &policy());
    let checked = checked.map_err(|findings| {
        let found = findings.first().map(|finding| finding.message.clone()).unwrap_or_default();
        refused(format!("the definition of {agent} in the file is not valid: {found}"))
    })?;
    if checked.definition.name != agent.name.as_str() {
        return Err(refused(format!("the file has the definition of {}, not of {agent}", checked.definition.name)));
    }
    let saved = SavedDefinition {
        agent: agent.clone(),
        digest: checked.digest.clone(),
        card: longhaul_api::card_of(agent, &checked.definition),
        definition: checked.source.to_string(),
        created_at: Clock::of_machine().now(),
        created_by: "import".to_owned(),
    };
    let there = store.put_definition(&job.order.tenant, &saved).await?;
    if there.digest == saved.digest {
        return Ok(());
    }
    Err(refused(format!("this stack has another agent {agent}; take another data folder with --data")))
}

/// What is asked of a go through an imported job.
pub(super) struct Go {
    pub(super) id: String,
    pub(super) from: Option<u64>,
    pub(super) input: Option<Value>,
    pub(super) count: u64,
    pub(super) output: Output,
}

/// Drives an imported job on by some outcomes, in this very process, asking the stand-in model.
pub(super) async fn step(place: &Place, connected: &Connected, go: Go) -> Result<ExitCode, CliError> {
    let Go { id, from, input, count, output } = go;
    let job = job_id(&id)?;
    let before = connected.client.job(&id).await?;
    if before.imported_at.is_none() {
        let what =
            "it was not imported; workers drive it (`longhaul fork` makes a job to try things out with)".to_owned();
        return Err(CliError::Argument { argument: "ID", what });
    }
    if from.is_some() || input.is_some() {
        let edit = EditRequest { input, ..EditRequest::default() };
        connected.client.replay(&id, &ReplayRequest { from, edit, by_hand: true }).await?;
    } else if before.is_over() {
        let what = "the job has ended; name the position to go on from with --from (`longhaul jobs show` has them)";
        return Err(CliError::Argument { argument: "--from", what: what.to_owned() });
    }
    let seen = connected.client.journal(&id).await?.len();
    let store = store_of(place).await?;
    let stand_in = rehearsal::start(([127, 0, 0, 1], 0).into(), place.options()?.rehearsal).await;
    let stand_in = stand_in.map_err(crate::stack::StackError::from)?;
    let settings = settings(place, &stand_in.base_url)?;
    let reference = JobRef { tenant: place.tenant.clone(), job };
    // The future holds a whole worker.
    let stepped = Box::pin(longhaul_worker::step_by_hand(&store, &settings, &reference, count)).await;
    stand_in.shutdown().await;
    stepped.map_err(|source| CliError::Function { name: "worker".to_owned(), source: Box::new(source) })?;
    let journal = connected.client.journal(&id).await?;
    let news: Vec<_> = journal.into_iter().skip(seen).collect();
    let view = connected.client.job(&id).await?;
    if output.json {
        print_json(&json!({ "job": view, "entries": news }))?;
    } else {
        print(&tables::entries(&news))?;
        say(&format!("job {id}: {}", view.status.as_str()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings of the agents as the stack's own worker has them, but for the model.
fn settings(place: &Place, model_url: &str) -> Result<Settings, CliError> {
    let own = access(&place.folder()?).unwrap_or_default();
    let variable = |name: &str| match name {
        "LONGHAUL_MODEL_URL" => Some(model_url.to_owned()),
        "LONGHAUL_MODEL" => Some(rehearsal::MODEL_NAME.to_owned()),
        "LONGHAUL_MODEL_KEY" | "LONGHAUL_PROVIDERS" => None,
        _ => own.get(name).cloned().or_else(|| std::env::var(name).ok()),
    };
    Settings::read(variable)
        .map_err(|source| CliError::Function { name: "worker".to_owned(), source: Box::new(source) })
}

/// The stores of the stack that runs on the data folder.
async fn store_of(place: &Place) -> Result<AwsStore, CliError> {
    let variables: BTreeMap<String, String> = access(&place.folder()?).ok_or(CliError::NoAccess)?;
    let config = Config::from_lookup(|name| variables.get(name).cloned())
        .map_err(|error| CliError::Stack(Box::new(crate::stack::StackError::from(error))))?;
    Ok(AwsStore::connect(config).await)
}
