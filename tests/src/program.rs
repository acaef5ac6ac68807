//! The `longhaul` program as a person runs it: a stack of its own in a folder of its own, killed at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// How long anything may take before a test gives up on it. Two cores and a debug build are slow under load.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How often a condition outside of this process is looked at again, where nothing tells of it.
const LOOK: Duration = Duration::from_millis(25);

/// The program, which `make test` builds first.
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn longhaul() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("longhaul");
    assert!(program.exists(), "{} is not there; run `make test`, or `cargo build --bins` first", program.display());
    program
}

/// A data folder, and the stack that runs on it, if one does.
pub struct Stack {
    folder: TempDir,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    process: Option<Child>,
}

impl Stack {
    /// Starts a stack with these further arguments of `longhaul up`.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn up(arguments: &[&str]) -> Self {
        Self::up_with(arguments, &[])
    }

    /// Starts a stack with these further arguments and variables; its commands see the variables, too.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn up_with(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::up_on(TempDir::new().unwrap(), arguments, variables)
    }

    /// Starts a stack on a data folder that holds something already.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn up_on(folder: TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let variables = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut stack = Self { folder, arguments, variables, process: None };
        stack.start();
        stack
    }

    /// Starts it (again) on the same folder.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(&mut self) {
        let log = fs::File::create(self.data().join("up.log")).unwrap();
        let process = self
            .command()
            .args(["up", "--port", "0", "--websocket-port", "0"])
            .args(&self.arguments)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let pid = process.id();
        self.process = Some(process);
        wait_for("the stack to say where it listens", || self.said().is_some_and(|said| said["pid"] == pid));
    }

    /// Kills it as a power cut would.
    ///
    /// # Panics
    /// When there is none.
    pub fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// The data folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        self.folder.path()
    }

    fn said(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.data().join("stack.json")).ok()?).ok()
    }

    /// Where something listens: `api`, `websocket`, `rehearsal`, `dynamodb`, `sqs`.
    ///
    /// # Panics
    /// When the stack has not said so.
    #[must_use]
    pub fn address(&self, of: &str) -> String {
        self.said().unwrap()[of].as_str().unwrap().to_owned()
    }

    /// A command of the program on this folder.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(longhaul());
        // Nothing of the person who runs the tests: no key of theirs, no folder of theirs.
        for (name, _) in std::env::vars() {
            if name.starts_with("LONGHAUL_") || name.ends_with("_API_KEY") || name.starts_with("AWS_") {
                command.env_remove(name);
            }
        }
        command.env("LONGHAUL_DATA", self.data()).stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command to its end.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// Runs a command that prints one JSON object, and checks that it prints nothing else.
    ///
    /// # Panics
    /// When it fails or prints something else.
    #[must_use]
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{said}"))
    }

    /// Submits a job and leaves it running; its id.
    ///
    /// # Panics
    /// When it is refused.
    #[must_use]
    pub fn submit(&self, agent: &str, input: &Value) -> String {
        let output = self.run(&["run", agent, "--input", &input.to_string(), "--detach"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A job and its journal.
    #[must_use]
    pub fn show(&self, id: &str) -> Value {
        self.json(&["jobs", "show", id, "--json"])
    }

    /// A token for a tenant.
    ///
    /// # Panics
    /// When none is printed.
    #[must_use]
    pub fn token(&self, tenant: &str) -> String {
        let output = self.run(&["token", "--tenant", tenant]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Waits until a job has ended, and gives it with its journal.
    ///
    /// # Panics
    /// When it does not end.
    #[must_use]
    pub fn ended(&self, id: &str) -> Value {
        let watched = self.run(&["watch", id, "--json"]);
        let job = self.show(id);
        let over = ["COMPLETED", "FAILED", "CANCELLED"].contains(&job["job"]["status"].as_str().unwrap());
        assert!(over, "{job}\n{}", String::from_utf8_lossy(&watched.stderr));
        job
    }

    /// How often the stand-in model was asked, by the stable key that each step sends.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn model_requests(&self) -> BTreeMap<String, usize> {
        let base = self.address("rehearsal");
        let url = format!("{}/rehearsal/requests", base.trim_end_matches("/v1"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let requests: Vec<Value> = runtime.block_on(async { reqwest::get(url).await.unwrap().json().await.unwrap() });
        let mut counts = BTreeMap::new();
        for request in requests {
            let key = request["idempotency_key"].as_str().unwrap_or_else(|| panic!("{request}")).to_owned();
            *counts.entry(key).or_default() += 1;
        }
        counts
    }

    /// The processes that run a function now.
    ///
    /// # Panics
    /// When the stack does not run.
    #[must_use]
    pub fn processes(&self, function: &str) -> Vec<u32> {
        let stack = self.process.as_ref().unwrap().id();
        let words = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        children_of(stack)
            .into_iter()
            .filter(|pid| words(*pid).split('\0').collect::<Vec<_>>().ends_with(&["function", function, ""]))
            .collect()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _gone_already = process.kill();
            let _gone = process.wait();
        }
    }
}

fn children_of(parent: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent_of = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok());
        if parent_of == Some(parent) {
            children.push(pid);
        }
    }
    children
}

/// Kills a process with SIGKILL.
///
/// # Panics
/// When `kill` cannot be run.
pub fn kill(pid: u32) {
    let killed = Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
    assert!(killed.success(), "process {pid} was not there to be killed");
}

/// Waits for something that happens in other processes and that nothing tells of.
///
/// # Panics
/// When it does not happen.
pub fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let since = Instant::now();
    while !happened() {
        assert!(since.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(LOOK);
    }
}

/// Waits until something outside of this process is there.
///
/// # Panics
/// When it does not come.
pub fn wait_for_some<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_for(what, || {
        found = look();
        found.is_some()
    });
    found.unwrap()
}

/// The entries of a journal with this type, as `jobs show --json` prints them.
#[must_use]
pub fn entries<'a>(job: &'a Value, kind: &str) -> Vec<&'a Value> {
    let all = job["journal"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|view| &view["entry"]).filter(|entry| entry["type"] == kind).collect()
}
