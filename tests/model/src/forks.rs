//! Forks: what a fork keeps of another job gets into its own journal, over `longhaul_engine::fork`.
//!
//! A system of its own, as that of threads. The other job goes on meanwhile, is opened again and does steps anew; the fork's
//! workers die between any two calls, are wrongly judged dead, meet a signal. What is gone through is the order of calls of
//! `drive::claiming` and `drive::forking`.

mod journals;

use std::rc::Rc;

use longhaul_engine::append::{AfterRead, OnConflict, after_read, on_conflict};
use longhaul_engine::entry::Batch;
use longhaul_engine::fork::{self, Kept};
use longhaul_engine::{Entry, Epoch, Journal, Seq, Timestamp};
use serde_json::{Value, json};
use stateright::{Checker, HasDiscoveries, Model, Property};

use journals::{Log, before, entry, journal, kept, made, nonce, number_of, read, tape};

/// A promise about forks that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Broken {
    /// The journal cannot be read: a step has two outcomes.
    Unreadable,
    /// Two workers found different things to keep.
    KeptDiffers,
    /// What stands before the seal is not what is kept.
    PrefixDiffers,
    /// The agent's code ran before all that is kept stood.
    RanTooEarly,
    /// Left to itself the fork does not end.
    Stuck,
}

impl Broken {
    /// The promise in words.
    #[must_use]
    pub const fn promise(self) -> &'static str {
        match self {
            Self::Unreadable => "a fork's journal can be read, each step once",
            Self::KeptDiffers => "every worker of a fork keeps the same, whatever the other job has done since",
            Self::PrefixDiffers => "a fork's journal begins with what is kept, in order, once",
            Self::RanTooEarly => "nothing of a fork runs before all that is kept stands",
            Self::Stuck => "left to itself a fork ends",
        }
    }
}

/// One thing weaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// A worker that takes over writes all that is kept from the start.
    WrittenFromTheStart,
    /// What is kept is what the other job's journal says when the worker reads it.
    KeptAsOfNow,
    /// The agent runs as soon as something of it stands.
    RunUnsealed,
}

/// Mutants by name, with what is weaker.
pub const CAUGHT: [(Mutant, &str); 3] = [
    (Mutant::WrittenFromTheStart, "a worker that takes over writes all that is kept from the start"),
    (Mutant::KeptAsOfNow, "what is kept is what the other job's journal says when a worker reads it"),
    (Mutant::RunUnsealed, "the agent's code runs as soon as something of what is kept stands"),
];

/// What a session is about to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "named after the calls of drive, in their order")]
pub enum Pc {
    Claim,
    ReadJournal,
    AppendClaim,
    ReadSource,
    BringOver,
    Run,
    End,
    Finish,
}

/// A worker session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Session {
    pc: Pc,
    cur: bool,
    epoch: u8,
    seen: usize,
    /// Entries of the other job's journal when it was read.
    source: usize,
    paused: bool,
}

/// Where the fork's item stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Mode {
    Free,
    Held(usize),
    Ended,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    mode: Mode,
    epoch: u8,
    log: Log,
    messages: u8,
    source: usize,
    sessions: [Option<Session>; 2],
    signals: u8,
    crashes: u8,
    pauses: u8,
    /// What was broken.
    pub broken: Option<Broken>,
}

/// Something that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The other job goes on by an entry.
    SourceGoesOn,
    /// A worker receives a continuation.
    Receive,
    /// A session makes its next call.
    Step(usize),
    /// A session's process dies.
    Dies(usize),
    /// A session counts as dead, and goes on.
    Pause(usize),
    /// A signal comes to the fork.
    Signal,
}

/// A fork to check.
#[derive(Debug, Clone, Copy)]
pub struct Forking {
    /// Processes that die.
    pub crashes: u8,
    /// Sessions that are wrongly judged dead.
    pub pauses: u8,
    /// Signals that come.
    pub signals: u8,
    /// The one deviation from the engine's decisions.
    pub mutant: Option<Mutant>,
}

/// The instance for every run of the tests, and the one for `make verify`.
pub const SMALL: Forking = Forking { crashes: 1, pauses: 1, signals: 1, mutant: None };
/// See [`SMALL`].
pub const LARGE: Forking = Forking { crashes: 2, pauses: 1, signals: 1, mutant: None };

impl Forking {
    /// Checks it to its end: the states met, the longest run, and what was broken with what happened.
    #[must_use]
    pub fn check(self, threads: usize) -> (usize, usize, Option<(Broken, Vec<Action>)>) {
        let checker = self.checker().threads(threads).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let broken = checker.discoveries().into_values().next().and_then(|path| {
            let run = path.into_vec();
            Some((run.last()?.0.broken?, run.into_iter().filter_map(|(_, action)| action).collect()))
        });
        (checker.unique_state_count(), checker.max_depth(), broken)
    }

    fn kept(self, session: &Session) -> Rc<Vec<Kept>> {
        let now = session.source as u64 + 1;
        kept(session.source, if self.mutant == Some(Mutant::KeptAsOfNow) { now } else { before() + 1 })
    }

    fn append(s: &mut State, seen: usize, entries: &[Entry]) -> bool {
        if s.log.len() != seen {
            return false;
        }
        s.log.push(entries.iter().map(number_of).collect());
        if read(&s.log).is_none() {
            s.broken = s.broken.or(Some(Broken::Unreadable));
        } else if entries.iter().any(|entry| matches!(entry, Entry::Forked { .. })) && !begins_with_kept(&s.log) {
            s.broken = s.broken.or(Some(Broken::PrefixDiffers));
        }
        true
    }

    /// Makes an append; none: the session stops.
    fn appended(s: &mut State, mut l: Session, entries: &[Entry], then: Pc) -> Option<Session> {
        if Self::append(s, l.seen, entries) {
            (l.seen, l.pc) = (l.seen + 1, then);
            return Some(l);
        }
        let found = s.log[l.seen].iter().map(|number| entry(*number)).collect();
        let found = Batch::new(Seq(1), nonce(1), Timestamp::from_millis(1), found);
        match on_conflict(Epoch(u64::from(l.epoch)), nonce(2), &found) {
            OnConflict::Own | OnConflict::Stop(_) => None,
            OnConflict::Reconsider => {
                l.seen += 1;
                Some(l)
            }
        }
    }

    fn call(self, s: &mut State, slot: usize, mut l: Session) -> Option<Session> {
        let seen = journal(&s.log[..l.seen]);
        match l.pc {
            Pc::Claim => {
                if !l.cur {
                    return None;
                }
                s.epoch += 1;
                Self::put(s, Mode::Held(slot), Some(slot));
                (l.epoch, l.pc) = (s.epoch, Pc::ReadJournal);
                Some(l)
            }
            Pc::ReadJournal => {
                (l.seen, l.pc) = (s.log.len(), Pc::AppendClaim);
                Some(l)
            }
            Pc::AppendClaim => match after_read(&seen, Epoch(u64::from(l.epoch)), seen.next()) {
                AfterRead::Stop(_) => None,
                AfterRead::Repair(_) => {
                    l.pc = Pc::Finish;
                    Some(l)
                }
                AfterRead::Claim | AfterRead::Release => {
                    let wire = json!({"type": "claimed", "epoch": l.epoch, "session": "s", "takeover": false});
                    let claimed: Entry = serde_json::from_value(wire).expect("an entry");
                    if Self::append(s, l.seen, &[claimed]) {
                        l.pc = Pc::ReadSource;
                    }
                    // Else whatever stands there instead is taken in, and looked at again.
                    l.seen += 1;
                    Some(l)
                }
            },
            Pc::ReadSource => {
                l.source = s.source;
                if !seen.forked() && *self.kept(&l) != *kept(usize::try_from(before()).ok()?, before() + 1) {
                    s.broken = s.broken.or(Some(Broken::KeptDiffers));
                }
                l.pc = Pc::BringOver;
                Some(l)
            }
            Pc::BringOver => self.bring_over(s, l, &seen),
            Pc::Run => Self::run(s, l, &seen),
            Pc::End => Self::appended(s, l, &[Entry::Completed { output: Value::Null }], Pc::Finish),
            Pc::Finish => {
                if l.cur {
                    Self::put(s, Mode::Ended, Some(slot));
                }
                None
            }
        }
    }

    fn bring_over(self, s: &mut State, mut l: Session, seen: &Journal) -> Option<Session> {
        let early = self.mutant == Some(Mutant::RunUnsealed) && seen.steps().next().is_some();
        let empty = Journal::default();
        let from = if self.mutant == Some(Mutant::WrittenFromTheStart) && !seen.forked() { &empty } else { seen };
        match fork::next_entries(&self.kept(&l), &made(before() + 1), from) {
            Some(entries) if !early => Self::appended(s, l, &entries, Pc::BringOver),
            Some(_) | None => {
                l.pc = Pc::Run;
                Some(l)
            }
        }
    }

    fn run(s: &mut State, mut l: Session, seen: &Journal) -> Option<Session> {
        if !seen.forked() {
            s.broken = s.broken.or(Some(Broken::RanTooEarly));
        }
        let own: Entry = serde_json::from_value(json!({
            "type": "step_completed", "step": "99", "name": "own", "kind": "step", "attempt": 1, "started_at": 0,
            "output": Value::Null,
        }))
        .expect("an entry");
        if seen.steps().any(|record| record.id.name == "own") {
            l.pc = Pc::End;
            return Some(l);
        }
        Self::appended(s, l, &[own], Pc::End)
    }

    fn put(s: &mut State, mode: Mode, by: Option<usize>) {
        s.mode = mode;
        for (slot, session) in s.sessions.iter_mut().enumerate() {
            if let Some(session) = session {
                session.cur = by == Some(slot);
            }
        }
    }

    fn receive(s: &mut State) -> Option<()> {
        let slot = s.sessions.iter().position(Option::is_none)?;
        s.messages = s.messages.checked_sub(1)?;
        let fresh = Session { pc: Pc::Claim, cur: true, epoch: 0, seen: 0, source: 0, paused: false };
        s.sessions[slot] = (s.mode == Mode::Free).then_some(fresh);
        Some(())
    }

    fn step(self, s: &mut State, slot: usize) -> Option<()> {
        let session = s.sessions[slot].clone()?;
        s.sessions[slot] = self.call(s, slot, session);
        Some(())
    }

    /// Left alone: a look of the sweeper whenever nothing happens, and no fault any more.
    fn left_alone(self, s: &State) -> Option<Broken> {
        let mut s = s.clone();
        for _ in 0..100 {
            if s.mode == Mode::Ended || s.broken.is_some() {
                return s.broken;
            }
            if s.sessions[0].is_some() {
                self.step(&mut s, 0)?;
            } else {
                s.messages += u8::from(s.messages == 0);
                Self::receive(&mut s)?;
            }
        }
        Some(Broken::Stuck)
    }
}

/// Whether a sealed journal begins with what is kept, in order: beside that only claims and what came from outside.
fn begins_with_kept(log: &[Vec<u16>]) -> bool {
    let all = log.iter().flatten().map(|number| entry(*number));
    let own: Vec<Entry> = all.filter(|entry| !is_of_others(entry)).collect();
    let expected = fork::next_entries(&whole(), &made(before() + 1), &Journal::default());
    // The first append of a whole list holds its beginning; the rest follows by what stands then.
    let (seal, steps) = own.split_last().map_or((None, &own[..]), |(last, rest)| (Some(last), rest));
    matches!(seal, Some(Entry::Forked { .. }))
        && steps.len() == whole().len()
        && expected.is_some_and(|first| first.iter().zip(steps).all(|(wanted, found)| wanted == found))
        && whole().iter().zip(steps).all(|(kept, found)| match kept {
            Kept::Step(entry) => entry == found,
            Kept::Waited { .. } => false,
            Kept::Early(_) => {
                matches!(found, Entry::Signalled { key, .. } if key.reserved().is_some())
            }
        })
}

fn whole() -> Rc<Vec<Kept>> {
    kept(usize::try_from(before()).unwrap_or(usize::MAX), before() + 1)
}

fn is_of_others(entry: &Entry) -> bool {
    match entry {
        Entry::Claimed { .. } => true,
        Entry::Signalled { key, .. } => key.reserved().is_none(),
        _ => false,
    }
}

impl Model for Forking {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            mode: Mode::Free,
            epoch: 0,
            log: Vec::new(),
            messages: 1,
            source: usize::try_from(before()).unwrap_or(usize::MAX),
            sessions: [None, None],
            signals: self.signals,
            crashes: self.crashes,
            pauses: self.pauses,
            broken: None,
        }]
    }

    fn actions(&self, s: &State, actions: &mut Vec<Action>) {
        if s.broken.is_some() {
            return;
        }
        if s.source < tape().len() {
            actions.push(Action::SourceGoesOn);
        }
        actions.push(Action::Receive);
        if s.signals > 0 && s.mode != Mode::Ended && journal(&s.log).ending().is_none() {
            actions.push(Action::Signal);
        }
        for slot in (0..2).filter(|slot| s.sessions[*slot].is_some()) {
            actions.push(Action::Step(slot));
            if s.crashes > 0 {
                actions.push(Action::Dies(slot));
            }
            if s.pauses > 0 && s.mode == Mode::Held(slot) {
                actions.push(Action::Pause(slot));
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut s = before.clone();
        match action {
            Action::SourceGoesOn => s.source += 1,
            Action::Receive => Self::receive(&mut s)?,
            Action::Step(slot) => self.step(&mut s, slot)?,
            Action::Dies(slot) => {
                s.sessions[slot] = None;
                if s.mode == Mode::Held(slot) {
                    s.mode = Mode::Free;
                }
                (s.messages, s.crashes) = (s.messages + 1, s.crashes - 1);
            }
            Action::Pause(slot) => {
                s.sessions[slot].as_mut()?.paused = true;
                s.mode = Mode::Free;
                (s.messages, s.pauses) = (s.messages + 1, s.pauses - 1);
            }
            Action::Signal => {
                let wire = json!({
                    "type": "signalled", "signal": "go", "key": format!("o{}", s.signals), "payload": 2, "by": "ada",
                });
                let signal: Entry = serde_json::from_value(wire).expect("an entry");
                let seen = s.log.len();
                Self::append(&mut s, seen, &[signal]);
                s.signals -= 1;
            }
        }
        if s.broken.is_none() && s.messages == 0 && s.sessions.iter().all(Option::is_none) {
            s.broken = self.left_alone(&s);
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("no promise is broken", |_, s: &State| s.broken.is_none())]
    }
}
