//! `longhaul run`: what a person says of a job.

use clap::Args;
use longhaul_engine::job::Priority;
use longhaul_engine::thread::OnBusy;
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
    /// Where to report the job's end.
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
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
            thread: self.thread,
            on_busy: self.on_busy,
            priority: self.priority,
            ..submission(agent, json_argument("--input", &self.input)?)
        })
    }
}
