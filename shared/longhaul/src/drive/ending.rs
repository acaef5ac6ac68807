//! From the agent's end to the job's: the terminal entry, the aftermath, the job item.
//!
//! The terminal entry is the commit point (protocol rule 9). Everything after it is done at least once and in this
//! order, the job item last: a worker that finds a terminal entry under a job item that is not terminal does it again.

use std::time::Duration;

use longhaul_engine::append::{AfterLook, after_look, ending as decide_ending};
use longhaul_engine::claim::{At, Held};
use longhaul_engine::ids::{Seq, SignalKey, SignalName};
use longhaul_engine::job::{Job, JobWrite, Progress, Totals};
use longhaul_engine::journal::{Ending, StepState};
use longhaul_engine::{Entry, JobId, Journal, Timestamp, limits, wait};

use super::journaling::Appended;
use super::running::Found;
use super::{DriveError, Handled, Holding, Invocation};
use crate::child::told;
use crate::outside::{self, OutsideError, fresh_nonce};
use crate::registry::Recorded;
use crate::store::{Continuation, JobRef, Store, StoreError, Write};

impl<S: Store> Invocation<'_, S> {
    /// Appends the terminal entry, deciding again when something from outside came first, and settles the rest.
    pub(super) async fn end_job(
        &self,
        holding: &mut Holding,
        journal: &mut Journal,
        wanted: Ending,
    ) -> Result<Handled, DriveError> {
        loop {
            let ending = decide_ending(journal, &wanted);
            match self.append_once(holding, journal, vec![ending.clone().into_entry()]).await? {
                Appended::Stands => return self.settle(holding, journal, ending).await,
                Appended::Reconsider => {}
                Appended::Stop(stop) => {
                    tracing::info!(job = %holding.reference.job, "not ended by this session: {stop}");
                    return Ok(Handled::Acknowledge);
                }
            }
        }
    }

    /// Does what follows a terminal entry.
    pub(super) async fn settle(
        &self,
        holding: &mut Holding,
        journal: &mut Journal,
        mut ending: Ending,
    ) -> Result<Handled, DriveError> {
        Box::pin(self.leave(holding, journal, &ending)).await;
        self.tell_all(holding, journal, &ending).await?;
        loop {
            let at = At::of(journal, self.clock.now());
            let write = holding.held.finish(fresh_nonce(), &ending, &at);
            match self.store.write_job(&holding.reference, &write).await? {
                Write::Written { .. } => {
                    tracing::info!(job = %holding.reference.job, status = write.progress.state.status().as_str(), "ended");
                    return Ok(Handled::Acknowledge);
                }
                Write::Refused(found) => {
                    if !self.look_again(holding, journal, &found).await? {
                        return Ok(Handled::Acknowledge);
                    }
                    match after_look(journal, &ending) {
                        AfterLook::GoOn => {}
                        AfterLook::Release => {
                            return self.release(holding, &At::of(journal, self.clock.now())).await;
                        }
                        AfterLook::Settle(other) => {
                            self.tell_all(holding, journal, &other).await?;
                            ending = other;
                        }
                    }
                }
            }
        }
    }

    /// Lets the agent tell others that the job has ended without it. Nothing hangs on it: what cannot be told now is left.
    async fn leave(&self, holding: &Holding, journal: &Journal, ending: &Ending) {
        match ending {
            Ending::Completed { .. } => return,
            Ending::Failed { .. } | Ending::Cancelled { .. } => {}
        }
        let Ok(Found::Agent(agent)) = self.find(&holding.order).await else { return };
        let Some(leave) = agent.leave else { return };
        // The job's item is written behind it, in this invocation.
        let reserve = Duration::from_millis(limits::DEADLINE_RESERVE_MS);
        let left = self.clock.now().until(self.deadline).saturating_sub(reserve);
        let time = Duration::from_millis(limits::LEAVE_MS).min(left);
        let steps = recorded(journal);
        if tokio::time::timeout(time, leave(&steps)).await.is_err() {
            tracing::warn!(job = %holding.reference.job, "the agent took too long to tell others of the job's end");
        }
    }

    /// Settles a job whose journal was too much to read: its item, its dead letter and its parent, not its children,
    /// which only the journal names.
    pub(super) async fn settle_unread(
        &self,
        holding: &mut Holding,
        tail: Seq,
        ending: &Ending,
    ) -> Result<Handled, DriveError> {
        if let Ending::Failed { failure } = ending {
            self.store.dead_letter(&self.as_job(holding, tail, holding.totals), failure).await?;
        }
        if holding.order.parent.is_some() || holding.order.thread.is_some() {
            let replays = self.count_replays(holding.reference.job).await?;
            self.tell_parent(holding, replays, ending, &holding.totals).await?;
            Box::pin(self.hand_on(&holding.order, replays)).await?;
        }
        loop {
            let at = At { tail, totals: holding.totals, now: self.clock.now() };
            let write = holding.held.finish(fresh_nonce(), ending, &at);
            match self.store.write_job(&holding.reference, &write).await? {
                Write::Written { .. } => return Ok(Handled::Acknowledge),
                Write::Refused(found) if holding.held.catch_up(&found) => {
                    if self.store.batch_at(holding.reference.job, tail).await?.is_some() {
                        // Only a replay stands behind an end.
                        return self.release(holding, &at).await;
                    }
                    holding.held.wakes = found.wakes;
                }
                Write::Refused(_) => return Ok(Handled::Acknowledge),
            }
        }
    }

    /// How often a job was opened again, counted batch by batch, so that nothing large is held. An end is told under a
    /// key of its own: under that of an earlier one the parent would take it for known and wait for ever.
    async fn count_replays(&self, job: JobId) -> Result<u32, StoreError> {
        let (mut at, mut replays) = (Seq::FIRST, 0_u32);
        while let Some(batch) = self.store.batch_at(job, at).await? {
            let found = batch.entries.iter().filter(|entry| matches!(entry, Entry::Replayed { .. })).count();
            replays = replays.saturating_add(u32::try_from(found).unwrap_or(u32::MAX));
            at = batch.next();
        }
        Ok(replays)
    }

    /// Tells everyone who must know of the end: the dead-letter queue, the parent, the children left behind, the
    /// next of its thread.
    async fn tell_all(&self, holding: &Holding, journal: &Journal, ending: &Ending) -> Result<(), DriveError> {
        if let Ending::Failed { failure } = ending {
            let job = self.as_job(holding, journal.next(), *journal.totals());
            self.store.dead_letter(&job, failure).await?;
        }
        self.tell_parent(holding, journal.replays(), ending, journal.totals()).await?;
        for child in journal.open_children() {
            let reference = JobRef { tenant: holding.reference.tenant.clone(), job: child };
            let by = format!("job:{}", holding.reference.job);
            let key = SignalKey::of_parent_end(holding.reference.job, journal.replays());
            let reason = Some("the job that waited for it has ended".to_owned());
            known(outside::cancel(self.store, &reference, key, by, reason, self.clock.now()).await.map(|_| ()))?;
        }
        Box::pin(self.hand_on(&holding.order, journal.replays())).await
    }

    async fn tell_parent(
        &self,
        holding: &Holding,
        replays: u32,
        ending: &Ending,
        totals: &Totals,
    ) -> Result<(), DriveError> {
        let Some(parent) = &holding.order.parent else { return Ok(()) };
        let reference = JobRef { tenant: holding.reference.tenant.clone(), job: parent.job };
        self.tell(holding.reference.job, &reference, replays, ending, totals).await
    }

    /// Tells a parent how its child has ended that was replayed so often.
    pub(super) async fn tell(
        &self,
        child: JobId,
        parent: &JobRef,
        replays: u32,
        ending: &Ending,
        totals: &Totals,
    ) -> Result<(), DriveError> {
        let (signal, key) = (SignalName::of_child_end(child), SignalKey::of_child_end(child, replays));
        let payload = told(ending, totals);
        let by = format!("job:{child}");
        let sent = outside::signal(self.store, parent, signal, key, payload, by, self.clock.now()).await;
        known(sent.map(|_| ()))
    }

    /// The job item as the dead letter shows it.
    fn as_job(&self, holding: &Holding, tail: Seq, totals: Totals) -> Job {
        let now = self.clock.now();
        let mut job = Job::accepted(holding.order.clone(), holding.held.last_write);
        job.progress = Progress { epoch: holding.epoch(), tail, totals, updated_at: now, ..job.progress };
        job
    }

    /// A refused write of the job item: false when another session holds the job; otherwise the wakes are up to date
    /// and what was appended meanwhile is taken in.
    pub(super) async fn look_again(
        &self,
        holding: &mut Holding,
        journal: &mut Journal,
        found: &Job,
    ) -> Result<bool, DriveError> {
        if !holding.held.catch_up(found) {
            tracing::info!(job = %holding.reference.job, "another session has claimed the job meanwhile");
            return Ok(false);
        }
        holding.held.wakes = found.wakes;
        for batch in self.store.journal(holding.reference.job, journal.next()).await? {
            self.take_in(holding, journal, batch)?;
        }
        Ok(journal.last_claim().is_none_or(|claim| claim.epoch <= holding.epoch()))
    }

    /// Gives the job back so that another invocation goes on at once.
    pub(super) async fn release(&self, holding: &mut Holding, at: &At) -> Result<Handled, DriveError> {
        if self.write_as_holder(holding, |held| held.release(fresh_nonce(), at)).await? {
            self.store.send(&Continuation::of(&holding.order), Duration::ZERO).await?;
        }
        Ok(Handled::Acknowledge)
    }

    /// Makes a write of the job item that no signal can stand against. False: another session holds the job.
    pub(super) async fn write_as_holder(
        &self,
        holding: &mut Holding,
        write: impl Fn(&Held) -> JobWrite,
    ) -> Result<bool, StoreError> {
        loop {
            let known = holding.held.last_write;
            match self.store.write_job(&holding.reference, &write(&holding.held)).await? {
                Write::Written { .. } => return Ok(true),
                // An earlier write of ours had gone through unanswered: this one goes behind it.
                Write::Refused(found) if holding.held.catch_up(&found) && holding.held.last_write != known => {}
                Write::Refused(_) => return Ok(false),
            }
        }
    }

    /// Gives the job back to wait. None: something came meanwhile and was taken in; look again.
    pub(super) async fn release_to_wait(
        &self,
        holding: &mut Holding,
        journal: &mut Journal,
        until: Option<Timestamp>,
    ) -> Result<Option<Handled>, DriveError> {
        let now = self.clock.now();
        let write = holding.held.wait(fresh_nonce(), until, &At::of(journal, now));
        match self.store.write_job(&holding.reference, &write).await? {
            Write::Written { .. } => {
                if let Some(delay) = wait::come_back(now, until).message_delay {
                    self.store.send(&Continuation::of(&holding.order), delay).await?;
                }
                Ok(Some(Handled::Acknowledge))
            }
            Write::Refused(found) => {
                let mine = self.look_again(holding, journal, &found).await?;
                Ok(if mine { None } else { Some(Handled::Acknowledge) })
            }
        }
    }
}

/// The steps that have a result, in the order of the journal. What a fork kept of another job is that job's to clear away.
fn recorded(journal: &Journal) -> Vec<Recorded<'_>> {
    let own = |seq| journal.kept_until().is_none_or(|kept| seq > kept);
    let mut steps: Vec<_> = journal
        .steps()
        .filter(|record| own(record.seq))
        .filter_map(|record| match &record.state {
            StepState::Completed { output } => Some((record.seq, Recorded { name: &record.id.name, output })),
            StepState::Started
            | StepState::Retrying { .. }
            | StepState::Failed { .. }
            | StepState::Waiting { .. }
            | StepState::WaitEnded { .. }
            | StepState::Emitted => None,
        })
        .collect();
    steps.sort_by_key(|(seq, _)| *seq);
    steps.into_iter().map(|(_, step)| step).collect()
}

/// A relative that is gone or has ended needs no telling.
pub(super) fn known(told: Result<(), OutsideError>) -> Result<(), DriveError> {
    match told {
        Ok(())
        | Err(
            OutsideError::NoJob
            | OutsideError::Ended
            | OutsideError::Full
            | OutsideError::NotReplayable
            | OutsideError::NoPosition
            | OutsideError::Repeats { .. }
            | OutsideError::OtherRequest
            | OutsideError::ThreadBusy { .. }
            | OutsideError::ThreadFull
            | OutsideError::Store(StoreError::Missing { .. }),
        ) => Ok(()),
        // One job's end must not hang on the health of another.
        Err(error @ (OutsideError::Journal(_) | OutsideError::Store(StoreError::Corrupt { .. }))) => {
            tracing::error!(%error, "a relative could not be told of the end");
            Ok(())
        }
        Err(OutsideError::Store(error @ (StoreError::Unavailable { .. } | StoreError::Newer { .. }))) => {
            Err(DriveError::Store(error))
        }
    }
}
