//! Appends of the session that holds a job.

use longhaul_engine::append::{OnConflict, Stop, on_conflict};
use longhaul_engine::{Batch, Entry, Journal};

use super::{DriveError, Holding, Invocation};
use crate::outside::fresh_nonce;
use crate::store::{Append, Store};

/// What an append came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Appended {
    /// It stands in the journal, or there was nothing to append any more.
    Stands,
    /// Something from outside stands there and was taken in; decide again.
    Reconsider,
    /// Stop.
    Stop(Stop),
}

impl<S: Store> Invocation<'_, S> {
    /// Tries one append at the tail and takes in whatever then stands there.
    pub(super) async fn append_once(
        &self,
        holding: &Holding,
        journal: &mut Journal,
        entries: Vec<Entry>,
    ) -> Result<Appended, DriveError> {
        let batch = Batch::new(journal.next(), fresh_nonce(), self.clock.now(), entries);
        match self.store.append(&holding.reference, &batch).await? {
            Append::Written => {
                self.take_in(holding, journal, batch)?;
                Ok(Appended::Stands)
            }
            Append::Conflict(found) => match on_conflict(holding.epoch(), batch.nonce, &found) {
                OnConflict::Stop(stop) => Ok(Appended::Stop(stop)),
                OnConflict::Own => {
                    self.take_in(holding, journal, *found)?;
                    Ok(Appended::Stands)
                }
                OnConflict::Reconsider => {
                    self.take_in(holding, journal, *found)?;
                    Ok(Appended::Reconsider)
                }
            },
        }
    }

    pub(super) fn take_in(&self, holding: &Holding, journal: &mut Journal, batch: Batch) -> Result<(), DriveError> {
        journal.take_in(batch).map_err(|source| DriveError::Journal { job: holding.reference.job, source })
    }
}
