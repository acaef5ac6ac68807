//! The command line: the stack in a terminal, and everything that a person does with jobs.

mod agents;
mod asking;
mod bench;
mod client;
mod commands;
mod connect;
mod cost;
mod credentials;
mod dead_letters;
mod deployment;
mod error;
mod follow;
mod functions;
mod jobs;
mod login;
mod output;
mod progress;
mod run;
mod schedules;
mod screen;
mod soak;
mod story;
mod tables;
mod tenant;
mod transfer;
mod typed;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use longhaul_engine::TenantId;

pub use error::CliError;

/// Long AI-agent jobs on serverless AWS: a stack on this machine, or any deployment (--url).
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, about, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    command: Command,
}

/// Which stack or deployment.
#[derive(Debug, Args)]
struct Place {
    #[command(flatten)]
    target: deployment::Target,
    /// The data folder; by default one in your user data directory.
    #[arg(long, global = true, env = "LONGHAUL_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// The tenant that you act for.
    #[arg(long, global = true, env = "LONGHAUL_TENANT", default_value = crate::stack::TENANT_DEFAULT)]
    tenant: TenantId,
    #[command(flatten)]
    running: Running,
    #[arg(skip)]
    typed: typed::Typed,
}

/// How a stack runs that this command starts.
#[derive(Debug, Args, Clone)]
struct Running {
    /// Longest invocation of the worker, in seconds (Lambda allows 900).
    #[arg(long, global = true, default_value_t = 900, value_parser = clap::value_parser!(u64).range(2..=900))]
    worker_timeout_seconds: u64,
    /// Worker processes at once.
    #[arg(long, global = true, default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=64))]
    workers: u16,
    /// Behave as AWS where the stack could do better: nobody sees a worker die, its messages stay invisible, the
    /// sweeper comes once a minute.
    #[arg(long, global = true)]
    as_aws: bool,
    /// Have every commit of the table and the queues reach the disk before it is answered. Without it an answered write
    /// survives the death of every process, but the last ones may not survive a power failure.
    #[arg(long, global = true)]
    durable: bool,
    /// Time that the stand-in model takes for an answer, in milliseconds.
    #[arg(long, global = true, default_value_t = 150, value_name = "MS")]
    think_ms: u64,
    /// Pace at which the stand-in model's answers stream in, in tokens a second; at once when not given.
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tokens_per_second: Option<u32>,
    #[command(flatten)]
    faults: FaultArguments,
}

/// What goes wrong on purpose.
#[derive(Debug, Args, Clone)]
struct FaultArguments {
    /// Have the stores go wrong by this plan, JSON or @FILE; `{}` to order faults later. See docs/running.md.
    #[arg(long, global = true, env = "LONGHAUL_FAULTS", value_name = "JSON|@FILE")]
    faults: Option<String>,
    /// Set the clocks of worker processes wrong by these seconds, in turn, such as -90,0,90.
    #[arg(long, global = true, value_name = "SECONDS", value_delimiter = ',', allow_hyphen_values = true, hide = true)]
    worker_clock_offsets_seconds: Vec<i64>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve on 127.0.0.1 until Ctrl-C; prints the addresses and a token.
    Up {
        /// The port of the API.
        #[arg(long, default_value_t = 4780)]
        port: u16,
        /// The port of the WebSocket API.
        #[arg(long, default_value_t = 4781)]
        websocket_port: u16,
    },
    /// Research a topic in a folder of documents and write a cited report.
    Research {
        /// What to find out.
        topic: String,
        /// A folder of .md, .txt, .html and .pdf files; by default the one that comes with Longhaul.
        #[arg(long, value_name = "DIR")]
        corpus: Option<PathBuf>,
        /// Most sources that are read.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=10))]
        sources: Option<u8>,
        #[command(flatten)]
        output: Output,
    },
    /// Run any agent and watch it.
    Run(Box<run::Run>),
    /// Watch a job, from its beginning, until it ends: a live view in a terminal, lines elsewhere.
    Watch {
        /// The job's id.
        id: String,
        /// Show only what came behind this position.
        #[arg(long, default_value_t = 0)]
        after: u64,
        /// Lines, also in a terminal.
        #[arg(long)]
        plain: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Make a new job out of any step of another one, edited or not, and watch it.
    Fork(jobs::Fork),
    /// Jobs: list, show, cancel, signal, replay, webhook deliveries, export, import, step.
    #[command(subcommand)]
    Jobs(jobs::JobsCommand),
    /// Jobs that failed for good: list, show, replay one or all that match.
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLettersCommand),
    /// Agents: list, show, check a definition, save it.
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// Schedules, whose jobs are submitted by the clock: list, show, put, pause, resume, delete.
    #[command(subcommand)]
    Schedules(schedules::SchedulesCommand),
    /// The tenant as a whole: how long its jobs are kept; erase all that it has.
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Log in at a deployment (--url) with its identity provider; the token is kept for later commands.
    Login(login::LoginArguments),
    /// Forget the token of a deployment (--url).
    Logout,
    /// Print what makes your shell complete this program's commands.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Print a token for the API of the stack on this machine.
    Token {
        /// How long it is good, in hours.
        #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=8_760))]
        hours: u64,
        /// The subject: who is named as having done what is done with it.
        #[arg(long, default_value = "developer")]
        subject: String,
        #[command(flatten)]
        output: Output,
    },
    /// Reckon what a month of jobs costs on AWS, by service, beside durable functions and Step Functions.
    Cost(cost::CostArguments),
    /// Load a stack of its own with jobs, kill its processes at random, and judge: nothing lost, nothing doubled?
    Soak(soak::SoakArguments),
    /// Measure what a step, a wait and a crash cost on this machine, on stacks of its own.
    Bench(bench::BenchArguments),
    /// Run one of the Lambda functions; the stack starts these.
    #[command(hide = true)]
    Function {
        /// Which.
        name: String,
    },
}

#[derive(Debug, Args, Clone, Copy)]
struct Output {
    /// Print one JSON object on standard output and nothing else.
    #[arg(long)]
    json: bool,
}

/// Runs the program.
#[must_use]
pub fn run() -> ExitCode {
    let matches = Arguments::command().get_matches();
    let mut arguments =
        Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut Arguments::command()).exit());
    arguments.place.typed = typed::Typed::of(&matches);
    let done = match arguments.command {
        // A function is this process and nothing else: no second thread, nothing that delays its first poll.
        Command::Function { name } => functions::run(&name),
        Command::Completion { shell } => completion(shell),
        command => {
            tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::Runtime).and_then(
                |runtime| {
                    let done = runtime.block_on(commands::run(arguments.place, command));
                    // A thread that is still blocked in a file must not keep the person waiting.
                    runtime.shutdown_timeout(Duration::from_secs(2));
                    done
                },
            )
        }
    };
    match done {
        Ok(code) => code,
        Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            error.print();
            ExitCode::FAILURE
        }
    }
}

/// Prints what a shell reads to complete this program's commands.
fn completion(shell: Shell) -> Result<ExitCode, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "longhaul", &mut text);
    output::print(String::from_utf8_lossy(&text).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_well_formed() {
        Arguments::command().debug_assert();
    }
}
