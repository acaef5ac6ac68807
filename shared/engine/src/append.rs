//! What an append that met another entry must do, and what may end a job.
//!
//! An append is one conditional put: the item at the position must not exist. When it does, the entry that stands there
//! decides (protocol rule 5), one by one and never by a jump to the tail.

use crate::entry::{Batch, Entry};
use crate::failure::{ErrorClass, Failure};
use crate::ids::{Epoch, Nonce, Seq};
use crate::journal::{Ending, Journal};
use crate::limits;

/// Why a writer must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Another session has claimed the job since; no further effect of any kind.
    #[error("the job was claimed by another session (epoch {})", by.0)]
    Fenced {
        /// Its epoch.
        by: Epoch,
    },
    /// The job has ended.
    #[error("the job has ended")]
    Ended,
}

/// What the entries that stand at my position mean for my append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// They are mine: the write had gone through and was repeated.
    Own,
    /// I must stop.
    Stop(Stop),
    /// Take them in, decide again, and try behind them.
    Reconsider,
}

/// Decides about a conflict of the driver of `epoch`, whose append carries `nonce`.
#[must_use]
pub fn on_conflict(epoch: Epoch, nonce: Nonce, found: &Batch) -> OnConflict {
    if found.nonce == nonce {
        return OnConflict::Own;
    }
    for entry in &found.entries {
        if entry.is_terminal() {
            return OnConflict::Stop(Stop::Ended);
        }
        // An equal epoch under another mark would be a second winner of one claim: stop as well.
        if let Entry::Claimed { epoch: other, .. } = entry
            && *other >= epoch
        {
            return OnConflict::Stop(Stop::Fenced { by: *other });
        }
    }
    OnConflict::Reconsider
}

/// Decides about a conflict of a writer from outside (a signal, a cancel, a replay), which no epoch fences.
#[must_use]
pub fn on_outside_conflict(nonce: Nonce, found: &Batch) -> OnConflict {
    if found.nonce == nonce { OnConflict::Own } else { OnConflict::Reconsider }
}

/// What a driver that has read the journal after its claim must do.
#[derive(Debug, Clone, PartialEq)]
pub enum AfterRead {
    /// Stop: another session claimed it since.
    Stop(Stop),
    /// The job has ended; append nothing, finish the aftermath and repair the job item.
    Repair(Ending),
    /// Give the job back: it has ended and was opened again since the claim was made.
    Release,
    /// Append the claim.
    Claim,
}

/// Protocol rule 4: the look at the journal between the claim of `epoch` and its `claimed` entry. The claim was made on an
/// item that knew the journal up to `tail`.
///
/// Behind an end that was opened again since, a `claimed` entry fences nobody: a session of a higher epoch that had found
/// the end appends none, and would write the old end over whatever comes of this one. So this one does not go on but
/// writes to the item, which says whose the job is; the next claim knows of the replay.
#[must_use]
pub fn after_read(journal: &Journal, epoch: Epoch, tail: Seq) -> AfterRead {
    match journal.last_claim() {
        // My own entry cannot stand there yet: I append it after this look.
        Some(claim) if claim.epoch >= epoch => return AfterRead::Stop(Stop::Fenced { by: claim.epoch }),
        Some(_) | None => {}
    }
    match journal.ending() {
        Some(ending) => AfterRead::Repair(ending.clone()),
        None if journal.opened_again().is_some_and(|at| at >= tail) => AfterRead::Release,
        None => AfterRead::Claim,
    }
}

/// What a driver does next, looking at the journal with its claim in it.
#[derive(Debug, Clone, PartialEq)]
pub enum NextMove {
    /// Run the agent.
    Drive,
    /// End the job so.
    End(Ending),
}

/// Decides between driving on and ending the job, at the claim and again after every entry that came from outside:
/// a cancel ends it, and so do too many crashes in a row.
#[must_use]
pub fn next_move(journal: &Journal) -> NextMove {
    if let Some(cancel) = journal.cancel() {
        return NextMove::End(Ending::Cancelled { by: cancel.by.clone(), reason: cancel.reason.clone() });
    }
    // A death that was shared with many says little about this job, but not nothing: they end it as well, only later.
    if journal.own_crashes_in_row() >= limits::CRASHES_MAX || journal.crashes_in_row() >= limits::CRASHES_SHARED_MAX {
        return NextMove::End(Ending::Failed { failure: worker_lost(journal.crashes_in_row()) });
    }
    NextMove::Drive
}

/// How a job ends whose agent came to `wanted`: a cancel that stands in the journal by then goes first.
#[must_use]
pub fn ending(journal: &Journal, wanted: &Ending) -> Ending {
    match next_move(journal) {
        NextMove::End(ending @ Ending::Cancelled { .. }) => ending,
        NextMove::End(Ending::Completed { .. } | Ending::Failed { .. }) | NextMove::Drive => wanted.clone(),
    }
}

/// What a driver does that was settling an end and has looked at the journal again.
#[derive(Debug, Clone, PartialEq)]
pub enum AfterLook {
    /// A person has opened the job again: give it back.
    Release,
    /// The end stands as it was: settle on.
    GoOn,
    /// The job was opened again and has ended otherwise since: settle that end instead.
    Settle(Ending),
}

/// Decides about `settled` after a refused write of the job item. A driver that came to an end by reading it has left
/// no `claimed` entry, so that one of a lower epoch may have driven a replayed job to another end meanwhile.
#[must_use]
pub fn after_look(journal: &Journal, settled: &Ending) -> AfterLook {
    match journal.ending() {
        None => AfterLook::Release,
        Some(ending) if ending == settled => AfterLook::GoOn,
        Some(ending) => AfterLook::Settle(ending.clone()),
    }
}

/// What a job that was opened again does about a child that it waits for anew and has not heard of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejoin {
    /// Wait: the child goes on and will tell.
    Wait,
    /// Write down how the child has ended; if the child does so too, the key makes it one.
    Tell,
    /// Open the child again, so that it goes on from its last good step, as its parent does.
    Replay,
}

/// Decides about a child by its journal's `ending`, by whether its parent has `heard` of this end before, and by whether
/// the child's job item, read before its journal, was `settled` (terminal). Not by the item alone: a child tells its
/// parent before it writes its item, so one that was refused by a closed parent may look as if it still had to tell.
#[must_use]
pub const fn rejoin(ending: Option<&Ending>, heard: bool, settled: bool) -> Rejoin {
    match (ending, heard, settled) {
        (None, _, false) => Rejoin::Wait,
        // Whoever opened its journal died before its item: to open it again finishes that.
        (None, _, true) => Rejoin::Replay,
        (Some(Ending::Completed { .. }), _, _) | (Some(_), false, false) => Rejoin::Tell,
        // A failure that was heard and forgotten is not told again.
        (Some(Ending::Failed { .. } | Ending::Cancelled { .. }), _, _) => Rejoin::Replay,
    }
}

/// The failure of a job whose workers die.
#[must_use]
pub fn worker_lost(times: u32) -> Failure {
    Failure::new(
        ErrorClass::WorkerLost,
        format!(
            "the worker died {times} times in a row while it drove this job, without progress between; \
             look at the worker's log and memory, then replay the job"
        ),
    )
}
