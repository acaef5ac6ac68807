//! The threads that are checked, and the mutants of their rules.

use std::time::{Duration, Instant};

use longhaul_engine::thread::OnBusy;
use stateright::{Checker, HasDiscoveries, Model};

use super::calls::{Action, System};
use super::state::{Bounds, Does, Order, State};
use super::{Broken, Mutant, Rules};

const NONE: Bounds = Bounds { crash: 0, pause: 0, loss: 0, double: 0 };

const WORKS: Order = Order { does: Does::Works, on_busy: OnBusy::Enqueue };
const FAILS: Order = Order { does: Does::Fails, on_busy: OnBusy::Enqueue };
const WAITS: Order = Order { does: Does::Waits, on_busy: OnBusy::Enqueue };
const REJECTS: Order = Order { does: Does::Works, on_busy: OnBusy::Reject };
const INTERRUPTS: Order = Order { does: Does::Works, on_busy: OnBusy::Interrupt };

/// A thread to check, as data.
#[derive(Debug, Clone, Copy)]
pub struct Instance {
    /// What it is called.
    pub name: &'static str,
    orders: &'static [Order],
    replayed: Option<u8>,
    cancelled: Option<u8>,
    bounds: Bounds,
    sessions: usize,
    /// The check is cut off after so many states; none: it goes on to the end.
    pub states_max: Option<usize>,
}

const ROW: Instance = Instance {
    name: "",
    orders: &[WORKS, WORKS],
    replayed: None,
    cancelled: None,
    bounds: NONE,
    sessions: 2,
    states_max: None,
};

/// Instances for every run of the tests.
pub const SMALL: &[Instance] = &[
    Instance { name: "thread: two in line: crash, duplicate", bounds: Bounds { crash: 1, double: 1, ..NONE }, ..ROW },
    Instance { name: "thread: interrupt: crash", orders: &[WAITS, INTERRUPTS], bounds: CRASH, ..ROW },
    Instance { name: "thread: reject: crash", orders: &[WORKS, REJECTS], bounds: CRASH, ..ROW },
    Instance {
        name: "thread: failure, replay: crash",
        orders: &[FAILS, WORKS],
        replayed: Some(0),
        bounds: CRASH,
        ..ROW
    },
    Instance { name: "thread: three in line, no fault", orders: &[WORKS, WORKS, WORKS], ..ROW },
];

const CRASH: Bounds = Bounds { crash: 1, ..NONE };

/// Instances for `make verify`.
pub const LARGE: &[Instance] = &[
    Instance {
        name: "thread: three in line: two crashes",
        orders: &[WORKS, WORKS, WORKS],
        bounds: Bounds { crash: 2, ..NONE },
        ..ROW
    },
    Instance {
        name: "thread: failure, replay: crash, wrongly judged dead, duplicate",
        orders: &[FAILS, WORKS],
        replayed: Some(0),
        bounds: Bounds { crash: 1, pause: 1, double: 1, ..NONE },
        ..ROW
    },
    Instance {
        name: "thread: interrupt, cancel, replay: crash, loss",
        orders: &[WAITS, INTERRUPTS],
        replayed: Some(0),
        cancelled: Some(1),
        bounds: Bounds { crash: 1, loss: 1, ..NONE },
        ..ROW
    },
    Instance {
        name: "thread: enqueue, reject, interrupt: crash",
        orders: &[FAILS, REJECTS, INTERRUPTS],
        bounds: CRASH,
        ..ROW
    },
];

/// A mutant and where it is looked for.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What is weaker.
    pub weaker: &'static str,
    /// The deviation.
    pub mutant: Mutant,
    /// The smallest thread in which it matters.
    pub instance: Instance,
}

/// All mutants that the check must catch.
pub const CAUGHT: &[Row] = &[
    Row {
        name: "any place has its turn",
        weaker: "a job begins when its place stands in the line, wherever",
        mutant: Mutant::AnyPlaceHasItsTurn,
        instance: ROW,
    },
    Row {
        name: "front taken for over",
        weaker: "the place in front is taken out without a look at whether its turn is over",
        mutant: Mutant::FrontTakenForOver,
        instance: ROW,
    },
    Row {
        name: "line written blind",
        weaker: "a line is written without requiring that it is as it was read",
        mutant: Mutant::LineWrittenBlind,
        instance: Instance { orders: &[WORKS, WORKS, WORKS], ..ROW },
    },
    Row {
        name: "next not called",
        weaker: "whoever leaves the line calls nobody up",
        mutant: Mutant::NextNotCalled,
        instance: ROW,
    },
    Row {
        name: "places without replays",
        weaker: "a place does not say how often its job had been opened again, so that who is slow takes out the new one",
        mutant: Mutant::PlacesWithoutReplays,
        instance: Instance { orders: &[FAILS, WORKS], replayed: Some(0), bounds: Bounds { pause: 1, ..NONE }, ..ROW },
    },
    Row {
        name: "replay asks no turn",
        weaker: "a job that was opened again goes on without a place of its own",
        mutant: Mutant::ReplayAsksNoTurn,
        instance: Instance { orders: &[FAILS, WORKS], replayed: Some(0), ..ROW },
    },
    Row {
        name: "interrupted by the submission",
        weaker: "the api cancels what is in front, once, and the job itself does not",
        mutant: Mutant::InterruptedBySubmission,
        instance: Instance { orders: &[WAITS, INTERRUPTS], bounds: CRASH, ..ROW },
    },
    Row {
        name: "reject looks at nothing",
        weaker: "a submission that would not wait is taken in without a look at the jobs in front",
        mutant: Mutant::RejectLooksAtNothing,
        instance: Instance { orders: &[WORKS, REJECTS], ..ROW },
    },
];

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
    /// What was broken, with what happened.
    pub broken: Option<(Broken, Vec<String>)>,
}

impl Instance {
    fn system(&self, mutant: Option<Mutant>) -> System {
        let Self { orders, replayed, cancelled, bounds, sessions, .. } = *self;
        System { orders, replayed, cancelled, bounds, sessions, rules: Rules { mutant } }
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
            self.verdict(&builder.spawn_bfs().join(), begun)
        } else {
            self.verdict(&builder.spawn_dfs().join(), begun)
        }
    }

    fn verdict(&self, checker: &impl Checker<System>, begun: Instant) -> Verdict {
        let broken = checker.discoveries().into_values().next().and_then(|path| {
            let run: Vec<(State, Option<Action>)> = path.into_vec();
            let line = |(s, action): &(State, Option<Action>)| Some(happened(s, (*action)?));
            Some((run.last()?.0.broken?, run.iter().filter_map(line).collect()))
        });
        let cut = self.states_max.is_some_and(|most| checker.state_count() >= most);
        Verdict {
            states: checker.unique_state_count(),
            depth: checker.max_depth(),
            took: begun.elapsed(),
            exhausted: broken.is_none() && !cut,
            broken,
        }
    }
}

/// What happened, in a line, with the line of the thread and the call that a session makes.
fn happened(s: &State, action: Action) -> String {
    let who = match action {
        Action::Step(slot) | Action::Dies(slot) | Action::Pause(slot) => {
            s.sessions[slot].as_ref().map(|session| format!(" job {} {:?}", session.job, session.pc))
        }
        Action::Submit(job) | Action::SubmitDies(job) => Some(format!(" {:?}", s.callers[usize::from(job)])),
        Action::Receive(job) | Action::Lose(job) | Action::Double(job) => Some(format!(" {:?}", s.job(job).mode)),
        Action::Replay | Action::Cancel => None,
    };
    format!("{action:?}{}; the line: {:?}", who.unwrap_or_default(), s.line)
}
