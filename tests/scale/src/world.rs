//! The jobs, their workers, and time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use longhaul_engine::limits;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::aws;
use crate::queue::Queue;
use crate::rate::{Gate, Table};
use crate::report::Report;
use crate::setting::Setting;

/// The seed of all thinking times: the same table each time.
const SEED: u64 = 1;
/// The spread of thinking times.
const SIGMA: f64 = 0.6;
/// What a step costs beside the model, in milliseconds: one write and what stands around it.
const OWN_WORK_MS: u64 = 10;
/// How often idle pollers look at the queue.
const POLL_MS: u64 = 1_000;
/// Time before an invocation's end in which no step is begun (see `limits::DEADLINE_RESERVE_MS`).
const RESERVE_MS: u64 = limits::DEADLINE_RESERVE_MS;

/// Write units of what a job does beside its steps: the claim (item, move in `due`, entry), the release (item, move), and
/// the end (entry, item, out of `due`, move in `search`).
const CLAIM_UNITS: f64 = 4.0;
const RELEASE_UNITS: f64 = 3.0;
const END_UNITS: f64 = 5.0;
/// Of those, the units that fall on the job's shard of the index `due`.
const DUE_UNITS: f64 = 2.0;

#[derive(Debug, Clone, Copy)]
struct Job {
    tenant: usize,
    submitted_at: u64,
    steps_left: u32,
    /// When a background answer will be there.
    answer_at: Option<u64>,
    claimed: bool,
}

#[derive(Debug, Clone, Copy)]
struct Worker {
    began: u64,
    /// Messages that it was given, and jobs of those that have not left.
    messages: usize,
    jobs: usize,
    ended_jobs_ms: u64,
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The event source looks at the queue.
    Poll,
    /// A job's model has answered, and its worker has written that down.
    Answered { job: usize, worker: usize },
    /// A job's claim or another write of its own is done; its next step begins.
    Begin { job: usize, worker: usize },
    /// A delayed message becomes visible.
    Visible { job: usize },
}

/// A simulated situation under way.
#[derive(Debug)]
pub struct World {
    setting: Setting,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    jobs: Vec<Job>,
    workers: Vec<Worker>,
    open_workers: usize,
    in_flight: usize,
    allowed: f64,
    allowed_at: u64,
    queue: Queue,
    table: Table,
    due: Vec<Gate>,
    chance: StdRng,
    report: Report,
}

impl World {
    /// Plays a situation to its end.
    #[must_use]
    pub fn play(setting: Setting) -> Report {
        let mut world = Self::new(setting);
        world.at(0, Event::Poll);
        while let Some(Reverse((time, _, event))) = world.events.pop() {
            world.now = time;
            world.happen(event);
            if world.report.ended == world.jobs.len() {
                break;
            }
        }
        world.finish()
    }

    fn new(setting: Setting) -> Self {
        let queue = Queue::new(setting.tenants.len(), setting.fair);
        let (mut jobs, mut arrivals) = (Vec::new(), Vec::new());
        for (tenant, crowd) in setting.tenants.iter().enumerate() {
            for _ in 0..crowd.jobs {
                arrivals.push((crowd.at_ms, jobs.len()));
                jobs.push(Job {
                    tenant,
                    submitted_at: crowd.at_ms,
                    steps_left: setting.steps,
                    answer_at: None,
                    claimed: false,
                });
            }
        }
        let mut world = Self {
            now: 0,
            events: BinaryHeap::new(),
            number: 0,
            jobs,
            workers: Vec::new(),
            open_workers: 0,
            in_flight: 0,
            allowed: aws::BATCHES_FIRST,
            allowed_at: 0,
            queue,
            table: Table::new(setting.warm_write_units),
            due: vec![Gate::new(aws::PARTITION_WRITE_UNITS); usize::from(limits::DUE_SHARDS)],
            chance: StdRng::seed_from_u64(SEED),
            report: Report::new(&setting),
            setting,
        };
        for (at, job) in arrivals {
            world.at(at, Event::Visible { job });
        }
        world
    }

    fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Poll => {
                self.poll();
                self.at(self.now + POLL_MS, Event::Poll);
            }
            Event::Begin { job, worker } => self.begin(job, worker),
            Event::Answered { job, worker } => self.answered(job, worker),
            Event::Visible { job } => {
                let tenant = self.jobs.get(job).map_or(0, |job| job.tenant);
                self.queue.send(tenant, job);
            }
        }
    }

    /// Takes on batches, as many as the event source may.
    fn poll(&mut self) {
        let minutes = (self.now - self.allowed_at) as f64 / 60_000.0;
        self.allowed_at = self.now;
        if self.queue.is_empty() {
            return;
        }
        self.allowed += minutes * aws::BATCHES_MORE_A_MINUTE;
        let most = self.setting.workers.min(aws::BATCHES_MAX).min(aws::CONCURRENCY_OF_ACCOUNT);
        self.allowed = self.allowed.min(most as f64);
        while !self.queue.is_empty() && self.open_workers < self.allowed as usize {
            if self.in_flight + self.setting.batch > aws::IN_FLIGHT_MAX {
                self.report.in_flight_reached = true;
                return;
            }
            self.invoke();
        }
    }

    fn invoke(&mut self) {
        let worker = self.workers.len();
        let batch: Vec<usize> = std::iter::from_fn(|| self.queue.receive()).take(self.setting.batch).collect();
        self.workers.push(Worker { began: self.now, messages: batch.len(), jobs: batch.len(), ended_jobs_ms: 0 });
        self.open_workers += 1;
        self.in_flight += batch.len();
        self.report.invocations += 1;
        self.report.workers_peak = self.report.workers_peak.max(self.open_workers);
        self.report.in_flight_peak = self.report.in_flight_peak.max(self.in_flight);
        self.report.messages += batch.len();
        for job in batch {
            if let Some(state) = self.jobs.get_mut(job)
                && !state.claimed
            {
                state.claimed = true;
                self.report.waited(state.tenant, self.now - state.submitted_at);
            }
            let written = self.write(job, CLAIM_UNITS, DUE_UNITS);
            self.at(written, Event::Begin { job, worker });
        }
    }

    /// Begins the next step, or gives the job back when the invocation has no time for one.
    fn begin(&mut self, job: usize, worker: usize) {
        let Some(state) = self.jobs.get(job).copied() else { return };
        if state.steps_left == 0 {
            self.report.ended += 1;
            let written = self.write(job, END_UNITS, 1.0);
            self.report.drained_ms = self.report.drained_ms.max(written);
            self.leave(worker);
            return;
        }
        if let Some(answer_at) = state.answer_at {
            if let Some(look) = self.setting.background_look_ms.filter(|_| self.now < answer_at) {
                self.release(job, worker, self.now + look);
            } else {
                self.at(self.now + OWN_WORK_MS, Event::Answered { job, worker });
            }
            return;
        }
        let think = self.think();
        if let Some(look) = self.setting.background_look_ms {
            if let Some(state) = self.jobs.get_mut(job) {
                state.answer_at = Some(self.now + think);
            }
            self.write(job, 1.0, 0.0);
            self.release(job, worker, self.now + look);
            return;
        }
        let deadline = self.workers.get(worker).map_or(0, |worker| worker.began) + self.setting.invocation_ms;
        // A step begins where its own time limit still fits.
        if self.now + self.setting.step_limit_ms + RESERVE_MS > deadline {
            self.release(job, worker, self.now);
        } else {
            self.at(self.now + think.min(self.setting.step_limit_ms) + OWN_WORK_MS, Event::Answered { job, worker });
        }
    }

    fn answered(&mut self, job: usize, worker: usize) {
        if let Some(state) = self.jobs.get_mut(job) {
            state.steps_left -= 1;
            state.answer_at = None;
        }
        let units = f64::from(self.setting.step_bytes.div_ceil(1_024));
        let written = self.write(job, units, 0.0);
        self.at(written, Event::Begin { job, worker });
    }

    /// Gives a job back: its message comes again at this time.
    fn release(&mut self, job: usize, worker: usize, visible_at: u64) {
        let written = self.write(job, RELEASE_UNITS, DUE_UNITS);
        self.report.continuations += 1;
        self.at(visible_at.max(written), Event::Visible { job });
        self.leave(worker);
    }

    /// A job has left its worker; the last one ends the invocation, and only then are the messages deleted.
    fn leave(&mut self, worker: usize) {
        let now = self.now;
        let Some(state) = self.workers.get_mut(worker) else { return };
        state.jobs -= 1;
        state.ended_jobs_ms += now - state.began;
        if state.jobs == 0 {
            let took = now - state.began;
            self.in_flight -= state.messages;
            self.report.billed_ms += took;
            self.report.driven_ms += state.ended_jobs_ms;
            self.open_workers -= 1;
            self.report.heartbeats += took / limits::HEARTBEAT_INTERVAL_MS;
            self.table.take((took / limits::HEARTBEAT_INTERVAL_MS) as f64, now);
            if !self.queue.is_empty() && self.open_workers < self.allowed as usize {
                self.invoke();
            }
        }
    }

    /// Writes so many units, of which some fall on the job's shard of `due`; when that is done.
    fn write(&mut self, job: usize, units: f64, due_units: f64) -> u64 {
        let shard = job % self.due.len().max(1);
        let due_wait = self.due.get(shard).filter(|_| due_units > 0.0).map_or(0.0, |gate| gate.wait_ms(self.now));
        let wait = self.table.wait_ms(self.now).max(due_wait);
        self.report.writes += 1;
        if wait > 0.0 {
            self.report.throttled += 1;
            self.report.throttled_by_due += usize::from(due_wait >= wait);
        }
        self.report.longest_write_ms = self.report.longest_write_ms.max(wait as u64);
        self.table.take(units, self.now);
        if let Some(gate) = self.due.get_mut(shard).filter(|_| due_units > 0.0) {
            gate.take(due_units, self.now);
        }
        self.now + OWN_WORK_MS + wait as u64
    }

    /// How long the model thinks: log-normal, by the sum of twelve even chances (Irwin–Hall) for a normal one.
    fn think(&mut self) -> u64 {
        let normal: f64 = (0..12).map(|_| self.chance.random::<f64>()).sum::<f64>() - 6.0;
        (self.setting.think_median_ms * (SIGMA * normal).exp()) as u64
    }

    fn finish(mut self) -> Report {
        self.report.write_units = self.table.units;
        self.report.write_units_peak = self.table.peak;
        self.report
    }
}
