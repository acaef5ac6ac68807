//! A job's turn in its thread: asked for before the first claim and after each replay, and handed on at the end.
//!
//! A place in front of the line stays there until its turn is over, and that is told by the job's own journal. So a job
//! that has begun needs no further look, and one whose journal shows a replay looks once more when it is claimed.

use longhaul_engine::append::{NextMove, next_move};
use longhaul_engine::claim::At;
use longhaul_engine::ids::Seq;
use longhaul_engine::job::Order;
use longhaul_engine::thread::{Front, Line, OnBusy, Place, Turn, leave, turn};
use longhaul_engine::{Epoch, Job, Journal, SignalKey};

use super::ending::known;
use super::{DriveError, Handled, Holding, Invocation};
use crate::outside::{self, fresh_nonce};
use crate::store::{Continuation, JobRef, Store, ThreadRef};
use crate::thread;

/// The thread of an order.
fn thread_of(order: &Order) -> Option<ThreadRef> {
    let thread = order.thread.as_ref()?;
    Some(ThreadRef { tenant: order.tenant.clone(), thread: thread.id.clone() })
}

impl<S: Store> Invocation<'_, S> {
    /// Whether a job may be claimed as far as its thread is concerned. One that was claimed before has had its turn, or
    /// was opened again, which its journal tells under the claim. One that was cancelled while it waited only ends.
    pub(super) async fn may_begin(&self, job: &Job) -> Result<bool, DriveError> {
        if job.order.thread.is_none() || job.progress.epoch != Epoch::default() {
            return Ok(true);
        }
        // Nothing but signals and cancels can stand in it.
        let batches = self.store.journal(job.order.id, Seq::FIRST).await?;
        let journal = Journal::read(batches).map_err(|source| DriveError::Journal { job: job.order.id, source })?;
        self.has_turn(&job.order, &journal).await
    }

    /// Whether it is the turn of a job with this journal, or it needs none.
    pub(super) async fn has_turn(&self, order: &Order, journal: &Journal) -> Result<bool, DriveError> {
        let Some(at) = thread_of(order) else { return Ok(true) };
        if journal.ending().is_some() || matches!(next_move(journal), NextMove::End(_)) {
            return Ok(true);
        }
        let place = Place { job: order.id, replays: journal.replays() };
        let (mut line, mut front) = (self.store.line(&at).await?, Front::Unknown);
        loop {
            let now = self.clock.now();
            match turn(&line, place, front, fresh_nonce(), now) {
                Turn::Now => return Ok(true),
                Turn::LookAt(seen) => {
                    let over = match seen == place {
                        true => self.own_turn_is_over(place).await?,
                        false => thread::is_over(self.store, &at, seen).await?,
                    };
                    front = if over { Front::Over } else { Front::Going };
                }
                Turn::Write(write) => {
                    let refused = thread::write(self.store, &at, &line, &write, order.id, now).await?;
                    line = refused.unwrap_or(Line { mark: Some(write.nonce), places: write.places });
                    front = Front::Unknown;
                }
                Turn::Wait => {
                    tracing::debug!(job = %order.id, thread = %at.thread, "it is another job's turn");
                    // A job that was opened again stands behind jobs that were asked for after it.
                    if place.replays == 0 {
                        self.interrupt(order, &line).await?;
                    }
                    return Ok(false);
                }
            }
        }
    }

    /// Whether a job's own turn at a place is over that is not in the line. By its journal alone: whoever ended it may not
    /// have written its item yet.
    async fn own_turn_is_over(&self, place: Place) -> Result<bool, DriveError> {
        let batches = self.store.journal(place.job, Seq::FIRST).await?;
        let journal = Journal::read(batches).map_err(|source| DriveError::Journal { job: place.job, source })?;
        Ok(place.is_over(journal.replays(), journal.ending().is_some()))
    }

    /// Cancels the jobs in front of one whose submission asked for that. Each look says it again, which the key makes one.
    async fn interrupt(&self, order: &Order, line: &Line) -> Result<(), DriveError> {
        match order.thread.as_ref().map(|thread| thread.on_busy) {
            Some(OnBusy::Interrupt) => {}
            Some(OnBusy::Enqueue | OnBusy::Reject) | None => return Ok(()),
        }
        for ahead in line.ahead_of(order.id) {
            let key = SignalKey::of_interruption(order.id);
            let reference = JobRef { tenant: order.tenant.clone(), job: ahead };
            let by = format!("job:{}", order.id);
            let reason = Some("a later job of its thread was submitted to interrupt it".to_owned());
            known(outside::cancel(self.store, &reference, key, by, reason, self.clock.now()).await.map(|_| ()))?;
        }
        Ok(())
    }

    /// Gives a job back whose turn it is not. Whoever calls it up while it is held is not heard, so it looks once more
    /// when it is free.
    pub(super) async fn stand_in_line(&self, holding: &mut Holding, journal: &Journal) -> Result<Handled, DriveError> {
        let at = At::of(journal, self.clock.now());
        if self.write_as_holder(holding, |held| held.stand_in_line(fresh_nonce(), &at)).await?
            && self.has_turn(&holding.order, journal).await?
        {
            self.store.send(&Continuation::of(&holding.order), std::time::Duration::ZERO).await?;
        }
        Ok(Handled::Acknowledge)
    }

    /// Takes a job that has ended, having been opened again so often, out of its line and calls up the next. Done before
    /// its item is written, so that whoever finds the item open does it again.
    pub(super) async fn hand_on(&self, order: &Order, replays: u32) -> Result<(), DriveError> {
        let Some(at) = thread_of(order) else { return Ok(()) };
        let place = Place { job: order.id, replays };
        let mut line = self.store.line(&at).await?;
        let now = self.clock.now();
        while let Some(write) = leave(&line, place, fresh_nonce(), now) {
            match thread::write(self.store, &at, &line, &write, order.id, now).await? {
                Some(found) => line = found,
                None => return Ok(()),
            }
        }
        // Somebody has done it and may have died before the call.
        Ok(thread::call(self.store, &at, &line.places, order.id, now).await?)
    }
}
