//! What an agent's contexts and the drive loop that polls the agent have in common, inside one invocation.
//!
//! A context never calls the store. It puts a request into this state and waits; the drive loop, which knows the
//! store, appends what is asked, takes it into the journal and lets the context look again. So entries of branches that
//! finish together go into one write, and an agent needs to know nothing of stores.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use longhaul_engine::budget::{Budget, HeldBack};
use longhaul_engine::job::{Mismatch, Order};
use longhaul_engine::{Entry, Failure, Journal, StepKey, Timestamp, limits};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use crate::clock::Clock;
use crate::live::Stage;

/// Makes an entry out of the journal as it is, or nothing when there is nothing to write any more. Asked again after
/// each conflict.
pub(crate) type Decide = Box<dyn Fn(&Journal) -> Option<Entry>>;

/// With what an entry may stand in one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Company {
    /// With entries of other branches that are asked for at the same time.
    Others,
    /// With none: it competes with others for something in the journal, such as a signal.
    Alone,
}

/// What a context asks of the drive loop.
pub(crate) enum Request {
    /// Append an entry.
    Append {
        /// What to append.
        decide: Decide,
        /// With what it may stand in one batch.
        company: Company,
        /// Told when it stands in the journal or is not needed any more.
        done: oneshot::Sender<()>,
    },
    /// Submit a child job.
    Submit {
        /// Its order.
        order: Box<Order>,
        /// Told when it is stored.
        done: oneshot::Sender<()>,
    },
}

/// Why an operation cannot go on in this invocation, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It waits for a time, a signal or both.
    Wait { until: Option<Timestamp> },
    /// Its time limit does not fit before the deadline.
    NoTime,
}

/// Why the agent must not go on at all.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Halt {
    /// The journal does not match the code.
    Mismatch(Mismatch),
    /// The job ends, whatever the agent would make of it.
    End(Failure),
}

/// The state itself.
pub(crate) struct Shared {
    pub(crate) order: Order,
    pub(crate) clock: Clock,
    /// When this invocation ends.
    pub(crate) deadline: Timestamp,
    first_live_step: Cell<Option<Timestamp>>,
    pub(crate) journal: RefCell<Journal>,
    pub(crate) requests: RefCell<VecDeque<Request>>,
    rests: RefCell<BTreeMap<StepKey, Rest>>,
    busy: Cell<usize>,
    halt: RefCell<Option<Halt>>,
    /// Whether the job is about to end by a cancel: nothing begins any more.
    closing: Cell<bool>,
    closed: Notify,
    /// Operations whose outcome is still written down while the job closes.
    settling: Cell<usize>,
    /// What the job may use.
    pub(crate) budget: Cell<Budget>,
    /// What is held back of it for steps that are running.
    pub(crate) held: Cell<HeldBack>,
    /// What the agent has said that the job has come to.
    pub(crate) partial: RefCell<Option<Value>>,
    /// Told whenever the journal has grown.
    pub(crate) grown: Notify,
    /// Who hears what steps say while they run.
    pub(crate) stage: Stage,
}

impl Shared {
    pub(crate) fn new(order: Order, journal: Journal, clock: Clock, deadline: Timestamp, stage: Stage) -> Rc<Self> {
        Rc::new(Self {
            budget: Cell::new(order.budget),
            order,
            clock,
            deadline,
            first_live_step: Cell::new(None),
            journal: RefCell::new(journal),
            requests: RefCell::default(),
            rests: RefCell::default(),
            busy: Cell::new(0),
            halt: RefCell::default(),
            closing: Cell::new(false),
            closed: Notify::new(),
            settling: Cell::new(0),
            held: Cell::default(),
            partial: RefCell::default(),
            grown: Notify::new(),
            stage,
        })
    }

    /// W3C trace context for the calls of this job: the one that it was submitted with, or one that is the job's own and
    /// the same at every replay.
    pub(crate) fn traceparent(&self) -> String {
        match &self.order.traceparent {
            Some(given) => given.clone(),
            None => {
                let trace = self.order.id.to_string().replace('-', "");
                let span = trace.get(16..).unwrap_or_default();
                format!("00-{trace}-{span}-00")
            }
        }
    }

    /// Marks an operation as running until the mark is dropped.
    pub(crate) fn busy(self: &Rc<Self>) -> Busy {
        self.busy.set(self.busy.get().saturating_add(1));
        Busy(Rc::clone(self))
    }

    /// Whether nothing runs: no body, no request.
    pub(crate) fn is_idle(&self) -> bool {
        self.busy.get() == 0
    }

    /// Lets nothing begin any more. What runs is dropped, but for what must not be left with an unknown outcome.
    pub(crate) fn close(&self) {
        self.closing.set(true);
        self.closed.notify_waiters();
    }

    /// Whether nothing begins any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// Returns when nothing begins any more.
    pub(crate) async fn until_closing(&self) {
        let closed = self.closed.notified();
        if !self.closing.get() {
            closed.await;
        }
    }

    /// Marks an operation as one whose outcome is written down even while the job closes, until the mark is dropped.
    pub(crate) fn settling(self: &Rc<Self>) -> Settling {
        self.settling.set(self.settling.get().saturating_add(1));
        Settling(Rc::clone(self))
    }

    /// Whether outcomes are still to be written down.
    pub(crate) fn is_settling(&self) -> bool {
        self.settling.get() > 0
    }

    /// Appends what `decide` makes of the journal; returns when it stands there. Does not return while the job closes.
    pub(crate) async fn append(
        self: &Rc<Self>,
        company: Company,
        decide: impl Fn(&Journal) -> Option<Entry> + 'static,
    ) {
        if self.closing.get() {
            std::future::pending::<()>().await;
        }
        self.ask_to_append(company, Box::new(decide)).await;
    }

    /// Appends a step's outcome, which must be written down even while the job closes.
    pub(crate) async fn append_outcome(self: &Rc<Self>, entry: Entry) {
        self.ask_to_append(Company::Others, Box::new(move |_| Some(entry.clone()))).await;
    }

    async fn ask_to_append(self: &Rc<Self>, company: Company, decide: Decide) {
        let _busy = self.busy();
        let (done, told) = oneshot::channel();
        self.requests.borrow_mut().push_back(Request::Append { decide, company, done });
        if told.await.is_err() {
            // The drive loop has stopped; it will drop this future, too.
            std::future::pending::<()>().await;
        }
    }

    /// Submits a child job; returns when it is stored.
    pub(crate) async fn submit(self: &Rc<Self>, order: Order) {
        if self.closing.get() {
            std::future::pending::<()>().await;
        }
        let _busy = self.busy();
        let (done, told) = oneshot::channel();
        self.requests.borrow_mut().push_back(Request::Submit { order: Box::new(order), done });
        if told.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Rests until the journal has grown, or until `until` has come. The drive loop may drop the agent meanwhile.
    pub(crate) async fn rest(&self, key: &StepKey, until: Option<Timestamp>) {
        self.rests.borrow_mut().insert(key.clone(), Rest::Wait { until });
        let grown = self.grown.notified();
        match until {
            Some(until) => tokio::select! {
                () = grown => {}
                () = self.clock.sleep_until(until) => {}
            },
            None => grown.await,
        }
        self.rests.borrow_mut().remove(key);
    }

    /// Rests for good: the step starts in the next invocation.
    pub(crate) async fn rest_without_time(&self, key: &StepKey) -> ! {
        self.rests.borrow_mut().insert(key.clone(), Rest::NoTime);
        std::future::pending().await
    }

    /// Halts the agent for good.
    pub(crate) async fn halt(&self, halt: Halt) -> ! {
        // The first reason stands: later ones may only be its consequences.
        self.halt.borrow_mut().get_or_insert(halt);
        std::future::pending().await
    }

    /// Why the agent was halted, if it was.
    pub(crate) fn halted(&self) -> Option<Halt> {
        self.halt.borrow().clone()
    }

    /// What the operations that rest are resting for.
    pub(crate) fn rests(&self) -> Vec<Rest> {
        self.rests.borrow().values().copied().collect()
    }

    /// The time limit of a step that asks for `asked` and would start `now`: never more than a fresh invocation gives,
    /// or a step could ask for so much that it never starts. None: too little is left for any.
    pub(crate) fn time_limit(&self, asked: Duration, now: Timestamp) -> Option<Duration> {
        // Counted from the first step that really runs here, behind the claim and the replay.
        let since = self.first_live_step.get().unwrap_or(now);
        self.first_live_step.set(Some(since));
        let reserve = Duration::from_millis(2 * limits::DEADLINE_RESERVE_MS);
        let most = since.until(self.deadline).saturating_sub(reserve);
        (most >= Duration::from_millis(limits::CLAIM_TIME_MIN_MS)).then(|| asked.min(most))
    }
}

/// The mark of an operation whose outcome is awaited.
pub(crate) struct Settling(Rc<Shared>);

impl Drop for Settling {
    fn drop(&mut self) {
        self.0.settling.set(self.0.settling.get().saturating_sub(1));
    }
}

/// The mark of a running operation.
pub(crate) struct Busy(Rc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get().saturating_sub(1));
    }
}
