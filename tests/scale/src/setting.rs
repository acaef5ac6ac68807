//! What is asked of the system, and how it is set up.

use longhaul_engine::limits;

use crate::aws;

/// One tenant's jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    /// How many.
    pub jobs: usize,
    /// When all of them are submitted, in milliseconds.
    pub at_ms: u64,
}

/// A simulated situation.
#[derive(Debug, Clone)]
pub struct Setting {
    /// What it is called in the table.
    pub name: &'static str,
    /// The tenants.
    pub tenants: Vec<Crowd>,
    /// Steps of each job.
    pub steps: u32,
    /// How long the model thinks about a step, at the median, in milliseconds. Times are log-normal with a `sigma` of
    /// 0.6: a tenth takes more than twice as long.
    pub think_median_ms: f64,
    /// The most that a step may take (its time limit); a step begins where that fits into the invocation.
    pub step_limit_ms: u64,
    /// Bytes of a step's outcome.
    pub step_bytes: u32,
    /// Jobs that one invocation drives at most (`QueueBatchSize`).
    pub batch: usize,
    /// Invocations at once (`WorkerConcurrencyMax`).
    pub workers: usize,
    /// How long an invocation may take, in milliseconds (`WorkerTimeoutSeconds`).
    pub invocation_ms: u64,
    /// Memory of the worker, in gigabytes.
    pub worker_gb: f64,
    /// Write units a second that the table takes from the start (its warm throughput).
    pub warm_write_units: f64,
    /// Whether the queue is a fair one: the message's group is its tenant.
    pub fair: bool,
    /// Whether the model works in the background, and if so how often it is looked whether the answer is there: the job is
    /// released while the model thinks.
    pub background_look_ms: Option<u64>,
}

impl Setting {
    /// The template's defaults with so many jobs of one tenant: ten steps, of which a model thinks 20 s at the median, so
    /// that a job waits for its model for more than 95 % of its time.
    #[must_use]
    pub fn new(name: &'static str, jobs: usize) -> Self {
        Self {
            name,
            tenants: vec![Crowd { jobs, at_ms: 0 }],
            steps: 10,
            think_median_ms: 20_000.0,
            step_limit_ms: limits::STEP_TIME_LIMIT_DEFAULT_MS,
            step_bytes: 2_000,
            batch: 10,
            workers: 50,
            invocation_ms: 900_000,
            worker_gb: 0.5,
            warm_write_units: aws::WARM_WRITE_UNITS,
            fair: true,
            background_look_ms: None,
        }
    }
}

/// How many jobs docs/scale.md speaks of.
const MANY: usize = 100_000;

/// The situations of docs/scale.md.
#[must_use]
pub fn all() -> Vec<Setting> {
    let many = |name| Setting::new(name, MANY);
    let wide = |name| Setting { workers: aws::BATCHES_MAX, ..many(name) };
    let deep = |name| Setting { batch: 100, worker_gb: 1.0, ..wide(name) };
    let slow = |name| Setting {
        think_median_ms: 300_000.0,
        step_limit_ms: 600_000,
        steps: 3,
        warm_write_units: 16_000.0,
        ..deep(name)
    };
    vec![
        many("the template as it comes"),
        wide("1,000 workers"),
        deep("1,000 workers of 100 jobs"),
        Setting { warm_write_units: 16_000.0, ..deep("… and a table warmed for 16,000 units") },
        slow("the same, three steps of 5 min"),
        Setting { background_look_ms: Some(60_000), workers: 100, ..slow("the same in the background, 100 workers") },
    ]
}

/// Ten jobs of a tenant on the template as it comes, twenty minutes after another tenant has submitted 10,000: alone, with
/// a fair queue, and with one line for all.
#[must_use]
pub fn neighbours() -> Vec<Setting> {
    let of = |name, crowd, fair| Setting {
        tenants: vec![Crowd { jobs: crowd, at_ms: 0 }, Crowd { jobs: 10, at_ms: 20 * 60_000 }],
        fair,
        ..Setting::new(name, 0)
    };
    vec![
        of("alone", 0, true),
        of("beside 10,000, fair queue", 10_000, true),
        of("beside 10,000, one line", 10_000, false),
    ]
}
