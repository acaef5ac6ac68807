//! The stack that is measured: `longhaul up` in a process of its own, on a data folder of its own, and what the system's
//! books (`/proc`) say about it and its children.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use longhaul_engine::JobId;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::model::ModelServer;
use super::{BenchError, BenchOptions};
use crate::soak::growth::folder_bytes;
use crate::stack::{Addresses, Issuer, TENANT_DEFAULT, running};

/// How long a stack may take to listen, and how often it is looked at.
const READY_PATIENCE: Duration = Duration::from_secs(60);
const READY_LOOK: Duration = Duration::from_millis(10);
/// Milliseconds of one tick in `/proc`: the kernel tells processor time in units of `USER_HZ`, 100 on x86-64 and arm64.
const TICK_MS: u64 = 10;
/// One tenant does here what a tenant may not do over time.
const LIMITS: &str = r#"{"submissions_per_second": 100000, "submissions_burst": 1000000, "jobs_open": 1000000}"#;
/// The token's lifetime: longer than any bench.
const TOKEN_LIFETIME: Duration = Duration::from_secs(24 * 3_600);

/// A running stack that is measured. It is killed when dropped: its folder goes with it.
pub(super) struct Subject {
    pub(super) addresses: Addresses,
    pub(super) token: String,
    http: reqwest::Client,
    process: Child,
    folder: TempDir,
}

/// One process of the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) id: i32,
    /// The function that it runs; none: the stack itself.
    pub(super) function: Option<String>,
}

impl Subject {
    /// Starts a stack whose jobs ask this model server.
    pub(super) async fn start(options: &BenchOptions, model: &ModelServer) -> Result<Self, BenchError> {
        Self::start_with(options, model, &[]).await
    }

    /// The same with further arguments.
    pub(super) async fn start_with(
        options: &BenchOptions,
        model: &ModelServer,
        arguments: &[&str],
    ) -> Result<Self, BenchError> {
        let folder = tempfile::tempdir().map_err(BenchError::io("no folder can be made for a stack"))?;
        let log = folder.path().join("bench.log");
        let output = std::fs::File::create(&log).map_err(BenchError::io("the stack's log cannot be written"))?;
        let data = folder.path().join("data");
        let mut command = Command::new(&options.program);
        command.arg("--data").arg(&data).args(["--workers", &options.workers.to_string()]).args(arguments);
        if options.durable {
            command.arg("--durable");
        }
        let process = command
            .args(["up", "--port", "0", "--websocket-port", "0"])
            .env("LONGHAUL_MODEL_URL", &model.url)
            .env("LONGHAUL_MODEL", "bench")
            .env("LONGHAUL_TENANT_LIMITS", LIMITS)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(BenchError::io("the stack's log cannot be written"))?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .map_err(BenchError::io("the stack cannot be started"))?;
        let addresses = ready(&data, &log).await?;
        let token = Issuer::open(&data)
            .and_then(|issuer| issuer.mint(TENANT_DEFAULT, "bench", TOKEN_LIFETIME))
            .map_err(|_| BenchError::NotReady { log })?;
        Ok(Self { addresses, token, http: reqwest::Client::new(), process, folder })
    }

    /// Submits one job of `agent-10`; its id, and how long the answer took.
    pub(super) async fn submit(&self, steps: u32, bytes: u64) -> Result<(JobId, Duration), BenchError> {
        let call = self
            .http
            .post(format!("{}/v1/jobs", self.addresses.api))
            .bearer_auth(&self.token)
            .json(&json!({"agent": "agent-10", "input": {"steps": steps, "bytes": bytes}}));
        let sent_at = Instant::now();
        let answer = call.send().await?;
        let (status, body) = (answer.status().as_u16(), answer.text().await?);
        let took = sent_at.elapsed();
        let job = serde_json::from_str::<Value>(&body).ok();
        let job = job.as_ref().and_then(|job| job.get("id")?.as_str()?.parse().ok());
        match job {
            Some(job) if status == 202 => Ok((job, took)),
            Some(_) | None => Err(BenchError::NotAccepted { status, body }),
        }
    }

    /// The stack's process and its children.
    pub(super) fn processes(&self) -> Vec<Process> {
        let Some(root) = self.process.id().and_then(|id| i32::try_from(id).ok()) else { return Vec::new() };
        let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for id in numbers_in(Path::new("/proc")) {
            if let Some(parent) = stat(id).and_then(|fields| fields.get(1)?.parse().ok()) {
                children.entry(parent).or_default().push(id);
            }
        }
        let mut found = vec![Process { id: root, function: None }];
        for id in children.get(&root).into_iter().flatten() {
            let words = std::fs::read_to_string(format!("/proc/{id}/cmdline")).unwrap_or_default();
            let mut words = words.split('\0').skip_while(|word| *word != "function").skip(1);
            found.push(Process { id: *id, function: words.next().map(str::to_owned) });
        }
        found
    }

    /// Processor time of all its processes so far, those of children that ended among them.
    pub(super) fn processor_time(&self) -> Duration {
        let ticks: u64 = self
            .processes()
            .iter()
            .filter_map(|process| {
                let fields = stat(process.id)?;
                // utime and stime of its own; the stack's own children that ended are in cutime and cstime.
                let of = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or_default();
                let ended = if process.function.is_none() { of(13) + of(14) } else { 0 };
                Some(of(11) + of(12) + ended)
            })
            .sum();
        Duration::from_millis(ticks * TICK_MS)
    }

    /// Bytes in memory of the stack and of its functions, each page shared by several counted by its share (PSS).
    pub(super) fn memory(&self) -> (u64, u64) {
        let (mut stack, mut functions) = (0, 0);
        for process in self.processes() {
            let bytes = proportional_bytes(process.id).unwrap_or_default();
            match process.function {
                Some(_) => functions += bytes,
                None => stack += bytes,
            }
        }
        (stack, functions)
    }

    /// Kills the processes of a function. How many there were.
    pub(super) fn kill(&self, function: &str) -> usize {
        let of = |process: &Process| process.function.as_deref() == Some(function);
        let such = self.processes().into_iter().filter(of).filter_map(|process| Pid::from_raw(process.id));
        such.filter(|id| kill_process(*id, Signal::KILL).is_ok()).count()
    }

    /// Bytes in its data folder.
    pub(super) fn disk(&self) -> u64 {
        folder_bytes(self.folder.path())
    }

    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }
}

async fn ready(data: &Path, log: &Path) -> Result<Addresses, BenchError> {
    let give_up_at = Instant::now() + READY_PATIENCE;
    while Instant::now() < give_up_at {
        if let Some(addresses) = running(data) {
            return Ok(addresses);
        }
        sleep(READY_LOOK).await;
    }
    // What was said about it must outlive the folder that is about to go.
    let kept: PathBuf = std::env::temp_dir().join("longhaul-bench.log");
    let _kept = std::fs::copy(log, &kept);
    Err(BenchError::NotReady { log: kept })
}

fn numbers_in(folder: &Path) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The fields of `/proc/ID/stat` behind the command's name, from the state on (man 5 proc).
fn stat(id: i32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(") ")?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn proportional_bytes(id: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1_024)
}
