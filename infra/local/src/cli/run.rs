//! `longhaul run`: what a person says of a job.

use clap::Args;
use longhaul_engine::job::Priority;
use longhaul_engine::thread::OnBusy;
use longhaul_wire::requests::SubmitRequest;

use super::commands::{json_argument, submission};
use super::{CliError, Output, jobs};

/// An agent, its input, and what holds for the job.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// The agent, by name or name@version.
    pub(super) agent: String,
    /// Its input: JSON, or @FILE.
    #[arg(long, value_name = "JSON|@FILE", default_value = "{}")]
    pub(super) input: String,
    /// Submit under this key: the same key is the same job.
    #[arg(long, value_name = "KEY")]
    pub(super) idempotency_key: Option<String>,
    /// Print the job's id and leave it running. Needs a stack that goes on (`longhaul up`) or a deployment.
    #[arg(long)]
    pub(super) detach: bool,
    /// A mark of your own, NAME=VALUE; may be given again.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = jobs::label)]
    pub(super) labels: Vec<(String, String)>,
    /// Where to report the job's end.
    #[arg(long, value_name = "URL")]
    pub(super) webhook: Option<String>,
    /// Its thread: jobs of one thread run one after another.
    #[arg(long, value_name = "THREAD")]
    pub(super) thread: Option<String>,
    /// Where another job of the thread has not ended: enqueue, reject or interrupt.
    #[arg(long, value_name = "WORD", requires = "thread", value_parser = jobs::on_busy)]
    pub(super) on_busy: Option<OnBusy>,
    /// Whether somebody waits for it: normal, or interactive for one that stands behind none of the tenant's other jobs.
    #[arg(long, value_name = "WORD", default_value = "normal", value_parser = jobs::priority)]
    pub(super) priority: Priority,
    #[command(flatten)]
    pub(super) budget: jobs::BudgetArguments,
    #[command(flatten)]
    pub(super) output: Output,
}

impl Run {
    /// What is submitted.
    pub(super) fn request(self) -> Result<SubmitRequest, CliError> {
        Ok(SubmitRequest {
            labels: self.labels.into_iter().collect(),
            budget: self.budget.budget(),
            webhook: self.webhook,
            thread: self.thread,
            on_busy: self.on_busy,
            priority: self.priority,
            ..submission(self.agent, json_argument("--input", &self.input)?)
        })
    }
}
