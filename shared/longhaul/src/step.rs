//! Steps and effects: work whose outcome is recorded.

use std::fmt;
use std::future::IntoFuture;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul_engine::budget::{Exhausted, HeldBack};
use longhaul_engine::entry::StepId;
use longhaul_engine::job::Usage;
use longhaul_engine::journal::StepState;
use longhaul_engine::retry::{AfterFailure, RetryPolicy, after_failure};
use longhaul_engine::{Entry, ErrorClass, Failure, JobId, StepKey, StepKind, Timestamp, budget, limits, wait};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::{Ctx, from_json, recorded, to_json};
use crate::error::{Error, Result, StepError};
use crate::live::Stage;
use crate::shared::{Company, Halt, Shared};

/// The stable key of a side effect, the same at every attempt and replay: job id and step key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EffectKey {
    job: JobId,
    step: StepKey,
    asks_anew: u32,
}

impl EffectKey {
    pub(crate) const fn step(&self) -> &StepKey {
        &self.step
    }

    /// The key for a question to a model: another one behind a replay that changed what the job asks. Under the first one, a
    /// provider that honours keys would go on giving the answer to the question of before.
    #[must_use]
    pub fn of_question(&self) -> String {
        match self.asks_anew {
            0 => self.to_string(),
            times => format!("{self}/asked-anew-{times}"),
        }
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.job, self.step)
    }
}

/// How a step is run.
pub(crate) struct StepOptions<T> {
    retry: RetryPolicy,
    time_limit: Duration,
    reserve_tokens: u64,
    reserve_micros: Option<u64>,
    usage: fn(&T) -> Usage,
    look: bool,
}

impl<T> Default for StepOptions<T> {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            time_limit: Duration::from_millis(limits::STEP_TIME_LIMIT_DEFAULT_MS),
            reserve_tokens: 0,
            reserve_micros: None,
            usage: |_| Usage::default(),
            look: false,
        }
    }
}

macro_rules! options {
    () => {
        /// How often and at what distance it is tried.
        pub fn retry(mut self, policy: RetryPolicy) -> Self {
            self.options.retry = policy;
            self
        }

        /// How long an attempt may take. It starts only in an invocation that has this much time left.
        pub fn time_limit(mut self, limit: Duration) -> Self {
            self.options.time_limit = limit;
            self
        }

        /// What it may use and what it used: `reserve` tokens are held back from the job's budget while it runs, and
        /// `usage` reads from the result what they came to.
        pub fn metered(mut self, reserve: u64, usage: fn(&T) -> Usage) -> Self {
            self.options.reserve_tokens = reserve;
            self.options.usage = usage;
            self
        }

        /// What the tokens that it holds back may cost, in millionths; none when their price is not known. A job with
        /// a budget in money starts no metered step whose price is not known.
        pub fn priced(mut self, reserve_micros: Option<u64>) -> Self {
            self.options.reserve_micros = reserve_micros;
            self
        }
    };
}

/// A step about to run; await it.
#[must_use = "a step runs when it is awaited"]
pub struct Step<'a, T, F> {
    pub(crate) ctx: &'a mut Ctx,
    pub(crate) id: StepId,
    pub(crate) body: F,
    pub(crate) options: StepOptions<T>,
}

impl<T, F> Step<'_, T, F> {
    options!();

    /// Says that it is a look, behind a sleep, at what is made elsewhere for this job: the two count for nothing in a budget
    /// of steps, since how often one must look is not the agent's choice.
    pub fn look(mut self) -> Self {
        self.options.look = true;
        self
    }
}

impl<'a, T, F> IntoFuture for Step<'a, T, F>
where
    F: AsyncFn() -> Result<T, StepError> + 'a,
    T: Serialize + DeserializeOwned + 'a,
{
    type Output = Result<T>;
    type IntoFuture = LocalBoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { ctx, id, body, options } = self;
        async move { run(&ctx.shared, id, &options, async || body().await).await }.boxed_local()
    }
}

/// A side effect about to run; await it.
#[must_use = "an effect runs when it is awaited"]
pub struct Effect<'a, T, F> {
    pub(crate) ctx: &'a mut Ctx,
    pub(crate) id: StepId,
    pub(crate) body: F,
    pub(crate) options: StepOptions<T>,
}

impl<T, F> Effect<'_, T, F> {
    options!();

    /// Never starts it a second time, for another side that knows no keys. Cut off by a crash, its outcome is a
    /// failure of class `interrupted`: whether it took effect is not known, and the agent decides what then.
    pub fn at_most_once(mut self) -> Self {
        self.id.kind = StepKind::EffectOnce;
        self.options.retry = RetryPolicy::never();
        self
    }
}

impl<'a, T, F> IntoFuture for Effect<'a, T, F>
where
    F: AsyncFn(EffectKey) -> Result<T, StepError> + 'a,
    T: Serialize + DeserializeOwned + 'a,
{
    type Output = Result<T>;
    type IntoFuture = LocalBoxFuture<'a, Result<T>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { ctx, id, body, options } = self;
        let asks_anew = ctx.shared.journal.borrow().asks_anew();
        let key = EffectKey { job: ctx.job_id(), step: id.key.clone(), asks_anew };
        async move { run(&ctx.shared, id, &options, async || body(key.clone()).await).await }.boxed_local()
    }
}

/// Runs a step to its outcome, over as many attempts and invocations as that takes.
async fn run<T, F>(shared: &Rc<Shared>, id: StepId, options: &StepOptions<T>, body: F) -> Result<T>
where
    F: AsyncFn() -> Result<T, StepError>,
    T: Serialize + DeserializeOwned,
{
    loop {
        let attempt = match recorded(shared, &id).await.map(|record| record.state) {
            Some(StepState::Completed { output }) => return from_json(&id, &output),
            Some(StepState::Failed { mut failure }) => {
                // What was sent is for people who read this step; it goes neither to the job's end nor to its parent.
                failure.sent = None;
                return Err(Error::Step(failure));
            }
            Some(StepState::Retrying { attempt, retry_at }) => {
                if shared.clock.now() < retry_at {
                    shared.rest(&id.key, Some(retry_at)).await;
                    continue;
                }
                attempt.saturating_add(1)
            }
            Some(StepState::Started) => {
                interrupted(shared, &id).await;
                continue;
            }
            // A step has no such record: `recorded` has compared the kinds.
            Some(StepState::Waiting { .. } | StepState::WaitEnded { .. } | StepState::Emitted) | None => 1,
        };
        attempt_once(shared, &id, options, &body, attempt).await;
    }
}

/// An at-most-once step that a crash cut off: its outcome says so.
async fn interrupted(shared: &Rc<Shared>, id: &StepId) {
    let mut failure = Failure::new(
        ErrorClass::Interrupted,
        format!("the effect \"{}\" was cut off by a crash; whether it took effect is not known", id.name),
    );
    failure.step = Some(id.key.clone());
    let started_at = shared.clock.now();
    let usage = Usage::default();
    let entry = Entry::StepFailed { id: id.clone(), attempt: 1, started_at, failure, usage };
    shared.append(Company::Others, move |_| Some(entry.clone())).await;
}

/// Makes one attempt and records what came of it.
async fn attempt_once<T, F>(shared: &Rc<Shared>, id: &StepId, options: &StepOptions<T>, body: &F, attempt: u32)
where
    F: AsyncFn() -> Result<T, StepError>,
    T: Serialize,
{
    if shared.is_closing() {
        std::future::pending::<()>().await;
    }
    let started_at = shared.clock.now();
    let time_limit = match shared.time_limit(options.time_limit, started_at) {
        Some(limit) if wait::fits(started_at, limit, shared.deadline) => limit,
        Some(_) | None => shared.rest_without_time(&id.key).await,
    };
    let needs = HeldBack::for_step(options.reserve_tokens, options.reserve_micros);
    let _reserved = reserve(shared, needs, options.look, started_at).await;
    let busy = shared.busy();
    let mut settling = None;
    if id.kind == StepKind::EffectOnce {
        let entry = Entry::StepStarted { id: id.clone() };
        // A cancel that was read meanwhile comes first: behind it nothing irreversible begins.
        let open = Rc::clone(shared);
        shared.append(Company::Others, move |_| (!open.is_closing()).then(|| entry.clone())).await;
        if shared.is_closing() {
            std::future::pending::<()>().await;
        }
        // It acts from here on, and whether it has must be known.
        settling = Some(shared.settling());
    }
    // What was spent on the entry above is part of the limit, so that the body never runs into the deadline.
    let left = time_limit.saturating_sub(started_at.until(shared.clock.now()));
    let on_stage = Stage::enter(shared, id, attempt);
    let cut_off = async {
        match settling {
            // Left to end by itself; the drive loop knows for how long.
            Some(_) => std::future::pending().await,
            None => shared.until_closing().await,
        }
    };
    let result = tokio::select! {
        // The body first: it may have something to say about its end.
        biased;
        result = tokio::time::timeout(left, body()) => match result {
            Ok(result) => result,
            Err(_) => Err(StepError::new(
                ErrorClass::Timeout,
                format!("{} \"{}\" took longer than {} ms", id.kind.as_str(), id.name, time_limit.as_millis()),
            )),
        },
        () = cut_off => {
            // The body is dropped by now, and with it whatever call it had in flight.
            drop(busy);
            std::future::pending().await
        }
    };
    let _settling = settling.unwrap_or_else(|| shared.settling());
    drop(on_stage);
    let entry = match result.and_then(|value| Ok((to_json(id, &value)?, (options.usage)(&value)))) {
        Ok((output, usage)) => {
            Entry::StepCompleted { id: id.clone(), attempt, started_at, output, usage, look: options.look }
        }
        Err(error) => failed(shared, id, &options.retry, attempt, started_at, error),
    };
    shared.append_outcome(entry).await;
}

fn failed(
    shared: &Shared,
    id: &StepId,
    policy: &RetryPolicy,
    attempt: u32,
    started_at: Timestamp,
    error: StepError,
) -> Entry {
    let StepError { mut failure, retry_after, usage } = error;
    let usage = *usage;
    failure.step = Some(id.key.clone());
    let now = shared.clock.now();
    // Whatever the author asked for: what may be started once is not tried again.
    let once = RetryPolicy::never();
    let policy = if id.kind == StepKind::EffectOnce { &once } else { policy };
    let next = after_failure(policy, shared.order.id, &id.key, attempt, failure.class, retry_after, now);
    let id = id.clone();
    match next {
        AfterFailure::Retry { at } => {
            // The last attempt's says what they all sent.
            failure.sent = None;
            Entry::AttemptFailed { id, attempt, started_at, failure, retry_at: at, usage }
        }
        AfterFailure::GiveUp => Entry::StepFailed { id, attempt, started_at, failure, usage },
    }
}

/// Holds a part of the job's budget back until dropped.
struct Reserved(Rc<Shared>, HeldBack);

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.held.set(self.0.held.get().minus(self.1));
    }
}

/// Reserves what a step may need. Does not return when the budget has no room: the job ends with what it has.
async fn reserve(shared: &Rc<Shared>, needs: HeldBack, look: bool, now: Timestamp) -> Reserved {
    let wanted = shared.held.get().plus(needs);
    let checked = {
        let journal = shared.journal.borrow();
        let held = wanted.plus(journal.held_for_children());
        let mut totals = *journal.totals();
        if look {
            totals.steps = totals.steps.saturating_sub(budget::STEPS_OF_A_LOOK);
        }
        budget::check(&shared.budget.get(), &totals, held, shared.order.submitted_at, now)
    };
    match checked {
        Ok(()) => {
            shared.held.set(wanted);
            Reserved(Rc::clone(shared), needs)
        }
        Err(exhausted) => exhaust(shared, exhausted).await,
    }
}

/// Ends the job, since its budget does not allow what the agent wants to do next.
pub(crate) async fn exhaust(shared: &Rc<Shared>, exhausted: Exhausted) -> ! {
    shared.halt(Halt::End(used_up(exhausted))).await
}

/// The failure of a job whose budget is used up.
pub(crate) fn used_up(exhausted: Exhausted) -> Failure {
    Failure::new(ErrorClass::Budget, format!("{exhausted}; replay the job with a larger budget to go on"))
}
