//! Answers of the model that are made while nobody waits: begun, checkpointed by their id, looked after at growing
//! distances.
//!
//! A generation of ten minutes costs no compute that way: between two looks the job waits as for any timer, and the
//! worker is let go. What is recorded is the response's id as soon as it is known, so that a crash behind that begins no
//! second one, and then what each look saw. A response that ends without an answer is begun anew as often as the
//! definition's retry policy says.

use std::rc::Rc;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use longhaul::{Ctx, EffectKey, ErrorClass, Failure, Recorded, RetryPolicy, StepError, Usage};
use longhaul_definition::ModelChoice;
use longhaul_llm::{Background, Message, ModelError, ModelReply, ModelRequest, ResponseId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Defined;
use super::equipment::{Equipment, Opened};
use super::turn::{Answered, CutShort, Question, Reserve, of_definition, request, unpriced};
use crate::model::{micros, sent, tokens};

/// Distance of the first look: short answers are there by then, and a shorter wait would not let the worker go.
const LOOK_FIRST: Duration = Duration::from_secs(2);
/// The longest distance of two looks. The provider keeps an answer for about ten minutes after its end.
const LOOK_MOST: Duration = Duration::from_secs(60);
/// Looks at one response: about five hours. One that takes longer is stopped, and is over.
const LOOKS_MAX: u32 = 300;
/// Time of one short exchange with the provider; its own limit is half a minute.
const LOOK_TIME: Duration = Duration::from_secs(35);
/// How the steps around a response are called, behind the name of the question.
const BEGIN: &str = "begin";
const LOOK: &str = "look";
const WAIT: &str = "wait";

/// A model whose answers can be made in the background.
pub trait InBackground {
    /// The name that its answers and prices go by.
    fn model_name(&self) -> &str;

    /// Begins a response.
    fn start<'a>(
        &'a self,
        request: &'a ModelRequest,
    ) -> LocalBoxFuture<'a, Result<(ResponseId, Background), ModelError>>;

    /// Looks after a response.
    fn poll<'a>(
        &'a self,
        id: &'a ResponseId,
        request: &'a ModelRequest,
    ) -> LocalBoxFuture<'a, Result<Background, ModelError>>;

    /// Stops a response; twice does no harm.
    fn cancel<'a>(
        &'a self,
        id: &'a ResponseId,
        request: &'a ModelRequest,
    ) -> LocalBoxFuture<'a, Result<Background, ModelError>>;
}

/// What came of beginning a response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum Begun {
    /// It is being made.
    Running { response: ResponseId },
    /// It was there at once.
    Answered { answered: Box<Answered> },
}

/// What a look saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum Seen {
    /// It is still being made.
    Running,
    /// The answer.
    Answered { answered: Box<Answered> },
    /// It ended without one.
    Over {
        #[serde(flatten)]
        over: Box<Over>,
    },
}

/// A response that ended without an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Over {
    failure: Failure,
    /// How often the job had been opened again by then: a person who opens it once more wants it tried again.
    replays: u32,
    #[serde(default, skip_serializing_if = "Usage::is_zero")]
    usage: Usage,
}

impl Begun {
    fn usage(&self) -> Usage {
        match self {
            Self::Running { .. } => Usage::default(),
            Self::Answered { answered } => answered.usage,
        }
    }
}

impl Seen {
    fn usage(&self) -> Usage {
        match self {
            Self::Running => Usage::default(),
            Self::Answered { answered } => answered.usage,
            Self::Over { over } => over.usage,
        }
    }
}

/// A definition's models where the first one answers in the background.
pub(super) struct Away {
    first: Rc<dyn InBackground>,
    /// Those that are asked, in the foreground, when the first one cannot answer.
    others: Option<Opened>,
}

impl Away {
    /// The models of a definition; none when its first one answers in the foreground.
    ///
    /// # Errors
    /// What a person must be told.
    pub(super) fn open(equipment: &Equipment, choices: &[ModelChoice]) -> Result<Option<Self>, String> {
        let Some(first) = equipment.models.open_in_background(choices)? else { return Ok(None) };
        let others = match choices.get(1..) {
            Some([]) | None => None,
            Some(others) => Some(equipment.models.open(others)?),
        };
        Ok(Some(Self { first, others }))
    }
}

/// What asks for one answer in the background.
struct Asking<'a> {
    agent: &'a Defined,
    away: &'a Away,
    opened: &'a Opened,
    step: &'static str,
    request: ModelRequest,
    reserve: Reserve,
}

/// Asks the model, letting the worker go while the answer is made.
pub(super) async fn ask(
    ctx: &mut Ctx,
    agent: &Defined,
    opened: &Opened,
    away: &Away,
    question: Question,
) -> longhaul::Result<Result<ModelReply, CutShort>> {
    let (step, reserve) = (question.step, Reserve::of(agent, opened, &question));
    let mut request = request(agent, question);
    request.traceparent = Some(ctx.traceparent());
    let asking = Asking { agent, away, opened, step, request, reserve };
    let (mut last, mut failed_in_row): (Option<Over>, u32) = (None, 0);
    loop {
        let id = match asking.begin(ctx, last.as_ref(), failed_in_row).await? {
            Begun::Running { response } => response,
            Begun::Answered { answered } => return Ok(answered.into_reply()),
        };
        let over = match asking.follow(ctx, &id).await? {
            Ok(answered) => return Ok(answered.into_reply()),
            Err(over) => over,
        };
        let same = last.as_ref().is_some_and(|last| last.replays == over.replays);
        failed_in_row = if same { failed_in_row.saturating_add(1) } else { 1 };
        if !asking.gives_up(&over, failed_in_row) {
            ctx.sleep(&format!("{step} retry"), distance_of_retry(&agent.retry(), failed_in_row)).await?;
        }
        last = Some(over);
    }
}

impl Asking<'_> {
    fn gives_up(&self, over: &Over, failed_in_row: u32) -> bool {
        !over.failure.class.is_retryable() || failed_in_row >= self.agent.retry().attempts_max
    }

    /// Begins a response. Where the one before has failed too often, the further models are asked; without any this step
    /// fails with that failure, so that a person who replays the job has a new response begun. What is too large is so at
    /// each replay.
    async fn begin(&self, ctx: &mut Ctx, last: Option<&Over>, failed_in_row: u32) -> longhaul::Result<Begun> {
        let fails = last.filter(|over| {
            let same = over.replays == ctx.replays() || over.failure.class == ErrorClass::ContextOverflow;
            self.gives_up(over, failed_in_row) && same
        });
        let retry = if fails.is_some() { RetryPolicy::never() } else { self.agent.retry() };
        let time_limit = match &self.away.others {
            Some(_) => LOOK_TIME + self.agent.equipment.model_time_limit + super::CALL_MARGIN,
            None => LOOK_TIME,
        };
        ctx.effect(&format!("{} {BEGIN}", self.step), async |key| {
            self.begin_once(&key, fails).await.map_err(|error| error.sent(sent(&self.request)))
        })
        .retry(retry)
        .time_limit(time_limit)
        .metered(self.reserve.tokens, Begun::usage)
        .priced(self.reserve.micros)
        .await
    }

    async fn begin_once(&self, key: &EffectKey, fails: Option<&Over>) -> Result<Begun, StepError> {
        let mut request = self.request.clone();
        request.idempotency_key = Some(key.of_question());
        if let Some(over) = fails {
            let error = StepError { failure: over.failure.clone(), retry_after: None, usage: Box::default() };
            return self.ask_others(request, error).await;
        }
        match self.away.first.start(&request).await {
            Ok((_, Background::Done { reply })) => {
                Ok(Begun::Answered { answered: Box::new(self.answered(self.opened, Ok(*reply))?) })
            }
            // Over as soon as it was taken: the same key would bring the same again.
            Ok((_, Background::Failed { error })) if !self.failed(&error).failure.class.is_retryable() => {
                Ok(Begun::Answered { answered: Box::new(self.answered(self.opened, Err(error))?) })
            }
            // Whatever else it is by now, a look will see it.
            Ok((response, _)) => Ok(Begun::Running { response }),
            Err(error) => self.ask_others(request, self.failed(&error)).await,
        }
    }

    fn failed(&self, error: &ModelError) -> StepError {
        of_definition(&self.agent.equipment.prices, self.opened, &self.agent.definition, error)
    }

    /// Asks the further models, in the foreground, where the first one cannot answer now.
    async fn ask_others(&self, mut request: ModelRequest, error: StepError) -> Result<Begun, StepError> {
        let Some(others) = self.away.others.as_ref().filter(|_| error.failure.class.is_retryable()) else {
            return Err(error);
        };
        tracing::warn!(model = self.away.first.model_name(), error = error.failure.message, "falling back");
        // Another model, which may stand behind the same server.
        request.idempotency_key = request.idempotency_key.map(|key| format!("{key}/fallback-1"));
        match self.answered(others, others.model.complete(&request, &mut |_| {}).await) {
            Ok(mut answered) => {
                answered.usage = answered.usage.plus(*error.usage);
                Ok(Begun::Answered { answered: Box::new(answered) })
            }
            Err(last) => {
                let spent = last.usage.plus(*error.usage);
                Err(last.used(spent))
            }
        }
    }

    fn answered(&self, of: &Opened, answered: Result<ModelReply, ModelError>) -> Result<Answered, StepError> {
        Answered::of(&self.agent.equipment.prices, of, &self.agent.definition, answered)
    }

    /// Looks after a response until it is over.
    async fn follow(&self, ctx: &mut Ctx, id: &ResponseId) -> longhaul::Result<Result<Answered, Over>> {
        let (wait, look) = (format!("{} {WAIT}", self.step), format!("{} {LOOK}", self.step));
        let mut number = 0_u32;
        loop {
            ctx.sleep(&wait, distance(number)).await?;
            number = number.saturating_add(1);
            let (replays, last) = (ctx.replays(), number >= LOOKS_MAX);
            let seen = ctx
                .step(&look, async || {
                    let seen = self.look(id, replays, last).await;
                    seen.map_err(|error| error.sent(sent(&self.request)))
                })
                .retry(self.agent.retry())
                .time_limit(LOOK_TIME)
                .metered(0, Seen::usage)
                .look()
                .await?;
            match seen {
                Seen::Running => {}
                Seen::Answered { answered } => return Ok(Ok(*answered)),
                Seen::Over { over } => return Ok(Err(*over)),
            }
        }
    }

    /// Looks once. At the last look what is still being made is stopped, and over: nobody comes back for it.
    async fn look(&self, id: &ResponseId, replays: u32, last: bool) -> Result<Seen, StepError> {
        let first = &self.away.first;
        let over = |failure: Failure, usage: Usage| Seen::Over { over: Box::new(Over { failure, replays, usage }) };
        let lost = |class: ErrorClass, what: &str| {
            let message = format!("the model `{}` gave no answer: the response {id} {what}", first.model_name());
            Failure::new(class, message)
        };
        let state = match first.poll(id, &self.request).await {
            Ok(Background::Running { .. }) if last => first.cancel(id, &self.request).await,
            state => state,
        };
        match state {
            Ok(Background::Running { .. } | Background::Cancelled { usage: None }) if last => {
                let late = lost(ErrorClass::Timeout, "was still being made when it was last looked at");
                Ok(over(late, Usage::default()))
            }
            Ok(Background::Running { .. }) => Ok(Seen::Running),
            Ok(Background::Done { reply }) => {
                Ok(Seen::Answered { answered: Box::new(self.answered(self.opened, Ok(*reply))?) })
            }
            Ok(Background::Failed { error }) => match self.answered(self.opened, Err(error)) {
                Ok(answered) => Ok(Seen::Answered { answered: Box::new(answered) }),
                Err(error) => Ok(over(error.failure, *error.usage)),
            },
            Ok(Background::Cancelled { usage }) => {
                // Whoever stopped it, it gives no answer any more: a job that still wants one begins it anew.
                let class = if last { ErrorClass::Timeout } else { ErrorClass::Transient };
                let spent = usage.map(|usage| self.spent(&usage)).unwrap_or_default();
                Ok(over(lost(class, "was cancelled at the provider"), spent))
            }
            Ok(Background::Lost) => {
                Ok(over(lost(ErrorClass::Transient, "is not known there any more"), Usage::default()))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// What a response without an answer has cost.
    fn spent(&self, usage: &longhaul_llm::Usage) -> Usage {
        match self.agent.equipment.prices.price(self.away.first.model_name(), usage) {
            Ok(money) => Usage { money_micros: micros(money), ..tokens(usage) },
            Err(_) => unpriced(tokens(usage)),
        }
    }
}

/// Distance before look number n, from 0: it doubles.
fn distance(number: u32) -> Duration {
    LOOK_FIRST.saturating_mul(2_u32.saturating_pow(number.min(16))).min(LOOK_MOST)
}

/// Distance before a response is begun anew.
fn distance_of_retry(retry: &RetryPolicy, failed_in_row: u32) -> Duration {
    let factor = retry.wait_factor.saturating_pow(failed_in_row.saturating_sub(1));
    Duration::from_millis(retry.wait_first_ms.saturating_mul(factor).min(retry.wait_max_ms))
}

/// Asks the provider to stop what a job that has ended had still running there.
pub(super) async fn leave(equipment: &Equipment, choices: &[ModelChoice], steps: &[Recorded<'_>]) {
    let Some(id) = still_running(steps) else { return };
    let model = match equipment.models.open_in_background(choices) {
        Ok(Some(model)) => model,
        Ok(None) => return,
        Err(error) => return tracing::warn!(response = %id, error, "a response is left running at the provider"),
    };
    match model.cancel(&id, &ModelRequest::new("", vec![Message::user("")])).await {
        Ok(state) => tracing::info!(response = %id, state = name_of(&state), "the provider was asked to stop"),
        Err(error) => tracing::warn!(response = %id, %error, "the provider did not take the wish to stop"),
    }
}

fn name_of(state: &Background) -> &'static str {
    match state {
        Background::Running { .. } => "running",
        Background::Done { .. } => "done",
        Background::Failed { .. } => "failed",
        Background::Cancelled { .. } => "cancelled",
        Background::Lost => "unknown",
    }
}

/// The response that was begun and that no look has seen the end of. A job has one at most: turns follow each other.
fn still_running(steps: &[Recorded<'_>]) -> Option<ResponseId> {
    let mut running = None;
    for step in steps {
        let state = step.output.get("state").and_then(Value::as_str);
        match (step.name.rsplit(' ').next(), state) {
            (Some(BEGIN), Some("running")) => {
                running = step.output.get("response").and_then(Value::as_str).map(ResponseId::new);
            }
            (Some(LOOK), Some("answered" | "over")) => running = None,
            _ => {}
        }
    }
    running
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_apart() {
        let seconds: Vec<u64> = (0..8).map(|number| distance(number).as_secs()).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(distance(u32::MAX), LOOK_MOST);
    }
}
