//! What came of a situation.

use crate::aws;
use crate::setting::Setting;
use crate::world::World;

/// The numbers of one situation.
#[derive(Debug, Clone)]
pub struct Report {
    /// The situation's name.
    pub name: &'static str,
    jobs: usize,
    worker_gb: f64,
    batch: usize,
    /// Jobs that have ended.
    pub ended: usize,
    /// When the last one had, in milliseconds.
    pub drained_ms: u64,
    /// Worker invocations.
    pub invocations: u64,
    /// The most at once.
    pub workers_peak: usize,
    /// The most messages in flight.
    pub in_flight_peak: usize,
    /// Whether SQS's limit of them stopped a poll.
    pub in_flight_reached: bool,
    /// Messages that were received.
    pub messages: usize,
    /// Of those, jobs that had been given back.
    pub continuations: usize,
    /// Heartbeats, with a watchdog message each.
    pub heartbeats: u64,
    /// Time of all invocations together.
    pub billed_ms: u64,
    /// Time of all jobs in them together.
    pub driven_ms: u64,
    /// Writes.
    pub writes: usize,
    /// Of those, writes that had to wait.
    pub throttled: usize,
    /// Of those, the ones that an index shard made wait.
    pub throttled_by_due: usize,
    /// The longest that one had to wait.
    pub longest_write_ms: u64,
    /// Write units.
    pub write_units: f64,
    /// The most in a second.
    pub write_units_peak: f64,
    waits: Vec<(usize, u64)>,
}

impl Report {
    pub(crate) fn new(setting: &Setting) -> Self {
        Self {
            name: setting.name,
            jobs: setting.tenants.iter().map(|crowd| crowd.jobs).sum(),
            worker_gb: setting.worker_gb,
            batch: setting.batch,
            ended: 0,
            drained_ms: 0,
            invocations: 0,
            workers_peak: 0,
            in_flight_peak: 0,
            in_flight_reached: false,
            messages: 0,
            continuations: 0,
            heartbeats: 0,
            billed_ms: 0,
            driven_ms: 0,
            writes: 0,
            throttled: 0,
            throttled_by_due: 0,
            longest_write_ms: 0,
            write_units: 0.0,
            write_units_peak: 0.0,
            waits: Vec::new(),
        }
    }

    pub(crate) fn waited(&mut self, tenant: usize, ms: u64) {
        self.waits.push((tenant, ms));
    }

    /// How long a tenant's jobs waited for their first claim: that of which `percent` percent waited no longer, in
    /// milliseconds.
    #[must_use]
    pub fn wait_ms(&self, tenant: Option<usize>, percent: usize) -> u64 {
        let of = |(whose, _): &&(usize, u64)| tenant.is_none_or(|tenant| tenant == *whose);
        let mut waits: Vec<u64> = self.waits.iter().filter(of).map(|(_, ms)| *ms).collect();
        waits.sort_unstable();
        let rank = waits.len().saturating_mul(percent).div_ceil(100).max(1);
        waits.get(rank - 1).copied().unwrap_or_default()
    }

    /// What all of it cost beside the model, in US dollars.
    #[must_use]
    pub fn dollars(&self) -> f64 {
        let requests = 3.0 * (self.messages as f64 + self.heartbeats as f64);
        self.write_units * aws::WRITE_UNIT_DOLLARS
            + requests * aws::SQS_REQUEST_DOLLARS
            + self.billed_ms as f64 / 1_000.0 * self.worker_gb * aws::LAMBDA_GB_SECOND_DOLLARS
            + (self.invocations + self.heartbeats) as f64 * aws::LAMBDA_REQUEST_DOLLARS
    }

    /// What bounds it, from what was reached.
    #[must_use]
    pub fn wall(&self) -> &'static str {
        let throttled = self.throttled as f64 / self.writes.max(1) as f64;
        if throttled > 0.05 && self.throttled_by_due * 2 > self.throttled {
            "one partition of the index `due`"
        } else if throttled > 0.05 {
            "write units of the table"
        } else if self.in_flight_reached {
            "messages in flight"
        } else if self.in_flight_peak < self.jobs {
            "workers times batch"
        } else {
            "none"
        }
    }

    /// The head of [`Report::row`]'s table.
    pub const HEAD: [&'static str; 2] = [
        "| Setting | all done after | first claim p50 / p99 | jobs in flight | workers | a worker's places in use | write units/s at peak | writes that waited | USD a million jobs | first wall |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ];

    /// The situation as a row.
    #[must_use]
    pub fn row(&self) -> String {
        let used = self.driven_ms as f64 / (self.billed_ms.max(1) as f64 * self.batch as f64);
        format!(
            "| {} | {} | {} / {} | {} | {} | {:.0} % | {} | {:.1} % | {:.0} | {} |",
            self.name,
            span(self.drained_ms),
            span(self.wait_ms(None, 50)),
            span(self.wait_ms(None, 99)),
            grouped(self.in_flight_peak as u64),
            grouped(self.workers_peak as u64),
            used * 100.0,
            grouped(self.write_units_peak as u64),
            self.throttled as f64 / self.writes.max(1) as f64 * 100.0,
            self.dollars() / self.jobs.max(1) as f64 * 1e6,
            self.wall(),
        )
    }
}

/// The two tables of docs/scale.md.
#[must_use]
pub fn tables(many: Vec<Setting>, neighbours: Vec<Setting>) -> String {
    let mut lines: Vec<String> = Report::HEAD.map(str::to_owned).to_vec();
    lines.extend(many.into_iter().map(|setting| World::play(setting).row()));
    lines.push(String::new());
    lines.push("| The ten jobs of the second tenant | wait for their first claim, p50 | p95 |".to_owned());
    lines.push("|---|--:|--:|".to_owned());
    for setting in neighbours {
        let report = World::play(setting);
        let wait = |percent| span(report.wait_ms(Some(1), percent));
        lines.push(format!("| {} | {} | {} |", report.name, wait(50), wait(95)));
    }
    lines.join("\n")
}

/// A time as people read it.
#[must_use]
pub fn span(ms: u64) -> String {
    match ms {
        0..60_000 => format!("{:.0} s", ms as f64 / 1_000.0),
        60_000..7_200_000 => format!("{:.0} min", ms as f64 / 60_000.0),
        _ => format!("{:.1} h", ms as f64 / 3_600_000.0),
    }
}

fn grouped(number: u64) -> String {
    let text = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in text.chars().enumerate() {
        if place > 0 && (text.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
