//! `longhaul tenant`: what holds for all of a tenant's jobs, and the erasure of everything that it has.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use longhaul_wire::erasures::{ErasureList, ErasureStatus, ErasureView};
use longhaul_wire::requests::TenantSettings;

use super::commands::print_json;
use super::connect::Connected;
use super::jobs::print_or_json;
use super::output::{print, say};
use super::{CliError, Output, Place};

/// How often an erasure is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(super) enum TenantCommand {
    /// Show the settings.
    Show {
        #[command(flatten)]
        output: Output,
    },
    /// Change the settings, for jobs that end from now on.
    Set {
        /// Days for which a job is kept behind its end.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3_660))]
        job_kept_days: u32,
        #[command(flatten)]
        output: Output,
    },
    /// Erase everything that the tenant has: jobs with all that they gave and got, agents, settings, dead letters. Open
    /// jobs are cancelled first. There is no way back.
    Erase {
        /// The tenant's name, to say that this is meant.
        name: String,
        /// Do it.
        #[arg(long)]
        yes: bool,
        /// Do not wait until it is done.
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        output: Output,
    },
    /// List the tenant's erasures: who had everything erased, when, and how much that was.
    Erasures {
        #[command(flatten)]
        output: Output,
    },
}

pub(super) async fn tenant(connected: &Connected, place: &Place, command: TenantCommand) -> Result<ExitCode, CliError> {
    match command {
        TenantCommand::Show { output } => settings(connected.client.tenant_settings().await?, output),
        TenantCommand::Set { job_kept_days, output } => {
            settings(connected.client.put_tenant_settings(&TenantSettings { job_kept_days }).await?, output)
        }
        TenantCommand::Erase { name, yes: false, .. } => {
            let what = format!("all jobs, agents, settings and dead letters of {name} would go for good; say --yes");
            Err(CliError::Argument { argument: "erase", what })
        }
        TenantCommand::Erase { name, yes: true, detach, output } => {
            // On this machine tokens are made for whom --tenant says; elsewhere the token itself says whose it is.
            if place.target.named()?.is_none() && name != place.tenant.as_str() {
                let what = format!("you act for {}; say --tenant {name} as well", place.tenant);
                return Err(CliError::Argument { argument: "NAME", what });
            }
            erase(connected, &name, detach, output).await
        }
        TenantCommand::Erasures { output } => print_or_json(&connected.client.erasures().await?, output, list),
    }
}

fn settings(settings: TenantSettings, output: Output) -> Result<ExitCode, CliError> {
    print_or_json(&settings, output, |settings| {
        format!("jobs are kept for {} days behind their end", settings.job_kept_days)
    })
}

/// Asks for the erasure and watches it.
async fn erase(connected: &Connected, name: &str, detach: bool, output: Output) -> Result<ExitCode, CliError> {
    let mut erasure = connected.client.erase_tenant(name).await?;
    let id = erasure.id.to_string();
    say(&format!("erasure {id} of everything that {name} has"));
    let mut said = String::new();
    while !detach && erasure.status != ErasureStatus::Done {
        let line = standing(&erasure);
        if line != said {
            say(&line);
            said = line;
        }
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                say("not watching any more; it goes on while the deployment runs: longhaul tenant erasures");
                return Ok(ExitCode::from(130));
            }
            () = tokio::time::sleep(LOOK_EVERY) => erasure = connected.client.erasure(&id).await?,
        }
    }
    if output.json {
        print_json(&erasure)?;
    } else {
        print(&standing(&erasure))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How far it is, in words.
fn standing(erasure: &ErasureView) -> String {
    let erased = &erasure.erased;
    let gone = format!(
        "{} jobs, {} items, {} objects, {} dead letters removed",
        erased.jobs, erased.items, erased.objects, erased.dead_letters
    );
    match erasure.status {
        ErasureStatus::EndingJobs if erasure.jobs_open > 0 => {
            format!("waiting for {} open jobs to end; {gone}", erasure.jobs_open)
        }
        ErasureStatus::EndingJobs => format!("ending and removing jobs; {gone}"),
        ErasureStatus::Clearing => format!("removing agents, settings and dead letters; {gone}"),
        ErasureStatus::Resting => {
            let until = erasure.rests_until.as_deref().unwrap_or("some minutes from now");
            format!("everything is removed; a second look for what was written late comes at {until}; {gone}")
        }
        ErasureStatus::LookingAgain => format!("looking for what was written late; {gone}"),
        ErasureStatus::Done => format!("done: {gone}"),
    }
}

fn list(list: &ErasureList) -> String {
    if list.erasures.is_empty() {
        return "nothing was ever erased".to_owned();
    }
    let line = |erasure: &ErasureView| {
        format!("{}  {}  by {}  {}", erasure.id, erasure.requested_at, erasure.requested_by, standing(erasure))
    };
    list.erasures.iter().map(line).collect::<Vec<_>>().join("\n")
}
