//! The context: everything durable that an agent can do.
//!
//! Each operation has a place, the step key: the branches it stands in and its position. At replay an operation with a
//! recorded outcome gives that outcome back and does nothing else. `&mut` and [`AsyncFn`] bodies are deliberate: they
//! make a durable call inside a step body, two operations in flight on one context, the parent's context inside a
//! branch and a step body that changes captured state into compile errors.

use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use longhaul_engine::budget::Budget;
use longhaul_engine::entry::{Branch, StepId};
use longhaul_engine::ids::AgentRef;
use longhaul_engine::job::{Mismatch, Overrides};
use longhaul_engine::journal::StepRecord;
use longhaul_engine::{Entry, ErrorClass, Failure, JobId, StepKey, StepKind, TenantId, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::child::ChildJob;
use crate::error::{Error, Result, StepError};
use crate::live::Live;
use crate::shared::{Company, Halt, Shared};
use crate::signal::SignalWait;
use crate::step::{Effect, EffectKey, Step, StepOptions};

/// An agent's hold on its job, or a branch's.
pub struct Ctx {
    pub(crate) shared: Rc<Shared>,
    scope: String,
    position: u64,
    branch: Option<Branch>,
}

impl Ctx {
    pub(crate) fn root(shared: Rc<Shared>) -> Self {
        Self { shared, scope: String::new(), position: 0, branch: None }
    }

    /// The job's id.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        self.shared.order.id
    }

    /// The job's owner.
    #[must_use]
    pub fn tenant(&self) -> &TenantId {
        &self.shared.order.tenant
    }

    /// What a person has this job's agent use instead of what it brings.
    #[must_use]
    pub fn overrides(&self) -> &Overrides {
        &self.shared.order.overrides
    }

    /// W3C trace context that calls to other systems carry (`traceparent`): that of the submission, or the job's own.
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.shared.traceparent()
    }

    /// How often the job has been opened again so far. For the bodies of steps alone: it grows, so code that decides
    /// by it which steps come next would not be replayed.
    #[must_use]
    pub fn replays(&self) -> u32 {
        self.shared.journal.borrow().replays()
    }

    /// A way to show people what an effect has so far, such as an answer that streams in: taken before the effect, used
    /// in its body. It is no durable operation, and what it shows is stored nowhere.
    #[must_use]
    pub fn live(&self) -> Live {
        Live(Rc::clone(&self.shared))
    }

    /// What this job may use where its submission does not say. Call it first: steps before it know nothing of it.
    pub fn default_budget(&mut self, budget: Budget) {
        self.shared.budget.set(self.shared.order.budget.or(budget));
    }

    /// Says what the job has come to so far. Should it end as failed, its failure carries what was said last.
    ///
    /// # Errors
    /// When it is no JSON.
    pub fn so_far(&mut self, partial: impl Serialize) -> Result<()> {
        let partial = serde_json::to_value(partial)
            .map_err(|error| Error::terminal(format!("what the job has come to so far is no JSON: {error}")))?;
        self.shared.partial.replace(Some(partial));
        Ok(())
    }

    /// How many equal takers a budget is shared by here: the branches of the fan-out that this context is in.
    pub(crate) fn shares(&self) -> u64 {
        self.branch.map_or(1, |branch| branch.of)
    }

    pub(crate) fn next_id(&mut self, name: &str, kind: StepKind) -> StepId {
        let key = StepKey::at(&self.scope, self.position);
        self.position = self.position.saturating_add(1);
        StepId { key, name: name.to_owned(), kind, branch: self.branch }
    }

    /// A piece of work whose result is recorded. After a crash in the middle it runs again; once its result stands in
    /// the journal it never does.
    ///
    /// The body gets nothing of the context: what it needs it captures, read-only.
    pub fn step<'a, T, F>(&'a mut self, name: &str, body: F) -> Step<'a, T, F>
    where
        F: AsyncFn() -> Result<T, StepError>,
        T: Serialize + DeserializeOwned,
    {
        let id = self.next_id(name, StepKind::Step);
        Step { ctx: self, id, body, options: StepOptions::default() }
    }

    /// A side effect. The body gets the step's key and sends it along (`Idempotency-Key`), so that the other side can
    /// tell a repetition after a crash from a second request.
    pub fn effect<'a, T, F>(&'a mut self, name: &str, body: F) -> Effect<'a, T, F>
    where
        F: AsyncFn(EffectKey) -> Result<T, StepError>,
        T: Serialize + DeserializeOwned,
    {
        let id = self.next_id(name, StepKind::Effect);
        Effect { ctx: self, id, body, options: StepOptions::default() }
    }

    /// Waits for this long; nobody pays for the wait.
    ///
    /// # Errors
    /// None of its own.
    pub async fn sleep(&mut self, name: &str, duration: Duration) -> Result<()> {
        let id = self.next_id(name, StepKind::Sleep);
        crate::signal::sleep(&self.shared, id, duration).await
    }

    /// Waits for a signal from outside, such as a person's decision. One that came early is kept for this wait.
    pub fn signal<T: DeserializeOwned>(&mut self, name: &str) -> SignalWait<'_, T> {
        let id = self.next_id(name, StepKind::Signal);
        SignalWait::new(self, id)
    }

    /// Starts a job of its own and waits for its result. It inherits the tenant, and its id is the same at every
    /// replay. Several at once: one in each branch of a [`Ctx::fan_out`].
    pub fn child<T: DeserializeOwned>(
        &mut self,
        name: &str,
        agent: AgentRef,
        input: impl Serialize,
    ) -> ChildJob<'_, T> {
        let id = self.next_id(name, StepKind::Child);
        ChildJob::new(self, id, agent, serde_json::to_value(input))
    }

    /// Runs a branch for each item, all at once, in this invocation. Each branch has its own context, and its steps
    /// have their own keys. Returns when all have ended: the results in the items' order, or the first error in that
    /// order.
    ///
    /// # Errors
    /// The error of the first branch that failed; more than [`limits::BRANCHES_MAX`] items.
    pub async fn fan_out<I, T, F>(&mut self, name: &str, items: &[I], branch: F) -> Result<Vec<T>>
    where
        F: AsyncFn(&mut Ctx, &I) -> Result<T>,
    {
        let key = StepKey::at(&self.scope, self.position);
        self.position = self.position.saturating_add(1);
        if items.len() > limits::BRANCHES_MAX {
            return Err(Error::terminal(format!(
                "the fan-out \"{name}\" has {} branches; at most {} may run at once",
                items.len(),
                limits::BRANCHES_MAX
            )));
        }
        let of = u64::try_from(items.len()).unwrap_or(u64::MAX);
        let branches = items.iter().enumerate().map(|(index, item)| {
            let mut ctx = Ctx {
                shared: Rc::clone(&self.shared),
                scope: key.branch_scope(index),
                position: 0,
                branch: Some(Branch { index: u64::try_from(index).unwrap_or(u64::MAX), of }),
            };
            let branch = &branch;
            async move { branch(&mut ctx, item).await }
        });
        join_all(branches).await.into_iter().collect()
    }

    /// Shows something to the people who watch, in order with the steps. Once, also after a replay.
    ///
    /// # Errors
    /// When `data` is no JSON.
    pub async fn emit(&mut self, name: &str, data: impl Serialize) -> Result<()> {
        let id = self.next_id(name, StepKind::Emit);
        if recorded(&self.shared, &id).await.is_some() {
            return Ok(());
        }
        let data = to_json(&id, &data).map_err(|error| Error::Step(error.failure))?;
        let entry = Entry::Emitted { id, data };
        self.shared.append(Company::Others, move |_| Some(entry.clone())).await;
        Ok(())
    }
}

/// What the journal holds at this place. Does not return when it is another operation's.
pub(crate) async fn recorded(shared: &Rc<Shared>, id: &StepId) -> Option<StepRecord> {
    let record = shared.journal.borrow().step(&id.key).cloned()?;
    if record.id.kind == id.kind && record.id.name == id.name {
        return Some(record);
    }
    let described = |id: &StepId| format!("{} \"{}\"", id.kind.as_str(), id.name);
    let mismatch = Mismatch { step: Some(id.key.clone()), recorded: described(&record.id), attempted: described(id) };
    shared.halt(Halt::Mismatch(mismatch)).await
}

pub(crate) fn to_json(id: &StepId, value: &impl Serialize) -> Result<Value, StepError> {
    serde_json::to_value(value).map_err(|error| StepError {
        failure: unfit(id, &format!("its result is no JSON: {error}")),
        retry_after: None,
        usage: Box::default(),
    })
}

pub(crate) fn from_json<T: DeserializeOwned>(id: &StepId, value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|error| {
        Error::Step(unfit(id, &format!("what is recorded does not have the form that the code expects: {error}")))
    })
}

fn unfit(id: &StepId, what: &str) -> Failure {
    let mut failure = Failure::new(ErrorClass::Schema, format!("{} \"{}\": {what}", id.kind.as_str(), id.name));
    failure.step = Some(id.key.clone());
    failure
}
