//! Requests from outside, call by call as `longhaul::outside` makes them: signals, cancels and replays of callers, and
//! those that a worker sends to its job's relatives.

use longhaul_engine::append::{OnConflict, on_outside_conflict};
use longhaul_engine::ids::SignalKey;
use longhaul_engine::journal::{Ending, KeyKind};
use longhaul_engine::{Journal, Seq};

use crate::items::{MINE, is_accepted, now, written};
use crate::ledger::{Mark, job_id};
use crate::model::{Fate, System};
use crate::rules::Mutant;
use crate::state::{Ask, Due, Item, Late, Mode, Opc, Outside, State, Writer};

/// Where a request came to by one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// It goes on.
    On,
    /// It is done and answered well.
    Done,
    /// It was refused.
    Refused,
    /// The store gave no answer, and neither does the request.
    Unanswered,
}

impl System {
    /// Makes the next call of a request. None: this fate makes no difference here.
    pub(crate) fn outside(&self, s: &mut State, out: &mut Outside, writer: Writer, fate: Fate) -> Option<Came> {
        match (out.pc, fate) {
            (Opc::Append, _) => return self.outside_append(s, out, fate),
            (_, Fate::Fine) => {}
            // A signal that could not be counted or sent stands all the same; a replay says that it failed, and so does a
            // signal to a job whose item had ended.
            (Opc::Wake | Opc::Send, Fate::Fail) => {
                let stands_all_the_same = matches!(out.ask, Ask::Entry(_)) && !out.ended;
                return Some(match (out.pc, stands_all_the_same) {
                    (Opc::Wake, true) => {
                        out.pc = Opc::Send;
                        Came::On
                    }
                    (Opc::Wake, false) => Came::Unanswered,
                    (_, _) => self.answered(s, out),
                });
            }
            (Opc::ReadItem | Opc::ReadJournal | Opc::LookBack | Opc::Look | Opc::Reopen, Fate::Fail) => {
                return Some(Came::Unanswered);
            }
            (_, Fate::Repeat | Fate::FailAfter | Fate::Late) => return None,
        }
        Some(self.outside_call(s, out, writer))
    }

    fn outside_call(&self, s: &mut State, out: &mut Outside, writer: Writer) -> Came {
        let item = s.job(out.job).item;
        match out.pc {
            Opc::ReadItem => {
                if item.mode == Mode::Absent {
                    return Came::Refused;
                }
                out.ended = matches!(item.mode, Mode::Ended(_));
                out.pc = Opc::ReadJournal;
            }
            Opc::ReadJournal if item.mode == Mode::Absent => return Came::Refused,
            Opc::ReadJournal => {
                // Who sends an entry reads the item first, in one look with the journal here.
                out.ended |= matches!((out.ask, item.mode), (Ask::Entry(_), Mode::Ended(_)));
                out.seen = s.job(out.job).log.len();
                out.pc = Opc::Append;
            }
            Opc::Append => {}
            Opc::Wake => {
                s.wake(out.job);
                out.pc = self.behind_wake(out, item.mode);
            }
            Opc::Look => {
                out.cur = true;
                out.pc = match item.mode {
                    Mode::Ended(_) => Opc::LookBack,
                    Mode::Absent | Mode::Pending | Mode::Processing(_) | Mode::Waiting { .. } => self.behind_look(out),
                };
            }
            Opc::LookBack => {
                let log = s.job(out.job).log;
                out.tail = log.len();
                out.pc = if log.fold().ending().is_none() { Opc::Reopen } else { self.behind_look(out) };
            }
            Opc::Reopen if out.cur => {
                // `outside::reopen`: the item as read, PENDING, due after the message.
                let open = Item { mode: Mode::Pending, attempts: 0, due: Due::Later, tail: out.tail, ..item };
                s.put(out.job, open, writer);
                out.pc = self.behind_look(out);
            }
            Opc::Reopen => out.pc = Opc::Look,
            Opc::Send => {
                s.send(out.job);
                return self.answered(s, out);
            }
        }
        Came::On
    }

    /// What a request says when all its calls are made. A replay that found another one standing has finished that one; its
    /// own changes are made only if they are the same.
    fn answered(&self, s: &State, out: &Outside) -> Came {
        let log = s.job(out.job).log;
        let found = log.prefix(out.seen).marks().iter().rfind(|mark| matches!(mark, Mark::Replayed { .. }));
        let good = stands(log.fold(), out.ask)
            || matches!(out.ask, Ask::Entry(_))
            || found.is_some_and(|found| changes_the_same(*found, out.ask))
            || self.rules.has(Mutant::AnyReplayAnswered);
        if good { Came::Done } else { Came::Refused }
    }

    fn behind_wake(&self, out: &Outside, woken: Mode) -> Opc {
        match (out.ask, woken) {
            (Ask::Entry(_), _) if self.rules.has(Mutant::HalfReplayLeft) => Opc::Send,
            (Ask::Replay(_), _) if self.rules.has(Mutant::ReplayLooksFirst) => Opc::Send,
            (_, Mode::Ended(_)) => Opc::Look,
            (_, Mode::Absent | Mode::Pending | Mode::Processing(_) | Mode::Waiting { .. }) => Opc::Send,
        }
    }

    fn behind_look(&self, out: &Outside) -> Opc {
        let first = matches!(out.ask, Ask::Replay(_)) && self.rules.has(Mutant::ReplayLooksFirst);
        if first { Opc::Wake } else { Opc::Send }
    }

    /// What `write_outside` makes of the journal as it was read: an entry to append, or that there is none to.
    fn asked_entry(&self, journal: &Journal, out: &Outside) -> Result<Option<Mark>, Came> {
        match out.ask {
            Ask::Entry(mark) => {
                if self.rules.has_key(journal, kind(mark), &key(mark)) {
                    Ok(None)
                } else if self.rules.is_over(journal) {
                    Err(Came::Refused)
                } else {
                    Ok(Some(mark))
                }
            }
            Ask::Replay(mark) => {
                if self.rules.has_key(journal, KeyKind::Replay, &key(mark)) {
                    return if journal.ending().is_some() { Err(Came::Done) } else { Ok(None) };
                }
                match journal.ending() {
                    Some(Ending::Failed { .. } | Ending::Cancelled { .. }) => Ok(Some(mark)),
                    None if out.ended => Ok(None),
                    Some(Ending::Completed { .. }) | None => Err(Came::Refused),
                }
            }
        }
    }

    fn outside_append(&self, s: &mut State, out: &mut Outside, fate: Fate) -> Option<Came> {
        let log = s.job(out.job).log;
        let wanted = if out.landed { Ok(None) } else { self.asked_entry(log.prefix(out.seen).fold(), out) };
        let mark = match wanted {
            Err(came) => return (fate == Fate::Fine).then_some(came),
            Ok(None) if !out.landed => {
                out.pc = self.behind_append(out);
                return (fate == Fate::Fine).then_some(Came::On);
            }
            Ok(mark) => mark,
        };
        match (fate, mark) {
            (Fate::Fine, Some(mark)) if s.append(&self.ledger, out.job, out.seen, mark, None) => {
                out.pc = self.behind_append(out);
            }
            // A conflict: somebody else was first, or the repeated call meets what it wrote itself.
            (Fate::Fine, _) => {
                let found = log.batch(out.seen, MINE, out.landed, self.ledger.script(out.job))?;
                out.landed = false;
                match on_outside_conflict(MINE, &found) {
                    OnConflict::Own => out.pc = self.behind_append(out),
                    OnConflict::Reconsider | OnConflict::Stop(_) => out.seen += 1,
                }
            }
            (Fate::Repeat, Some(mark)) => {
                if !s.append(&self.ledger, out.job, out.seen, mark, None) {
                    return None;
                }
                out.landed = true;
            }
            (Fate::FailAfter, Some(mark)) => {
                if !s.append(&self.ledger, out.job, out.seen, mark, None) {
                    return None;
                }
                return Some(Came::Unanswered);
            }
            (Fate::Late, Some(mark)) => {
                if log.len() != out.seen || s.late.is_some() {
                    return None;
                }
                s.late = Some(Late::Append { job: out.job, seen: out.seen, mark, epoch: None });
                return Some(Came::Unanswered);
            }
            (Fate::Fail, _) => return Some(Came::Unanswered),
            (Fate::Repeat | Fate::FailAfter | Fate::Late, None) => return None,
        }
        Some(Came::On)
    }

    fn behind_append(&self, out: &Outside) -> Opc {
        match out.ask {
            Ask::Entry(_) if self.rules.has(Mutant::SignalWithoutWake) => Opc::Send,
            Ask::Replay(_) if self.rules.has(Mutant::ReplayLooksFirst) => Opc::Look,
            Ask::Entry(_) | Ask::Replay(_) => Opc::Wake,
        }
    }

    /// A late item write lands, if its condition still holds; when it does not it is gone already.
    pub(crate) fn land(&self, s: &mut State) {
        match s.late.take() {
            Some(Late::Append { job, seen, mark, epoch }) => {
                let _taken = s.append(&self.ledger, job, seen, mark, epoch);
            }
            Some(Late::Item { job, item, .. }) => s.put(job, item, Writer::Nobody),
            None => {}
        }
    }

    /// What an engine's write puts into the item, if the store's condition holds.
    pub(crate) fn accepted(&self, s: &State, write: &longhaul_engine::job::JobWrite) -> Option<Item> {
        is_accepted(write).then(|| written(write, s.tick))
    }
}

fn kind(mark: Mark) -> KeyKind {
    if matches!(mark, Mark::CancelRequested { .. }) { KeyKind::Cancel } else { KeyKind::Signal }
}

/// The key under which a request is taken in.
fn key(mark: Mark) -> SignalKey {
    let text = match mark {
        Mark::Signalled { key } | Mark::CancelRequested { key } | Mark::Replayed { key, .. } => format!("k{key}"),
        Mark::ChildEnded { replays, .. } => return SignalKey::of_child_end(job_id(1), replays.into()),
        _ => "none".to_owned(),
    };
    text.parse().expect("a short key")
}

/// Whether the journal holds what this request asks.
pub(crate) fn stands(journal: &Journal, ask: Ask) -> bool {
    match ask {
        Ask::Entry(mark) => journal.has_key(kind(mark), &key(mark)),
        Ask::Replay(mark) => journal.has_key(KeyKind::Replay, &key(mark)),
    }
}

/// Whether an entry is a replay with the changes that this request wants, under whatever key.
pub(crate) fn changes_the_same(found: Mark, ask: Ask) -> bool {
    match (found, ask) {
        (Mark::Replayed { from, edited, .. }, Ask::Replay(Mark::Replayed { from: wanted, edited: wants, .. })) => {
            (from, edited) == (wanted, wants)
        }
        _ => false,
    }
}

/// The position behind `seen` entries.
pub(crate) const fn position(seen: u8) -> Seq {
    Seq(seen as u64 + 1)
}

/// The time of a state.
pub(crate) fn time(s: &State) -> longhaul_engine::Timestamp {
    now(s.tick)
}
