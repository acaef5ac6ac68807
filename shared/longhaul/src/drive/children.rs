//! Children of a job that was opened again.
//!
//! A child that ends while its parent is closed can tell nobody, and one that its parent's end cancelled has nothing to
//! tell. A parent that was replayed waits for them anew, so it looks how they stand; else it would wait for ever.

use longhaul_engine::append::{Rejoin, rejoin};
use longhaul_engine::entry::Edit;
use longhaul_engine::ids::{Seq, SignalKey, SignalName};
use longhaul_engine::journal::{FoldError, KeyKind};
use longhaul_engine::{JobId, Journal};

use super::ending::known;
use super::{DriveError, Holding, Invocation};
use crate::outside;
use crate::store::{JobRef, Store};

impl<S: Store> Invocation<'_, S> {
    /// Looks how a child stands that a replayed job waits for again. A result that could not be told is told now. A child
    /// that ended without one goes on from its last good step, as its parent does.
    pub(super) async fn rejoin(&self, holding: &Holding, mut parent: Journal, child: JobId) -> Result<(), DriveError> {
        let reference = JobRef { tenant: holding.reference.tenant.clone(), job: child };
        let Some(job) = self.store.job(&reference).await? else { return Ok(()) };
        let settled = job.progress.state.is_terminal();
        let batches = self.store.journal(child, Seq::FIRST).await?;
        let journal = match Journal::read(batches) {
            Ok(journal) => journal,
            Err(error @ FoldError::Newer { .. }) => return Err(DriveError::Journal { job: child, source: error }),
            // One job's going on must not hang on the health of another; a person sees the wait and can cancel it.
            Err(error) => {
                tracing::error!(%child, %error, "how a child stands cannot be read; its parent waits for its word");
                return Ok(());
            }
        };
        // Behind the look at the child, which tells its parent before it writes its item: what it has told stands here by now.
        for batch in self.store.journal(holding.reference.job, parent.next()).await? {
            parent.take_in(batch).map_err(|source| DriveError::Journal { job: holding.reference.job, source })?;
        }
        if parent.untaken_signal(&SignalName::of_child_end(child)).is_some() {
            return Ok(());
        }
        let heard = parent.has_key(KeyKind::Signal, &SignalKey::of_child_end(child, journal.replays()));
        match (rejoin(journal.ending(), heard, settled), journal.ending()) {
            (Rejoin::Wait, _) | (Rejoin::Tell, None) => Ok(()),
            (Rejoin::Tell, Some(ending)) => {
                self.tell(child, &holding.reference, journal.replays(), ending, journal.totals()).await
            }
            (Rejoin::Replay, _) => {
                let by = format!("job:{}", holding.reference.job);
                let key = SignalKey::of_parent_replay(holding.reference.job, parent.replays());
                let now = self.clock.now();
                let replayed = outside::replay(self.store, &reference, key, by, None, Edit::default(), now).await;
                known(replayed.map(|_| ()))
            }
        }
    }
}
