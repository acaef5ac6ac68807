//! What a soak came to, in numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::audit::Finding;
use super::books::Verdict;
use super::growth::Size;
use super::recovery::{Kill, percentile};

/// What a soak came to.
#[derive(Debug, Clone, Serialize)]
pub struct SoakVerdict {
    /// Whether nothing was lost, doubled, stuck, failed or otherwise wrong. How fast jobs went on is told apart, since that
    /// hangs on what else the machine has to do.
    pub passed: bool,
    /// Decides which processes were killed.
    pub seed: u64,
    /// How long jobs were submitted, in seconds.
    pub load_seconds: f64,
    /// How long the rest took after that, in seconds.
    pub drain_seconds: f64,
    /// Jobs that were accepted.
    pub submitted: u64,
    /// Jobs that completed.
    pub completed: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Accepted jobs that are not there, and submissions that nobody accepted.
    pub lost: u64,
    /// Jobs that had not ended when the wait was over.
    pub stuck: u64,
    /// Jobs completed for each second of load.
    pub completed_per_second: f64,
    /// Steps that were recorded.
    pub steps: u64,
    /// Effects that happened more often than the contract allows.
    pub doubled_effects: u64,
    /// Effects that were asked for again under their own key after a claim, as the contract says.
    pub repeated_effects: u64,
    /// Processes that were killed.
    pub kills: u64,
    /// Kills by function.
    pub kills_of: BTreeMap<String, u64>,
    /// Kills in the midst of a job, counted by job.
    pub jobs_hit: u64,
    /// From the kill of its holder to a job's next entry, in milliseconds.
    pub recovery_p50_ms: Option<u128>,
    /// The same for the slowest hundredth.
    pub recovery_p99_ms: Option<u128>,
    /// The same for the slowest.
    pub recovery_max_ms: Option<u128>,
    /// What the slowest hundredth is held against: the silence that ends a lease, and one distance of the sweeper.
    pub recovery_bound_ms: u128,
    /// Whether it is within that; none: no kill hit a job.
    pub recovery_in_bound: Option<bool>,
    /// Memory of the stack's process when the load began, in MiB.
    pub memory_start_mib: f64,
    /// And when the last job had ended.
    pub memory_end_mib: f64,
    /// The data folder when the load began, in MiB.
    pub disk_start_mib: f64,
    /// And when the last job had ended.
    pub disk_end_mib: f64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// How long a soak took, and how large the stack was before and after.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course {
    pub(super) load_time: Duration,
    pub(super) drain_time: Duration,
    pub(super) before: Size,
    pub(super) after: Size,
}

/// What was seen beside the audit.
pub(super) struct Evidence<'a> {
    pub(super) seed: u64,
    /// Submissions that nobody accepted.
    pub(super) refused: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) kills: &'a [Kill],
    /// From a kill to the next entry, for each job that it hit.
    pub(super) standstills: Vec<Duration>,
    pub(super) recovery_bound: Duration,
    pub(super) course: Course,
}

impl Evidence<'_> {
    /// Sums it up with what the audit found.
    pub(super) fn verdict(self, audited: Verdict) -> SoakVerdict {
        let Course { load_time, drain_time, before, after } = self.course;
        let mut kills_of: BTreeMap<String, u64> = BTreeMap::new();
        for kill in self.kills {
            *kills_of.entry(kill.function.clone()).or_default() += 1;
        }
        let recovery = |percent| percentile(&self.standstills, percent).map(|time| time.as_millis());
        SoakVerdict {
            passed: audited.findings.is_empty(),
            seed: self.seed,
            load_seconds: rounded(load_time.as_secs_f64()),
            drain_seconds: rounded(drain_time.as_secs_f64()),
            submitted: audited.jobs,
            completed: self.completed,
            failed: self.failed,
            lost: audited.count(|finding| matches!(finding, Finding::Lost { .. })) + self.refused,
            stuck: audited.count(|finding| matches!(finding, Finding::Stuck { .. })),
            completed_per_second: rounded(self.completed as f64 / load_time.as_secs_f64().max(1.0)),
            steps: audited.steps,
            doubled_effects: audited.count(|finding| matches!(finding, Finding::Doubled { .. })),
            repeated_effects: audited.asked_again,
            kills: self.kills.len() as u64,
            kills_of,
            jobs_hit: self.standstills.len() as u64,
            recovery_p50_ms: recovery(50),
            recovery_p99_ms: recovery(99),
            recovery_max_ms: recovery(100),
            recovery_bound_ms: self.recovery_bound.as_millis(),
            recovery_in_bound: percentile(&self.standstills, 99).map(|time| time <= self.recovery_bound),
            memory_start_mib: mib(before.memory),
            memory_end_mib: mib(after.memory),
            disk_start_mib: mib(before.disk),
            disk_end_mib: mib(after.disk),
            findings: audited.findings,
        }
    }
}

fn mib(bytes: u64) -> f64 {
    rounded(bytes as f64 / 1_048_576.0)
}

/// To one digit behind the point: nobody measures more finely.
fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
