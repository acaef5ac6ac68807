//! Whether a tenant may submit one job more, by what a process knows of what the tenant uses.
//!
//! The book of a tenant's use stands in the store, and a submission must not wait for it. So a process decides by what it
//! knows, writes what it admitted into the book beside the submission itself, in blocks while the limits are far, and
//! learns from the answer what others have admitted. Everything admitted is written down, also what was one too many, so
//! that over time no more comes through than the limits say; in a burst each process may let one block more through.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::time::Timestamp;

/// What one tenant may use at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TenantLimits {
    /// Jobs that have not ended.
    pub jobs_open: u64,
    /// Submissions a second, over time.
    pub submissions_per_second: u32,
    /// Submissions that may come at once.
    pub submissions_burst: u32,
    /// Bytes of a submission's body.
    pub body_bytes: usize,
    /// WebSocket connections at a time.
    pub connections: u64,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self {
            jobs_open: limits::TENANT_JOBS_OPEN_DEFAULT,
            submissions_per_second: limits::TENANT_SUBMISSIONS_PER_SECOND_DEFAULT,
            submissions_burst: limits::TENANT_SUBMISSIONS_BURST_DEFAULT,
            body_bytes: limits::BODY_BYTES_MAX,
            connections: limits::TENANT_CONNECTIONS_DEFAULT,
        }
    }
}

impl TenantLimits {
    /// Microseconds that one submission takes of the rate.
    #[must_use]
    pub const fn interval_micros(&self) -> u64 {
        let rate = if self.submissions_per_second == 0 { 1 } else { self.submissions_per_second };
        let micros = 1_000_000 / rate as u64;
        // A rate above a million a second is as good as none.
        if micros == 0 { 1 } else { micros }
    }

    const fn burst_micros(&self) -> u64 {
        let burst = if self.submissions_burst == 0 { 1 } else { self.submissions_burst };
        self.interval_micros().saturating_mul(burst as u64)
    }
}

/// A tenant's limits, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// [`TenantLimits::jobs_open`].
    JobsOpen,
    /// [`TenantLimits::submissions_per_second`].
    SubmissionsPerSecond,
    /// [`TenantLimits::connections`].
    Connections,
}

impl Limit {
    /// The limit's name on the wire and in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JobsOpen => "jobs_open",
            Self::SubmissionsPerSecond => "submissions_per_second",
            Self::Connections => "connections",
        }
    }
}

/// What the store knows of a tenant's use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Use {
    /// When the submissions so far are used up at the tenant's rate, in microseconds since the Unix epoch: the theoretical
    /// arrival time of the generic cell rate algorithm (ITU-T I.371), which is a token bucket in one number.
    pub rate_at_micros: u64,
    /// Jobs that have not ended, as far as they were counted.
    pub open: u64,
}

/// What a process knows of a tenant's use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Known {
    /// What the store said last; none: nothing yet.
    pub told: Option<(Use, Timestamp)>,
    /// What was admitted here and is not written down yet.
    pub unwritten: u32,
    /// What is being written down: another submission of the same process must not write it once more.
    pub writing: u32,
}

/// What is said to a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may come in; `write` when what was admitted is to be written down now.
    Admit {
        /// Whether to write.
        write: bool,
    },
    /// By what is known, too much is open; but that is old, so ask before you refuse.
    Ask,
    /// It may not.
    Refuse {
        /// Which limit stands in the way.
        limit: Limit,
        /// Its value.
        value: u64,
        /// When to come again.
        retry_after: Duration,
    },
}

impl Known {
    /// Decides about one submission, which counts as admitted when it is.
    pub fn admit(&mut self, limits: &TenantLimits, now: Timestamp) -> Verdict {
        let verdict = self.decide(limits, now);
        if let Verdict::Admit { .. } = verdict {
            self.unwritten = self.unwritten.saturating_add(1);
        }
        verdict
    }

    /// Whether the tenant's whole burst was free when the store was last asked, by which the next write is formed.
    #[must_use]
    pub fn was_idle(&self, now: Timestamp) -> bool {
        self.told.is_none_or(|(told, _)| told.rate_at_micros <= now.as_millis().saturating_mul(1_000))
    }

    /// Takes what is to be written down; its writer says what became of it, by [`Known::written`] or [`Known::not_written`].
    pub const fn take_unwritten(&mut self) -> u32 {
        let count = self.unwritten;
        self.writing = self.writing.saturating_add(count);
        self.unwritten = 0;
        count
    }

    /// The store has answered to what was written.
    pub const fn written(&mut self, count: u32, told: Use, now: Timestamp) {
        self.writing = self.writing.saturating_sub(count);
        self.told = Some((told, now));
    }

    /// What was taken to be written down was not: it is written with the next.
    pub const fn not_written(&mut self, count: u32) {
        self.writing = self.writing.saturating_sub(count);
        self.unwritten = self.unwritten.saturating_add(count);
    }

    fn decide(&self, limits: &TenantLimits, now: Timestamp) -> Verdict {
        // Whoever knows nothing lets one in, and learns by writing it down with the second: a process that was just
        // started has enough to do.
        let Some((told, at)) = self.told else {
            return Verdict::Admit { write: self.unwritten > 0 && self.writing == 0 };
        };
        let now_micros = now.as_millis().saturating_mul(1_000);
        let untold = u64::from(self.unwritten.saturating_add(self.writing));
        let used = told.rate_at_micros.max(now_micros).saturating_add(untold.saturating_mul(limits.interval_micros()));
        let ahead = used.saturating_sub(now_micros);
        let room = limits.burst_micros().saturating_sub(ahead);
        if room < limits.interval_micros() {
            let wait = ahead.saturating_add(limits.interval_micros()).saturating_sub(limits.burst_micros());
            let value = u64::from(limits.submissions_per_second);
            return refuse(Limit::SubmissionsPerSecond, value, Duration::from_micros(wait));
        }
        let open = told.open.saturating_add(untold);
        let age = now.since(at);
        if open >= limits.jobs_open {
            if age >= Duration::from_millis(limits::TENANT_USE_FRESH_MS) {
                return Verdict::Ask;
            }
            return refuse(
                Limit::JobsOpen,
                limits.jobs_open,
                Duration::from_secs(limits::TENANT_JOBS_OPEN_RETRY_SECONDS),
            );
        }
        // An eighth of what is left: eight processes together stay within it.
        let left = (limits.jobs_open.saturating_sub(open)).min(room / limits.interval_micros());
        let block = (left / 8).clamp(1, limits::TENANT_BLOCK_MAX);
        let old = age >= Duration::from_millis(limits::TENANT_USE_KNOWN_MS);
        Verdict::Admit { write: old || u64::from(self.unwritten).saturating_add(1) >= block }
    }
}

const fn refuse(limit: Limit, value: u64, retry_after: Duration) -> Verdict {
    Verdict::Refuse { limit, value, retry_after }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    const LIMITS: TenantLimits = TenantLimits {
        jobs_open: 1_000,
        submissions_per_second: 10,
        submissions_burst: 20,
        body_bytes: 1,
        connections: 1,
    };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_795_953_600_000 + millis)
    }

    /// A store's book and some processes that go by it.
    struct World {
        book: Use,
        processes: Vec<Known>,
        writes: u64,
    }

    impl World {
        fn of(processes: usize) -> Self {
            Self { book: Use::default(), processes: vec![Known::default(); processes], writes: 0 }
        }

        fn submit(&mut self, process: usize, limits: &TenantLimits, now: Timestamp) -> Verdict {
            let Some(known) = self.processes.get_mut(process) else { panic!("no process {process}") };
            let verdict = known.admit(limits, now);
            if let Verdict::Admit { write: true } = verdict {
                let count = known.take_unwritten();
                let start = self.book.rate_at_micros.max(now.as_millis() * 1_000);
                self.book.rate_at_micros = start + u64::from(count) * limits.interval_micros();
                self.book.open += u64::from(count);
                known.written(count, self.book, now);
                self.writes += 1;
            }
            verdict
        }
    }

    #[test]
    fn what_is_being_written_is_written_once() {
        let mut known = Known::default();
        let admit = |known: &mut Known| matches!(known.admit(&LIMITS, at(0)), Verdict::Admit { write: true });
        // The first is let in unwritten; the second writes both; while it does, others are let in and write nothing.
        assert!(!admit(&mut known));
        assert!(admit(&mut known));
        assert_eq!(known.take_unwritten(), 2);
        assert!(!admit(&mut known) && !admit(&mut known));
        assert_eq!((known.unwritten, known.writing), (2, 2));
        known.not_written(2);
        assert_eq!((known.unwritten, known.writing), (4, 0));
        assert!(admit(&mut known));
        assert_eq!(known.take_unwritten(), 5);
        known.written(5, Use::default(), at(0));
        assert_eq!((known.unwritten, known.writing), (0, 0));
    }

    /// Whatever the number of processes, over a minute of far too many submissions the rate is kept but for a block each.
    #[test]
    fn the_rate_is_kept_over_time() {
        for processes in [1, 2, 8, 32] {
            let limits = TenantLimits { jobs_open: u64::MAX, ..LIMITS };
            let mut world = World::of(processes);
            let mut admitted = 0_usize;
            for millis in 0..60_000 {
                let process = usize::try_from(millis).unwrap_or_default() % processes;
                if matches!(world.submit(process, &limits, at(millis)), Verdict::Admit { .. }) {
                    admitted += 1;
                }
            }
            let (least, most) = (600, 620 + 3 * processes);
            assert!((least..=most).contains(&admitted), "{processes} processes admitted {admitted}");
        }
    }

    #[test]
    fn who_is_slow_is_never_refused_and_writes_seldom() {
        let limits = TenantLimits::default();
        let mut world = World::of(1);
        for second in 0..600_u64 {
            // A hundred a second, evenly: the whole of the rate, and jobs that end.
            for part in 0..100 {
                world.book.open = 0;
                let verdict = world.submit(0, &limits, at(second * 1_000 + part * 10));
                assert!(matches!(verdict, Verdict::Admit { .. }), "{second}: {verdict:?}");
            }
        }
        assert!(world.writes <= 60_000 / 20, "{} writes", world.writes);
    }

    #[test]
    fn what_is_open_is_bounded_exactly_near_the_limit() {
        let limits = TenantLimits { jobs_open: 5, submissions_per_second: 1_000, submissions_burst: 1_000, ..LIMITS };
        let mut world = World::of(1);
        for n in 0..5 {
            assert_eq!(world.submit(0, &limits, at(0)), Verdict::Admit { write: n > 0 });
        }
        let verdict = world.submit(0, &limits, at(1));
        assert!(matches!(verdict, Verdict::Refuse { limit: Limit::JobsOpen, value: 5, .. }), "{verdict:?}");
        assert_eq!(world.submit(0, &limits, at(2_000)), Verdict::Ask, "what is known is old");
    }

    #[test]
    fn a_refusal_says_when_to_come_again() {
        let mut world = World::of(1);
        let refused = loop {
            if let Verdict::Refuse { limit, value, retry_after } = world.submit(0, &LIMITS, at(0)) {
                break (limit, value, retry_after);
            }
        };
        assert_eq!((refused.0, refused.1), (Limit::SubmissionsPerSecond, 10));
        let soon = at(u64::try_from(refused.2.as_millis()).unwrap_or_default() + 1);
        assert!(matches!(world.submit(0, &LIMITS, soon), Verdict::Admit { .. }), "{refused:?}");
    }
}
