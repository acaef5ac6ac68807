//! The systems that are checked: what the agents do, what callers ask, and how many of each fault may happen.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::broken::Broken;
use crate::ledger::Mark;
use crate::model::{Action, System};
use crate::rules::Mutant;
use crate::script::{FATAL, FLAKY, ONCE, Op, STEP, Script};
use crate::state::{Ask, Budget, State};

/// No fault at all.
pub const NO_FAULTS: Budget =
    Budget { crash: 0, fail: 0, repeat: 0, late: 0, pause: 0, loss: 0, double: 0, early: 0, deadline: 0, again: 0 };

/// A person's decision.
pub const SIGNAL: (u8, Ask) = (0, Ask::Entry(Mark::Signalled { key: 1 }));
/// A person's cancel.
pub const CANCEL: (u8, Ask) = (0, Ask::Entry(Mark::CancelRequested { key: 3 }));
/// A replay from the last good step.
pub const REPLAY: (u8, Ask) = (0, Ask::Replay(Mark::Replayed { key: 4, from: None, edited: false }));
/// A replay of everything, with an edit.
pub const REPLAY_EDITED: (u8, Ask) = (0, Ask::Replay(Mark::Replayed { key: 4, from: Some(1), edited: true }));

/// The same of somebody else.
pub const REPLAY_OTHERWISE: (u8, Ask) = (0, Ask::Replay(Mark::Replayed { key: 5, from: Some(1), edited: true }));

/// A wait without a timeout.
pub const WAIT: Op = Op::Wait { timeout: false };
/// A wait with one.
pub const TIMED: Op = Op::Wait { timeout: true };

/// A system to check, as data.
#[derive(Debug, Clone, Copy)]
pub struct Instance {
    /// What it is called.
    pub name: &'static str,
    /// What the job does, in order.
    pub job: &'static [Op],
    /// What its child does.
    pub child: &'static [Op],
    /// What callers may ask, at any time.
    pub asks: &'static [(u8, Ask)],
    /// Faults that may happen, at any time.
    pub bounds: Budget,
    /// Worker invocations at one time.
    pub sessions: usize,
    /// Whether each session's process has many other jobs in hand.
    pub shared: bool,
    /// The check is cut off after so many states; none: it goes on to the end.
    pub states_max: Option<usize>,
}

/// A row without faults, to be changed.
const ROW: Instance = Instance {
    name: "",
    job: &[STEP],
    child: &[],
    asks: &[],
    bounds: NO_FAULTS,
    sessions: 2,
    shared: false,
    states_max: None,
};

/// Instances for every run of the tests.
pub const SMALL: &[Instance] = &[
    Instance {
        name: "two steps: crash, duplicate",
        job: &[STEP, STEP],
        bounds: Budget { crash: 1, double: 1, ..NO_FAULTS },
        ..ROW
    },
    Instance { name: "wait: signal and cancel, no fault", job: &[STEP, WAIT], asks: &[SIGNAL, CANCEL], ..ROW },
    Instance {
        name: "wait: repeated and late writes",
        job: &[WAIT],
        asks: &[SIGNAL],
        bounds: Budget { repeat: 1, late: 1, ..NO_FAULTS },
        ..ROW
    },
    Instance {
        name: "retry, a wait with a timeout",
        job: &[FLAKY, TIMED],
        asks: &[SIGNAL],
        bounds: Budget { deadline: 1, ..NO_FAULTS },
        ..ROW
    },
    Instance { name: "failure, replay", job: &[FATAL], asks: &[REPLAY], bounds: CRASH, ..ROW },
    Instance { name: "failure, replay, cancel: crash", job: &[FATAL], asks: &[REPLAY, CANCEL], bounds: CRASH, ..ROW },
    Instance { name: "failure, two replays at once", job: &[FATAL], asks: &[REPLAY, REPLAY_OTHERWISE], ..ROW },
    Instance { name: "at-most-once: crash", job: &[ONCE], bounds: Budget { crash: 1, pause: 1, ..NO_FAULTS }, ..ROW },
    SHARED_DEATHS,
    Instance { name: "child: crash", job: &[Op::Child], child: &[STEP], bounds: CRASH, ..ROW },
];

/// Deaths among many others, as many as end a job that has none.
pub const SHARED_DEATHS: Instance =
    Instance { name: "three deaths among many others", bounds: Budget { crash: 3, ..NO_FAULTS }, shared: true, ..ROW };
/// One process dies.
const CRASH: Budget = Budget { crash: 1, ..NO_FAULTS };
/// One of each.
const EACH: Budget =
    Budget { crash: 1, fail: 1, repeat: 1, late: 1, pause: 1, loss: 1, double: 1, early: 1, deadline: 1, again: 1 };

/// Instances for `make verify`. Those with a bound on the states are cut off there and say so; the others are gone through
/// to their ends.
pub const LARGE: &[Instance] = &[
    Instance {
        name: "signal, cancel: crash, wrongly judged dead",
        job: &[STEP, WAIT],
        asks: &[SIGNAL, CANCEL],
        bounds: Budget { crash: 1, pause: 1, ..NO_FAULTS },
        ..ROW
    },
    Instance {
        name: "signal: lost, repeated and late writes",
        job: &[WAIT],
        asks: &[SIGNAL],
        bounds: Budget { fail: 1, repeat: 1, late: 1, again: 1, ..NO_FAULTS },
        ..ROW
    },
    Instance {
        name: "three sessions: crash, zombie, duplicates",
        job: &[STEP, STEP],
        bounds: Budget { crash: 1, pause: 1, double: 2, ..NO_FAULTS },
        sessions: 3,
        ..ROW
    },
    Instance {
        name: "retry, timeout: crash, loss, early look, deadline",
        job: &[FLAKY, TIMED],
        asks: &[SIGNAL],
        bounds: Budget { crash: 1, loss: 1, early: 1, deadline: 1, ..NO_FAULTS },
        ..ROW
    },
    Instance {
        name: "failure, replay: crash, zombie",
        job: &[FATAL, FLAKY],
        asks: &[REPLAY],
        bounds: Budget { crash: 1, pause: 1, ..NO_FAULTS },
        ..ROW
    },
    Instance {
        name: "failure, two replays at once: crash, zombie",
        job: &[FATAL],
        asks: &[REPLAY, REPLAY_OTHERWISE],
        bounds: Budget { crash: 1, pause: 1, ..NO_FAULTS },
        ..ROW
    },
    Instance {
        name: "failure, replay, cancel: crash, unanswered write, zombie",
        job: &[FATAL],
        asks: &[REPLAY, CANCEL],
        bounds: Budget { crash: 1, fail: 1, pause: 1, ..NO_FAULTS },
        states_max: Some(60_000_000),
        ..ROW
    },
    Instance {
        name: "at-most-once, edited replay: crash",
        job: &[ONCE, TIMED],
        asks: &[SIGNAL, REPLAY_EDITED],
        bounds: CRASH,
        ..ROW
    },
    Instance {
        name: "child: cancel, crash, loss, unanswered write",
        job: &[Op::Child],
        child: &[STEP],
        asks: &[CANCEL],
        bounds: Budget { crash: 1, fail: 1, loss: 1, ..NO_FAULTS },
        states_max: Some(30_000_000),
        ..ROW
    },
    Instance {
        name: "child that fails: cancel, replay of the parent",
        job: &[Op::Child],
        child: &[FATAL],
        asks: &[CANCEL, REPLAY],
        ..ROW
    },
    Instance {
        name: "child that fails: crash, cancel, replay of the parent",
        job: &[Op::Child],
        child: &[FATAL],
        asks: &[CANCEL, REPLAY],
        bounds: CRASH,
        states_max: Some(30_000_000),
        ..ROW
    },
    Instance {
        name: "child that fails behind a step: crash, replay of the parent",
        job: &[FATAL, Op::Child],
        child: &[FATAL],
        asks: &[REPLAY],
        bounds: CRASH,
        ..ROW
    },
    Instance {
        name: "six deaths, replay",
        job: &[STEP],
        asks: &[REPLAY],
        bounds: Budget { crash: 6, ..NO_FAULTS },
        states_max: Some(30_000_000),
        ..ROW
    },
    Instance { name: "every fault once, all at once", job: &[STEP], bounds: EACH, states_max: Some(60_000_000), ..ROW },
    Instance {
        name: "signal, cancel: 3 sessions, 2 crashes, 2 duplicates",
        job: &[STEP, WAIT],
        asks: &[SIGNAL, CANCEL],
        bounds: Budget { crash: 2, double: 2, ..NO_FAULTS },
        sessions: 3,
        states_max: Some(30_000_000),
        ..ROW
    },
];

/// A run: each state with what happens in it.
pub type Run = Vec<(State, Option<Action>)>;

/// What a check came to.
#[derive(Debug)]
pub struct Verdict {
    /// Different states met.
    pub states: usize,
    /// The longest run to a state, in steps.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// Whether all states within the bounds were met.
    pub exhausted: bool,
    /// The kinds of entries that were written.
    pub reached: BTreeSet<&'static str>,
    /// What was broken, with the run that breaks it.
    pub broken: Option<(Broken, Run)>,
}

impl Instance {
    /// The system, by the production rules or with a deviation.
    #[must_use]
    pub fn system(&self, mutant: Option<Mutant>) -> System {
        let scripts = [Script(self.job), Script(self.child)];
        System { shared: self.shared, ..System::new(scripts, self.asks, self.bounds, self.sessions, mutant) }
    }

    /// Checks it: breadth first for a shortest run, else depth first, which needs less memory.
    #[must_use]
    pub fn check(&self, mutant: Option<Mutant>, breadth_first: bool, threads: usize) -> Verdict {
        let begun = Instant::now();
        let mut builder = self.system(mutant).checker().threads(threads).finish_when(HasDiscoveries::AnyFailures);
        if let Some(most) = self.states_max {
            builder = builder.target_state_count(most);
        }
        if breadth_first {
            verdict(self, builder.spawn_bfs().join(), begun)
        } else {
            verdict(self, builder.spawn_dfs().join(), begun)
        }
    }
}

fn verdict(instance: &Instance, checker: impl Checker<System>, begun: Instant) -> Verdict {
    let found = checker.discoveries();
    let broken = found.into_values().next().and_then(|path| {
        let run = path.into_vec();
        let broken = run.last()?.0.broken?;
        Some((broken, run))
    });
    let cut = instance.states_max.is_some_and(|most| checker.state_count() >= most);
    Verdict {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: begun.elapsed(),
        exhausted: broken.is_none() && !cut,
        reached: checker.model().ledger.kinds(),
        broken,
    }
}
