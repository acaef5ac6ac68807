//! From a continuation to a job in hand: the claim, the look at the journal, the `claimed` entry.

use std::time::Duration;

use longhaul_engine::append::{AfterRead, NextMove, OnConflict, after_read, next_move, on_conflict, worker_lost};
use longhaul_engine::claim::{
    At, Claim, ClaimDecision, Held, Holder, News, NoClaim, beside, decide, holder, may_drive,
};
use longhaul_engine::ids::Seq;
use longhaul_engine::job::Progress;
use longhaul_engine::journal::Ending;
use longhaul_engine::walk::{AfterWalk, Walk};
use longhaul_engine::{Batch, Entry, Job, JobId, Journal, limits};

use super::forking::Brought;
use super::{DriveError, Handled, Holding, Invocation};
use crate::outside::fresh_nonce;
use crate::store::{Append, JobRef, Store, StoreError, Write};

/// What the claim came to.
enum Claimed {
    /// The job is in hand.
    Mine(Box<(Job, Claim, Held)>),
    /// It needs nobody, or not us.
    Handled(Handled),
}

impl<S: Store> Invocation<'_, S> {
    pub(super) async fn claim_and_run(&self, reference: &JobRef) -> Result<Handled, DriveError> {
        let (job, claim, held) = match self.claim(reference).await? {
            Claimed::Mine(claimed) => *claimed,
            Claimed::Handled(handled) => return Ok(handled),
        };
        tracing::debug!(job = %reference.job, epoch = claim.epoch.0, takeover = claim.takeover, "claimed");
        let mut holding = Holding {
            reference: reference.clone(),
            order: job.order,
            held,
            renewed_at: self.clock.now(),
            totals: job.progress.totals,
        };
        let driven = self.run_claimed(&mut holding, &claim, &job.progress).await;
        if driven.is_err() {
            // A store that fails is no crash of the worker: give the job back, if it can still be said.
            let at = At { tail: job.progress.tail, totals: job.progress.totals, now: self.clock.now() };
            if let Err(error) = self.write_as_holder(&mut holding, |held| held.release(fresh_nonce(), &at)).await {
                tracing::warn!(job = %reference.job, error = %error, "the job was not given back; its lease must lapse");
                return driven;
            }
        }
        self.may_hold.borrow_mut().remove(reference);
        driven
    }

    async fn run_claimed(
        &self,
        holding: &mut Holding,
        claim: &Claim,
        progress: &Progress,
    ) -> Result<Handled, DriveError> {
        let job = holding.reference.job;
        if claim.suspicious {
            let walk = self.walk(job, progress.tail).await?;
            let end = walk.at();
            match walk.decide(claim.epoch, claim.write.progress.attempts) {
                AfterWalk::Read => {}
                AfterWalk::Stop(stop) => {
                    tracing::info!(%job, epoch = claim.epoch.0, "stopped before the first step: {stop}");
                    return Ok(Handled::Acknowledge);
                }
                AfterWalk::Settle(ending) => return self.settle_unread(holding, end, &ending).await,
                AfterWalk::Release => {
                    let at = At { tail: end, totals: holding.totals, now: self.clock.now() };
                    return self.release(holding, &at).await;
                }
                AfterWalk::GiveUp { deaths } => return self.give_up_unread(holding, end, deaths).await,
            }
        }
        let batches = self.store.journal(job, Seq::FIRST).await?;
        let mut journal = Journal::read(batches).map_err(|source| DriveError::Journal { job, source })?;
        let looked_at = journal.replays();
        let threaded = holding.order.thread.is_some();
        if threaded && looked_at > 0 && !Box::pin(self.has_turn(&holding.order, &journal)).await? {
            return Box::pin(self.stand_in_line(holding, &journal)).await;
        }
        match self.append_claim(holding, claim, &mut journal).await? {
            AfterRead::Stop(stop) => {
                tracing::info!(%job, epoch = claim.epoch.0, "stopped before the first step: {stop}");
                Ok(Handled::Acknowledge)
            }
            AfterRead::Repair(ending) => self.settle(holding, &mut journal, ending).await,
            AfterRead::Release => self.release(holding, &At::of(&journal, self.clock.now())).await,
            // It has ended and was opened again between the two looks, so that its turn is another one.
            AfterRead::Claim if threaded && journal.replays() != looked_at => {
                self.release(holding, &At::of(&journal, self.clock.now())).await
            }
            AfterRead::Claim => match next_move(&journal) {
                NextMove::End(ending) => self.end_job(holding, &mut journal, ending).await,
                // Boxed: few jobs are forks, and every claim would carry its room.
                NextMove::Drive => match Box::pin(self.bring_over(holding, &mut journal)).await? {
                    Brought::Stands => self.run(holding, journal).await,
                    Brought::Handled(handled) => Ok(handled),
                    Brought::End(ending) => self.end_job(holding, &mut journal, ending).await,
                },
            },
        }
    }

    /// Makes the claim, deciding again when the job item changed between read and write.
    async fn claim(&self, reference: &JobRef) -> Result<Claimed, DriveError> {
        let Some(mut job) = self.store.job(reference).await? else {
            tracing::info!(job = %reference.job, "a continuation for a job that does not exist");
            return Ok(Claimed::Handled(Handled::Acknowledge));
        };
        if !may_drive(&job.order.origin, self.driver) {
            tracing::info!(job = %reference.job, "not driven: it came as a file, and a person goes through it");
            return Ok(Claimed::Handled(Handled::Acknowledge));
        }
        // Boxed, as all that is about threads: few jobs are in one, and every claim would carry its room.
        if job.order.thread.is_some() && !Box::pin(self.may_begin(&job)).await? {
            return Ok(Claimed::Handled(Handled::Acknowledge));
        }
        loop {
            let left = self.clock.now().until(self.deadline);
            if left < Duration::from_millis(limits::DEADLINE_RESERVE_MS + limits::CLAIM_TIME_MIN_MS) {
                return Ok(Claimed::Handled(Handled::GiveBack));
            }
            let Some(claim) = self.decided(&job).await? else { return Ok(Claimed::Handled(Handled::Acknowledge)) };
            // Before the write: it may go through without an answer.
            self.may_hold.borrow_mut().insert(reference.clone());
            match self.store.write_job(reference, &claim.write).await? {
                Write::Written { wakes } => {
                    let held = Held::after_claim(&claim, &self.session, wakes);
                    return Ok(Claimed::Mine(Box::new((job, *claim, held))));
                }
                Write::Refused(other) => {
                    self.may_hold.borrow_mut().remove(reference);
                    job = *other;
                }
            }
        }
    }

    /// The claim to make for a continuation of `job`, with all looked up that the decision asks for. None: it needs none.
    pub(super) async fn decided(&self, job: &Job) -> Result<Option<Box<Claim>>, StoreError> {
        let (mut seen_holder, mut news) = (Holder::Unknown, News::Unknown);
        loop {
            // `drive` lets only one claim of a job through, so this very session cannot be driving it already.
            match decide(job, &self.session, seen_holder, news, fresh_nonce(), self.clock.now()) {
                ClaimDecision::Acknowledge(NoClaim::Ended | NoClaim::Held | NoClaim::NothingNew) => return Ok(None),
                ClaimDecision::LookUp(session) => {
                    seen_holder = holder(self.store.last_beat(&session).await?, self.clock.now());
                }
                ClaimDecision::Peek(from) => {
                    let found = self.store.batch_at(job.order.id, from).await?;
                    news = if found.is_some() { News::Something } else { News::Nothing };
                }
                ClaimDecision::Claim(claim) => return Ok(Some(claim)),
            }
        }
    }

    /// Looks at the journal and appends `claimed`, looking again at whatever was appended meanwhile.
    async fn append_claim(
        &self,
        holding: &Holding,
        claim: &Claim,
        journal: &mut Journal,
    ) -> Result<AfterRead, DriveError> {
        loop {
            match after_read(journal, claim.epoch, claim.write.progress.tail) {
                AfterRead::Claim => {}
                other @ (AfterRead::Stop(_) | AfterRead::Repair(_) | AfterRead::Release) => return Ok(other),
            }
            let entry = Entry::Claimed {
                epoch: claim.epoch,
                session: self.session.clone(),
                takeover: claim.takeover,
                beside: beside(self.in_hand.others()),
            };
            let batch = Batch::new(journal.next(), fresh_nonce(), self.clock.now(), vec![entry]);
            match self.store.append(&holding.reference, &batch).await? {
                Append::Written => {
                    self.take_in(holding, journal, batch)?;
                    return Ok(AfterRead::Claim);
                }
                Append::Conflict(found) => {
                    let own = on_conflict(claim.epoch, batch.nonce, &found) == OnConflict::Own;
                    self.take_in(holding, journal, *found)?;
                    if own {
                        return Ok(AfterRead::Claim);
                    }
                }
            }
        }
    }

    /// Walks from the last known tail to the journal's end, so that nothing large is held at once.
    async fn walk(&self, job: JobId, tail: Seq) -> Result<Walk, DriveError> {
        let mut walk = Walk::from(tail);
        while let Some(batch) = self.store.batch_at(job, walk.at()).await? {
            walk.pass(batch);
        }
        Ok(walk)
    }

    /// Ends a job whose workers die before they can read its journal, without reading it: walks from the last known
    /// tail to the end, one position at a time.
    async fn give_up_unread(&self, holding: &mut Holding, tail: Seq, deaths: u32) -> Result<Handled, DriveError> {
        let ending = Ending::Failed { failure: worker_lost(deaths) };
        let mut at = tail;
        loop {
            let batch = Batch::new(at, fresh_nonce(), self.clock.now(), vec![ending.clone().into_entry()]);
            match self.store.append(&holding.reference, &batch).await? {
                Append::Written => break,
                Append::Conflict(found) => match on_conflict(holding.epoch(), batch.nonce, &found) {
                    OnConflict::Own => break,
                    OnConflict::Stop(stop) => {
                        tracing::info!(job = %holding.reference.job, "not given up: {stop}");
                        // The end that stands there may lack its aftermath.
                        let end = found.next();
                        return match found.entries.into_iter().find_map(Ending::of_entry) {
                            Some(ending) => self.settle_unread(holding, end, &ending).await,
                            None => Ok(Handled::Acknowledge),
                        };
                    }
                    OnConflict::Reconsider => at = found.next(),
                },
            }
        }
        tracing::error!(job = %holding.reference.job, deaths, "the job ends as worker_lost");
        self.settle_unread(holding, at.plus(1), &ending).await
    }
}
