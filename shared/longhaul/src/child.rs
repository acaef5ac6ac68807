//! Child jobs: jobs of their own, started by a step and joined by it.
//!
//! A child is submitted under an id made from its parent's and the step's key, so that a replay finds it instead of
//! starting another. Its end comes back as a signal in the parent's journal.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul_engine::budget::Budget;
use longhaul_engine::entry::{StepId, WaitFor};
use longhaul_engine::ids::{AgentRef, SignalName};
use longhaul_engine::job::{Order, Parent, Totals};
use longhaul_engine::journal::{Ending, StepState};
use longhaul_engine::{ErrorClass, Failure, JobId, limits};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ctx::{Ctx, from_json, recorded};
use crate::error::{Error, Result};
use crate::shared::Shared;
use crate::signal::{Ended, begin, wait};
use crate::step::exhaust;

/// How a child ended, as its parent is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ChildEnd {
    /// With a result.
    Completed { output: Value },
    /// With a failure.
    Failed { failure: Failure },
    /// On request.
    Cancelled,
}

impl From<&Ending> for ChildEnd {
    fn from(ending: &Ending) -> Self {
        match ending {
            Ending::Completed { output } => Self::Completed { output: output.clone() },
            Ending::Failed { failure } => Self::Failed { failure: failure.clone() },
            Ending::Cancelled { .. } => Self::Cancelled,
        }
    }
}

/// What a parent is told: how its child ended, and what it has used, which counts as the parent's own.
pub(crate) fn told(ending: &Ending, totals: &Totals) -> Value {
    let mut told = serde_json::to_value(ChildEnd::from(ending)).unwrap_or_default();
    if let (Some(fields), Ok(totals)) = (told.as_object_mut(), serde_json::to_value(totals)) {
        fields.insert("totals".to_owned(), totals);
    }
    told
}

/// What a child may use: its share of what its parent has left, and no more than `limit`. Once its wait stands in the
/// journal, what stands there counts.
async fn allowance(shared: &Rc<Shared>, id: &StepId, shares: u64, limit: Budget) -> Budget {
    if shared.journal.borrow().step(&id.key).is_some() {
        return Budget::default();
    }
    let share = {
        let journal = shared.journal.borrow();
        // The part of children that run already is taken off before the rest is shared.
        let held = shared.held.get().plus(journal.held_for_children());
        let now = shared.clock.now();
        shared.budget.get().share(journal.totals(), held, shares, shared.order.submitted_at, now)
    };
    match share {
        Ok(share) => share.least(limit),
        Err(exhausted) => exhaust(shared, exhausted).await,
    }
}

/// A child job about to start; await it.
#[must_use = "a child job starts when it is awaited"]
pub struct ChildJob<'a, T> {
    ctx: &'a mut Ctx,
    id: StepId,
    agent: AgentRef,
    input: Result<Value, serde_json::Error>,
    budget: Budget,
    output: PhantomData<T>,
}

impl<'a, T> ChildJob<'a, T> {
    pub(crate) fn new(ctx: &'a mut Ctx, id: StepId, agent: AgentRef, input: Result<Value, serde_json::Error>) -> Self {
        Self { ctx, id, agent, input, budget: Budget::default(), output: PhantomData }
    }

    /// The most that it may use, within its part of what this job has left.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }
}

impl<'a, T: DeserializeOwned + 'a> IntoFuture for ChildJob<'a, T> {
    type Output = Result<T>;
    type IntoFuture = LocalBoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        async move {
            let Self { ctx, id, agent, input, budget: limit, output: _ } = self;
            let shares = ctx.shares();
            let shared = &ctx.shared;
            let unfit = |error| format!("the child job \"{}\" was given an input that is no JSON: {error}", id.name);
            let input = input.map_err(|error: serde_json::Error| Error::terminal(unfit(error)))?;
            let depth = shared.order.parent.as_ref().map_or(0, |parent| parent.depth).saturating_add(1);
            if depth > limits::CHILD_DEPTH_MAX {
                let most = limits::CHILD_DEPTH_MAX;
                let message = format!(
                    "the child job \"{}\" was not started: {most} jobs stand above it, and no more may; does an agent start itself?",
                    id.name
                );
                return Err(Error::Terminal(Failure::new(ErrorClass::Budget, message)));
            }
            let child = JobId::of_child(shared.order.id, &id.key);
            let signal = SignalName::of_child_end(child);
            let on = WaitFor::Child { child, budget: allowance(shared, &id, shares, limit).await };
            // The wait goes first, so that a cancel between the two knows the child; the submission is repeated until
            // the wait has ended, since its id makes it one.
            begin(shared, &id, &on, Some(&signal), None).await;
            if let Some(StepState::Waiting { on: WaitFor::Child { child: _, budget }, .. }) =
                recorded(shared, &id).await.map(|record| record.state)
            {
                let order = Order {
                    id: child,
                    agent,
                    input,
                    budget,
                    webhook: None,
                    webhook_events: Vec::new(),
                    parent: Some(Parent { job: shared.order.id, step: id.key.clone(), depth }),
                    origin: shared.order.origin.of_child(),
                    // What was edited was edited for this job, and the child is another agent.
                    // Its parent has the turn, and waits for it.
                    thread: None,
                    overrides: Default::default(),
                    submitted_at: shared.clock.now(),
                    ..shared.order.clone()
                };
                shared.submit(order).await;
            }
            match wait(shared, &id, on, Some(&signal), None).await {
                Ended::Time => Err(Error::TimedOut { name: id.name }),
                Ended::Signal(payload) => match from_json(&id, &payload)? {
                    ChildEnd::Completed { output } => from_json(&id, &output),
                    ChildEnd::Failed { failure } => Err(Error::Step(failure)),
                    ChildEnd::Cancelled => Err(Error::ChildCancelled { name: id.name }),
                },
            }
        }
        .boxed_local()
    }
}
