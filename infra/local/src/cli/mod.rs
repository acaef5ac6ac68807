//! The command line: the stack in a terminal, and everything that a person does with jobs.

mod agents;
mod bench;
mod client;
mod commands;
mod connect;
mod cost;
mod error;
mod follow;
mod functions;
mod output;
mod progress;
mod soak;
mod tables;
mod transfer;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use longhaul_engine::TenantId;

pub use error::CliError;

/// Long AI-agent jobs on serverless AWS, here on this machine.
#[derive(Debug, Parser)]
#[command(name = "longhaul", version, about, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    command: Command,
}

/// Where the stack keeps its data.
#[derive(Debug, Args)]
struct Place {
    /// The data folder; by default one in your user data directory.
    #[arg(long, global = true, env = "LONGHAUL_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// The tenant that you act for.
    #[arg(long, global = true, env = "LONGHAUL_TENANT", default_value = crate::stack::TENANT_DEFAULT)]
    tenant: TenantId,
    #[command(flatten)]
    running: Running,
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
    Run {
        /// The agent, by name or name@version.
        agent: String,
        /// Its input: JSON, or @FILE.
        #[arg(long, value_name = "JSON|@FILE", default_value = "{}")]
        input: String,
        /// Submit under this key: the same key is the same job.
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
        /// Print the job's id and leave it running. Needs a stack that goes on (`longhaul up`).
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Watch a job, from its beginning, until it ends.
    Watch {
        /// The job's id.
        id: String,
        /// Show only what came behind this position.
        #[arg(long, default_value_t = 0)]
        after: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Make a new job out of any step of another one, edited or not, and watch it.
    Fork(Fork),
    /// Jobs: list, show, cancel, signal, replay, export, import, step.
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Jobs that failed for good: list, show, replay.
    #[command(subcommand)]
    DeadLetters(DeadLettersCommand),
    /// Agents: list, show, check a definition, save it.
    #[command(subcommand)]
    Agents(agents::AgentsCommand),
    /// What holds for all jobs of the tenant: how long they are kept.
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Print a token for the API.
    Token {
        /// How long it is good, in hours.
        #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=8_760))]
        hours: u64,
        /// The subject: who is named as having done what is done with it.
        #[arg(long, default_value = "developer")]
        subject: String,
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

#[derive(Debug, Subcommand)]
enum JobsCommand {
    /// List jobs, the newest first.
    Ls {
        /// Only jobs with this status, such as WAITING.
        #[arg(long)]
        status: Option<String>,
        /// Only jobs of this agent.
        #[arg(long)]
        agent: Option<String>,
        /// Only jobs with this label, NAME=VALUE.
        #[arg(long)]
        label: Option<String>,
        /// Only jobs submitted at this time or later, such as 2026-01-31T08:00:00Z.
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only jobs submitted before this time.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Most jobs that are shown.
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
        limit: u16,
        #[command(flatten)]
        output: Output,
    },
    /// Show a job with its steps.
    Show {
        /// The job's id.
        id: String,
        #[command(flatten)]
        output: Output,
    },
    /// Ask a job to end.
    Cancel {
        /// The job's id.
        id: String,
        /// Why.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Send a signal to a job.
    Signal {
        /// The job's id.
        id: String,
        /// The signal's name, such as approval.
        name: String,
        /// What it says, as JSON or @FILE.
        #[arg(long, value_name = "JSON|@FILE", default_value = "null")]
        payload: String,
    },
    /// Open a failed or cancelled job again and watch it.
    Replay(Replay),
    /// Write a job as one JSON file on standard output: its order, its journal, its agent's definition.
    Export {
        /// The job's id.
        id: String,
    },
    /// Bring a job in that was exported elsewhere, to look at and step through. No worker drives it by itself.
    Import {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// Drive an imported job on, step by step, asking the stand-in model. Its tools are real.
    Step {
        /// The job's id.
        id: String,
        /// Open it again first and forget outcomes from this journal position on.
        #[arg(long, value_name = "POSITION")]
        from: Option<u64>,
        /// A new input, as JSON or @FILE; opens it again as well.
        #[arg(long, value_name = "JSON|@FILE")]
        input: Option<String>,
        /// How many outcomes to go on by.
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
        count: u64,
        #[command(flatten)]
        output: Output,
    },
}

#[derive(Debug, Subcommand)]
enum TenantCommand {
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
}

#[derive(Debug, Subcommand)]
enum DeadLettersCommand {
    /// List jobs that failed for good, the newest first.
    Ls {
        #[command(flatten)]
        output: Output,
    },
    /// Show a dead letter with its whole story.
    Show {
        /// The job's id.
        id: String,
        #[command(flatten)]
        output: Output,
    },
    /// Open it again, edited or not, and watch it.
    Replay(Replay),
}

#[derive(Debug, Args)]
struct Fork {
    /// The job that the fork is made of.
    id: String,
    /// Keep nothing from this journal position on.
    #[arg(long, value_name = "POSITION", conflicts_with = "step")]
    from: Option<u64>,
    /// Keep nothing from this step on, by its key such as 3; without --from and --step, all but failed outcomes is kept.
    #[arg(long, value_name = "KEY")]
    step: Option<String>,
    /// A new input, as JSON or @FILE.
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// A new budget of tokens.
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// Another model.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Other instructions, or @FILE.
    #[arg(long, value_name = "TEXT|@FILE")]
    instructions: Option<String>,
    /// Do effects again that were declared to happen once at most.
    #[arg(long)]
    repeat_effects: bool,
    /// Fork under this key: the same key is the same fork.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Do not watch it.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Replay {
    /// The job's id.
    id: String,
    /// A new input, as JSON or @FILE.
    #[arg(long, value_name = "JSON|@FILE")]
    input: Option<String>,
    /// Forget outcomes from this journal position on; by default only failed ones.
    #[arg(long, value_name = "SEQ")]
    from: Option<u64>,
    /// A new budget of tokens.
    #[arg(long, value_name = "N")]
    tokens: Option<u64>,
    /// Do not watch it.
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    output: Output,
}

/// Runs the program.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        // A function is this process and nothing else: no second thread, nothing that delays its first poll.
        Command::Function { name } => functions::run(&name),
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
