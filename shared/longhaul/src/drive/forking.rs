//! A fork's first work: what it keeps of the job that it was made of goes into its own journal.
//!
//! Under the fork's own claim and by the same appends as any step, so that a worker that dies here, is fenced or meets a
//! signal is in no other place than anywhere else. The agent's code runs when all of it stands.

use std::time::Duration;

use longhaul_engine::append::{NextMove, next_move};
use longhaul_engine::claim::At;
use longhaul_engine::fork::{self, Fork, Kept};
use longhaul_engine::ids::Seq;
use longhaul_engine::job::Origin;
use longhaul_engine::journal::{Ending, FoldError};
use longhaul_engine::{ErrorClass, Failure, Journal, limits};

use super::journaling::Appended;
use super::{DriveError, Handled, Holding, Invocation};
use crate::store::{JobRef, Store};

/// What bringing over came to.
pub(super) enum Brought {
    /// All of it stands, or the job is no fork.
    Stands,
    /// The invocation is done with this job.
    Handled(Handled),
    /// The job ends so.
    End(Ending),
}

impl<S: Store> Invocation<'_, S> {
    /// Writes what the fork's journal still lacks of what it keeps.
    pub(super) async fn bring_over(&self, holding: &mut Holding, journal: &mut Journal) -> Result<Brought, DriveError> {
        let Origin::Forked(fork) = holding.order.origin.clone() else { return Ok(Brought::Stands) };
        if journal.forked() {
            return Ok(Brought::Stands);
        }
        let kept = match self.kept(holding, &fork).await? {
            Ok(kept) => kept,
            Err(failure) => return Ok(Brought::End(Ending::Failed { failure })),
        };
        while let Some(entries) = fork::next_entries(&kept, &fork, journal) {
            if let NextMove::End(ending) = next_move(journal) {
                return Ok(Brought::End(ending));
            }
            let now = self.clock.now();
            if now.until(self.deadline) < Duration::from_millis(limits::DEADLINE_RESERVE_MS) {
                let at = At::of(journal, now);
                return self.release(holding, &at).await.map(Brought::Handled);
            }
            match self.append_once(holding, journal, fork::begun_at(entries, now)).await? {
                // Something may stand there now that says otherwise; what is missing is seen anew.
                Appended::Stands | Appended::Reconsider => {}
                Appended::Stop(stop) => {
                    tracing::info!(job = %holding.reference.job, epoch = holding.epoch().0, "stopped: {stop}");
                    return Ok(Brought::Handled(Handled::Acknowledge));
                }
            }
        }
        Ok(Brought::Stands)
    }

    /// What the fork keeps; a failure where it cannot be told any more.
    async fn kept(&self, holding: &Holding, fork: &Fork) -> Result<Result<Vec<Kept>, Failure>, DriveError> {
        let source = JobRef { tenant: holding.reference.tenant.clone(), job: fork.job };
        let failed = |what: &str| {
            let message =
                format!("what the fork keeps of job {} cannot be read: {what}; fork from another job", fork.job);
            Ok(Err(Failure::new(ErrorClass::Invalid, message)))
        };
        if self.store.job(&source).await?.is_none() {
            return failed("the job is not kept any more");
        }
        let batches = self.store.journal(fork.job, Seq::FIRST).await?;
        // A journal that is being removed ends early. Steps that it held would be done a second time.
        if batches.last().is_none_or(|last| last.next() < fork.at) && fork.at > Seq::FIRST {
            return failed("its journal is not whole any more");
        }
        match fork::kept(&batches, fork) {
            Ok(kept) => Ok(Ok(kept)),
            Err(source @ FoldError::Newer { .. }) => Err(DriveError::Journal { job: fork.job, source }),
            Err(error) => failed(&error.to_string()),
        }
    }
}
