//! One answer of the model, as a step.
//!
//! The step's key goes along as `Idempotency-Key`; what is recorded is the answer and what it cost, and nothing of the
//! request, which follows from earlier records.

use std::cell::{Cell, OnceCell};

use longhaul::{Ctx, EffectKey, StepError, Usage};
use longhaul_definition::Definition;
use longhaul_llm::{
    Cut, Message, ModelError, ModelErrorKind, ModelReply, ModelRequest, Prices, ResponseFormat, ToolSpec,
};
use serde::{Deserialize, Serialize};

use super::Defined;
use super::equipment::Opened;
use crate::model::{Asking, failed, micros, sent, tokens};

/// A recorded answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Answered {
    /// The answer; none when it was cut at the model's output limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reply: Option<ModelReply>,
    /// What is known of an answer that was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cut: Option<String>,
    /// What it cost, models that failed before the one that answered included.
    usage: Usage,
}

/// An answer that was cut at the model's output limit: half of one, of which nothing may be carried out.
pub(super) struct CutShort {
    pub(super) what: String,
}

impl Answered {
    fn usage(&self) -> Usage {
        self.usage
    }
}

/// A request about to be made.
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

/// Asks the model.
pub(super) async fn ask(
    ctx: &mut Ctx,
    agent: &Defined,
    opened: &Opened,
    question: Question,
) -> longhaul::Result<Result<ModelReply, CutShort>> {
    let prices = &agent.equipment.prices;
    let reserve = question.tokens.saturating_add(question.answer_tokens);
    let most_micros = dearest(prices, opened, question.tokens, question.answer_tokens);
    let step = question.step;
    // The step's key is known in its body alone, and is the same at each attempt. The request is large, so it is made once.
    let (made, keyed) = (Cell::new(Some(request(agent, question))), OnceCell::new());
    let live = ctx.live();
    let answered = ctx
        .effect(step, async |key| {
            let asking = Asking::of(&live, &key);
            let request = keyed.get_or_init(|| with_key(made.take(), &key));
            match opened.model.complete(request, &mut |delta| asking.show(&delta)).await {
                Ok(reply) => Ok(Answered { usage: usage_of(prices, &reply), reply: Some(reply), cut: None }),
                Err(error) => {
                    let failed = of_definition(prices, opened, &agent.definition, &error);
                    match error.kind() {
                        // Asked the same again it would be cut at the same place; the loop asks for something shorter.
                        ModelErrorKind::Truncated { cut: Cut::OutputLimit } => {
                            Ok(Answered { reply: None, cut: Some(failed.failure.message), usage: *failed.usage })
                        }
                        _ => Err(failed.sent(sent(request))),
                    }
                }
            }
        })
        .retry(agent.retry())
        .time_limit(agent.equipment.model_time_limit + super::CALL_MARGIN)
        .metered(reserve, Answered::usage)
        .priced(most_micros)
        .await?;
    let Answered { reply, cut, usage: _ } = answered;
    Ok(reply.ok_or_else(|| CutShort { what: cut.unwrap_or_default() }))
}

/// The request under its step's key.
fn with_key(made: Option<ModelRequest>, key: &EffectKey) -> ModelRequest {
    let mut request = made.unwrap_or_else(|| ModelRequest::new("", Vec::new()));
    request.idempotency_key = Some(key.to_string());
    request
}

fn request(agent: &Defined, question: Question) -> ModelRequest {
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

fn unpriced(usage: Usage) -> Usage {
    Usage { unpriced_tokens: usage.tokens(), ..usage }
}

/// What an answer cost. Without a known price its tokens are said to have none.
fn usage_of(prices: &Prices, reply: &ModelReply) -> Usage {
    let failed = reply.failed_attempts.iter().filter_map(|attempt| attempt.usage.as_ref());
    let all = failed.fold(tokens(&reply.usage), |sum, usage| sum.plus(tokens(usage)));
    match prices.price_of_reply(reply) {
        Ok(money) => Usage { money_micros: micros(money), ..all },
        Err(_) => unpriced(all),
    }
}

/// A failed call as a failed attempt, with what it cost all the same.
fn of_definition(prices: &Prices, opened: &Opened, definition: &Definition, error: &ModelError) -> StepError {
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
