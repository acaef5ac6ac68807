//! Children of a job that was opened again.
//!
//! A child that ends while its parent is closed can tell nobody, and one that its parent's end cancelled has nothing to
//! tell. A parent that was replayed waits for them anew, so it looks how they stand; else it would wait for ever.

use longhaul_engine::entry::Edit;
use longhaul_engine::ids::{Seq, SignalKey};
use longhaul_engine::journal::Ending;
use longhaul_engine::{JobId, Journal};

use super::ending::known;
use super::{DriveError, Holding, Invocation};
use crate::child::end_signal;
use crate::outside;
use crate::store::{JobRef, Store};

impl<S: Store> Invocation<'_, S> {
    /// Looks how a child stands that a replayed job waits for again. A result that could not be told is told now. A child
    /// that ended without one goes on from its last good step, as its parent does.
    pub(super) async fn rejoin(&self, holding: &Holding, parent: &Journal, child: JobId) -> Result<(), DriveError> {
        let Ok(signal) = end_signal(child) else { return Ok(()) };
        if parent.untaken_signal(&signal).is_some() {
            return Ok(());
        }
        let reference = JobRef { tenant: holding.reference.tenant.clone(), job: child };
        if !self.store.job(&reference).await?.is_some_and(|job| job.progress.state.is_terminal()) {
            return Ok(());
        }
        let batches = self.store.journal(child, Seq::FIRST).await?;
        let journal = Journal::read(batches).map_err(|source| DriveError::Journal { job: child, source })?;
        match journal.ending() {
            Some(ending @ Ending::Completed { .. }) => {
                self.tell(child, &holding.reference, journal.replays(), ending, journal.totals()).await
            }
            Some(Ending::Failed { .. } | Ending::Cancelled { .. }) => {
                let by = format!("job:{}", holding.reference.job);
                let key = format!("parent-replayed:{}:{}", holding.reference.job, parent.replays());
                let Ok(key) = key.parse::<SignalKey>() else { return Ok(()) };
                let now = self.clock.now();
                let replayed = outside::replay(self.store, &reference, key, by, None, Edit::default(), now).await;
                known(replayed.map(|_| ()))
            }
            // It was opened again already.
            None => Ok(()),
        }
    }
}
