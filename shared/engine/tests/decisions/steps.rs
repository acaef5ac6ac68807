//! When a step is tried again, where a wait is spent, what a budget allows, what the sweeper does, and what ids are.

use std::time::Duration;

use longhaul_engine::budget::{self, Budget, Exhausted, HeldBack};
use longhaul_engine::ids::{IdError, JobId, Seq, StepKey, TenantId};
use longhaul_engine::job::{JobState, Totals, Usage};
use longhaul_engine::retry::{AfterFailure, RetryPolicy, after_failure};
use longhaul_engine::sweep::{self, Sweep};
use longhaul_engine::wait::{ComeBack, Spent, come_back, fits, spent};
use longhaul_engine::{ErrorClass, limits};
use uuid::Uuid;

use crate::ground::{NOW, after, job};

#[test]
fn when_a_step_is_tried_again() {
    let policy = RetryPolicy::default();
    let job = JobId::from_uuid(Uuid::from_u128(7));
    let key = StepKey::at("", 0);
    // Attempt, class, Retry-After in ms, earliest and latest wait in ms; none: given up.
    let rows = [
        (1, ErrorClass::Transient, None, Some((10_000, 12_000))),
        (2, ErrorClass::Transient, None, Some((30_000, 36_000))),
        (3, ErrorClass::Transient, None, None),
        (1, ErrorClass::RateLimited, Some(45_000), Some((45_000, 54_000))),
        (1, ErrorClass::RateLimited, Some(7_000), Some((7_000, 8_400))),
        (2, ErrorClass::RateLimited, Some(0), Some((1_000, 1_200))),
        (1, ErrorClass::RateLimited, Some(u64::MAX), Some((86_400_000, 103_680_000))),
        (1, ErrorClass::Refused, None, None),
        (1, ErrorClass::ContextOverflow, None, None),
        (1, ErrorClass::Schema, None, None),
        (1, ErrorClass::Auth, None, None),
        (1, ErrorClass::Invalid, Some(1_000), None),
    ];
    for (attempt, class, retry_after, expected) in rows {
        let asked = retry_after.map(Duration::from_millis);
        let decision = after_failure(&policy, job, &key, attempt, class, asked, NOW);
        match (decision, expected) {
            (AfterFailure::GiveUp, None) => {}
            (AfterFailure::Retry { at }, Some((earliest, latest))) => {
                assert!((after(earliest)..=after(latest)).contains(&at), "{attempt} {class:?}: {at:?}");
            }
            (found, expected) => panic!("{attempt} {class:?}: {found:?}, expected {expected:?}"),
        }
        assert_eq!(decision, after_failure(&policy, job, &key, attempt, class, asked, NOW), "the same at every look");
    }
}

/// Jobs that failed together do not come back together.
#[test]
fn jobs_are_tried_again_at_times_of_their_own() {
    let at = |job: u128| {
        let (policy, job) = (RetryPolicy::default(), JobId::from_uuid(Uuid::from_u128(job)));
        match after_failure(&policy, job, &StepKey::at("", 0), 1, ErrorClass::Transient, None, NOW) {
            AfterFailure::Retry { at } => at,
            AfterFailure::GiveUp => panic!("given up"),
        }
    };
    let times: std::collections::BTreeSet<_> = (0..100).map(at).collect();
    assert!(times.len() > 50, "{} times for 100 jobs", times.len());
}

#[test]
fn where_a_wait_is_spent() {
    // Wait and time left in the invocation, in ms.
    let rows = [
        (0, 60_000, Spent::Inside),
        (1_500, 60_000, Spent::Inside),
        (1_501, 60_000, Spent::Released),
        (1_000, 1_500, Spent::Released),
    ];
    for (wait, left, expected) in rows {
        assert_eq!(spent(NOW, after(wait), after(left)), expected, "{wait} ms of {left} ms");
    }
    let rows = [(5_000, 6_000, true), (5_000, 5_999, false), (0, 500, false)];
    for (limit, left, expected) in rows {
        assert_eq!(fits(NOW, Duration::from_millis(limit), after(left)), expected, "{limit} ms of {left} ms");
    }
}

#[test]
fn how_a_waiting_job_comes_back() {
    let minutes = |count: u64| count * 60_000;
    let seconds = Duration::from_secs;
    let rows = [
        (None, ComeBack { due: after(60_000), message_delay: None }),
        (Some(10_000), ComeBack { due: after(70_000), message_delay: Some(seconds(10)) }),
        (Some(10_001), ComeBack { due: after(70_001), message_delay: Some(seconds(11)) }),
        (Some(minutes(15)), ComeBack { due: after(minutes(16)), message_delay: Some(seconds(900)) }),
        (Some(minutes(16)), ComeBack { due: after(60_000), message_delay: None }),
    ];
    for (wait, expected) in rows {
        assert_eq!(come_back(NOW, wait.map(after)), expected, "{wait:?}");
    }
}

#[test]
fn what_the_budget_allows() {
    let used = |tokens, steps| Totals { usage: Usage { input_tokens: tokens, ..Usage::default() }, steps };
    let budget = Budget { tokens: Some(100), steps: Some(5), wall_seconds: Some(60), ..Budget::default() };
    let rows = [
        (budget, used(0, 0), 100, 0, Ok(())),
        (budget, used(50, 0), 51, 0, Err(Exhausted::Tokens { limit: 100, used: 50, reserved: 51 })),
        (budget, used(100, 0), 0, 0, Err(Exhausted::Tokens { limit: 100, used: 100, reserved: 0 })),
        (budget, used(0, 5), 0, 0, Err(Exhausted::Steps { limit: 5 })),
        (budget, used(0, 0), 0, 60_000, Err(Exhausted::Wall { limit: 60 })),
        (Budget::default(), used(u64::MAX, 9_999), u64::MAX, u64::MAX / 2_000, Ok(())),
        (Budget::default(), used(0, 10_000), 0, 0, Err(Exhausted::Steps { limit: 10_000 })),
    ];
    for (budget, totals, reserved, age, expected) in rows {
        let held = HeldBack::for_step(reserved, None);
        assert_eq!(budget::check(&budget, &totals, held, NOW, after(age)), expected);
    }
}

#[test]
fn what_the_sweeper_does() {
    let minute = 60_000;
    let waiting = |end| JobState::Waiting { until: Some(after(end)), seen: Seq(3) };
    let rows = [
        (JobState::Pending, Some(0), 0, Sweep::Send { seen_due: NOW, due: after(minute) }),
        (JobState::Pending, Some(0), 3, Sweep::Send { seen_due: NOW, due: after(8 * minute) }),
        (JobState::Pending, Some(0), 60, Sweep::Send { seen_due: NOW, due: after(60 * minute) }),
        (waiting(30_000), Some(0), 5, Sweep::Send { seen_due: NOW, due: after(30_000) }),
        (JobState::Pending, Some(1), 0, Sweep::Leave),
        (JobState::Completed, None, 0, Sweep::Leave),
    ];
    for (state, due, sweeps, expected) in rows {
        let mut job = job(state, due.map(after));
        job.sweeps = sweeps;
        assert_eq!(sweep::decide(&job, NOW), expected);
    }
}

#[test]
fn ids_are_what_they_say() {
    let tenant: TenantId = "acme".parse().unwrap();
    assert_eq!(JobId::of_key(&tenant, "k"), JobId::of_key(&tenant, "k"), "one key, one job");
    let apart = [JobId::of_key(&"a".parse().unwrap(), "b:c"), JobId::of_key(&"a:b".parse().unwrap(), "c")];
    assert_ne!(apart[0], apart[1], "tenant and key do not run together");
    for bad in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(limits::TENANT_LENGTH_MAX + 1)] {
        assert!(bad.parse::<TenantId>().is_err(), "{bad:?}");
    }
    for bad in ["", "7", "{0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f}", "0190b6a27d3c7c4e9b1f0a2b3c4d5e6f", "../x"] {
        assert_eq!(bad.parse::<JobId>(), Err(IdError::Job), "{bad:?}");
    }
    let branch = StepKey::at("", 1).branch_scope(3);
    assert_eq!(StepKey::at(&branch, 0).as_str(), "1[3].0");
}
