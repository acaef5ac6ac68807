//! Appends of the session that holds a job.

use std::time::Duration;

use longhaul_engine::append::{OnConflict, Stop, on_conflict};
use longhaul_engine::{Batch, Entry, Journal, limits};

use super::{DriveError, Holding, Invocation};
use crate::outside::fresh_nonce;
use crate::store::{Append, JobRef, Store, StoreError};

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
        match self.append_surely(&holding.reference, &batch).await? {
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

    /// Appends a batch, again and again while the store gives no answer and time is left: what it holds was paid for.
    /// The mark of the batch makes a repetition harmless.
    pub(super) async fn append_surely(&self, job: &JobRef, batch: &Batch) -> Result<Append, StoreError> {
        let mut pause = Duration::from_millis(limits::STORE_RETRY_FIRST_MS);
        loop {
            let failed = match self.store.append(job, batch).await {
                Err(error @ StoreError::Unavailable { .. }) => error,
                other => return other,
            };
            let again_at = self.clock.now().plus(pause);
            if again_at.plus(Duration::from_millis(limits::DEADLINE_RESERVE_MS)) > self.deadline {
                return Err(failed);
            }
            tracing::warn!(job = %job.job, at = %batch.at, error = %failed, "not appended; trying again");
            self.clock.sleep_until(again_at).await;
            pause = pause.saturating_mul(2).min(Duration::from_millis(limits::STORE_RETRY_MAX_MS));
        }
    }

    pub(super) fn take_in(&self, holding: &Holding, journal: &mut Journal, batch: Batch) -> Result<(), DriveError> {
        journal.take_in(batch).map_err(|source| DriveError::Journal { job: holding.reference.job, source })
    }
}
