//! The rules that the model plays by: the engine's own decisions, or those with one deviation.
//!
//! A mutant is the production decision and one thing weaker. It shows that the check would notice if somebody took that
//! thing out.

use longhaul_engine::append::{self, AfterLook, AfterRead, NextMove, OnConflict, Rejoin, Stop};
use longhaul_engine::claim::{self, ClaimDecision, Holder, News, NoClaim};
use longhaul_engine::ids::SessionId;
use longhaul_engine::job::JobWrite;
use longhaul_engine::journal::{Ending, KeyKind};
use longhaul_engine::walk::{AfterWalk, Walk};
use longhaul_engine::{Batch, Epoch, Job, JobState, Journal, Nonce, Seq, SignalKey, Timestamp, limits};

/// One thing weaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the table in mutants.rs says of each what is weaker")]
pub enum Mutant {
    WaitBlindWithoutDue,
    WaitBlind,
    EchoUnknown,
    WorkerAndEpochCompared,
    EpochUncheckedAfterRead,
    ClaimBehindEnd,
    EndBlind,
    LostBlind,
    ReleasesCounted,
    LooksCounted,
    SignalBehindEnd,
    EpochLost,
    SubmitOverwrites,
    CancelPoint,
    KeyNotScanned,
    AppendEchoUnknown,
    NoClaimedEntry,
    DueClearedAtClaim,
    ItemFirst,
    EpochUncheckedOnConflict,
    JumpToTail,
    FinishBlind,
    ReplayLooksFirst,
    OnceWithoutStarted,
    UnreadOverCounted,
    TellAfterItem,
    SignalWithoutWake,
    ChildNotSubmittedAgain,
    ReleaseUnconditional,
    LastWriteCompared,
    WalkBlind,
    OldEndSettled,
    ChildNotRejoined,
    RejoinedByItem,
    OwnLeaseHeld,
    JournalReadInPart,
    SharedDeathsCounted,
    AnyReplayAnswered,
    HalfReplayLeft,
    RejoinedByOldJournal,
    DrivenBehindUnknownReplay,
    UnsureEndsInOrder,
}

/// The rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    /// The one deviation.
    pub mutant: Option<Mutant>,
}

impl Rules {
    /// Whether the rules have this deviation.
    #[must_use]
    pub fn has(self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// [`claim::decide`].
    #[must_use]
    pub fn decide(
        self,
        job: &Job,
        me: &SessionId,
        holder: Holder,
        news: News,
        nonce: Nonce,
        now: Timestamp,
    ) -> ClaimDecision {
        let mut decision = claim::decide(job, me, holder, news, nonce, now);
        if self.has(Mutant::LooksCounted) && decision == ClaimDecision::Acknowledge(NoClaim::NothingNew) {
            decision = claim::decide(job, me, holder, News::Something, nonce, now);
        }
        let own = matches!(&job.progress.state, JobState::Processing { lease } if lease.session == *me);
        if self.has(Mutant::OwnLeaseHeld) && own {
            return ClaimDecision::Acknowledge(NoClaim::Held);
        }
        if let ClaimDecision::Claim(claim) = &mut decision {
            if self.has(Mutant::ReleasesCounted) || self.has(Mutant::LooksCounted) {
                claim.takeover = true;
            }
            if self.has(Mutant::DueClearedAtClaim) {
                claim.write.progress.due = None;
            }
        }
        decision
    }

    /// A write of the item by its holder.
    #[must_use]
    pub fn item_write(self, mut write: JobWrite, is_wait: bool) -> JobWrite {
        if is_wait && (self.has(Mutant::WaitBlind) || self.has(Mutant::WaitBlindWithoutDue)) {
            write.wakes = None;
        }
        if is_wait && self.has(Mutant::WaitBlindWithoutDue) {
            write.progress.due = None;
        }
        if !is_wait && self.has(Mutant::FinishBlind) {
            write.wakes = None;
        }
        let is_release = !matches!(write.progress.state, JobState::Processing { .. });
        if self.has(Mutant::EpochLost) && is_release {
            write.progress.epoch = Epoch::default();
        }
        write
    }

    /// [`append::after_read`]; `again` when the look follows a conflict.
    #[must_use]
    pub fn after_read(self, journal: &Journal, epoch: Epoch, tail: Seq, again: bool) -> AfterRead {
        match append::after_read(journal, epoch, tail) {
            AfterRead::Release if self.has(Mutant::DrivenBehindUnknownReplay) => AfterRead::Claim,
            AfterRead::Stop(_) if self.has(Mutant::EpochUncheckedAfterRead) => AfterRead::Claim,
            AfterRead::Repair(_) if self.has(Mutant::ClaimBehindEnd) && again => AfterRead::Claim,
            after => after,
        }
    }

    /// [`append::on_conflict`].
    #[must_use]
    pub fn on_conflict(self, epoch: Epoch, nonce: Nonce, found: &Batch) -> OnConflict {
        match append::on_conflict(epoch, nonce, found) {
            OnConflict::Own if self.has(Mutant::AppendEchoUnknown) => OnConflict::Reconsider,
            OnConflict::Stop(Stop::Fenced { .. }) if self.has(Mutant::EpochUncheckedOnConflict) => {
                OnConflict::Reconsider
            }
            on_conflict => on_conflict,
        }
    }

    /// [`append::next_move`].
    #[must_use]
    pub fn next_move(self, journal: &Journal) -> NextMove {
        match append::next_move(journal) {
            NextMove::End(Ending::Cancelled { .. }) if self.has(Mutant::CancelPoint) => NextMove::Drive,
            NextMove::Drive
                if self.has(Mutant::SharedDeathsCounted) && journal.crashes_in_row() >= limits::CRASHES_MAX =>
            {
                NextMove::End(Ending::Failed { failure: append::worker_lost(journal.crashes_in_row()) })
            }
            next => next,
        }
    }

    /// [`append::ending`].
    #[must_use]
    pub fn ending(self, journal: &Journal, wanted: &Ending) -> Ending {
        if self.has(Mutant::EndBlind) { wanted.clone() } else { append::ending(journal, wanted) }
    }

    /// [`append::after_look`].
    #[must_use]
    pub fn after_look(self, journal: &Journal, settled: &Ending) -> AfterLook {
        match append::after_look(journal, settled) {
            AfterLook::Settle(_) if self.has(Mutant::OldEndSettled) => AfterLook::GoOn,
            after => after,
        }
    }

    /// [`append::rejoin`].
    #[must_use]
    pub fn rejoin(self, ending: Option<&Ending>, heard: bool, settled: bool) -> Rejoin {
        match append::rejoin(ending, heard, settled) {
            Rejoin::Tell if self.has(Mutant::RejoinedByItem) && !settled => Rejoin::Wait,
            rejoin => rejoin,
        }
    }

    /// [`Walk::decide`].
    #[must_use]
    pub fn after_walk(self, walk: Walk, epoch: Epoch, attempts: u32) -> AfterWalk {
        let end = walk.at();
        match walk.decide(epoch, attempts) {
            AfterWalk::Read if self.has(Mutant::UnreadOverCounted) && attempts > limits::CLAIM_ATTEMPTS_MAX => {
                AfterWalk::GiveUp { deaths: attempts }
            }
            AfterWalk::Stop(_) | AfterWalk::Settle(_) if self.has(Mutant::WalkBlind) && end > Seq::FIRST => {
                AfterWalk::GiveUp { deaths: attempts }
            }
            after => after,
        }
    }

    /// Whether a request's key was taken in before.
    #[must_use]
    pub fn has_key(self, journal: &Journal, kind: KeyKind, key: &SignalKey) -> bool {
        !self.has(Mutant::KeyNotScanned) && journal.has_key(kind, key)
    }

    /// Whether a request may not enter any more.
    #[must_use]
    pub fn is_over(self, journal: &Journal) -> bool {
        !self.has(Mutant::SignalBehindEnd) && journal.ending().is_some()
    }
}
