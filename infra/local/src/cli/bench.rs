//! `longhaul bench`: what a step, a wait and a crash cost here, as a table or as JSON lines.

use std::process::ExitCode;

use clap::Args;

use super::output::{print, say};
use super::{CliError, Output};
use crate::bench::measure::{Bound, Measure};
use crate::bench::{BenchOptions, Part, run};

/// What `longhaul bench` is told.
#[derive(Debug, Args)]
pub(super) struct BenchArguments {
    /// Measure only these.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Runs of each measurement; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=50))]
    repeat: u8,
    #[command(flatten)]
    output: Output,
}

/// Runs the bench.
pub(super) async fn bench(workers: u16, durable: bool, arguments: BenchArguments) -> Result<ExitCode, CliError> {
    if cfg!(debug_assertions) {
        say("this is a debug build: its numbers say nothing about a release (cargo run --release -- bench)");
    }
    let options = BenchOptions {
        parts: if arguments.only.is_empty() { Part::ALL.to_vec() } else { arguments.only },
        repeat: usize::from(arguments.repeat),
        program: std::env::current_exe()?,
        workers,
        durable,
    };
    let mut told = Ok(());
    run(&options, |measure| {
        let line = if arguments.output.json { serde_json::to_string(&measure) } else { Ok(row(&measure)) };
        let printed = line.map_err(CliError::from).and_then(|line| print(&line));
        if told.is_ok() {
            told = printed;
        }
    })
    .await?;
    told?;
    Ok(ExitCode::SUCCESS)
}

fn row(measure: &Measure) -> String {
    let name = measure
        .of
        .as_ref()
        .map_or_else(|| measure.metric.replace('_', " "), |of| format!("{} ({of})", measure.metric.replace('_', " ")));
    let numbers: Vec<String> = measure.numbers.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let bounds: String = measure.bounds.iter().map(told).collect();
    format!("{name:<44} {:<6} {}{bounds}", measure.unit, numbers.join(", "))
}

fn told(bound: &Bound) -> String {
    let Bound { of, most, met, aim, reached } = bound;
    let kept = match (met, reached) {
        (false, _) => "MISSED",
        (true, false) => "met",
        (true, true) => "reached",
    };
    format!("  [{of} at most {most}, aim {aim}: {kept}]")
}
