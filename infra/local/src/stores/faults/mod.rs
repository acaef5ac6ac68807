//! Faults of the storage services, on order: throttles, failures before and after the work, connections that are cut or
//! held, batches that fail in part, messages that come twice.
//!
//! A store on loopback never does what DynamoDB and SQS do on a bad day, and a promise that was only kept on good days
//! is none. So tests, and people who want to see it, give the stack a [`FaultPlan`]: then calls of the named actions go
//! wrong, at random by a seed or every so many. Nothing of this is on unless it was asked for.
//!
//! | Part | Does |
//! |---|---|
//! | `plan` | what can be asked for, and its check |
//! | `answer` | how a fault looks on the wire |
//! | `admin` | the address at which the plan is read and changed |

mod admin;
mod answer;
mod plan;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use plan::{FaultKind, FaultPlan, FaultPlanError, FaultRule, Service};

pub(crate) use admin::router;
pub(crate) use answer::around;

/// The faults of one stack. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults(Arc<Mutex<Book>>);

/// The plan, and what has come of it.
#[derive(Debug, Default)]
struct Book {
    plan: FaultPlan,
    counts: Vec<Count>,
}

/// How often a rule was looked at and how often it hit.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    calls: u64,
    hits: u64,
}

/// A call that is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) kind: FaultKind,
    pub(crate) hold: Duration,
    /// Further chance for this one call.
    roll: u64,
}

impl Hit {
    /// Whether the entry at `place` of a batch of `entries` is one of those that fail. One always is, and chance
    /// decides about the others.
    pub(crate) fn strikes(&self, place: usize, entries: usize) -> bool {
        let certain = self.roll % u64::try_from(entries.max(1)).unwrap_or(1);
        u64::try_from(place).is_ok_and(|place| place == certain || mix(self.roll, place).is_multiple_of(3))
    }
}

impl Faults {
    fn book(&self) -> MutexGuard<'_, Book> {
        // Numbers and rules are whole whatever happened to the thread that held them.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows this plan from now on, its counts at zero.
    pub(crate) fn set(&self, plan: FaultPlan) {
        let counts = vec![Count::default(); plan.rules.len()];
        *self.book() = Book { plan, counts };
    }

    /// Counts a call, and says whether it is to go wrong: by the first rule that it meets and that hits. Calls of the
    /// stack's own parts, which never were bytes, have an empty body.
    pub(crate) fn hit(&self, service: Service, action: &str, body: &[u8]) -> Option<Hit> {
        let mut book = self.book();
        let Book { plan, counts } = &mut *book;
        let mut hit = None;
        for ((number, rule), count) in (0_u64..).zip(&plan.rules).zip(counts) {
            if !rule.is_about(service, action, body) {
                continue;
            }
            count.calls += 1;
            let roll = mix(mix(plan.seed, number), count.calls);
            if hit.is_none() && rule.hits(count.calls, count.hits, roll) {
                count.hits += 1;
                hit = Some(Hit {
                    kind: rule.fault,
                    hold: Duration::from_millis(rule.hold_ms),
                    roll: mix(roll, count.calls),
                });
            }
        }
        if let Some(Hit { kind, .. }) = &hit {
            tracing::debug!(?service, action, ?kind, "a call goes wrong as planned");
        }
        hit
    }

    /// The plan with what came of it: each rule, how many calls it met and how many it hit.
    fn report(&self) -> Vec<(FaultRule, u64, u64)> {
        let book = self.book();
        book.plan.rules.iter().cloned().zip(&book.counts).map(|(rule, count)| (rule, count.calls, count.hits)).collect()
    }
}

/// SplitMix64: a number that depends on each bit of both and repeats for the same two.
fn mix(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn faults(plan: &str) -> Faults {
        let faults = Faults::default();
        faults.set(plan.parse().unwrap());
        faults
    }

    /// Which of the first `calls` calls of an action are hit, from 1.
    fn hit(faults: &Faults, service: Service, action: &str, calls: usize) -> Vec<usize> {
        (1..=calls).filter(|_| faults.hit(service, action, b"").is_some()).collect()
    }

    #[test]
    fn rules_hit_what_they_name() {
        // The rule, the service and action called ten times, and which calls are hit.
        let put = (Service::Dynamodb, "PutItem");
        let rows: [(&str, (Service, &str), &[usize]); 7] = [
            (r#"{"fault": "failed", "every": 3}"#, put, &[3, 6, 9]),
            (r#"{"service": "dynamodb", "fault": "failed", "every": 5}"#, put, &[5, 10]),
            (r#"{"service": "sqs", "fault": "failed", "every": 1}"#, put, &[]),
            (r#"{"service": "dynamodb", "action": "GetItem", "fault": "failed", "every": 1}"#, put, &[]),
            (r#"{"action": "PutItem", "fault": "throttled", "every": 2, "times": 2}"#, put, &[2, 4]),
            (
                r#"{"fault": "failed", "probability": 1}"#,
                (Service::Sqs, "SendMessage"),
                &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
            ),
            (r#"{"fault": "failed", "probability": 0}"#, put, &[]),
        ];
        for (rule, (service, action), expected) in rows {
            let faults = faults(&format!(r#"{{"rules": [{rule}]}}"#));
            assert_eq!(hit(&faults, service, action, 10), expected, "{rule}");
        }
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let of_seed = |seed: u64| {
            let plan = format!(r#"{{"seed": {seed}, "rules": [{{"fault": "failed", "probability": 0.3}}]}}"#);
            hit(&faults(&plan), Service::Dynamodb, "PutItem", 1_000)
        };
        assert_eq!(of_seed(7), of_seed(7));
        assert_ne!(of_seed(7), of_seed(8));
        let share = of_seed(7).len();
        assert!((240..360).contains(&share), "{share} of 1000 at 0.3");
    }

    #[test]
    fn the_first_rule_that_hits_decides_and_all_count() {
        let faults = faults(
            r#"{"rules": [{"fault": "throttled", "every": 2}, {"fault": "failed", "every": 2}, {"fault": "cut", "every": 3}]}"#,
        );
        let kinds: Vec<_> = (0..6).map(|_| faults.hit(Service::Sqs, "SendMessage", b"").map(|hit| hit.kind)).collect();
        let (throttled, cut) = (Some(FaultKind::Throttled), Some(FaultKind::Cut));
        assert_eq!(kinds, [None, throttled, cut, throttled, None, throttled]);
        let calls: Vec<_> = faults.report().into_iter().map(|(_, calls, hits)| (calls, hits)).collect();
        assert_eq!(calls, [(6, 3), (6, 0), (6, 1)]);
    }

    #[test]
    fn a_rule_may_name_what_the_call_is_about() {
        let faults = faults(r#"{"rules": [{"containing": "open ticket", "fault": "held", "every": 1, "times": 1}]}"#);
        let bodies: [&[u8]; 4] = [b"", b"draft ticket", b"{\"name\":\"open ticket\"}", b"open ticket"];
        let hits: Vec<bool> =
            bodies.iter().map(|body| faults.hit(Service::Dynamodb, "PutItem", body).is_some()).collect();
        assert_eq!(hits, [false, false, true, false]);
        let calls: Vec<_> = faults.report().into_iter().map(|(_, calls, hits)| (calls, hits)).collect();
        assert_eq!(calls, [(2, 1)]);
    }

    #[test]
    fn a_batch_never_fails_nowhere() {
        for roll in 0..200 {
            let hit = Hit { kind: FaultKind::Partial, hold: Duration::ZERO, roll };
            for entries in 1..=10 {
                assert!((0..entries).any(|place| hit.strikes(place, entries)), "{roll} {entries}");
            }
        }
    }
}
