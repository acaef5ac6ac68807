//! `longhaul jobs` and `longhaul fork`: what a person asks of jobs and does with them.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use longhaul_engine::job::Priority;
use longhaul_engine::thread::OnBusy;
use longhaul_wire::requests::{Budget, CancelRequest, EditRequest, ForkRequest, ReplayRequest, SignalRequest};
use serde::Serialize;
use serde_json::{Value, json};

use super::commands::{detached, json_argument, print_json, text_argument, watch};
use super::connect::Connected;
use super::output::{print, say};
use super::{CliError, Output, tables, transfer};

/// Millionths of a dollar in a dollar.
const MICROS: f64 = 1_000_000.0;

#[derive(Debug, Subcommand)]
pub(super) enum JobsCommand {
    /// List jobs, the newest first.
    Ls {
        /// Only jobs with this status, such as WAITING.
        #[arg(long)]
        status: Option<String>,
        /// Only jobs of this agent, by name or name@version.
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
    /// List the deliveries of a job's events to its webhook.
    Deliveries {
        /// The job's id.
        id: String,
        #[command(flatten)]
        output: Output,
    },
    /// Deliver an event to a job's webhook once more, whatever became of it.
    Resend {
        /// The job's id.
        id: String,
        /// The delivery's id, evt_…, as `jobs deliveries` shows it.
        delivery: String,
        #[command(flatten)]
        output: Output,
    },
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
    // The bounds above make the conversion exact: whole, positive, far below the largest.
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
        JobsCommand::Deliveries { id, output } => {
            print_or_json(&client.deliveries(&id).await?, output, tables::deliveries)
        }
        JobsCommand::Resend { id, delivery, output } => {
            let ordered = client.resend(&id, &delivery).await?;
            said(&ordered, output, &format!("{} ({}) is delivered again", ordered.id, ordered.kind))
        }
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
fn said(came_to: &impl Serialize, output: Output, words: &str) -> Result<ExitCode, CliError> {
    if output.json {
        print_json(came_to)?;
    } else {
        say(words);
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn show(connected: &Connected, id: &str, output: Output) -> Result<ExitCode, CliError> {
    let job = connected.client.job(id).await?;
    let journal = connected.client.journal(id).await?;
    if output.json {
        print_json(&json!({ "job": job, "journal": journal }))?;
    } else {
        print(&tables::story(&job, &journal))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is said to who wants an imported job opened again.
pub(super) fn driven_by_nobody(id: &str) -> String {
    format!("it was imported, and no worker drives it; go through it with: longhaul jobs step {id} --from N")
}

pub(super) async fn replay(connected: &Connected, request: Replay) -> Result<ExitCode, CliError> {
    let Replay { id, edit, from, detach, output } = request;
    let edit = edit.read()?;
    if connected.client.job(&id).await?.imported_at.is_some() {
        return Err(CliError::Argument { argument: "ID", what: driven_by_nobody(&id) });
    }
    let taken_in = connected.client.replay(&id, &ReplayRequest { from, edit, by_hand: false }).await?;
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
