//! `longhaul cost`: what a month of jobs costs on AWS, by service.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use super::CliError;
use super::output::print;
use crate::cost::{self, Bill, PriceList, Work};

/// What is to be reckoned.
#[derive(Debug, Args)]
pub(super) struct CostArguments {
    /// Jobs in a month.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: u32,
    /// Steps of a job.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    steps: u32,
    /// How long a job takes, in minutes.
    #[arg(long, default_value_t = 5.0, value_name = "M", conflicts_with = "seconds_per_step")]
    minutes: f64,
    /// How long a step takes, in seconds, instead of `--minutes`.
    #[arg(long, value_name = "S")]
    seconds_per_step: Option<f64>,
    /// Bytes that a step records.
    #[arg(long, default_value_t = 2_000, value_name = "B")]
    bytes: u32,
    /// Jobs that one invocation of the worker drives together (at most the template's QueueBatchSize).
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=500))]
    together: u32,
    /// Watchers of each job.
    #[arg(long, default_value_t = 1, value_name = "N")]
    watchers: u32,
    /// The region, by whose prices it is reckoned; may be named several times.
    #[arg(long, default_value = "us-east-1", value_name = "REGION", value_delimiter = ',')]
    region: Vec<String>,
    /// A price list of your own, in the form of the shipped one (infra/local/src/cost/prices.json).
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Print one JSON object on standard output and nothing else.
    #[arg(long)]
    json: bool,
}

impl CostArguments {
    fn work(&self) -> Result<Work, CliError> {
        let steps = f64::from(self.steps);
        let seconds = self.seconds_per_step.map_or(self.minutes * 60.0, |seconds| seconds * steps);
        if !seconds.is_finite() || seconds <= 0.0 {
            let what = "a job takes some time".to_owned();
            return Err(CliError::Argument { argument: "--minutes, --seconds-per-step", what });
        }
        let (bytes, together) = (f64::from(self.bytes), f64::from(self.together));
        Ok(Work { steps, seconds, bytes, together, watchers: f64::from(self.watchers) })
    }

    fn list(&self) -> Result<PriceList, CliError> {
        let Some(path) = &self.prices else { return Ok(PriceList::shipped()?) };
        let failed = |source| CliError::File { argument: "--prices", path: path.clone(), source };
        Ok(PriceList::parse(&std::fs::read_to_string(path).map_err(failed)?)?)
    }
}

/// Does the command.
pub(super) fn run(arguments: &CostArguments) -> Result<ExitCode, CliError> {
    let (work, list) = (arguments.work()?, arguments.list()?);
    let jobs = f64::from(arguments.jobs);
    let mut told = Vec::new();
    for region in &arguments.region {
        let Some(prices) = list.regions.get(region) else {
            let known: Vec<&str> = list.regions.keys().map(String::as_str).collect();
            let what = format!("no prices of {region:?} are known, only of {}; give --prices", known.join(", "));
            return Err(CliError::Argument { argument: "--region", what });
        };
        let bills = cost::bills(&work, prices, &list.stack);
        let idle = cost::idle(prices, &list.stack);
        let logs = cost::logs(&work, prices, &list.stack) * jobs;
        if arguments.json {
            told.push(json!({
                "region": region, "date": list.date, "jobs": arguments.jobs,
                "month": bills.iter().map(|bill| in_json(bill, jobs)).collect::<Vec<_>>(),
                "idle": in_json(&idle, 1.0), "logs": logs,
            }));
            continue;
        }
        let minutes = work.seconds / 60.0;
        print(&format!(
            "{} jobs a month of {} steps and {minutes:.1} minutes in {region}, US dollars by prices of {}, the model's own \
             price not in it",
            arguments.jobs, arguments.steps, list.date
        ))?;
        print(&table(&bills, &idle, logs, jobs))?;
    }
    if arguments.json {
        print(&json!({ "regions": told }).to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn in_json(bill: &Bill, times: f64) -> Value {
    let lines = bill.lines.iter().map(|line| json!({ "for": line.part, "dollars": line.dollars * times }));
    json!({ "on": bill.on, "dollars": bill.total() * times, "lines": lines.collect::<Vec<_>>() })
}

fn table(bills: &[Bill], idle: &Bill, logs: f64, jobs: f64) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["ON", "FOR", "A MONTH", "A JOB"]);
    let mut row = |on: &str, part: &str, month: f64, job: Option<f64>| {
        let job = job.map_or(String::new(), |dollars| format!("{dollars:.7}"));
        table.add_row([on.to_owned(), part.to_owned(), format!("{month:.2}"), job]);
    };
    for bill in bills {
        for line in &bill.lines {
            row(bill.on, line.part, line.dollars * jobs, Some(line.dollars));
        }
        row(bill.on, "all", bill.total() * jobs, Some(bill.total()));
    }
    row("Any", "CloudWatch: logs", logs, None);
    for line in &idle.lines {
        row("Longhaul, idle", line.part, line.dollars, None);
    }
    for column in [2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}
