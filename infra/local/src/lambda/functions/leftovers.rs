//! The pid file: which processes are ours, so that a stack that was killed can be cleared up after.
//!
//! Function processes end with their stack by themselves (see [`crate::lambda::die_with_parent`]); this file is for
//! those that do not. A process id alone proves nothing, since the kernel gives it out again, so each is kept together
//! with the command line and the start time that the kernel reports for it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

/// How often and how far apart the kernel is asked for the command line of a new process: a program counts as started
/// a moment before its arguments are in place.
const FINGERPRINT_TRIES: u32 = 100;
const FINGERPRINT_PAUSE: Duration = Duration::from_millis(2);

/// What tells one process from a later one with the same id.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Fingerprint {
    /// The command line as the kernel keeps it, its zero bytes shown as spaces.
    command: String,
    /// Start time in clock ticks since the machine started.
    started: String,
}

#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
    living: Mutex<BTreeMap<u32, Fingerprint>>,
}

impl PidFile {
    /// Ends whatever the file still names and truly is what the file says, and starts an empty file.
    pub(super) async fn open(path: PathBuf) -> io::Result<Self> {
        for (pid, recorded) in read(&path).await? {
            if fingerprint(pid).await.is_some_and(|found| found == recorded) {
                end(pid);
            }
        }
        let file = Self { path, living: Mutex::default() };
        file.write(&BTreeMap::new()).await?;
        Ok(file)
    }

    /// Notes a process that was just started. A failure is logged: the function runs all the same.
    pub(super) async fn add(&self, pid: u32) {
        for _ in 0..FINGERPRINT_TRIES {
            match fingerprint(pid).await {
                Some(found) if found.command.is_empty() => tokio::time::sleep(FINGERPRINT_PAUSE).await,
                Some(found) => return self.change(|living| living.insert(pid, found)).await,
                None => return,
            }
        }
        tracing::warn!(pid, "a function process shows no command line and is not noted for a later start");
    }

    /// Forgets a process that has ended.
    pub(super) async fn remove(&self, pid: u32) {
        self.change(|living| living.remove(&pid)).await;
    }

    async fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<u32, Fingerprint>) -> T) {
        // The lock is held over the write, so that the newest state is also the last one written.
        let mut living = self.living.lock().await;
        change(&mut living);
        if let Err(error) = self.write(&living).await {
            tracing::warn!(%error, path = %self.path.display(), "the list of function processes was not saved");
        }
    }

    async fn write(&self, living: &BTreeMap<u32, Fingerprint>) -> io::Result<()> {
        let text = serde_json::to_vec(living)?;
        let draft = self.path.with_extension("pids.new");
        tokio::fs::write(&draft, text).await?;
        tokio::fs::rename(&draft, &self.path).await
    }
}

async fn read(path: &Path) -> io::Result<BTreeMap<u32, Fingerprint>> {
    match tokio::fs::read(path).await {
        // A file that cannot be read was cut by a crash; then nothing is known, and nothing is ended.
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

/// What the kernel says about a process; nothing when there is none, or no `/proc`.
async fn fingerprint(pid: u32) -> Option<Fingerprint> {
    let command = tokio::fs::read(format!("/proc/{pid}/cmdline")).await.ok()?;
    let stat = tokio::fs::read_to_string(format!("/proc/{pid}/stat")).await.ok()?;
    // The second field is the program's name in brackets and may hold anything; the start time is field 22.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    if fields.next() == Some("Z") {
        // Dead, and only not yet waited for.
        return None;
    }
    let started = fields.nth(18)?.to_owned();
    let command = String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned();
    Some(Fingerprint { command, started })
}

fn end(pid: u32) {
    let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    match kill_process(target, Signal::KILL) {
        Ok(()) => tracing::info!(pid, "ended a function process of an earlier run"),
        Err(error) => tracing::warn!(pid, %error, "a function process of an earlier run could not be ended"),
    }
}
