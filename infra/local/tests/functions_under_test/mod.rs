//! The functions that the tests of the embedded stack invoke: real processes of `examples/echo_function.rs`.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its own part of this module")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up must fail")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_local::lambda::functions::{Function, FunctionConfig, Functions, FunctionsConfig};
use serde_json::Value;
use tempfile::TempDir;

/// Long enough for anything on a busy machine; reached only by a failing test.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A platform with a data folder of its own.
pub struct Platform {
    pub functions: Functions,
    pub data: TempDir,
}

impl Platform {
    pub async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut FunctionsConfig)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = FunctionsConfig::new(data.path());
        change(&mut config);
        let functions = Functions::start(config).await.unwrap();
        Self { functions, data }
    }

    pub async fn add(&self, change: impl FnOnce(&mut FunctionConfig)) -> Function {
        let mut config = echo();
        config.env.insert("ECHO_RECORD".to_owned(), self.record().display().to_string());
        change(&mut config);
        self.functions.add(config).await.unwrap()
    }

    fn record(&self) -> PathBuf {
        self.data.path().join("events.jsonl")
    }

    /// All events that the functions of this platform have been given, in order.
    pub fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.record()).unwrap_or_default();
        // A long line is written in pieces: what has no end yet is still being written.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until that many events have come in, and tells them.
    pub async fn events_after(&self, count: usize) -> Vec<Value> {
        eventually("events", || {
            let events = self.events();
            (events.len() >= count).then_some(events)
        })
        .await
    }

    /// The log of a function.
    pub fn log(&self, function: &str) -> String {
        std::fs::read_to_string(self.data.path().join("logs").join(format!("{function}.log"))).unwrap_or_default()
    }
}

/// The echo function with usual bounds.
pub fn echo() -> FunctionConfig {
    FunctionConfig {
        name: "echo".to_owned(),
        program: program(),
        args: Vec::new(),
        env: BTreeMap::new(),
        timeout: PATIENCE,
        memory_mb: 256,
        max_concurrency: 4,
        per_process: 1,
        patience: Duration::ZERO,
        env_in_turn: Vec::new(),
    }
}

/// Where cargo puts the example: beside the folder of the test programs.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let program = folder.join("examples").join("echo_function");
    assert!(program.exists(), "{} is missing; `cargo test -p longhaul-local` builds it", program.display());
    program
}

/// Looks again and again until there is something to see. For conditions that nobody announces.
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = std::time::Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process of this id exists and is no zombie.
pub fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}
