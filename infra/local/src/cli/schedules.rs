//! `longhaul schedules`: jobs that are submitted by the clock.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use longhaul_engine::job::Priority;
use longhaul_engine::thread::OnBusy;
use longhaul_wire::requests::SubmitRequest;
use longhaul_wire::schedules::{ScheduleRequest, ScheduleView};

use super::commands::{json_argument, submission};
use super::connect::Connected;
use super::jobs::{self, print_or_json};
use super::{CliError, Output, tables};

#[derive(Debug, Subcommand)]
pub(super) enum SchedulesCommand {
    /// List the schedules.
    #[command(visible_alias = "list")]
    Ls {
        #[command(flatten)]
        output: Output,
    },
    /// Show a schedule with its last firing and its next.
    Show {
        /// Its name.
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Save a schedule: a new one, or in the place of the one that has its name.
    Put(Box<Put>),
    /// Let a schedule rest.
    Pause {
        /// Its name.
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Let a schedule fire again, at times that come from now on.
    Resume {
        /// Its name.
        name: String,
        #[command(flatten)]
        output: Output,
    },
    /// Remove a schedule; the jobs that it has submitted stay.
    Delete {
        /// Its name.
        name: String,
        #[command(flatten)]
        output: Output,
    },
}

/// A schedule and what it submits.
#[derive(Debug, Args)]
pub(super) struct Put {
    /// Its name.
    name: String,
    /// Minute, hour, day of the month, month and weekday, such as '0 7 * * MON-FRI'.
    #[arg(long)]
    cron: String,
    /// The time zone of these, such as Europe/Berlin.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    time_zone: String,
    /// Save it, and let it rest.
    #[arg(long)]
    paused: bool,
    /// The agent of its jobs, by name or name@version; without a version, the newest one of now.
    #[arg(long)]
    agent: String,
    /// Their input: JSON, or @FILE.
    #[arg(long, value_name = "JSON|@FILE", default_value = "{}")]
    input: String,
    /// A mark of your own, NAME=VALUE; may be given again.
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = jobs::label)]
    labels: Vec<(String, String)>,
    /// Where to report the jobs' ends.
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Their thread: with it a job waits until the one before it has ended.
    #[arg(long, value_name = "THREAD")]
    thread: Option<String>,
    /// Where another job of the thread has not ended: enqueue, reject or interrupt.
    #[arg(long, value_name = "WORD", requires = "thread", value_parser = jobs::on_busy)]
    on_busy: Option<OnBusy>,
    /// Whether somebody waits for them: normal or interactive.
    #[arg(long, value_name = "WORD", default_value = "normal", value_parser = jobs::priority)]
    priority: Priority,
    #[command(flatten)]
    budget: jobs::BudgetArguments,
    #[command(flatten)]
    output: Output,
}

impl Put {
    fn request(self) -> Result<ScheduleRequest, CliError> {
        let job = SubmitRequest {
            labels: self.labels.into_iter().collect(),
            budget: self.budget.budget(),
            webhook: self.webhook,
            thread: self.thread,
            on_busy: self.on_busy,
            priority: self.priority,
            ..submission(self.agent, json_argument("--input", &self.input)?)
        };
        Ok(ScheduleRequest { cron: self.cron, time_zone: self.time_zone, paused: self.paused, job })
    }
}

/// Does a command about schedules.
pub(super) async fn run(connected: &Connected, command: SchedulesCommand) -> Result<ExitCode, CliError> {
    let client = &connected.client;
    let (view, output) = match command {
        SchedulesCommand::Ls { output } => {
            return print_or_json(&client.schedules().await?, output, |list| tables::schedules(&list.schedules));
        }
        SchedulesCommand::Show { name, output } => (client.schedule(&name).await?, output),
        SchedulesCommand::Put(put) => {
            let (name, output) = (put.name.clone(), put.output);
            (client.put_schedule(&name, &put.request()?).await?, output)
        }
        SchedulesCommand::Pause { name, output } => (rest(connected, &name, true).await?, output),
        SchedulesCommand::Resume { name, output } => (rest(connected, &name, false).await?, output),
        SchedulesCommand::Delete { name, output } => {
            let removed = client.delete_schedule(&name).await?;
            return print_or_json(&removed, output, |removed| format!("removed the schedule {}", removed.name));
        }
    };
    print_or_json(&view, output, tables::schedule)
}

async fn rest(connected: &Connected, name: &str, paused: bool) -> Result<ScheduleView, CliError> {
    let ScheduleView { schedule, .. } = connected.client.schedule(name).await?;
    connected.client.put_schedule(name, &ScheduleRequest { paused, ..schedule }).await
}
