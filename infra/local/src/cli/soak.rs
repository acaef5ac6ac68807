//! `longhaul soak`: load and kills on a stack of its own, and a verdict.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use tokio_util::sync::CancellationToken;

use super::output::{print, say};
use super::{CliError, Output, Place};
use crate::soak::run::{Progress, Rate, SoakOptions, run};
use crate::soak::verdict::SoakVerdict;

/// Findings that are printed one by one; a stack that is badly broken has thousands.
const FINDINGS_SHOWN_MAX: usize = 20;
/// How often a log, which is no terminal, is told how it stands: every so many times that a terminal is.
const LOG_EVERY: u64 = 15;

/// What `longhaul soak` is told.
#[derive(Debug, Args)]
pub(super) struct SoakArguments {
    /// How long jobs are submitted, in minutes; fractions are allowed.
    #[arg(long, default_value_t = 5.0, value_parser = minutes)]
    minutes: f64,
    /// Jobs submitted in a second, or `max` for as many as the machine completes.
    #[arg(long, default_value = "max", value_name = "N|max")]
    jobs_per_second: Rate,
    /// Kill a random process of the functions every so many seconds; 0 for never.
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS", value_parser = seconds)]
    kill_every: f64,
    /// Decides which processes are killed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps of each job; each asks the model once.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    steps: u32,
    /// Bytes that each step records.
    #[arg(long, default_value_t = 1_024, value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    bytes: u32,
    #[command(flatten)]
    output: Output,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "max" {
            return Ok(Self::Max);
        }
        number(text, 0.001, 10_000.0).map(Self::PerSecond)
    }
}

fn number(text: &str, least: f64, most: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(_) | Err(_) => Err(format!("give a number from {least} to {most}")),
    }
}

fn minutes(text: &str) -> Result<f64, String> {
    number(text, 0.01, 10_080.0)
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.0, 86_400.0)
}

/// Runs the soak.
pub(super) async fn soak(place: &Place, arguments: SoakArguments) -> Result<ExitCode, CliError> {
    place.needs_no_deployment("soak")?;
    // Without a folder of the person's own it is a trial on fresh ground, which nobody needs afterwards.
    let fresh = if place.data.is_none() { Some(tempfile::tempdir()?) } else { None };
    let mut stack = place.options_in(fresh.as_ref().map(|folder| folder.path().to_owned()))?;
    // The stand-in counts what it is asked, and nobody is paid for load.
    stack.model = None;
    let kill_every = Some(Duration::from_secs_f64(arguments.kill_every)).filter(|every| !every.is_zero());
    let enough = CancellationToken::new();
    let options = SoakOptions {
        duration: Duration::from_secs_f64(arguments.minutes * 60.0),
        rate: arguments.jobs_per_second,
        kill_every,
        seed: arguments.seed,
        steps: arguments.steps,
        bytes: arguments.bytes,
        tenant: place.tenant.clone(),
        stack,
        enough: enough.clone(),
    };
    let told = std::sync::atomic::AtomicU64::new(0);
    let terminal = std::io::stderr().is_terminal();
    let running = run(options, |progress| {
        let before = told.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if terminal || before.is_multiple_of(LOG_EVERY) {
            say(&line(&progress));
        }
    });
    let verdict = tokio::select! {
        verdict = running => verdict?,
        interrupted = interrupted_twice(&enough) => {
            interrupted?;
            return Ok(ExitCode::FAILURE);
        }
    };
    if arguments.output.json {
        print(&serde_json::to_string(&verdict)?)?;
    } else {
        print(&text(&verdict))?;
    }
    Ok(if verdict.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for Ctrl-C, which ends the load, and for a second one, which ends the soak without a verdict.
async fn interrupted_twice(enough: &CancellationToken) -> std::io::Result<()> {
    tokio::signal::ctrl_c().await?;
    say("ending the load; what was submitted is waited for and judged. Ctrl-C again ends at once");
    enough.cancel();
    tokio::signal::ctrl_c().await
}

fn line(progress: &Progress) -> String {
    let seconds = progress.elapsed.as_secs();
    let ended = progress.accepted.saturating_sub(progress.open);
    let what = if progress.draining { "draining" } else { "load" };
    format!(
        "{:02}:{:02}  {what:<8}  submitted {:>6}  ended {ended:>6}  open {:>4}  kills {:>4}",
        seconds / 60,
        seconds % 60,
        progress.accepted,
        progress.open,
        progress.kills,
    )
}

fn text(verdict: &SoakVerdict) -> String {
    let ms = |time: Option<u128>| time.map_or_else(|| "none".to_owned(), |time| format!("{time} ms"));
    let by: Vec<String> = verdict.kills_of.iter().map(|(function, kills)| format!("{function} {kills}")).collect();
    let mut lines = vec![
        format!("verdict            {}", if verdict.passed { "passed" } else { "FAILED" }),
        format!("submitted          {}", verdict.submitted),
        format!("completed          {} ({} a second)", verdict.completed, verdict.completed_per_second),
        format!("failed             {}", verdict.failed),
        format!("lost               {}", verdict.lost),
        format!("stuck              {}", verdict.stuck),
        format!("steps recorded     {}", verdict.steps),
        format!("doubled effects    {}", verdict.doubled_effects),
        format!(
            "repeated effects   {} (asked again under their own key after a claim, as promised)",
            verdict.repeated_effects
        ),
        format!("kills              {} ({})", verdict.kills, by.join(", ")),
        format!("jobs hit           {}", verdict.jobs_hit),
        format!(
            "recovery           p50 {}, p99 {}, longest {} ({} the bound of {} ms for p99)",
            ms(verdict.recovery_p50_ms),
            ms(verdict.recovery_p99_ms),
            ms(verdict.recovery_max_ms),
            if verdict.recovery_in_bound == Some(false) { "OVER" } else { "within" },
            verdict.recovery_bound_ms
        ),
        format!(
            "memory             {} MiB at the start, {} MiB at the end",
            verdict.memory_start_mib, verdict.memory_end_mib
        ),
        format!(
            "disk               {} MiB at the start, {} MiB at the end",
            verdict.disk_start_mib, verdict.disk_end_mib
        ),
        format!(
            "time               {} s of load, {} s of drain, seed {}",
            verdict.load_seconds, verdict.drain_seconds, verdict.seed
        ),
    ];
    lines.extend(verdict.findings.iter().take(FINDINGS_SHOWN_MAX).map(|finding| format!("  {finding}")));
    let further = verdict.findings.len().saturating_sub(FINDINGS_SHOWN_MAX);
    if further > 0 {
        lines.push(format!("  and {further} findings more"));
    }
    lines.join("\n")
}
