//! A worker session with a job of a thread, one call after the other: `drive::claiming`, `drive::turn`, `drive::ending`.

use longhaul_engine::append::{
    AfterLook, AfterRead, NextMove, OnConflict, after_look, after_read, ending, next_move, on_conflict,
};
use longhaul_engine::thread::{Front, OnBusy, Turn};
use longhaul_engine::{Batch, Epoch, Nonce, Seq, Timestamp};

use super::calls::System;
use super::state::{Does, End, For, Mark, Mode, Pc, Session, Spot, State, entry, journal, narrow};
use super::{Mutant, spot, spots};

/// What a session's call came to.
type Next = Option<Session>;

impl System {
    /// A worker that has received a continuation reads the job item.
    pub(super) fn receive(&self, s: &State, job: u8) -> Next {
        let it = s.job(job);
        let pc = match it.mode {
            Mode::Absent | Mode::Ended | Mode::Held(_) => return None,
            Mode::Waiting(seen) if narrow(it.log.len()) <= seen => return None,
            Mode::Pending | Mode::Orphaned if it.epoch == 0 => Pc::ReadJournalFirst,
            Mode::Pending | Mode::Orphaned | Mode::Waiting(_) => Pc::Claim,
        };
        Some(Session {
            job,
            pc,
            asks: For::Claim,
            cur: true,
            wakes: false,
            epoch: 0,
            looked_at: 0,
            seen: 0,
            line: Vec::new(),
            line_cur: false,
            end: None,
            paused: false,
        })
    }

    /// A session makes its next call; none: it is done with its job.
    pub(super) fn call(&self, s: &mut State, slot: usize, mut l: Session) -> Next {
        match l.pc.clone() {
            Pc::ReadJournalFirst => {
                l.asks = For::Claim;
                self.ask_turn(s, l)
            }
            Pc::Line => self.line_read(s, l),
            Pc::Look(front) => self.look(s, l, front),
            Pc::WriteLine(places) => self.write_line(s, l, places),
            Pc::Call { places, handing_on } => {
                self.call_next(s, &places, l.job);
                if handing_on {
                    l.pc = Pc::Finish;
                    return Some(l);
                }
                self.decide(s, l, Front::Unknown)
            }
            Pc::Interrupt(_) | Pc::WakeInterrupted(_) => self.interrupt(s, l),
            Pc::Claim => self.claim(s, slot, l),
            Pc::ReadJournal => {
                l.seen = narrow(s.job(l.job).log.len());
                l.looked_at = s.job(l.job).replays();
                if l.looked_at > 0 && !self.rules.has(Mutant::ReplayAsksNoTurn) {
                    l.asks = For::Go;
                    return self.ask_turn(s, l);
                }
                l.pc = Pc::AppendClaim;
                Some(l)
            }
            Pc::StandInLine => {
                if !l.cur {
                    return None;
                }
                s.put(l.job, Mode::Pending, Some(slot));
                l.asks = For::Standing;
                self.ask_turn(s, l)
            }
            Pc::SendItself => {
                s.send(l.job);
                None
            }
            Pc::AppendClaim => self.append_claim(s, l),
            Pc::Run => self.run(s, l),
            Pc::Wait => self.wait(s, slot, l),
            Pc::AppendEnd(wanted) => self.append_end(s, l, wanted),
            Pc::HandLine => Some(self.hand_line(s, l)),
            Pc::HandWrite(places) => Some(self.hand_write(s, l, places)),
            Pc::Finish | Pc::FinishLook => self.finish(s, slot, l),
            Pc::Release => {
                if !l.cur {
                    return None;
                }
                s.put(l.job, Mode::Pending, Some(slot));
                l.pc = Pc::ReleaseSend;
                Some(l)
            }
            Pc::ReleaseSend => {
                s.send(l.job);
                None
            }
        }
    }

    fn look(&self, s: &State, l: Session, front: Spot) -> Next {
        let it = s.job(front.0);
        // Its own by the journal alone; of another, an item that has not ended needs no look at the journal.
        let looked = front.0 == l.job || it.mode == Mode::Ended;
        let over = it.mode == Mode::Absent || (looked && it.is_over(front));
        self.decide(s, l, if over { Front::Over } else { Front::Going })
    }

    fn write_line(&self, s: &mut State, mut l: Session, places: Vec<Spot>) -> Next {
        if !l.line_cur && !self.rules.has(Mutant::LineWrittenBlind) {
            return self.line_read(s, l);
        }
        let front_changed = places.first() != l.line.first();
        s.put_line(places.clone());
        (l.line, l.line_cur) = (places.clone(), true);
        if front_changed {
            l.pc = Pc::Call { places, handing_on: false };
            return Some(l);
        }
        self.decide(s, l, Front::Unknown)
    }

    fn claim(&self, s: &mut State, slot: usize, mut l: Session) -> Next {
        if !l.cur {
            return self.receive(s, l.job);
        }
        let it = s.job_mut(l.job);
        it.epoch += 1;
        (l.epoch, l.wakes, l.pc) = (it.epoch, true, Pc::ReadJournal);
        s.put(l.job, Mode::Held(narrow(slot)), Some(slot));
        Some(l)
    }

    /// `has_turn`: with a look at the journal as read.
    fn ask_turn(&self, s: &State, mut l: Session) -> Next {
        let log = &s.job(l.job).log;
        let seen = if l.asks == For::Claim { log.len() } else { usize::from(l.seen) };
        let read = journal(&log[..seen]);
        if read.ending().is_some() || matches!(next_move(&read), NextMove::End(_)) {
            return self.has_turn(l);
        }
        l.looked_at = u8::try_from(read.replays()).unwrap_or(u8::MAX);
        l.pc = Pc::Line;
        Some(l)
    }

    fn own(&self, l: &Session) -> Spot {
        self.rules.place(l.job, l.looked_at)
    }

    fn line_read(&self, s: &State, mut l: Session) -> Next {
        (l.line, l.line_cur) = (s.line.clone(), true);
        self.decide(s, l, Front::Unknown)
    }

    fn decide(&self, s: &State, mut l: Session, front: Front) -> Next {
        match self.rules.turn(&l.line, self.own(&l), front) {
            Turn::Now => return self.has_turn(l),
            Turn::LookAt(first) => l.pc = Pc::Look(spot(&first)),
            Turn::Write(write) => l.pc = Pc::WriteLine(spots(&write)),
            Turn::Wait => {
                let interrupts = self.orders[usize::from(l.job)].on_busy == OnBusy::Interrupt && l.looked_at == 0;
                if !interrupts || self.rules.has(Mutant::InterruptedBySubmission) || Self::ahead(&l, 0).is_none() {
                    return self.has_not(s, l);
                }
                l.pc = Pc::Interrupt(0);
            }
        }
        Some(l)
    }

    /// The job at a place in front of a session's own.
    fn ahead(l: &Session, number: u8) -> Option<u8> {
        let own = l.line.iter().position(|place| place.0 == l.job).unwrap_or(0);
        l.line.iter().take(own).nth(usize::from(number)).map(|place| place.0)
    }

    fn interrupt(&self, s: &mut State, mut l: Session) -> Next {
        let (Pc::Interrupt(number) | Pc::WakeInterrupted(number)) = l.pc else { return Some(l) };
        let Some(other) = Self::ahead(&l, number) else { return self.has_not(s, l) };
        if l.pc == Pc::Interrupt(number) && self.take_in_cancel(s, other, l.job) {
            l.pc = Pc::WakeInterrupted(number);
            return Some(l);
        }
        if l.pc == Pc::WakeInterrupted(number) {
            s.wake(other);
            s.send(other);
        }
        match Self::ahead(&l, number + 1) {
            Some(_) => l.pc = Pc::Interrupt(number + 1),
            None => return self.has_not(s, l),
        }
        Some(l)
    }

    /// `outside::cancel`, up to its append: false where the job has ended.
    pub(super) fn take_in_cancel(&self, s: &mut State, job: u8, by: u8) -> bool {
        let it = s.job(job);
        if it.mode == Mode::Absent || it.ended() {
            return false;
        }
        if !it.log.contains(&Mark::Cancel(by)) {
            let seen = narrow(it.log.len());
            s.append(job, seen, Mark::Cancel(by));
        }
        true
    }

    fn has_turn(&self, mut l: Session) -> Next {
        l.pc = match l.asks {
            For::Claim => Pc::Claim,
            For::Go => Pc::AppendClaim,
            For::Standing => Pc::SendItself,
        };
        Some(l)
    }

    fn has_not(&self, s: &State, mut l: Session) -> Next {
        let _unchanged = s;
        match l.asks {
            For::Claim | For::Standing => None,
            For::Go => {
                l.pc = Pc::StandInLine;
                Some(l)
            }
        }
    }

    /// `thread::call`.
    fn call_next(&self, s: &mut State, places: &[Spot], but: u8) {
        if self.rules.has(Mutant::NextNotCalled) {
            return;
        }
        let open = |job: u8| !matches!(s.job(job).mode, Mode::Absent | Mode::Ended);
        let next = places.iter().map(|place| place.0).take_while(|job| *job != but).find(|job| open(*job));
        if let Some(job) = next {
            s.send(job);
        }
    }

    fn append_claim(&self, s: &mut State, mut l: Session) -> Next {
        let read = journal(&s.job(l.job).log[..usize::from(l.seen)]);
        // What a claim knows of the journal is the first system's matter.
        match after_read(&read, Epoch(u64::from(l.epoch)), read.next()) {
            AfterRead::Stop(_) => return None,
            AfterRead::Repair(ending) => return Some(settle(l, End::of(&ending))),
            AfterRead::Claim | AfterRead::Release => {}
        }
        if !s.append(l.job, l.seen, Mark::Claimed(l.epoch)) {
            l.seen += 1;
            return Some(l);
        }
        l.seen += 1;
        let read = journal(&s.job(l.job).log[..usize::from(l.seen)]);
        if read.replays() != u32::from(l.looked_at) && !self.rules.has(Mutant::ReplayAsksNoTurn) {
            l.pc = Pc::Release;
            return Some(l);
        }
        l.pc = match next_move(&read) {
            NextMove::End(ending) => Pc::AppendEnd(End::of(&ending)),
            NextMove::Drive => Pc::Run,
        };
        Some(l)
    }

    /// What stands where a session wanted to append; none: it stops.
    fn conflict(&self, s: &State, mut l: Session) -> Next {
        let found = s.job(l.job).log.get(usize::from(l.seen)).copied()?;
        let nonce = |number: u128| Nonce::from_uuid(uuid::Uuid::from_u128(number));
        let batch = Batch::new(Seq(1), nonce(1), Timestamp::from_millis(1), vec![entry(found)]);
        match on_conflict(Epoch(u64::from(l.epoch)), nonce(2), &batch) {
            OnConflict::Own | OnConflict::Stop(_) => None,
            OnConflict::Reconsider => {
                l.seen += 1;
                let read = journal(&s.job(l.job).log[..usize::from(l.seen)]);
                if let NextMove::End(ending) = next_move(&read) {
                    l.pc = Pc::AppendEnd(End::of(&ending));
                }
                Some(l)
            }
        }
    }

    fn run(&self, s: &mut State, mut l: Session) -> Next {
        let does = self.orders[usize::from(l.job)].does;
        let seen = &s.job(l.job).log[..usize::from(l.seen)];
        let replays = narrow(seen.iter().filter(|mark| **mark == Mark::Replayed).count());
        let outcome = Mark::Outcome(replays);
        if !seen.contains(&outcome) {
            if !s.append(l.job, l.seen, outcome) {
                return self.conflict(s, l);
            }
            l.seen += 1;
        }
        l.pc = match does {
            Does::Fails if replays == 0 => Pc::AppendEnd(End::Failed),
            Does::Waits if replays == 0 => Pc::Wait,
            Does::Works | Does::Fails | Does::Waits => Pc::AppendEnd(End::Completed),
        };
        Some(l)
    }

    fn wait(&self, s: &mut State, slot: usize, mut l: Session) -> Next {
        if !l.cur {
            return None;
        }
        if l.wakes {
            s.put(l.job, Mode::Waiting(l.seen), Some(slot));
            return None;
        }
        // Refused: it looks at what stands there now, entry by entry, and then at the wakes.
        if narrow(s.job(l.job).log.len()) > l.seen {
            return self.conflict(s, l);
        }
        l.wakes = true;
        Some(l)
    }

    fn append_end(&self, s: &mut State, mut l: Session, wanted: End) -> Next {
        let read = journal(&s.job(l.job).log[..usize::from(l.seen)]);
        let end = End::of(&ending(&read, &wanted.ending()));
        if !s.append(l.job, l.seen, Mark::Ended(end)) {
            return self.conflict(s, l);
        }
        l.seen += 1;
        Some(settle(l, end))
    }

    fn hand_line(&self, s: &State, mut l: Session) -> Session {
        (l.line, l.line_cur) = (s.line.clone(), true);
        let seen = &s.job(l.job).log[..usize::from(l.seen)];
        let replays = narrow(seen.iter().filter(|mark| **mark == Mark::Replayed).count());
        l.pc = match self.rules.leave(&l.line, self.rules.place(l.job, replays)) {
            Some(write) => Pc::HandWrite(spots(&write)),
            // Somebody has done it and may have died before the call.
            None => Pc::Call { places: l.line.clone(), handing_on: true },
        };
        l
    }

    fn hand_write(&self, s: &mut State, mut l: Session, places: Vec<Spot>) -> Session {
        if !l.line_cur && !self.rules.has(Mutant::LineWrittenBlind) {
            return self.hand_line(s, l);
        }
        let front_changed = places.first() != l.line.first();
        s.put_line(places.clone());
        l.pc = if front_changed { Pc::Call { places, handing_on: true } } else { Pc::Finish };
        l
    }

    fn finish(&self, s: &mut State, slot: usize, mut l: Session) -> Next {
        if !l.cur {
            return None;
        }
        if l.pc == Pc::Finish {
            if l.wakes {
                s.put(l.job, Mode::Ended, Some(slot));
                return None;
            }
            l.pc = Pc::FinishLook;
            return Some(l);
        }
        (l.wakes, l.seen) = (true, narrow(s.job(l.job).log.len()));
        let read = journal(&s.job(l.job).log);
        let settled = l.end.unwrap_or(End::Completed);
        l.pc = match after_look(&read, &settled.ending()) {
            AfterLook::Release => Pc::Release,
            AfterLook::GoOn => Pc::Finish,
            AfterLook::Settle(ending) => return Some(settle(l, End::of(&ending))),
        };
        Some(l)
    }
}

/// What follows an end: the line, then the item.
fn settle(mut l: Session, end: End) -> Session {
    (l.end, l.pc) = (Some(end), Pc::HandLine);
    l
}
