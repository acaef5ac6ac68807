//! A model call as a step: asked with a stable key, checked against a schema, recorded with what it cost.
//!
//! A model call costs money, so it runs as an effect: its key goes along as `Idempotency-Key`, and a server that knows
//! such keys does not charge twice for a call that a crash cut off.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::job::Overrides;
use longhaul::{Ctx, EffectKey, ErrorClass, Live, RetryPolicy, StepError, Usage};
use longhaul_llm::{
    ChatCompletions, Cut, Delta, Endpoint, Message, Model, ModelError, ModelErrorKind, ModelReply, ModelRequest, Money,
    Prices, ResponseFormat, Wire,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::model_keys::LateKey;
use crate::settings::Settings;

/// The name by which the stand-in for a model answers. Results say plainly that no language model was used.
pub const STAND_IN: &str = "rehearsal";

/// Characters of a prompt for each token that is held back from a budget: English has about four, and a reservation
/// should rather be a little too large.
const RESERVED_CHARS_PER_TOKEN: usize = 3;

/// Nano-dollars in a micro-dollar.
const NANOS_PER_MICRO: u64 = 1_000;

/// The most of a cut answer that a dead letter shows.
const PARTIAL_MAX_CHARS: usize = 600;

/// Bytes of one message that a failure keeps of what was sent, and of all of them.
const SENT_TEXT_BYTES_MAX: usize = 16 * 1024;
const SENT_BYTES_MAX: usize = 96 * 1024;
/// Messages at the beginning that are kept first: the instructions and the question.
const SENT_FIRST_MESSAGES: usize = 3;

/// The call ends a little before its step does, so that the step's error is the call's and says what had arrived.
const CALL_MARGIN: Duration = Duration::from_secs(2);

/// What is said of a call that was dropped because its job was cancelled.
pub(crate) const CUT_SHORT: &str = "the job was cancelled in the middle of the model's answer; the call was dropped, and \
    what it had cost by then is estimated";

/// The form that an answer must have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    /// What the schema is called towards the server.
    pub(crate) name: &'static str,
    /// The JSON Schema as text.
    pub(crate) schema: &'static str,
    /// Tokens that such an answer has at most, as a rule: held back from the budget while it is waited for. What is held
    /// back too freely keeps jobs from starting steps that their budget would have allowed.
    pub(crate) answer_tokens: u64,
}

impl Form {
    /// Tokens to hold back for a prompt of so many characters and an answer of this form.
    pub(crate) fn reserved(&self, prompt_chars: usize) -> Reserved {
        let prompt_tokens = u64::try_from(prompt_chars / RESERVED_CHARS_PER_TOKEN).unwrap_or(u64::MAX);
        Reserved { prompt_tokens, answer_tokens: self.answer_tokens }
    }
}

/// Tokens that a call may need, held back from the budget while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(crate) prompt_tokens: u64,
    pub(crate) answer_tokens: u64,
}

impl Reserved {
    /// Both together.
    pub(crate) const fn tokens(self) -> u64 {
        self.prompt_tokens.saturating_add(self.answer_tokens)
    }
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    /// The form of the answer.
    pub(crate) form: Form,
    /// The instructions above the conversation.
    pub(crate) system: &'static str,
    /// The question itself.
    pub(crate) user: String,
}

impl Question {
    /// Tokens to hold back while it is answered.
    pub(crate) fn reserved(&self) -> Reserved {
        self.form.reserved(self.system.len().saturating_add(self.user.len()))
    }
}

/// A recorded answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer<T> {
    /// What was answered.
    pub(crate) value: T,
    /// The model that answered, in the server's words.
    pub(crate) model: String,
    /// What it cost, a repaired first answer included.
    pub(crate) usage: Usage,
}

impl<T> Answer<T> {
    /// What it cost.
    pub(crate) fn cost(&self) -> Usage {
        self.usage
    }
}

/// The model server that the settings name.
///
/// # Errors
/// When its address is none.
pub(crate) fn server(settings: &Settings) -> Result<Rc<dyn Model>, ModelError> {
    match &settings.model_key_place {
        None => Ok(Rc::new(ChatCompletions::new(&settings.model_url, settings.model_key.clone())?)),
        Some(place) => {
            let endpoint = Endpoint {
                base_url: Some(settings.model_url.clone()),
                ..Endpoint::new(Wire::Chat, settings.model.clone())
            };
            Ok(Rc::new(LateKey::new(endpoint, place.clone(), settings.keys.clone())?))
        }
    }
}

/// One effect that asks a model: its key, and where its answer is shown while it streams in.
pub(crate) struct Asking<'a> {
    key: String,
    traceparent: String,
    shown: Option<(&'a Live, &'a EffectKey)>,
}

impl<'a> Asking<'a> {
    /// Of an effect.
    pub(crate) fn of(live: &'a Live, effect: &'a EffectKey) -> Self {
        Self { key: effect.of_question(), traceparent: live.traceparent(), shown: Some((live, effect)) }
    }

    fn overrides(&self) -> Option<&Overrides> {
        self.shown.map(|(live, _)| live.overrides())
    }

    pub(crate) fn show(&self, delta: &Delta) {
        let Some((live, effect)) = self.shown else { return };
        match delta {
            Delta::Text { text } => live.say(effect, text),
            Delta::Discard => live.begin_anew(effect),
            // Thoughts and half-written calls are the model's own business.
            Delta::Reasoning { .. } | Delta::ToolCall { .. } => {}
        }
    }

    /// Returns when the job has been cancelled.
    async fn cancelled(&self) {
        match self.shown {
            Some((live, _)) => live.cancelled().await,
            None => std::future::pending().await,
        }
    }

    fn begin_anew(&self) {
        self.show(&Delta::Discard);
    }
}

/// The model that the agents ask.
#[derive(Clone)]
pub(crate) struct ModelSteps {
    server: Rc<dyn Model>,
    model: String,
    call_time_limit: Duration,
    retry: RetryPolicy,
    prices: Prices,
}

impl ModelSteps {
    /// The model of the settings, behind `server`.
    pub(crate) fn new(settings: &Settings, server: Rc<dyn Model>) -> Self {
        Self {
            server,
            model: settings.model.clone(),
            call_time_limit: settings.model_time_limit,
            retry: settings.retry,
            prices: settings.prices.clone(),
        }
    }

    /// How long a step may take that asks once.
    pub(crate) fn step_time_limit(&self) -> Duration {
        self.call_time_limit.saturating_add(CALL_MARGIN)
    }

    /// How such a step is tried again.
    pub(crate) const fn retry(&self) -> RetryPolicy {
        self.retry
    }

    /// What a call may cost at most, in millionths; none when the price of the model is not known.
    pub(crate) fn at_most(&self, live: &Live, reserved: Reserved) -> Option<u64> {
        let model = live.overrides().model.as_deref().unwrap_or(&self.model);
        let most = self.prices.at_most(model, reserved.prompt_tokens, reserved.answer_tokens).ok()?;
        Some(micros(most))
    }

    /// What an answer cost. Without a known price its tokens are said to have none.
    fn spent(&self, model: &str, reply: &ModelReply) -> Usage {
        let used = tokens(&reply.usage);
        let named = ModelReply { answered_by: Some(model.to_owned()), ..reply.clone() };
        match self.prices.price_of_reply(&named) {
            Ok(money) => Usage { money_micros: micros(money), ..used },
            Err(_) => Usage { unpriced_tokens: used.tokens(), ..used },
        }
    }

    /// What a failed call cost all the same.
    fn lost(&self, model: &str, usage: &longhaul_llm::Usage) -> Usage {
        let used = tokens(usage);
        match self.prices.price(model, usage) {
            Ok(money) => Usage { money_micros: micros(money), ..used },
            Err(_) => Usage { unpriced_tokens: used.tokens(), ..used },
        }
    }

    /// A step that is one question.
    pub(crate) async fn ask<T>(&self, ctx: &mut Ctx, step: &str, question: &Question) -> longhaul::Result<Answer<T>>
    where
        T: Serialize + DeserializeOwned,
    {
        let live = ctx.live();
        ctx.effect(step, async |key| self.answer::<T>(&Asking::of(&live, &key), question).await)
            .retry(self.retry)
            .time_limit(self.step_time_limit())
            .metered(question.reserved().tokens(), Answer::cost)
            .priced(self.at_most(&live, question.reserved()))
            .await
    }

    /// Asks, inside a step's body. An answer without the asked form is repaired once: the model is shown what is wrong
    /// with it.
    pub(crate) async fn answer<T: DeserializeOwned>(
        &self,
        asking: &Asking<'_>,
        question: &Question,
    ) -> Result<Answer<T>, StepError> {
        self.answer_that(asking, question, |_| Ok(())).await
    }

    /// Like [`ModelSteps::answer`], for an answer that must also be `good` in a way that no schema can say.
    pub(crate) async fn answer_that<T: DeserializeOwned>(
        &self,
        asking: &Asking<'_>,
        question: &Question,
        good: impl Fn(&T) -> Result<(), String>,
    ) -> Result<Answer<T>, StepError> {
        let form = question.form.name;
        let schema: Value = serde_json::from_str(question.form.schema)
            .map_err(|error| StepError::because(ErrorClass::Invalid, "the form of the answer is no JSON", &error))?;
        let read = |reply: &ModelReply| {
            let value = reply.structured(&schema).map_err(|error| error.message().to_owned())?;
            let value: T = serde_json::from_value(value).map_err(|error| error.to_string())?;
            good(&value).map(|()| value)
        };
        let mut request = self.request(asking, question.system, &question.user);
        request.response_format = ResponseFormat::JsonSchema { name: form.to_owned(), schema: schema.clone() };
        let first = self.call(asking, &request).await?;
        let spent = self.spent(&request.model, &first);
        let wrong = match read(&first) {
            Ok(value) => return Ok(Answer { value, model: first.model, usage: spent }),
            Err(wrong) => wrong,
        };
        tracing::info!(
            step = asking.key,
            form,
            "the model's answer does not have the asked form; it is asked to repair it"
        );
        request.messages.push(Message::assistant(first.message.text()));
        request.messages.push(Message::user(format!(
            "This is not the answer that was asked for: {wrong}. Give the whole answer again as one JSON object that \
             satisfies the schema, and nothing else."
        )));
        // Another request, so another key: a server would take the first key for the first question.
        request.idempotency_key = Some(format!("{}/repair", asking.key));
        asking.begin_anew();
        // What the first answer cost is not lost with the second.
        let second = self.call(asking, &request).await.map_err(|error| {
            let both = spent.plus(*error.usage);
            error.used(both)
        })?;
        let spent = spent.plus(self.spent(&request.model, &second));
        match read(&second) {
            Ok(value) => Ok(Answer { value, model: second.model.clone(), usage: spent }),
            Err(wrong) => {
                let message = format!("the model `{}` gave no answer of the form `{form}`: {wrong}", self.model);
                let failed = StepError::new(ErrorClass::Schema, message).used(spent);
                Err(with_answer(failed, &second.message.text()))
            }
        }
    }

    /// Asks for free text, inside a step's body.
    pub(crate) async fn say(&self, asking: &Asking<'_>, system: &str, user: &str) -> Result<Answer<String>, StepError> {
        let request = self.request(asking, system, user);
        let reply = self.call(asking, &request).await?;
        Ok(Answer { value: reply.message.text(), usage: self.spent(&request.model, &reply), model: reply.model })
    }

    fn request(&self, asking: &Asking<'_>, system: &str, user: &str) -> ModelRequest {
        let Overrides { model, instructions } = asking.overrides().cloned().unwrap_or_default();
        let system = instructions.as_deref().unwrap_or(system);
        let messages = vec![Message::system(system), Message::user(user)];
        let mut request = ModelRequest::new(model.unwrap_or_else(|| self.model.clone()), messages);
        request.idempotency_key = Some(asking.key.clone());
        request.traceparent = Some(asking.traceparent.clone());
        request.time_limit_ms = u64::try_from(self.call_time_limit.as_millis()).unwrap_or(u64::MAX);
        request
    }

    async fn call(&self, asking: &Asking<'_>, request: &ModelRequest) -> Result<ModelReply, StepError> {
        let said = Cell::new(0);
        let mut hear = |delta: Delta| {
            if let Delta::Text { text } = &delta {
                said.set(said.get() + text.len());
            }
            asking.show(&delta);
        };
        tokio::select! {
            biased;
            reply = self.server.complete(request, &mut hear) => reply.map_err(|error| {
                let lost = error.usage().map(|usage| self.lost(&request.model, &usage)).unwrap_or_default();
                failed(&self.model, &error).used(lost).sent(sent(request))
            }),
            // The call is dropped, which closes its connection; what it has cost is known by its length alone.
            () = asking.cancelled() => {
                let tokens = |bytes: usize| u64::try_from(bytes / RESERVED_CHARS_PER_TOKEN).unwrap_or(u64::MAX);
                let asked = request.messages.iter().map(|message| message.text().len()).sum();
                let used = longhaul_llm::Usage {
                    input_tokens: tokens(asked),
                    output_tokens: tokens(said.get()),
                    ..longhaul_llm::Usage::default()
                };
                Err(StepError::new(ErrorClass::Interrupted, CUT_SHORT).used(self.lost(&request.model, &used)))
            }
        }
    }
}

/// The tokens of a call, without their price.
pub(crate) fn tokens(usage: &longhaul_llm::Usage) -> Usage {
    Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cached_tokens: usage.cached_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        ..Usage::default()
    }
}

/// Money in millionths, rounded up.
pub(crate) fn micros(money: Money) -> u64 {
    money.nano_usd().div_ceil(NANOS_PER_MICRO)
}

/// What a failed call had sent, for the people who read the failure: the model, every message with its text and calls,
/// the names of the tools. Keys and headers are not among it. A long conversation is shown by its first messages and its
/// last ones.
pub(crate) fn sent(request: &ModelRequest) -> Value {
    let shown = |message: &Message| {
        let text = message.text();
        let end = text.floor_char_boundary(SENT_TEXT_BYTES_MAX);
        let cut = text.get(..end).unwrap_or_default();
        let text = if cut.len() < text.len() { format!("{cut}… ({} bytes)", text.len()) } else { text };
        let calls = message.tool_calls.iter().map(|call| json!({ "name": call.name, "arguments": call.arguments }));
        match calls.collect::<Vec<_>>() {
            none if none.is_empty() => json!({ "role": message.role, "text": text }),
            calls => json!({ "role": message.role, "text": text, "tool_calls": calls }),
        }
    };
    let messages: Vec<Value> = request.messages.iter().map(shown).collect();
    let mut left_out = messages.len();
    let (mut first, mut last, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
    let mut room = |message: &Value| {
        bytes = bytes.saturating_add(message.to_string().len());
        bytes <= SENT_BYTES_MAX
    };
    let (head, rest) = messages.split_at(messages.len().min(SENT_FIRST_MESSAGES));
    first.extend(head.iter().filter(|message| room(message)).cloned());
    last.extend(rest.iter().rev().take_while(|message| room(message)).cloned());
    last.reverse();
    left_out = left_out.saturating_sub(first.len()).saturating_sub(last.len());
    let between = (left_out > 0).then(|| json!({ "left_out": left_out }));
    let messages: Vec<Value> = first.into_iter().chain(between).chain(last).collect();
    let tools: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
    json!({ "model": request.model, "messages": messages, "tools": tools })
}

/// A failed call as a failed attempt.
pub(crate) fn failed(model: &str, error: &ModelError) -> StepError {
    let class = class_of(error.kind());
    let message = format!("the model `{model}` gave no answer: {}", error.message());
    let failed = StepError::because(class, message, error).retry_after(error.kind().retry_after());
    match error.partial() {
        Some(partial) => with_answer(failed, &partial.text),
        None => failed,
    }
}

/// Keeps what the model said for the people who read the failure.
fn with_answer(mut error: StepError, text: &str) -> StepError {
    if !text.is_empty() {
        let shown: String = text.chars().take(PARTIAL_MAX_CHARS).collect();
        error.failure.causes.push(format!("the model's words: {shown}"));
    }
    error
}

fn class_of(kind: &ModelErrorKind) -> ErrorClass {
    match kind {
        ModelErrorKind::Transient => ErrorClass::Transient,
        ModelErrorKind::RateLimited { .. } => ErrorClass::RateLimited,
        ModelErrorKind::Overloaded { .. } => ErrorClass::Overloaded,
        ModelErrorKind::Timeout => ErrorClass::Timeout,
        ModelErrorKind::Truncated { cut: Cut::Connection } => ErrorClass::Truncated,
        // The class `truncated` is tried again; an answer that is too long would be cut at the same place.
        ModelErrorKind::Truncated { cut: Cut::OutputLimit | Cut::UnknownFinish { .. } } => ErrorClass::Schema,
        ModelErrorKind::Refused => ErrorClass::Refused,
        ModelErrorKind::ContextOverflow => ErrorClass::ContextOverflow,
        ModelErrorKind::Schema => ErrorClass::Schema,
        ModelErrorKind::Auth => ErrorClass::Auth,
        ModelErrorKind::Invalid => ErrorClass::Invalid,
        ModelErrorKind::Budget => ErrorClass::Budget,
    }
}

#[cfg(test)]
mod tests;
