//! `longhaul schedules`: jobs that are submitted by the clock.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use longhaul_wire::schedules::{ScheduleRequest, ScheduleView};
use serde_json::json;

use super::connect::Connected;
use super::jobs::print_or_json;
use super::run::JobArguments;
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
    #[command(flatten)]
    job: JobArguments,
    #[command(flatten)]
    output: Output,
}

impl Put {
    fn request(self) -> Result<ScheduleRequest, CliError> {
        let job = self.job.of(self.agent)?;
        Ok(ScheduleRequest { cron: self.cron, time_zone: self.time_zone, paused: self.paused, job })
    }
}

/// Does a command about schedules.
pub(super) async fn run(connected: &Connected, command: SchedulesCommand) -> Result<ExitCode, CliError> {
    let client = &connected.client;
    let (view, output) = match command {
        SchedulesCommand::Ls { output } => {
            return print_or_json(&client.schedules().await?, output, tables::schedules);
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
            return match removed {
                Some(removed) => {
                    print_or_json(&removed, output, |removed| format!("removed the schedule {}", removed.name))
                }
                None => print_or_json(&json!({ "name": name }), output, |_| {
                    "removed a schedule that could not be read".to_owned()
                }),
            };
        }
    };
    print_or_json(&view, output, tables::schedule)
}

async fn rest(connected: &Connected, name: &str, paused: bool) -> Result<ScheduleView, CliError> {
    // As it is shown, with what a later api may say of it.
    let mut schedule = connected.client.schedule_request(name).await?;
    schedule.insert("paused".to_owned(), json!(paused));
    connected.client.put_schedule(name, &schedule).await
}
