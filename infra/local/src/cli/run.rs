//! `longhaul run`: what a person says of a job.

use clap::Args;
use longhaul_engine::job::Priority;
use longhaul_engine::thread::OnBusy;
use longhaul_wire::events::EventType;
use longhaul_wire::requests::SubmitRequest;

use super::commands::{json_argument, submission};
use super::{CliError, Output, jobs};

/// An agent, and what it is to do.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// The agent, by name or name@version.
    agent: String,
    /// Submit under this key: the same key is the same job.
    #[arg(long, value_name = "KEY")]
    pub(super) idempotency_key: Option<String>,
    /// Print the job's id and leave it running. Needs a stack that goes on (`longhaul up`) or a deployment.
    #[arg(long)]
    pub(super) detach: bool,
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Run {
    /// What is submitted.
    pub(super) fn request(self) -> Result<SubmitRequest, CliError> {
        self.job.of(self.agent)
    }
}

/// What is said of a job beside its agent, whoever submits it.
#[derive(Debug, Args)]
pub(super) struct JobArguments {
    /// Its input: JSON, or @FILE.
    #[arg(long, value_name = "JSON|@FILE", default_value = "{}")]
    input: String,
    /// A mark of your own, NAME=VALUE; may be given again.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = jobs::label)]
    labels: Vec<(String, String)>,
    /// Where to report the job's end, or the events that --webhook-event names.
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// A type of event to report there, such as AgentWaiting; may be given again.
    #[arg(long = "webhook-event", value_name = "TYPE", requires = "webhook", value_parser = event_type)]
    webhook_events: Vec<EventType>,
    /// Its thread: jobs of one thread run one after another.
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    /// Where another job of the thread has not ended: enqueue, reject or interrupt.
    #[arg(long, value_name = "WORD", requires = "thread", value_parser = jobs::on_busy)]
    on_busy: Option<OnBusy>,
    /// Whether somebody waits for it: normal, or interactive for one that stands behind none of the tenant's other jobs.
    #[arg(long, value_name = "WORD", default_value = "normal", value_parser = jobs::priority)]
    priority: Priority,
    #[command(flatten)]
    budget: jobs::BudgetArguments,
}

impl JobArguments {
    /// The submission of such a job of an agent.
    pub(super) fn of(self, agent: String) -> Result<SubmitRequest, CliError> {
        Ok(SubmitRequest {
            labels: self.labels.into_iter().collect(),
            budget: self.budget.budget(),
            webhook: self.webhook,
            webhook_events: self.webhook_events,
            thread: self.thread,
            on_busy: self.on_busy,
            priority: self.priority,
            ..submission(agent, json_argument("--input", &self.input)?)
        })
    }
}

/// Reads a type of event, with or without what all of them begin with.
fn event_type(text: &str) -> Result<EventType, String> {
    const BEGINNING: &str = "longhaul.";
    let name = |kind: EventType| kind.as_str().strip_prefix(BEGINNING).unwrap_or_default();
    let asked = text.strip_prefix(BEGINNING).unwrap_or(text);
    EventType::ALL.iter().copied().find(|kind| name(*kind) == asked).ok_or_else(|| {
        let all: Vec<&str> = EventType::ALL.iter().copied().map(name).collect();
        format!("must be one of {}", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        job: JobArguments,
    }

    #[test]
    fn a_webhook_is_told_what_was_chosen() {
        let url = ["--webhook", "https://example.com/hook"];
        let rows: [(&[&str], Option<&[EventType]>); 5] = [
            (&[], Some(&[])),
            (&["AgentWaiting"], Some(&[EventType::AgentWaiting])),
            (
                &["longhaul.AgentJobFailed", "AgentJobCompleted"],
                Some(&[EventType::AgentJobFailed, EventType::AgentJobCompleted]),
            ),
            (&["AgentYawned"], None),
            (&["longhaul."], None),
        ];
        for (events, wanted) in rows {
            let chosen = events.iter().flat_map(|event| ["--webhook-event", *event]);
            let read = Line::try_parse_from(["run"].into_iter().chain(url).chain(chosen));
            let said = read.ok().map(|line| line.job.of("research".to_owned()).unwrap().webhook_events);
            assert_eq!(said.as_deref(), wanted, "{events:?}");
        }
        let error = Line::try_parse_from(["run", "--webhook-event", "AgentWaiting"]).unwrap_err();
        assert_eq!(error.kind(), clap::error::ErrorKind::MissingRequiredArgument, "there is nobody to tell");
        let error = Line::try_parse_from(["run", "--webhook", "x", "--webhook-event", "yes"]).unwrap_err().to_string();
        assert!(error.contains("AgentJobCompleted") && error.contains("AgentWaiting"), "{error}");
    }
}
