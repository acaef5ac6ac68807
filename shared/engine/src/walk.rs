//! A walk over a journal that may be too much to read: one batch at a time, with nothing kept.
//!
//! When workers die before they can append anything, most likely of the journal's size, the next one must find the
//! journal's end, and whether it may end the job there, without holding the journal. Only the end of the journal is
//! walked, from the last known tail.

use crate::append::Stop;
use crate::claim::died_unread;
use crate::entry::{Batch, Entry};
use crate::ids::{Epoch, Seq};
use crate::journal::Ending;

/// What a walk has come by so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Walk {
    at: Seq,
    claims_written: u32,
    last_claim: Epoch,
    ended: Option<Ending>,
    opened_again: bool,
}

/// What the driver of a suspicious claim does after its walk.
#[derive(Debug, Clone, PartialEq)]
pub enum AfterWalk {
    /// Read the journal: it can be read, as the claims in it show.
    Read,
    /// Stop: another session has claimed the job since.
    Stop(Stop),
    /// The job has ended, but whoever ended it died over the aftermath: finish it, append nothing.
    Settle(Ending),
    /// Give the job back: it was opened again since the claim was made, see [`crate::append::after_read`].
    Release,
    /// End the job at the end of the journal.
    GiveUp {
        /// How many workers died before they could append anything.
        deaths: u32,
    },
}

impl Walk {
    /// A walk that begins at the tail as last known.
    #[must_use]
    pub const fn from(tail: Seq) -> Self {
        Self { at: tail, claims_written: 0, last_claim: Epoch(0), ended: None, opened_again: false }
    }

    /// Where the next batch stands, if there is one.
    #[must_use]
    pub const fn at(&self) -> Seq {
        self.at
    }

    /// Passes the batch that stands there.
    pub fn pass(&mut self, batch: Batch) {
        self.at = batch.next();
        for entry in batch.entries {
            if let Entry::Claimed { epoch, .. } = entry {
                self.claims_written = self.claims_written.saturating_add(1);
                self.last_claim = self.last_claim.max(epoch);
            } else if matches!(entry, Entry::Replayed { .. }) {
                (self.ended, self.opened_again) = (None, true);
            } else if let Some(ending) = Ending::of_entry(entry) {
                self.ended = Some(ending);
            }
        }
    }

    /// Decides at the end of the journal for the claim of `epoch`, the job item counting `attempts`.
    #[must_use]
    pub fn decide(self, epoch: Epoch, attempts: u32) -> AfterWalk {
        if self.last_claim >= epoch {
            return AfterWalk::Stop(Stop::Fenced { by: self.last_claim });
        }
        if !died_unread(attempts, self.claims_written) {
            return AfterWalk::Read;
        }
        match self.ended {
            Some(ending) => AfterWalk::Settle(ending),
            None if self.opened_again => AfterWalk::Release,
            None => AfterWalk::GiveUp { deaths: attempts.saturating_sub(self.claims_written) },
        }
    }
}
