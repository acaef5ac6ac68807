//! The drive loop: takes a continuation, claims its job, runs the agent over the journal, and gives the job back.
//!
//! Every decision is the engine's; this module carries it out against a [`Store`].

mod children;
mod claiming;
mod driven;
mod ending;
mod forking;
mod in_hand;
mod journaling;
mod running;
mod turn;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use longhaul_engine::claim::{Driver, Held, Holder, holder};
use longhaul_engine::ids::{Epoch, SessionId};
use longhaul_engine::job::{Order, Totals};
use longhaul_engine::journal::FoldError;
use longhaul_engine::{JobId, Timestamp, limits};

pub use in_hand::InHand;

use crate::clock::Clock;
use crate::live::Audience;
use crate::registry::Registry;
use crate::store::{About, Continuation, JobRef, Store, StoreError};

/// What became of a continuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// It is done with: acknowledge the message.
    Acknowledge,
    /// This invocation cannot do it; another may: leave the message to the queue.
    GiveBack,
}

/// Why a job could not be driven on. The message goes back to the queue and another worker tries.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal.
    #[error("the journal of job {job} cannot be read")]
    Journal {
        /// The job.
        job: JobId,
        /// What is wrong.
        #[source]
        source: FoldError,
    },
}

/// One worker invocation: a session with its deadline and the jobs that it drives.
pub struct Invocation<'a, S> {
    store: &'a S,
    registry: &'a Registry,
    session: SessionId,
    clock: Clock,
    deadline: Timestamp,
    driving: RefCell<BTreeSet<JobRef>>,
    /// Jobs that were claimed, or may have been, and are not known to be given up.
    may_hold: RefCell<BTreeSet<JobRef>>,
    in_hand: InHand,
    audience: Option<Rc<dyn Audience>>,
    driver: Driver,
    steps_max: Option<u64>,
}

/// A job that this invocation holds.
pub(crate) struct Holding {
    pub(crate) reference: JobRef,
    /// The order as it was submitted; edits of replays come from the journal.
    pub(crate) order: Order,
    pub(crate) held: Held,
    /// When the due time was last moved.
    pub(crate) renewed_at: Timestamp,
    /// What the job had used when its item was last written: all that is known without its journal.
    pub(crate) totals: Totals,
}

impl Holding {
    pub(crate) const fn epoch(&self) -> Epoch {
        self.held.epoch
    }
}

impl<'a, S: Store> Invocation<'a, S> {
    /// An invocation that begins now and must end by `deadline`.
    pub fn begin(store: &'a S, registry: &'a Registry, session: SessionId, clock: Clock, deadline: Timestamp) -> Self {
        Self {
            store,
            registry,
            session,
            clock,
            deadline,
            driving: RefCell::default(),
            may_hold: RefCell::default(),
            in_hand: InHand::default(),
            audience: None,
            driver: Driver::Worker,
            steps_max: None,
        }
    }

    /// Counts its jobs among those of the other invocations of its process.
    #[must_use]
    pub fn among(mut self, in_hand: &InHand) -> Self {
        self.in_hand = in_hand.clone();
        self
    }

    /// Lets steps be heard while they run.
    #[must_use]
    pub fn heard_by(mut self, audience: Option<Rc<dyn Audience>>) -> Self {
        self.audience = audience;
        self
    }

    /// Drives jobs that came as files, for the person who asks, by so many outcomes at most.
    #[must_use]
    pub const fn by_hand(mut self, steps_max: u64) -> Self {
        self.driver = Driver::Person;
        self.steps_max = Some(steps_max);
        self
    }

    /// Does what a continuation asks.
    ///
    /// # Errors
    /// When the store or a journal gives out; the message belongs back in the queue then.
    pub async fn handle(&self, continuation: &Continuation) -> Result<Handled, DriveError> {
        if continuation.v > limits::PROTOCOL_VERSION {
            return Ok(Handled::GiveBack);
        }
        match &continuation.about {
            About::Job(job) => self.drive(job).await,
            About::Watchdog { session, jobs } => self.look_after(session, jobs).await,
        }
    }

    /// A watchdog message: if its session is dead, its jobs go on here.
    async fn look_after(&self, session: &SessionId, jobs: &[JobRef]) -> Result<Handled, DriveError> {
        if *session == self.session {
            return Ok(Handled::Acknowledge);
        }
        // A session that ended well has removed its item and holds nothing. Looking after its jobs all the same would
        // start invocations that arm watchdogs of their own, for ever.
        let Some(beat_at) = self.store.last_beat(session).await? else { return Ok(Handled::Acknowledge) };
        match holder(Some(beat_at), self.clock.now()) {
            Holder::Alive => Ok(Handled::Acknowledge),
            Holder::Dead | Holder::Unknown => self.call_up_after(session, jobs).await,
        }
    }

    /// Calls up what a dead session may have left to nobody. Each job gets a continuation of its own, so that they spread
    /// over workers.
    async fn call_up_after(&self, dead: &SessionId, jobs: &[JobRef]) -> Result<Handled, DriveError> {
        let mut left = Vec::new();
        for job in jobs {
            if let Err(error) = self.call_up_if_wanted(job).await {
                tracing::warn!(of = %dead, job = %job.job, error = %error, "not called up yet");
                left.push(job.clone());
            }
        }
        if !left.is_empty() {
            // If this very message came again, the jobs that were called up would be called up again.
            let delay = Duration::from_millis(limits::HEARTBEAT_INTERVAL_MS);
            self.store.send(&Continuation::watchdog(dead.clone(), left), delay).await?;
        }
        Ok(Handled::Acknowledge)
    }

    /// Calls up a job that a worker would claim if it had a message for it: that message may be in dead hands.
    async fn call_up_if_wanted(&self, job: &JobRef) -> Result<(), StoreError> {
        let called = match self.wanted(job).await {
            Ok(None) => return Ok(()),
            Ok(Some(called)) => called,
            // Nobody here can decide about it. The job's own message has a way for each, which a watchdog's has not.
            Err(StoreError::Newer { .. } | StoreError::Corrupt { .. }) => Continuation::job(job.clone()),
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Missing { .. })) => return Err(error),
        };
        self.store.send(&called, Duration::ZERO).await
    }

    async fn wanted(&self, job: &JobRef) -> Result<Option<Continuation>, StoreError> {
        let Some(found) = self.store.job(job).await? else { return Ok(None) };
        Ok(self.decided(&found).await?.map(|_claim| Continuation::of(&found.order)))
    }

    /// Claims a job and drives it as far as this invocation can.
    async fn drive(&self, job: &JobRef) -> Result<Handled, DriveError> {
        // A second message for a job that this invocation has in hand: the claim decision would say the same, after a read.
        if !self.driving.borrow_mut().insert(job.clone()) {
            return Ok(Handled::Acknowledge);
        }
        let _taken = self.in_hand.take();
        // Boxed: it is large, and whoever handles many messages would hold one for each.
        let handled = Box::pin(self.claim_and_run(job)).await;
        self.driving.borrow_mut().remove(job);
        handled
    }

    /// Writes the session's item. Before any claim: a lease of a session without an item counts as free.
    ///
    /// # Errors
    /// When the item could not be written; nothing may be claimed then.
    pub async fn announce(&self) -> Result<(), StoreError> {
        self.store.beat(&self.session, self.clock.now()).await
    }

    /// Keeps the session alive and its watchdog armed, for as long as this is polled: it never returns. `batch` are
    /// the jobs that the invocation was called for, just after [`Invocation::announce`].
    pub async fn keep_alive(&self, batch: Vec<JobRef>) -> ! {
        let mut jobs = batch;
        let mut announced = true;
        loop {
            // The watchdog goes first, so that behind every heartbeat there is one that arrives after its silence.
            if !jobs.is_empty() {
                let delay = Duration::from_secs(limits::WATCHDOG_DELAY_SECONDS);
                if let Err(error) = self.store.send(&Continuation::watchdog(self.session.clone(), jobs), delay).await {
                    tracing::warn!(session = %self.session, error = %error, "the watchdog message was not sent");
                }
            }
            if !announced && let Err(error) = self.announce().await {
                tracing::warn!(session = %self.session, error = %error, "the heartbeat was not written");
            }
            announced = false;
            self.clock.sleep(Duration::from_millis(limits::HEARTBEAT_INTERVAL_MS)).await;
            jobs = self.driving.borrow().iter().cloned().collect();
        }
    }

    /// The last word about the session, at the end of the invocation. One that holds nothing removes its item. One that may
    /// hold a job, since a claim or a release got no answer, falls silent, and its watchdog is armed once more for that job:
    /// an invocation that was short may have ended before it could send one.
    pub async fn end(&self) {
        let may_hold: Vec<JobRef> = self.may_hold.borrow().iter().cloned().collect();
        let last = if may_hold.is_empty() {
            self.store.end_session(&self.session).await
        } else {
            let delay = Duration::from_secs(limits::WATCHDOG_DELAY_SECONDS);
            self.store.send(&Continuation::watchdog(self.session.clone(), may_hold), delay).await
        };
        if let Err(error) = last {
            // The item expires by itself, and a job that is held has its due time.
            tracing::debug!(session = %self.session, error = %error, "the last word about the session was not said");
        }
    }
}
