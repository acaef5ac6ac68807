//! `longhaul dead-letters`: jobs that failed for good, shown and opened again, one or all that match.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use longhaul_wire::JobView;
use longhaul_wire::jobs::DeadLetterList;
use longhaul_wire::requests::ReplayRequest;
use serde_json::json;

use super::commands::print_json;
use super::connect::Connected;
use super::jobs::{Replay, driven_by_nobody, label, print_or_json, replay, show};
use super::output::{print, say};
use super::{CliError, Output, tables};

/// Pages of dead letters that are gone through for a replay of all that match: 50 letters each.
const PAGES_MAX: usize = 200;

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
        if job.imported_at.is_some() {
            refused.insert(id.clone(), driven_by_nobody(&id));
            continue;
        }
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
