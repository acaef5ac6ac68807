//! `longhaul jobs` and `longhaul dead-letters`: what a person asks of jobs and does with them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use longhaul_engine::job::Priority;
use longhaul_engine::thread::OnBusy;
use longhaul_wire::JobView;
use longhaul_wire::jobs::{DeadLetterList, TakenIn};
use longhaul_wire::requests::{Budget, CancelRequest, EditRequest, ForkRequest, ReplayRequest, SignalRequest};
use serde::Serialize;
use serde_json::{Value, json};

use super::commands::{detached, json_argument, print_json, text_argument, watch};
use super::connect::Connected;
use super::output::{print, say};
use super::{CliError, Output, tables, transfer};

/// Pages of dead letters that are gone through for a replay of all that match: 50 letters each.
const PAGES_MAX: usize = 200;
/// Millionths of a dollar in a dollar.
const MICROS: f64 = 1_000_000.0;

#[derive(Debug, Subcommand)]
pub(super) enum JobsCommand {
    /// List jobs, the newest first.
    Ls {
        /// Only jobs with this status, such as WAITING.
        #[arg(long)]
        status: Option<String>,
        /// Only jobs of this agent.
        #[arg(long)]
        agent: Option<String>,
        /// Only jobs with this label, NAME=VALUE.
        #[arg(long)]
        label: Option<String>,
        /// Only jobs of this thread.
        #[arg(long)]
        thread: Option<String>,
        /// Only jobs submitted at this time or later, such as 2026-01-31T08:00:00Z.
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only jobs submitted before this time.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Most jobs that are shown.
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
        limit: u16,
        #[command(flatten)]
        output: Output,
    },
    /// Show a job with its steps.
    Show {
        /// The job's id.
        id: String,
        #[command(flatten)]
        output: Output,
    },
    /// Ask a job to end.
    Cancel {
        /// The job's id.
        id: String,
        /// Why.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Send a signal to a job.
    Signal {
        /// The job's id.
        id: String,
        /// The signal's name, such as approval.
        name: String,
        /// What it says, as JSON or @FILE.
        #[arg(long, value_name = "JSON|@FILE", default_value = "null")]
        payload: String,
        #[command(flatten)]
        output: Output,
    },
    /// Open a failed or cancelled job again and watch it.
    Replay(Replay),
    /// Write a job as one JSON file on standard output: its order, its journal, its agent's definition.
    Export {
        /// The job's id.
        id: String,
    },
    /// Bring a job in that was exported elsewhere, to look at and step through. No worker drives it by itself.
    Import {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// Drive an imported job on, step by step, asking the stand-in model. Its tools are real.
    Step {
        /// The job's id.
        id: String,
        /// Open it again first and forget outcomes from this journal position on.
        #[arg(long, value_name = "POSITION")]
        from: Option<u64>,
        /// A new input, as JSON or @FILE; opens it again as well.
        #[arg(long, value_name = "JSON|@FILE")]
        input: Option<String>,
        /// How many outcomes to go on by.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        count: u64,
        #[command(flatten)]
        output: Output,
    },
}

/// Where a fork begins, and what it changes.
#[derive(Debug, Args)]
pub(super) struct Fork {
    /// The job that the fork is made of.
    id: String,
    /// Keep nothing from this journal position on.
    #[arg(long, value_name = "POSITION", conflicts_with = "step")]
    from: Option<u64>,
    /// Keep nothing from this step on, by its key such as 3; without --from and --step, all but failed outcomes is kept.
    #[arg(long, value_name = "KEY")]
    step: Option<String>,
    #[command(flatten)]
    edit: EditArguments,
    /// Do effects again that were declared to happen once at most.
    #[arg(long)]
    repeat_effects: bool,
    /// Fork under this key: the same key is the same fork.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Do not watch it.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    output: Output,
}

/// What is changed before a job goes on.
#[derive(Debug, Args)]
struct EditArguments {
    /// A new input, as JSON or @FILE.
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Other instructions for its agent, or @FILE.
    #[arg(long, value_name = "TEXT|@FILE")]
    instructions: Option<String>,
    /// Another model for its agent.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// A new budget takes the place of the whole old one: what is not named is not bounded any more.
    #[command(flatten)]
    budget: BudgetArguments,
}

impl EditArguments {
    fn read(self) -> Result<EditRequest, CliError> {
        let Self { input, instructions, model, budget } = self;
        Ok(EditRequest {
            input: input.map(|given| json_argument("--input", &given)).transpose()?,
            budget: budget.budget(),
            model,
            instructions: instructions.map(|given| text_argument("--instructions", &given)).transpose()?,
        })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum DeadLettersCommand {
    /// List jobs that failed for good, the newest first.
    Ls {
        #[command(flatten)]
        matching: Matching,
        #[command(flatten)]
        output: Output,
    },
    /// Show a dead letter with its whole story.
    Show {
        /// The job's id.
        id: String,
        #[command(flatten)]
        output: Output,
    },
    /// Open it again, edited or not, and watch it.
    Replay(Replay),
    /// Open all again that match, as they are: for a cause that lay outside of them.
    ReplayAll {
        #[command(flatten)]
        matching: Matching,
        /// Only say which would be.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        output: Output,
    },
}

/// Which dead letters.
#[derive(Debug, Args)]
pub(super) struct Matching {
    /// Only of this agent, by name or name@version.
    #[arg(long)]
    agent: Option<String>,
    /// Only failures of this class, such as timeout.
    #[arg(long)]
    class: Option<String>,
    /// Only with this text in the error.
    #[arg(long)]
    text: Option<String>,
    /// Only with this label, NAME=VALUE.
    #[arg(long, value_parser = label)]
    label: Option<(String, String)>,
}

impl Matching {
    fn admits(&self, job: &JobView) -> bool {
        let failure = job.failure.as_ref();
        let says = |wanted: &str| {
            failure.is_some_and(|failure| {
                failure.message.contains(wanted) || failure.causes.iter().any(|cause| cause.contains(wanted))
            })
        };
        let of_agent = |agent: &str| job.agent == agent || job.agent.split('@').next() == Some(agent);
        self.agent.as_deref().is_none_or(of_agent)
            && self.class.as_deref().is_none_or(|class| failure.is_some_and(|failure| failure.class == class))
            && self.text.as_deref().is_none_or(says)
            && self.label.as_ref().is_none_or(|(name, value)| job.labels.get(name) == Some(value))
    }
}

/// What a job may use.
#[derive(Debug, Args)]
pub(super) struct BudgetArguments {
    /// A budget of tokens.
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// A budget of money, in dollars by the table of prices.
    #[arg(long, value_name = "DOLLARS", value_parser = micros)]
    money: Option<u64>,
    /// A budget of steps.
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// A budget of time since submission, waits included.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

impl BudgetArguments {
    pub(super) fn budget(&self) -> Option<Budget> {
        let Self { tokens, money, steps, seconds } = *self;
        let budget = Budget { tokens, money_micros: money, steps, wall_seconds: seconds };
        (budget != Budget::default()).then_some(budget)
    }
}

#[derive(Debug, Args)]
pub(super) struct Replay {
    /// The job's id.
    id: String,
    #[command(flatten)]
    edit: EditArguments,
    /// Forget outcomes from this journal position on; by default only failed ones.
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// Do not watch it.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    output: Output,
}

/// Reads what is to happen where a thread is busy.
pub(super) fn on_busy(text: &str) -> Result<OnBusy, String> {
    serde_json::from_value(Value::String(text.to_owned()))
        .map_err(|_| "must be enqueue, reject or interrupt".to_owned())
}

/// Reads whether somebody waits for a job.
pub(super) fn priority(text: &str) -> Result<Priority, String> {
    serde_json::from_value(Value::String(text.to_owned())).map_err(|_| "must be normal or interactive".to_owned())
}

/// Reads a label.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(name, _)| !name.is_empty());
    parts.map(|(name, value)| (name.to_owned(), value.to_owned())).ok_or_else(|| "must be NAME=VALUE".to_owned())
}

/// Reads an amount of dollars, in millionths.
fn micros(text: &str) -> Result<u64, String> {
    let amount: f64 = text.trim_start_matches('$').parse().map_err(|_| "must be an amount such as 0.25".to_owned())?;
    let micros = (amount * MICROS).round();
    if !(1.0..=1e15).contains(&micros) {
        return Err("must be from 0.000001 to 1000000000".to_owned());
    }
    // The bounds above make the conversion exact enough: whole, positive, far below the largest.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds just checked")]
    Ok(micros as u64)
}

pub(super) async fn jobs(connected: &Connected, command: JobsCommand) -> Result<ExitCode, CliError> {
    let client = &connected.client;
    match command {
        JobsCommand::Ls { status, agent, label, thread, since, until, limit, output } => {
            let given = [
                ("status", status),
                ("agent", agent),
                ("label", label),
                ("thread", thread),
                ("since", since),
                ("until", until),
            ];
            let filter: Vec<(&str, &str)> =
                given.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
            let list = client.jobs(&filter, usize::from(limit)).await?;
            print_or_json(&list, output, tables::jobs)
        }
        JobsCommand::Show { id, output } => show(connected, &id, output).await,
        JobsCommand::Cancel { id, reason, output } => {
            let taken = client.cancel(&id, &CancelRequest { reason }).await?;
            said(&taken, output, &format!("asked job {id} to end"))
        }
        JobsCommand::Signal { id, name, payload, output } => {
            let payload = json_argument("--payload", &payload)?;
            let taken = client.signal(&id, &name, &SignalRequest { payload }).await?;
            let done = said(&taken, output, &format!("sent the signal {name} to job {id}"))?;
            if connected.is_own() && !output.json {
                return watch(connected, &id, 0, output, true).await;
            }
            Ok(done)
        }
        JobsCommand::Replay(request) => replay(connected, request).await,
        JobsCommand::Export { id } => transfer::export(connected, &id).await,
        // `commands::run` has taken these ways already: they need the data folder as well.
        JobsCommand::Import { .. } | JobsCommand::Step { .. } => {
            Err(CliError::Argument { argument: "COMMAND", what: "needs the data folder".to_owned() })
        }
    }
}

/// Makes a new job out of another one.
pub(super) async fn fork(connected: &Connected, request: Fork) -> Result<ExitCode, CliError> {
    let Fork { id, from, step, edit, repeat_effects, idempotency_key, detach, output } = request;
    let request = ForkRequest { from, step, edit: edit.read()?, repeat_effects };
    let forked = connected.client.fork(&id, &request, idempotency_key.as_deref()).await?;
    say(&format!("job {} ({}) keeps {} outcomes of job {id}", forked.job.id, forked.job.agent, forked.kept));
    for effect in &forked.repeats {
        let once = if effect.at_most_once { ", declared to happen once at most" } else { "" };
        say(&format!("  does again: {} (step {}{once})", effect.name, effect.step));
    }
    if detach {
        return detached(connected, &forked.job, output);
    }
    watch(connected, &forked.job.id.to_string(), 0, output, true).await
}

/// What a request came to.
fn said(taken: &TakenIn, output: Output, words: &str) -> Result<ExitCode, CliError> {
    if output.json {
        print_json(taken)?;
    } else {
        say(words);
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn dead_letters(connected: &Connected, command: DeadLettersCommand) -> Result<ExitCode, CliError> {
    match command {
        DeadLettersCommand::Ls { matching, output } => {
            let list = DeadLetterList { dead_letters: matching_letters(connected, &matching).await?, next: None };
            print_or_json(&list, output, tables::dead_letters)
        }
        DeadLettersCommand::Show { id, output } => show(connected, &id, output).await,
        DeadLettersCommand::Replay(request) => replay(connected, request).await,
        DeadLettersCommand::ReplayAll { matching, dry_run, output } => {
            replay_all(connected, &matching, dry_run, output).await
        }
    }
}

/// Every letter that matches.
async fn matching_letters(connected: &Connected, matching: &Matching) -> Result<Vec<JobView>, CliError> {
    let mut found = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let page = connected.client.dead_letters(cursor.as_deref()).await?;
        found.extend(page.dead_letters.into_iter().filter(|job| matching.admits(job)));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(found);
        }
    }
    say(&format!("only the newest {} dead letters were looked at", PAGES_MAX.saturating_mul(50)));
    Ok(found)
}

async fn replay_all(
    connected: &Connected,
    matching: &Matching,
    dry_run: bool,
    output: Output,
) -> Result<ExitCode, CliError> {
    let letters = matching_letters(connected, matching).await?;
    let mut opened = Vec::new();
    let mut refused = BTreeMap::new();
    for job in &letters {
        let id = job.id.to_string();
        if dry_run {
            opened.push(id);
            continue;
        }
        match connected.client.replay(&id, &ReplayRequest::default()).await {
            Ok(_) => opened.push(id),
            Err(CliError::Refused { problem, .. }) => {
                refused.insert(id, problem.detail.clone());
            }
            Err(error) => return Err(error),
        }
    }
    let good = refused.is_empty();
    if output.json {
        print_json(&json!({ "opened": opened, "refused": refused, "dry_run": dry_run }))?;
    } else {
        for id in &opened {
            print(id)?;
        }
        for (id, why) in &refused {
            say(&format!("{id}: {why}"));
        }
        let what = if dry_run { "would be opened again" } else { "opened again" };
        say(&format!("{} of {} dead letters {what}", opened.len(), letters.len()));
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn show(connected: &Connected, id: &str, output: Output) -> Result<ExitCode, CliError> {
    let job = connected.client.job(id).await?;
    let journal = connected.client.journal(id).await?;
    if output.json {
        print_json(&json!({ "job": job, "journal": journal }))?;
    } else {
        print(&tables::story(&job, &journal))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn replay(connected: &Connected, request: Replay) -> Result<ExitCode, CliError> {
    let Replay { id, edit, from, detach, output } = request;
    let edit = edit.read()?;
    if connected.client.job(&id).await?.imported_at.is_some() {
        let what =
            format!("it was imported, and no worker drives it; go through it with: longhaul jobs step {id} --from N");
        return Err(CliError::Argument { argument: "ID", what });
    }
    let taken_in = connected.client.replay(&id, &ReplayRequest { from, edit }).await?;
    if detach {
        return said(&taken_in, output, &format!("job {id} is open again"));
    }
    // What came before the replay has been seen.
    let after = taken_in.seq.map_or(0, |seq| seq.saturating_sub(1));
    watch(connected, &id, after, output, true).await
}

pub(super) fn print_or_json<T: Serialize>(
    value: &T,
    output: Output,
    table: fn(&T) -> String,
) -> Result<ExitCode, CliError> {
    if output.json {
        print_json(value)?;
    } else {
        print(&table(value))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_as_millionths() {
        for (text, wanted) in [
            ("0.25", Some(250_000)),
            ("$1", Some(1_000_000)),
            ("0.0000001", None),
            ("x", None),
            ("-1", None),
            ("NaN", None),
        ] {
            assert_eq!(micros(text).ok(), wanted, "{text}");
        }
        assert!(label("a=b").is_ok() && label("=b").is_err() && label("a").is_err());
    }
}
