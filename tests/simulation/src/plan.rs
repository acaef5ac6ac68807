//! What a seed draws: who deploys, dies and errs when, and what people do.

use std::time::Duration;

use longhaul_sim::{CallFaults, Faults, QueueFaults};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::agents::Deployed;
use crate::far_end::Manners;
use crate::jobs::{Kind, Says};

/// What people do with one job.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) after: Duration,
    pub(crate) says: Says,
    pub(crate) cancels: bool,
    pub(crate) replays: Vec<Replay>,
}

/// One replay of a job that has ended without a result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replay {
    pub(crate) after: Duration,
    /// From how far into the journal, in thousandths; the last good step when absent.
    pub(crate) from_permille: Option<u64>,
    pub(crate) mends: bool,
}

/// What is deployed in mid-run, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deployment {
    pub(crate) deployed: Deployed,
    pub(crate) after: Duration,
    pub(crate) lasts: Duration,
}

/// Everything that a seed draws.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) faults: Faults,
    pub(crate) manners: Manners,
    pub(crate) invocation: Duration,
    pub(crate) workers: usize,
    pub(crate) deaths_upto: u64,
    pub(crate) freezes_upto: u64,
    pub(crate) skewed: bool,
    pub(crate) jobs: Vec<(Kind, Person)>,
    pub(crate) deployment: Option<Deployment>,
}

fn up_to(dice: &mut StdRng, max: u32) -> u32 {
    if dice.random_bool(0.5) { 0 } else { dice.random_range(0..max) }
}

pub(crate) fn seconds(dice: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_secs(dice.random_range(range))
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let dice = &mut StdRng::seed_from_u64(seed);
        let faults = Faults {
            calls: CallFaults {
                fail_before_permille: up_to(dice, 60),
                fail_after_permille: up_to(dice, 60),
                repeat_permille: up_to(dice, 200),
                late_permille: up_to(dice, 40),
                late_max: seconds(dice, 1..90),
                latency: Duration::ZERO..=Duration::from_millis(dice.random_range(0..400)),
            },
            queue: QueueFaults {
                lose_permille: up_to(dice, 200),
                duplicate_permille: up_to(dice, 300),
                delay_max: seconds(dice, 0..40),
                visibility: seconds(dice, 30..900),
            },
        };
        let manners = Manners {
            latency_max: Duration::from_millis(dice.random_range(1..20_000)),
            answer_lost_permille: up_to(dice, 50),
            turned_away_permille: up_to(dice, 50),
        };
        let mut jobs: Vec<(Kind, Person)> = (0..dice.random_range(2..5)).map(|_| (kind(dice), person(dice))).collect();
        let deployment = dice.random_bool(0.4).then(|| Deployment {
            deployed: if dice.random_bool(0.5) { Deployed::OtherVersions } else { Deployed::Changed },
            after: seconds(dice, 0..120),
            lasts: seconds(dice, 10..1_800),
        });
        if deployment.is_some_and(|deployment| deployment.deployed == Deployed::Changed) {
            // A job whose first step a replay forgets would rightly begin anew under the careless change.
            for (_, person) in jobs.iter_mut().filter(|(kind, _)| matches!(kind, Kind::Everything { .. })) {
                person.replays.clear();
            }
        }
        Self {
            faults,
            manners,
            invocation: seconds(dice, 20..900),
            workers: dice.random_range(2..5),
            // Bounded, so that the world comes to rest.
            deaths_upto: dice.random_range(0..8),
            freezes_upto: up_to(dice, 8).into(),
            skewed: dice.random_bool(0.4),
            jobs,
            deployment,
        }
    }
}

fn kind(dice: &mut StdRng) -> Kind {
    match dice.random_range(0..10) {
        0 => Kind::Research,
        1 => Kind::Compliance { approve: false },
        2 => Kind::Compliance { approve: true },
        3 => Kind::Steps { fails: false },
        4 => Kind::Steps { fails: true },
        5 => Kind::Parent,
        6 => Kind::Mended,
        _ => Kind::Everything { flaky: dice.random_range(0..3) },
    }
}

fn person(dice: &mut StdRng) -> Person {
    let says = match dice.random_range(0..10) {
        0..6 => Says::Yes,
        6..8 => Says::No,
        _ => Says::Nothing,
    };
    let replays = (0..dice.random_range(0..3)).map(|_| Replay {
        after: seconds(dice, 0..300),
        from_permille: dice.random_bool(0.4).then(|| dice.random_range(0..1_000)),
        mends: dice.random_bool(0.8),
    });
    let replays = replays.collect();
    Person { after: seconds(dice, 0..240), says, cancels: dice.random_bool(0.2), replays }
}
