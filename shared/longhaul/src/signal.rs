//! Waits for a time or a signal.
//!
//! Protocol rule 8: how a wait ended is an outcome of its own in the journal. Nothing is decided at replay by what
//! happens to be there then, so a signal that came after a timeout stays after it.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul_engine::entry::{StepId, WaitEnd, WaitFor};
use longhaul_engine::ids::SignalName;
use longhaul_engine::journal::StepState;
use longhaul_engine::{Entry, Journal, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ctx::{Ctx, from_json, recorded};
use crate::error::{Error, Result};
use crate::shared::{Company, Shared};

/// A wait for a signal; await it.
#[must_use = "a wait begins when it is awaited"]
pub struct SignalWait<'a, T> {
    ctx: &'a mut Ctx,
    id: StepId,
    timeout: Option<Duration>,
    payload: PhantomData<T>,
}

impl<'a, T> SignalWait<'a, T> {
    pub(crate) fn new(ctx: &'a mut Ctx, id: StepId) -> Self {
        Self { ctx, id, timeout: None, payload: PhantomData }
    }

    /// Gives up after this long, counted from the moment the wait is recorded.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<'a, T: DeserializeOwned + 'a> IntoFuture for SignalWait<'a, T> {
    type Output = Result<T>;
    type IntoFuture = LocalBoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        async move {
            let Self { ctx, id, timeout, payload: _ } = self;
            let signal: SignalName = id.name.parse().map_err(|error| {
                Error::terminal(format!("the agent waits for a signal that nobody can send: {error}"))
            })?;
            let on = WaitFor::Signal { signal: signal.clone() };
            match wait(&ctx.shared, &id, on, Some(&signal), timeout).await {
                Ended::Signal(payload) => from_json(&id, &payload),
                Ended::Time => Err(Error::TimedOut { name: id.name }),
            }
        }
        .boxed_local()
    }
}

/// A durable timer.
pub(crate) async fn sleep(shared: &Rc<Shared>, id: StepId, duration: Duration) -> Result<()> {
    match wait(shared, &id, WaitFor::Time, None, Some(duration)).await {
        Ended::Time | Ended::Signal(_) => Ok(()),
    }
}

/// How a wait ended.
pub(crate) enum Ended {
    /// By its time.
    Time,
    /// By a signal that says this.
    Signal(Value),
}

/// Waits for `signal`, for `timeout`, or for whichever comes first in the journal.
pub(crate) async fn wait(
    shared: &Rc<Shared>,
    id: &StepId,
    on: WaitFor,
    signal: Option<&SignalName>,
    timeout: Option<Duration>,
) -> Ended {
    loop {
        let until = match recorded(shared, id).await.map(|record| record.state) {
            Some(StepState::WaitEnded { end: WaitEnd::Time }) => return Ended::Time,
            Some(StepState::WaitEnded { end: WaitEnd::Signal { signal_seq } }) => {
                let payload = shared.journal.borrow().signal_at(signal_seq).map(|signal| signal.payload.clone());
                return Ended::Signal(payload.unwrap_or_default());
            }
            Some(StepState::Waiting { on: _, until }) => until,
            // A wait has no such record: `recorded` has compared the kinds.
            Some(
                StepState::Started
                | StepState::Retrying { .. }
                | StepState::Completed { .. }
                | StepState::Failed { .. }
                | StepState::Emitted,
            )
            | None => {
                begin(shared, id, &on, signal, timeout).await;
                continue;
            }
        };
        let time_is_up = |now: Timestamp| until.is_some_and(|until| until <= now);
        let now = shared.clock.now();
        if time_is_up(now) || taken(&shared.journal.borrow(), id, signal).is_some() {
            let (id, signal) = (id.clone(), signal.cloned());
            let up = time_is_up(now);
            let end = move |journal: &Journal| {
                let by_time = || up.then(|| Entry::WaitEnded { id: id.clone(), end: WaitEnd::Time });
                taken(journal, &id, signal.as_ref()).or_else(by_time)
            };
            shared.append(Company::Alone, end).await;
        } else {
            shared.rest(&id.key, until).await;
        }
    }
}

/// Begins a wait that has not begun.
pub(crate) async fn begin(
    shared: &Rc<Shared>,
    id: &StepId,
    on: &WaitFor,
    signal: Option<&SignalName>,
    timeout: Option<Duration>,
) {
    if recorded(shared, id).await.is_some() {
        return;
    }
    let until = timeout.map(|timeout| shared.clock.now().plus(timeout));
    let (id, on, signal) = (id.clone(), on.clone(), signal.cloned());
    let entry = move |journal: &Journal| {
        // A signal that came early ends the wait before it has begun.
        let waiting = || Some(Entry::Waiting { id: id.clone(), on: on.clone(), until });
        taken(journal, &id, signal.as_ref()).or_else(waiting)
    };
    shared.append(Company::Alone, entry).await;
}

/// The entry that ends the wait by a signal that stands in the journal.
fn taken(journal: &Journal, id: &StepId, signal: Option<&SignalName>) -> Option<Entry> {
    let found = journal.untaken_signal(signal?)?;
    Some(Entry::WaitEnded { id: id.clone(), end: WaitEnd::Signal { signal_seq: found.seq } })
}
