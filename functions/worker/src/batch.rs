//! One invocation: a batch of messages, all of whose jobs are driven at the same time.

use longhaul_aws::telemetry::chain;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use longhaul::drive::{Handled, InHand, Invocation};
use longhaul::engine::ids::{IdError, SessionId};
use longhaul::engine::{Timestamp, limits};
use longhaul::store::{About, Continuation, JobRef, Store};
use longhaul::{Audience, Clock, Registry};
use longhaul_aws::sqs::{Incoming, IncomingError};
use tracing::Instrument as _;

use crate::broadcast::Broadcast;
use crate::redrive;

/// Time before the deadline at which whatever still runs is dropped, so that the answer about the rest of the batch
/// gets out: a process that is killed answers for nobody. Jobs give themselves back earlier, at half of
/// [`limits::DEADLINE_RESERVE_MS`]; what is left by then hangs in a call to the store.
const ANSWER_RESERVE_MS: u64 = limits::DEADLINE_RESERVE_MS / 4;
/// What the last word about the session leaves of that to the answer. Without that word the session's item expires by
/// itself.
const ANSWER_TIME_MS: u64 = ANSWER_RESERVE_MS / 2;

/// Why a whole batch could not be looked at; all of its messages stay in the queue.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The invocation's id cannot name a session.
    #[error("the invocation's request id cannot name a session")]
    Session(#[from] IdError),
}

/// The worker: what it keeps from one invocation to the next.
pub struct Worker<S> {
    store: S,
    registry: Registry,
    broadcast: Option<Rc<Broadcast>>,
    sends_on: bool,
    in_hand: InHand,
}

/// What became of messages, by their place in the batch. Those where something failed are not in it.
type Outcomes = BTreeMap<usize, Handled>;

/// A message that is to be worked on.
struct Work {
    /// Its place in the batch.
    place: usize,
    incoming: Incoming,
}

impl Work {
    /// The job that it is about, if it is about one.
    fn job(&self) -> Option<&JobRef> {
        match &self.incoming.continuation.about {
            About::Job(job) => Some(job),
            About::Watchdog { .. } => None,
        }
    }

    /// Whether it may come to a claim.
    fn claims(&self) -> bool {
        self.job().is_some() && self.incoming.redriven.is_none()
    }
}

impl<S: Store> Worker<S> {
    /// A worker that drives the jobs of `store` with the agents of `registry`.
    pub fn new(store: S, registry: Registry) -> Self {
        Self { store, registry, broadcast: None, sends_on: true, in_hand: InHand::default() }
    }

    /// Lets people hear what steps say while they run.
    #[must_use]
    pub fn heard_by(mut self, broadcast: Option<Rc<Broadcast>>) -> Self {
        self.broadcast = broadcast;
        self
    }

    /// Leaves it to others to send on what is heard, as is needed where several batches are worked on at once.
    #[must_use]
    pub const fn sent_on_by_others(mut self) -> Self {
        self.sends_on = false;
        self
    }

    /// Works on a batch in the invocation `request_id` that must have answered by `deadline_ms` (milliseconds since
    /// the Unix epoch, as Lambda tells it).
    ///
    /// The answer names the messages that stay in the queue. A message that is nowhere in it is done with, so each is
    /// in it until it is known to be done with.
    ///
    /// # Errors
    /// [`BatchError`]: nothing was done.
    pub async fn handle(
        &self,
        batch: SqsEvent,
        request_id: &str,
        deadline_ms: u64,
    ) -> Result<SqsBatchResponse, BatchError> {
        let clock = Clock::of_machine();
        let session: SessionId = request_id.parse()?;
        let deadline = Timestamp::from_millis(deadline_ms);
        let work: Vec<Work> = batch
            .records
            .iter()
            .enumerate()
            .filter_map(|(place, message)| Some(Work { place, incoming: read(message)? }))
            .collect();
        let audience = self.broadcast.clone().map(|broadcast| broadcast as Rc<dyn Audience>);
        let invocation = Invocation::begin(&self.store, &self.registry, session, clock, deadline)
            .among(&self.in_hand)
            .heard_by(audience);
        let handled = RefCell::new(Outcomes::new());
        if !work.is_empty() {
            // The deadline is the context's and never assumed: Lambda kills the process there, and with it the answer
            // about jobs that went well.
            let reserve = Duration::from_millis(ANSWER_RESERVE_MS);
            tokio::select! {
                biased;
                () = clock.sleep(clock.now().until(deadline).saturating_sub(reserve)) => {
                    let finished = handled.borrow().len();
                    tracing::error!(messages = work.len(), finished, "the invocation ran out of time");
                }
                () = self.work(&invocation, &clock, &work, &handled) => {}
            }
            // Everything that was running is dropped by here; behind the answer the process is frozen.
            if work.iter().any(Work::claims) {
                let left = clock.now().until(deadline).saturating_sub(Duration::from_millis(ANSWER_TIME_MS));
                let _said_or_late = tokio::time::timeout(left, invocation.end()).await;
            }
        }
        Ok(answer(&batch.records, &handled.borrow()))
    }

    /// Works on all messages together, with the session alive beside them.
    async fn work(&self, invocation: &Invocation<'_, S>, clock: &Clock, work: &[Work], handled: &RefCell<Outcomes>) {
        let jobs: Vec<JobRef> = work.iter().filter(|work| work.claims()).filter_map(Work::job).cloned().collect();
        let claims = !jobs.is_empty();
        // Before any claim: the lease of a session that has no item counts as free. Watchdogs and dead letters, which
        // come often or in heaps, claim nothing and need no session.
        if claims && let Err(error) = invocation.announce().await {
            tracing::error!(error = %chain(&error), "the session was not announced; the batch stays in the queue");
            return;
        }
        let mut running: FuturesUnordered<_> = work
            .iter()
            .map(|work| {
                self.work_on(invocation, clock, work).instrument(span(&work.incoming.continuation)).boxed_local()
            })
            .collect();
        let all = async {
            while let Some(finished) = running.next().await {
                handled.borrow_mut().extend(finished);
            }
        };
        tokio::select! {
            biased;
            () = all => {}
            never = invocation.keep_alive(jobs), if claims => never,
            never = self.send_on(clock), if claims && self.sends_on => never,
        }
    }

    /// Sends on what steps say, while the jobs are driven.
    async fn send_on(&self, clock: &Clock) -> ! {
        match &self.broadcast {
            Some(broadcast) => broadcast.send_on(clock).await,
            None => std::future::pending().await,
        }
    }

    /// Works on one message; what became of it, unless something failed.
    async fn work_on(&self, invocation: &Invocation<'_, S>, clock: &Clock, work: &Work) -> Option<(usize, Handled)> {
        let Incoming { continuation, redriven } = &work.incoming;
        let handled = async {
            match (redriven, &continuation.about) {
                (Some(letter), About::Job(job)) => redrive::replay(&self.store, job, letter, clock.now())
                    .await
                    .map(|()| Handled::Acknowledge)
                    .map_err(|error| chain(&error)),
                (Some(_) | None, About::Job(_) | About::Watchdog { .. }) => {
                    invocation.handle(continuation).await.map_err(|error| chain(&error))
                }
            }
        };
        // A fault of ours in one job's handling is no reason to stop the others.
        match AssertUnwindSafe(handled).catch_unwind().await {
            Ok(Ok(handled)) => {
                if handled == Handled::GiveBack {
                    tracing::info!("given back to the queue");
                }
                return Some((work.place, handled));
            }
            Ok(Err(error)) => tracing::error!(error, "not driven on; the message stays in the queue"),
            // What it says was printed by the panic itself.
            Err(_panic) => tracing::error!("the worker's own code panicked; the message stays in the queue"),
        }
        None
    }
}

/// What every log line about a message says of it.
fn span(continuation: &Continuation) -> tracing::Span {
    match &continuation.about {
        About::Job(job) => tracing::info_span!("job", tenant = %job.tenant, job = %job.job),
        About::Watchdog { session, jobs } => tracing::info_span!("watchdog", of = %session, jobs = jobs.len()),
    }
}

/// Reads a message; none when it is not this worker's to work on.
fn read(message: &SqsMessage) -> Option<Incoming> {
    let message_id = message.message_id.as_deref().unwrap_or_default();
    match Incoming::parse(message.body.as_deref().unwrap_or_default()) {
        Ok(incoming) => Some(incoming),
        Err(error @ IncomingError::Newer { .. }) => {
            tracing::warn!(message_id, %error, "given back untouched");
            None
        }
        Err(IncomingError::Malformed { source }) => {
            // It fails until the queue's own redrive policy moves it to the dead letters, where a person finds it:
            // acknowledged it would be lost.
            tracing::error!(
                message_id,
                fault = fault(&source),
                line = source.line(),
                column = source.column(),
                "junk in the queue"
            );
            None
        }
    }
}

/// The kind of a fault. The message of a serde error may repeat the text at fault, which may be anybody's.
fn fault(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Io | serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Eof => "it is empty or cut short",
        serde_json::error::Category::Data => "it is JSON but no continuation",
    }
}

/// The answer to the queue: what is not acknowledged stays there.
fn answer(messages: &[SqsMessage], handled: &Outcomes) -> SqsBatchResponse {
    let mut answer = SqsBatchResponse::default();
    for (place, message) in messages.iter().enumerate() {
        if handled.get(&place) != Some(&Handled::Acknowledge) {
            let mut failure = BatchItemFailure::default();
            // A message without an id cannot be named; the empty name makes Lambda keep the whole batch, which loses none.
            failure.item_identifier = message.message_id.clone().unwrap_or_default();
            answer.batch_item_failures.push(failure);
        }
    }
    answer
}
