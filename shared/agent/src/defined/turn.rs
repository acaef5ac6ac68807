//! One answer of the model, as a step.
//!
//! The step's key goes along as `Idempotency-Key`; what is recorded is the answer and what it cost, and nothing of the
//! request, which follows from earlier records.

use std::cell::{Cell, OnceCell};

use longhaul::{Ctx, EffectKey, ErrorClass, StepError, Usage};
use longhaul_definition::Definition;
use longhaul_llm::{
    Cut, Delta, Message, ModelError, ModelErrorKind, ModelReply, ModelRequest, Prices, ResponseFormat, ToolSpec,
};
use serde::{Deserialize, Serialize};

use super::Defined;
use super::conversation::tokens_of_bytes;
use super::equipment::Opened;
use crate::model::{Asking, CUT_SHORT, failed, micros, sent, tokens};

/// A recorded answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Answered {
    /// The answer; none when it was cut at the model's output limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reply: Option<ModelReply>,
    /// What is known of an answer that was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cut: Option<String>,
    /// What it cost, models that failed before the one that answered included.
    pub(super) usage: Usage,
}

/// An answer that was cut at the model's output limit: half of one, of which nothing may be carried out.
pub(super) struct CutShort {
    pub(super) what: String,
}

impl Answered {
    /// What came of a call. Half an answer is recorded as such: asked the same again the model would be cut at the same
    /// place, so the loop asks for something shorter.
    pub(super) fn of(
        prices: &Prices,
        opened: &Opened,
        definition: &Definition,
        answered: Result<ModelReply, ModelError>,
    ) -> Result<Self, StepError> {
        let error = match answered {
            Ok(reply) => return Ok(Self { usage: usage_of(prices, &reply), reply: Some(reply), cut: None }),
            Err(error) => error,
        };
        let failed = of_definition(prices, opened, definition, &error);
        match error.kind() {
            ModelErrorKind::Truncated { cut: Cut::OutputLimit } => {
                Ok(Self { reply: None, cut: Some(failed.failure.message), usage: *failed.usage })
            }
            _ => Err(failed),
        }
    }

    /// The answer, or what is known of one that was cut.
    pub(super) fn into_reply(self) -> Result<ModelReply, CutShort> {
        let Self { reply, cut, usage: _ } = self;
        reply.ok_or_else(|| CutShort { what: cut.unwrap_or_default() })
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

/// A request about to be made.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) step: &'static str,
    pub(super) messages: Vec<Message>,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) format: ResponseFormat,
    /// Tokens that it has, roughly.
    pub(super) tokens: u64,
    /// Tokens that the answer may have.
    pub(super) answer_tokens: u64,
}

/// What is held back from the budget while a question is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reserve {
    pub(super) tokens: u64,
    /// In millionths; none when the price of a model is not known.
    pub(super) micros: Option<u64>,
}

impl Reserve {
    pub(super) fn of(agent: &Defined, opened: &Opened, question: &Question) -> Self {
        Self {
            tokens: question.tokens.saturating_add(question.answer_tokens),
            micros: dearest(&agent.equipment.prices, opened, question.tokens, question.answer_tokens),
        }
    }
}

/// Asks the model.
pub(super) async fn ask(
    ctx: &mut Ctx,
    agent: &Defined,
    opened: &Opened,
    question: Question,
) -> longhaul::Result<Result<ModelReply, CutShort>> {
    let prices = &agent.equipment.prices;
    let reserve = Reserve::of(agent, opened, &question);
    let (step, asked_tokens) = (question.step, question.tokens);
    // The step's key is known in its body alone, and is the same at each attempt. The request is large, so it is made once.
    let mut made = request(agent, question);
    made.traceparent = Some(ctx.traceparent());
    let (made, keyed) = (Cell::new(Some(made)), OnceCell::new());
    let live = ctx.live();
    let answered = ctx
        .effect(step, async |key| {
            let asking = Asking::of(&live, &key);
            let request = keyed.get_or_init(|| with_key(made.take(), &key));
            let said = Cell::new(0);
            let mut hear = |delta: Delta| {
                said.set(said.get() + bytes_of(&delta));
                asking.show(&delta);
            };
            tokio::select! {
                biased;
                answered = opened.model.complete(request, &mut hear) => {
                    Answered::of(prices, opened, &agent.definition, answered).map_err(|failed| failed.sent(sent(request)))
                }
                // The call is dropped, which closes its connection; what it has cost is known by its length alone.
                () = live.cancelled() => {
                    let used = cut_short(prices, opened, asked_tokens, tokens_of_bytes(said.get()));
                    Err(StepError::new(ErrorClass::Interrupted, CUT_SHORT).used(used))
                }
            }
        })
        .retry(agent.retry())
        .time_limit(agent.equipment.model_time_limit + super::CALL_MARGIN)
        .metered(reserve.tokens, Answered::usage)
        .priced(reserve.micros)
        .await?;
    Ok(answered.into_reply())
}

/// The request under its step's key.
fn with_key(made: Option<ModelRequest>, key: &EffectKey) -> ModelRequest {
    let mut request = made.unwrap_or_else(|| ModelRequest::new("", Vec::new()));
    request.idempotency_key = Some(key.of_question());
    request
}

pub(super) fn request(agent: &Defined, question: Question) -> ModelRequest {
    let model = agent.definition.models.first().and_then(|choice| choice.model.clone()).unwrap_or_default();
    let mut request = ModelRequest::new(model, question.messages);
    request.tools = question.tools;
    request.response_format = question.format;
    request.time_limit_ms = u64::try_from(agent.equipment.model_time_limit.as_millis()).unwrap_or(u64::MAX);
    request
}

/// What the dearest of the models would take at most; none when the price of one of them is not known.
fn dearest(prices: &Prices, opened: &Opened, input_tokens: u64, output_tokens: u64) -> Option<u64> {
    let each = opened.names.iter().map(|name| {
        let most = prices.at_most(name, input_tokens, output_tokens).ok()?;
        Some(micros(most))
    });
    each.collect::<Option<Vec<u64>>>()?.into_iter().max()
}

pub(super) fn unpriced(usage: Usage) -> Usage {
    Usage { unpriced_tokens: usage.tokens(), ..usage }
}

/// What a call is taken to have cost that was dropped in the middle of its answer, by the first model's price.
fn cut_short(prices: &Prices, opened: &Opened, input_tokens: u64, output_tokens: u64) -> Usage {
    let usage = longhaul_llm::Usage { input_tokens, output_tokens, ..longhaul_llm::Usage::default() };
    match opened.names.first().and_then(|model| prices.price(model, &usage).ok()) {
        Some(money) => Usage { money_micros: micros(money), ..tokens(&usage) },
        None => unpriced(tokens(&usage)),
    }
}

/// Bytes of a piece of an answer.
fn bytes_of(delta: &Delta) -> usize {
    match delta {
        Delta::Text { text } | Delta::Reasoning { text } => text.len(),
        Delta::ToolCall { .. } | Delta::Discard => 0,
    }
}

/// What an answer cost. Without a known price its tokens are said to have none.
pub(super) fn usage_of(prices: &Prices, reply: &ModelReply) -> Usage {
    let failed = reply.failed_attempts.iter().filter_map(|attempt| attempt.usage.as_ref());
    let all = failed.fold(tokens(&reply.usage), |sum, usage| sum.plus(tokens(usage)));
    match prices.price_of_reply(reply) {
        Ok(money) => Usage { money_micros: micros(money), ..all },
        Err(_) => unpriced(all),
    }
}

/// A failed call as a failed attempt, with what it cost all the same.
pub(super) fn of_definition(
    prices: &Prices,
    opened: &Opened,
    definition: &Definition,
    error: &ModelError,
) -> StepError {
    let last = opened.names.get(error.failed_attempts().len());
    let earlier = error.failed_attempts().iter().filter_map(|attempt| Some((&attempt.model, attempt.usage.as_ref()?)));
    let own = error.usage();
    let own = last.zip(own.as_ref());
    let spent = earlier.chain(own).fold(Usage::default(), |sum, (model, usage)| {
        let priced = match prices.price(model, usage) {
            Ok(money) => Usage { money_micros: micros(money), ..tokens(usage) },
            Err(_) => unpriced(tokens(usage)),
        };
        sum.plus(priced)
    });
    let shown = last.cloned().unwrap_or_else(|| definition.name.clone());
    failed(&shown, error).used(spent)
}
