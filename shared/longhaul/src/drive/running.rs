//! Runs the agent over its journal: polls it, appends what it asks for, watches for cancels, and stops when it rests.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longhaul_engine::append::{NextMove, OnConflict, next_move, on_conflict};
use longhaul_engine::claim::At;
use longhaul_engine::job::{Mismatch, Order};
use longhaul_engine::journal::Ending;
use longhaul_engine::wait::{Spent, spent};
use longhaul_engine::{Batch, Entry, ErrorClass, Failure, Journal, Timestamp, limits};
use serde_json::Value;
use tokio::sync::oneshot;

use super::driven::{Driven, Polled};
use super::{DriveError, Handled, Holding, Invocation};
use crate::ctx::Ctx;
use crate::live::{Stage, Voice};
use crate::outside::{self, OutsideError, fresh_nonce};
use crate::registry::Agent;
use crate::shared::{Company, Decide, Halt, Request, Rest, Shared};
use crate::step::used_up;
use crate::store::{Append, Store, StoreError, Write};

/// What was found of an order's agent.
pub(super) enum Found {
    /// It is ready.
    Agent(Agent),
    /// This worker has none that it could drive, in the words of a [`Mismatch`].
    Not {
        /// What the job was submitted for.
        recorded: String,
        /// What is here.
        attempted: String,
    },
}

/// What the drive loop does next.
enum Verdict {
    /// Poll on.
    GoOn,
    /// The invocation is done with this job.
    Done(Handled),
    /// The job ends so.
    End(Ending),
}

/// Requests that go into one batch, with the entries they came to.
struct Collected {
    entries: Vec<Entry>,
    waiting: Vec<(Decide, Company, oneshot::Sender<()>)>,
}

impl<S: Store> Invocation<'_, S> {
    /// Drives a claimed job on.
    pub(super) async fn run(&self, holding: &mut Holding, journal: Journal) -> Result<Handled, DriveError> {
        let order = journal.edited(&holding.order);
        let run = match self.find(&order).await? {
            Found::Agent(Agent { run, leave: _ }) => run,
            Found::Not { recorded, attempted } => {
                let mismatch = Mismatch { step: None, recorded, attempted };
                return self.block(holding, &At::of(&journal, self.clock.now()), mismatch).await;
            }
        };
        let input = order.input.clone();
        let voice = self.audience.as_ref().map(|audience| Voice {
            audience: Rc::clone(audience),
            job: holding.reference.clone(),
            epoch: holding.epoch(),
        });
        let shared = Shared::new(order, journal, self.clock, self.deadline, Stage::new(voice));
        let begun_with = shared.journal.borrow().totals().steps;
        let mut agent = Driven::new(run(Ctx::root(Rc::clone(&shared)), input));
        let mut settled_by = None;
        let ending = loop {
            if !self.renew(holding, &shared).await {
                return Ok(Handled::Acknowledge);
            }
            let verdict = match self.poll(&shared, &mut agent, settled_by).await {
                Polled::Ended(ending) => Verdict::End(ending),
                Polled::Requested => self.serve(holding, &shared, &mut agent).await?,
                Polled::Resting if shared.is_closing() => Verdict::GoOn,
                Polled::Resting => self.rest(holding, &shared).await?,
                Polled::Quiet => self.peek(holding, &shared).await?,
                Polled::OutOfTime => {
                    let at = self.at(&shared.journal);
                    Verdict::Done(self.release(holding, &at).await?)
                }
            };
            match verdict {
                Verdict::GoOn => {}
                Verdict::Done(handled) => return Ok(handled),
                Verdict::End(ending) => break ending,
            }
            if self
                .steps_max
                .is_some_and(|max| shared.journal.borrow().totals().steps >= begun_with.saturating_add(max))
            {
                let at = self.at(&shared.journal);
                return self.release(holding, &at).await;
            }
            // What came from outside may end the job here, whatever the agent is doing.
            let next = next_move(&shared.journal.borrow());
            if let NextMove::End(ending) = next
                && !self.settles(&shared, &ending, &mut settled_by)
            {
                break ending;
            }
        };
        // Dropping the agent closes whatever call it had in flight.
        drop(agent);
        let ending = with_partial(ending, shared.partial.take());
        self.end_job(holding, &mut shared.journal.take(), ending).await
    }

    /// The agent of an order: one of the registry's own, or what its source has. What is there and cannot be read by this
    /// worker will be read by another build or not at all, so that it is no reason to try again and again.
    pub(super) async fn find(&self, order: &Order) -> Result<Found, DriveError> {
        if let Some(agent) = self.registry.find(&order.agent) {
            return Ok(Found::Agent(agent));
        }
        match self.registry.ask_source(&order.tenant, &order.agent).await {
            Ok(Some(agent)) => Ok(Found::Agent(agent)),
            Ok(None) => Ok(Found::Not {
                recorded: format!("agent {}", order.agent),
                attempted: "a worker that has no such agent version".to_owned(),
            }),
            Err(error @ (StoreError::Corrupt { .. } | StoreError::Newer { .. })) => Ok(Found::Not {
                recorded: format!("agent {}", order.agent),
                attempted: format!("a worker that cannot read it: {error}"),
            }),
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Missing { .. })) => Err(error.into()),
        }
    }

    /// Whether a job that was cancelled is driven on for a moment, so that the outcome of what must not be left unknown
    /// is written down. The first time it closes the job: everything else in flight is dropped.
    fn settles(&self, shared: &Shared, ending: &Ending, settled_by: &mut Option<Timestamp>) -> bool {
        match ending {
            Ending::Cancelled { .. } => {}
            Ending::Completed { .. } | Ending::Failed { .. } => return false,
        }
        let now = self.clock.now();
        match *settled_by {
            None => {
                if shared.is_idle() {
                    return false;
                }
                shared.close();
                let reserve = Duration::from_millis(limits::DEADLINE_RESERVE_MS);
                let left = now.until(self.deadline).saturating_sub(reserve);
                *settled_by = Some(now.plus(left.min(Duration::from_millis(limits::CANCEL_SETTLE_MS))));
                true
            }
            Some(by) => shared.is_settling() && now < by,
        }
    }

    fn at(&self, journal: &RefCell<Journal>) -> At {
        At::of(&journal.borrow(), self.clock.now())
    }

    async fn poll(&self, shared: &Shared, agent: &mut Driven, settled_by: Option<Timestamp>) -> Polled {
        let reserve = Duration::from_millis(limits::DEADLINE_RESERVE_MS / 2);
        let time_left = self.clock.now().until(self.deadline).saturating_sub(reserve);
        let quiet = Duration::from_millis(limits::CANCEL_PEEK_INTERVAL_MS);
        let quiet = settled_by.map_or(quiet, |by| quiet.min(self.clock.now().until(by)));
        tokio::select! {
            biased;
            polled = agent.until_something(shared) => polled,
            () = self.clock.sleep(quiet.min(time_left)) => {
                if quiet < time_left { Polled::Quiet } else { Polled::OutOfTime }
            }
        }
    }

    /// Does what the agent's contexts have asked for first.
    async fn serve(
        &self,
        holding: &mut Holding,
        shared: &Rc<Shared>,
        agent: &mut Driven,
    ) -> Result<Verdict, DriveError> {
        let first = shared.requests.borrow_mut().pop_front();
        match first {
            Some(Request::Submit { order, done }) => self.submit_child(holding, shared, agent, *order, done).await,
            Some(append @ Request::Append { .. }) => {
                shared.requests.borrow_mut().push_front(append);
                self.append_asked(holding, shared, agent).await
            }
            None => Ok(Verdict::GoOn),
        }
    }

    /// Submits a child, and looks how it stands where its parent was opened again.
    async fn submit_child(
        &self,
        holding: &Holding,
        shared: &Rc<Shared>,
        agent: &mut Driven,
        order: Order,
        done: oneshot::Sender<()>,
    ) -> Result<Verdict, DriveError> {
        let child = order.id;
        let submitted = agent.beside(outside::submit(self.store, order)).await;
        if let Some(failure) = child_submitted(submitted)? {
            return Ok(Verdict::End(Ending::Failed { failure }));
        }
        let was_replayed = shared.journal.borrow().replays() > 0;
        if was_replayed {
            let journal = shared.journal.borrow().clone();
            agent.beside(self.rejoin(holding, journal, child)).await?;
        }
        // A receiver that is gone has been dropped by the author's code; the child goes on by itself.
        let _ = done.send(());
        Ok(Verdict::GoOn)
    }

    /// Appends the entries that stand first, as many as fit into one batch.
    async fn append_asked(
        &self,
        holding: &Holding,
        shared: &Rc<Shared>,
        agent: &mut Driven,
    ) -> Result<Verdict, DriveError> {
        let collected = collect(shared);
        if collected.entries.is_empty() {
            return Ok(Verdict::GoOn);
        }
        if !shared.journal.borrow().has_room_for_steps() {
            let message = "the journal is full; let the agent do its work in child jobs";
            return Ok(Verdict::End(Ending::Failed { failure: Failure::new(ErrorClass::Budget, message) }));
        }
        let batch = Batch::new(shared.journal.borrow().next(), fresh_nonce(), self.clock.now(), collected.entries);
        let (stands, own) = match agent.beside(self.append_surely(&holding.reference, &batch)).await? {
            Append::Written => (batch, true),
            Append::Conflict(found) => match on_conflict(holding.epoch(), batch.nonce, &found) {
                OnConflict::Own => (*found, true),
                OnConflict::Reconsider => (*found, false),
                OnConflict::Stop(stop) => {
                    tracing::info!(job = %holding.reference.job, epoch = holding.epoch().0, "stopped: {stop}");
                    return Ok(Verdict::Done(Handled::Acknowledge));
                }
            },
        };
        self.take_in(holding, &mut shared.journal.borrow_mut(), stands)?;
        for (decide, company, done) in collected.waiting.into_iter().rev() {
            if own {
                let _ = done.send(());
            } else {
                shared.requests.borrow_mut().push_front(Request::Append { decide, company, done });
            }
        }
        shared.grown.notify_waiters();
        Ok(Verdict::GoOn)
    }

    /// Nothing runs: halt, wait here, or give the job back.
    async fn rest(&self, holding: &mut Holding, shared: &Rc<Shared>) -> Result<Verdict, DriveError> {
        match shared.halted() {
            Some(Halt::Mismatch(mismatch)) => {
                let at = self.at(&shared.journal);
                return Ok(Verdict::Done(self.block(holding, &at, mismatch).await?));
            }
            Some(Halt::End(failure)) => return Ok(Verdict::End(Ending::Failed { failure })),
            None => {}
        }
        let (budget, submitted_at) = (shared.budget.get(), shared.order.submitted_at);
        if let Err(exhausted) = budget.check_time(submitted_at, self.clock.now()) {
            return Ok(Verdict::End(Ending::Failed { failure: used_up(exhausted) }));
        }
        // A wait ends with the job's time at the latest.
        let mut until: Option<Timestamp> = budget.ends_at(submitted_at);
        for rest in shared.rests() {
            match rest {
                Rest::NoTime => {
                    let at = self.at(&shared.journal);
                    return Ok(Verdict::Done(self.release(holding, &at).await?));
                }
                Rest::Wait { until: None } => {}
                Rest::Wait { until: Some(time) } => until = Some(until.map_or(time, |earliest| earliest.min(time))),
            }
        }
        if let Some(until) = until
            && spent(self.clock.now(), until, self.deadline) == Spent::Inside
        {
            // A little more than the resting step's own timer, so that it has fired when the agent is polled.
            self.clock.sleep_until(until.plus(Duration::from_millis(2))).await;
            return Ok(Verdict::GoOn);
        }
        let mut journal = shared.journal.take();
        let released = self.release_to_wait(holding, &mut journal, until).await;
        shared.journal.replace(journal);
        shared.grown.notify_waiters();
        Ok(released?.map_or(Verdict::GoOn, Verdict::Done))
    }

    /// Moves the due time on where it has grown old. False: another session has the job.
    async fn renew(&self, holding: &mut Holding, shared: &Shared) -> bool {
        let now = self.clock.now();
        if now.since(holding.renewed_at) < Duration::from_millis(limits::LEASE_RENEWAL_INTERVAL_MS) {
            return true;
        }
        holding.renewed_at = now;
        let write = holding.held.renew(fresh_nonce(), &self.at(&shared.journal));
        match self.store.write_job(&holding.reference, &write).await {
            Ok(Write::Written { .. }) => {
                holding.held.last_write = write.nonce;
                true
            }
            Ok(Write::Refused(found)) => {
                let mine = holding.held.catch_up(&found);
                if !mine {
                    tracing::info!(job = %holding.reference.job, epoch = holding.epoch().0, "stopped: the lease is lost");
                }
                mine
            }
            Err(error) => {
                // The write may have gone through: then the next one is refused for its mark and catches up.
                tracing::warn!(job = %holding.reference.job, %error, "the due time was not moved on");
                true
            }
        }
    }

    /// One cheap read at the tail for what came from outside.
    async fn peek(&self, holding: &mut Holding, shared: &Rc<Shared>) -> Result<Verdict, DriveError> {
        let next = shared.journal.borrow().next();
        let found = match self.store.batch_at(holding.reference.job, next).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(job = %holding.reference.job, %error, "the look for a cancel failed; the next comes soon");
                None
            }
        };
        if let Some(found) = found {
            if let OnConflict::Stop(stop) = on_conflict(holding.epoch(), fresh_nonce(), &found) {
                tracing::info!(job = %holding.reference.job, epoch = holding.epoch().0, "stopped in mid-step: {stop}");
                return Ok(Verdict::Done(Handled::Acknowledge));
            }
            self.take_in(holding, &mut shared.journal.borrow_mut(), found)?;
            shared.grown.notify_waiters();
        }
        Ok(Verdict::GoOn)
    }

    /// The journal does not match the code: nothing is executed, people are told, the job goes on after a fix.
    async fn block(&self, holding: &mut Holding, at: &At, mismatch: Mismatch) -> Result<Handled, DriveError> {
        tracing::error!(
            job = %holding.reference.job, agent = %holding.order.agent,
            recorded = %mismatch.recorded, attempted = %mismatch.attempted,
            "BLOCKED: the journal does not match the code; roll back or register the version that wrote it"
        );
        self.write_as_holder(holding, |held| held.block(fresh_nonce(), mismatch.clone(), at)).await?;
        Ok(Handled::Acknowledge)
    }
}

/// Takes requests for one batch off the front. One that is not needed any more is told so.
fn collect(shared: &Shared) -> Collected {
    let journal = shared.journal.borrow();
    let mut requests = shared.requests.borrow_mut();
    let mut collected = Collected { entries: Vec::new(), waiting: Vec::new() };
    while collected.entries.len() < limits::BATCH_ENTRIES_MAX {
        match requests.pop_front() {
            Some(Request::Append { decide, company, done }) => {
                if company == Company::Alone && !collected.entries.is_empty() {
                    requests.push_front(Request::Append { decide, company, done });
                    break;
                }
                match decide(&journal) {
                    Some(entry) => {
                        collected.entries.push(entry);
                        collected.waiting.push((decide, company, done));
                    }
                    None => {
                        let _ = done.send(());
                    }
                }
                if company == Company::Alone {
                    break;
                }
            }
            Some(submit @ Request::Submit { .. }) => {
                requests.push_front(submit);
                break;
            }
            None => break,
        }
    }
    collected
}

/// A failed end with what the agent has said that the job has come to.
fn with_partial(mut ending: Ending, partial: Option<Value>) -> Ending {
    if let Ending::Failed { failure } = &mut ending
        && failure.partial.is_none()
    {
        failure.partial = partial.map(Box::new);
    }
    ending
}

/// What a child's submission came to: none when the child is there. Only a failing store is the worker's business.
fn child_submitted(submitted: Result<outside::Accepted, OutsideError>) -> Result<Option<Failure>, DriveError> {
    match submitted {
        // Its id is its parent's and its step's: a different request under it is the same child, before its parent's
        // input was edited. It goes on with what it was given.
        Ok(_) | Err(OutsideError::OtherRequest) => Ok(None),
        Err(OutsideError::Store(error)) => Err(DriveError::Store(error)),
        Err(
            error @ (OutsideError::NoJob
            | OutsideError::Ended
            | OutsideError::Full
            | OutsideError::NotReplayable
            | OutsideError::NoPosition
            | OutsideError::Repeats { .. }
            | OutsideError::ThreadBusy { .. }
            | OutsideError::ThreadFull
            | OutsideError::Journal(_)),
        ) => Ok(Some(Failure::new(ErrorClass::Invalid, format!("a child job was not submitted: {error}")))),
    }
}
