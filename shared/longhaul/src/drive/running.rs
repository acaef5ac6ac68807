//! Runs the agent over its journal: polls it, appends what it asks for, watches for cancels, and stops when it rests.

use std::cell::RefCell;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul_engine::append::{NextMove, OnConflict, next_move, on_conflict};
use longhaul_engine::claim::At;
use longhaul_engine::job::{Mismatch, Order};
use longhaul_engine::journal::Ending;
use longhaul_engine::wait::{Place, place};
use longhaul_engine::{Batch, Entry, ErrorClass, Failure, Journal, Timestamp, limits};
use serde_json::Value;
use tokio::sync::oneshot;

use super::{DriveError, Handled, Holding, Invocation};
use crate::ctx::Ctx;
use crate::error::Result as AgentResult;
use crate::live::{Stage, Voice};
use crate::outside::{self, OutsideError, fresh_nonce};
use crate::registry::Agent;
use crate::shared::{Decide, Halt, Request, Rest, Shared};
use crate::step::used_up;
use crate::store::{Append, Store, Write};

/// The agent's own future, and how it ended if it did while something else was awaited.
struct Driven {
    future: LocalBoxFuture<'static, AgentResult<Value>>,
    ended: Option<Ending>,
}

impl Driven {
    /// Polls the agent once. A panic in it is its own failure and no other job's.
    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.ended.is_some() {
            return;
        }
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| self.future.poll_unpin(cx)));
        self.ended = match polled {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(Ok(output))) => Some(Ending::Completed { output }),
            Ok(Poll::Ready(Err(error))) => Some(Ending::Failed { failure: error.into_failure() }),
            Err(panic) => {
                let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                let message = format!("the agent's code panicked: {said}");
                Some(Ending::Failed { failure: Failure::new(ErrorClass::Terminal, message) })
            }
        };
    }

    /// Polls until the agent has ended, asks for something, or rests with nothing running.
    async fn until_something(&mut self, shared: &Shared) -> Polled {
        poll_fn(|cx| {
            self.poll(cx);
            if let Some(ending) = self.ended.take() {
                return Poll::Ready(Polled::Ended(ending));
            }
            if !shared.requests.borrow().is_empty() {
                return Poll::Ready(Polled::Requested);
            }
            let resting = shared.halted().is_some() || !shared.rests().is_empty();
            if shared.is_idle() && resting { Poll::Ready(Polled::Resting) } else { Poll::Pending }
        })
        .await
    }

    /// Awaits `work` while the agent's other branches go on.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.poll(cx);
            Poll::Pending
        })
        .await
    }
}

/// Where polling the agent came to.
enum Polled {
    /// It has ended.
    Ended(Ending),
    /// It asks for something.
    Requested,
    /// Nothing runs, and it rests or was halted.
    Resting,
    /// It has run for a while without asking for anything.
    Quiet,
    /// The invocation ends.
    OutOfTime,
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
    waiting: Vec<(Decide, bool, oneshot::Sender<()>)>,
}

impl<S: Store> Invocation<'_, S> {
    /// Drives a claimed job on.
    pub(super) async fn run(&self, holding: &mut Holding, journal: Journal) -> Result<Handled, DriveError> {
        let order = journal.edited(&holding.order);
        let Some(Agent(run)) = self.find(&order).await? else {
            let mismatch = Mismatch {
                step: None,
                recorded: format!("agent {}", order.agent),
                attempted: "a worker that has no such agent version".to_owned(),
            };
            return self.block(holding, &At::of(&journal, self.clock.now()), mismatch).await;
        };
        let input = order.input.clone();
        let voice = self.audience.as_ref().map(|audience| Voice {
            audience: Rc::clone(audience),
            job: holding.reference.clone(),
            epoch: holding.epoch(),
        });
        let shared = Shared::new(order, journal, self.clock, self.deadline, Stage::new(voice));
        let mut agent = Driven { future: run(Ctx::root(Rc::clone(&shared)), input), ended: None };
        let begun_with = shared.journal.borrow().totals().steps;
        let ending = loop {
            if !self.renew(holding, &shared).await {
                return Ok(Handled::Acknowledge);
            }
            let verdict = match self.poll(&shared, &mut agent).await {
                Polled::Ended(ending) => Verdict::End(ending),
                Polled::Requested => self.serve(holding, &shared, &mut agent).await?,
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
            if let NextMove::End(ending) = next_move(&shared.journal.borrow()) {
                break ending;
            }
        };
        // Dropping the agent closes whatever call it had in flight.
        drop(agent);
        let ending = with_partial(ending, shared.partial.take());
        self.end_job(holding, &mut shared.journal.take(), ending).await
    }

    /// The agent of an order: one of the registry's own, or what its source has.
    async fn find(&self, order: &Order) -> Result<Option<Agent>, DriveError> {
        match self.registry.find(&order.agent) {
            Some(agent) => Ok(Some(agent)),
            None => Ok(self.registry.ask_source(&order.tenant, &order.agent).await?),
        }
    }

    fn at(&self, journal: &RefCell<Journal>) -> At {
        At::of(&journal.borrow(), self.clock.now())
    }

    async fn poll(&self, shared: &Shared, agent: &mut Driven) -> Polled {
        let reserve = Duration::from_millis(limits::DEADLINE_RESERVE_MS / 2);
        let time_left = self.clock.now().until(self.deadline).saturating_sub(reserve);
        let quiet = Duration::from_millis(limits::CANCEL_PEEK_INTERVAL_MS);
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
        let submission = {
            let mut requests = shared.requests.borrow_mut();
            match requests.pop_front() {
                Some(Request::Submit { order, done }) => Some((order, done)),
                Some(append @ Request::Append { .. }) => {
                    requests.push_front(append);
                    None
                }
                None => return Ok(Verdict::GoOn),
            }
        };
        if let Some((order, done)) = submission {
            let child = order.id;
            let submitted = agent.beside(outside::submit(self.store, *order)).await;
            if let Some(failure) = child_submitted(submitted)? {
                return Ok(Verdict::End(Ending::Failed { failure }));
            }
            let replayed = Some(shared.journal.borrow().clone()).filter(|journal| journal.replays() > 0);
            if let Some(journal) = replayed {
                agent.beside(self.rejoin(holding, &journal, child)).await?;
            }
            // A receiver that is gone has been dropped by the author's code; the child goes on by itself.
            let _ = done.send(());
            return Ok(Verdict::GoOn);
        }
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
        for (decide, alone, done) in collected.waiting.into_iter().rev() {
            if own {
                let _ = done.send(());
            } else {
                shared.requests.borrow_mut().push_front(Request::Append { decide, alone, done });
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
            && place(self.clock.now(), until, self.deadline) == Place::Inside
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
            Some(Request::Append { decide, alone, done }) => {
                if alone && !collected.entries.is_empty() {
                    requests.push_front(Request::Append { decide, alone, done });
                    break;
                }
                match decide(&journal) {
                    Some(entry) => {
                        collected.entries.push(entry);
                        collected.waiting.push((decide, alone, done));
                    }
                    None => {
                        let _ = done.send(());
                    }
                }
                if alone {
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
            | OutsideError::Journal(_)),
        ) => Ok(Some(Failure::new(ErrorClass::Invalid, format!("a child job was not submitted: {error}")))),
    }
}
