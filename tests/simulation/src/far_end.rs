//! What the agents reach outside: a model and a ticket server, in this process, that count what they are asked.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use longhaul::{ErrorClass, Registry, StepError};
use longhaul_agent::compliance::{TicketAnswer, TicketRequest, TicketServer};
use longhaul_agent::{HeavyWork, Settings, Surroundings, shipped_amid};
use longhaul_llm::{Completion, Delta, Message, Model, ModelError, ModelErrorKind, ModelRequest, ResponseFormat, Role};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::Url;
use serde_json::{Value, json};

/// How the far end behaves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manners {
    /// How long an answer takes at most.
    pub latency_max: Duration,
    /// How often, in thousandths, a request takes effect and its answer is lost.
    pub answer_lost_permille: u32,
    /// How often, in thousandths, a request is turned away for the time being.
    pub turned_away_permille: u32,
}

/// A model and a ticket server.
pub struct FarEnd {
    manners: Manners,
    dice: RefCell<StdRng>,
    asked: RefCell<BTreeMap<String, u32>>,
    tickets: RefCell<BTreeMap<String, Value>>,
}

/// What becomes of one request.
enum Fate {
    Answered,
    AnswerLost,
    TurnedAway,
}

impl FarEnd {
    /// A far end that does what `seed` says within its manners.
    #[must_use]
    pub fn new(seed: u64, manners: Manners) -> Rc<Self> {
        Rc::new(Self {
            manners,
            dice: RefCell::new(StdRng::seed_from_u64(seed)),
            asked: RefCell::default(),
            tickets: RefCell::default(),
        })
    }

    /// Notes that something was done under a key; how often it has been by now.
    pub fn note(&self, key: &str) -> u32 {
        let mut asked = self.asked.borrow_mut();
        let times = asked.entry(key.to_owned()).or_default();
        *times += 1;
        *times
    }

    /// How often each key was used.
    #[must_use]
    pub fn asked(&self) -> BTreeMap<String, u32> {
        self.asked.borrow().clone()
    }

    /// The tickets that were opened, by key.
    #[must_use]
    pub fn tickets(&self) -> BTreeMap<String, Value> {
        self.tickets.borrow().clone()
    }

    /// The agents that ship, with this far end.
    #[must_use]
    pub fn shipped(self: &Rc<Self>) -> Registry {
        let settings = Settings::read(|name| match name {
            "LONGHAUL_MODEL_URL" => Some("http://nowhere.invalid/v1".to_owned()),
            "LONGHAUL_MODEL" => Some("rehearsal".to_owned()),
            "LONGHAUL_CORPUS" => Some("samples/corpus".to_owned()),
            _ => None,
        });
        let (model, tickets): (Rc<dyn Model>, Rc<dyn TicketServer>) = (self.clone(), self.clone());
        let surroundings = Surroundings { model, tickets, heavy: HeavyWork::Here };
        shipped_amid(&settings.expect("settings"), surroundings).expect("the agents that ship")
    }

    /// Waits for the time that a request takes, and says what becomes of it.
    async fn request(&self) -> Fate {
        let (latency, fate) = {
            let mut dice = self.dice.borrow_mut();
            let max = u64::try_from(self.manners.latency_max.as_millis()).unwrap();
            let latency = Duration::from_millis(if max == 0 { 0 } else { dice.random_range(0..=max) });
            let mut falls = |permille: u32| permille > 0 && dice.random_range(0..1_000) < permille;
            let fate = if falls(self.manners.answer_lost_permille) {
                Fate::AnswerLost
            } else if falls(self.manners.turned_away_permille) {
                Fate::TurnedAway
            } else {
                Fate::Answered
            };
            (latency, fate)
        };
        tokio::time::sleep(latency).await;
        fate
    }
}

impl Model for FarEnd {
    fn complete<'a>(&'a self, request: &'a ModelRequest, _: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(async move {
            let fate = self.request().await;
            if matches!(fate, Fate::TurnedAway) {
                let kind = ModelErrorKind::RateLimited { retry_after: Some(Duration::from_secs(7)) };
                return Err(ModelError::new(kind, "too many requests"));
            }
            let key = request.idempotency_key.as_deref().expect("a paid call carries its key");
            self.note(key);
            if matches!(fate, Fate::AnswerLost) {
                return Err(ModelError::new(ModelErrorKind::Transient, "the connection broke"));
            }
            let body =
                json!({ "messages": said(&request.messages), "response_format": form(&request.response_format) });
            let answer = longhaul_rehearsal::completion(&body).expect("a request in form");
            let text = answer["choices"][0]["message"]["content"].as_str().expect("a text");
            let usage = json!({
                "input_tokens": answer["usage"]["prompt_tokens"], "output_tokens": answer["usage"]["completion_tokens"],
            });
            let reply = json!({
                "message": Message::assistant(text), "finish": "stop", "usage": usage, "model": answer["model"],
            });
            Ok(serde_json::from_value(reply).expect("a reply"))
        })
    }
}

fn said(messages: &[Message]) -> Vec<Value> {
    let role = |role: Role| match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    messages.iter().map(|message| json!({ "role": role(message.role), "content": message.text() })).collect()
}

fn form(format: &ResponseFormat) -> Value {
    match format {
        ResponseFormat::Text => json!({ "type": "text" }),
        ResponseFormat::JsonSchema { name, schema } => {
            json!({ "type": "json_schema", "json_schema": { "name": name, "schema": schema } })
        }
    }
}

impl TicketServer for FarEnd {
    fn post<'a>(&'a self, _: &'a Url, key: &'a str, draft: &'a Value) -> TicketRequest<'a> {
        Box::pin(async move {
            let fate = self.request().await;
            if matches!(fate, Fate::TurnedAway) {
                return Ok(TicketAnswer { status: 503, ..TicketAnswer::default() });
            }
            self.note(key);
            let known = self.tickets.borrow_mut().insert(key.to_owned(), draft.clone());
            assert!(known.is_none_or(|known| known == *draft), "one key, two tickets: {key}");
            if matches!(fate, Fate::AnswerLost) {
                return Err(StepError::new(ErrorClass::Timeout, "no answer"));
            }
            // Named by the key, so that the result does not depend on which of several tickets was opened first.
            let id = format!("T-{}", key.rsplit('/').next().unwrap_or_default());
            Ok(TicketAnswer { status: 201, body: json!({ "id": id }).to_string(), ..TicketAnswer::default() })
        })
    }
}
