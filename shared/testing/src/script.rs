//! A model that says what a test tells it to say.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use longhaul_llm::{
    Arguments, Completion, Delta, Finish, Message, Model, ModelError, ModelErrorKind, ModelReply, ModelRequest,
    ToolCall, Usage,
};
use serde_json::{Map, Value};

/// How long it thinks about each answer.
const THINKS: Duration = Duration::from_secs(1);

/// What every answer uses, so that budgets mean something.
const USED: Usage =
    Usage { input_tokens: 100, output_tokens: 20, cached_tokens: 0, reasoning_tokens: 0, cache_write_tokens: 0 };

/// A model's part, line by line: each request takes the next. A request that is made again under a key which was answered
/// has the same answer again, as from a server that knows idempotency keys, so a worker that dies does not disturb the
/// order.
#[derive(Debug, Default)]
pub struct Script {
    lines: RefCell<VecDeque<Result<ModelReply, ModelError>>>,
    answered: RefCell<BTreeMap<String, ModelReply>>,
    asked: RefCell<Vec<ModelRequest>>,
}

impl Script {
    /// An empty part.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The model says this.
    #[must_use]
    pub fn says(self, text: &str) -> Self {
        self.replies(reply(Message::assistant(text), Finish::Stop))
    }

    /// The model calls these tools at once, each with its arguments; what is no object counts as arguments that cannot be
    /// read. The calls have the ids `call_0`, `call_1` and so on.
    #[must_use]
    pub fn calls(self, calls: &[(&str, Value)]) -> Self {
        let mut message = Message::assistant("");
        message.content.clear();
        message.tool_calls = (0..).zip(calls).map(|(place, (tool, arguments))| call(place, tool, arguments)).collect();
        self.replies(reply(message, Finish::ToolCalls))
    }

    /// The model answers with this, whatever it is.
    #[must_use]
    pub fn replies(self, reply: ModelReply) -> Self {
        self.lines.borrow_mut().push_back(Ok(reply));
        self
    }

    /// The call fails.
    #[must_use]
    pub fn fails(self, error: ModelError) -> Self {
        self.lines.borrow_mut().push_back(Err(error));
        self
    }

    /// What it was asked, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<ModelRequest> {
        self.asked.borrow().clone()
    }

    /// Lines that nobody has asked for.
    #[must_use]
    pub fn left(&self) -> usize {
        self.lines.borrow().len()
    }

    fn next(&self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        let key = request.idempotency_key.clone().unwrap_or_default();
        if let Some(again) = self.answered.borrow().get(&key).filter(|_| !key.is_empty()) {
            return Ok(again.clone());
        }
        let line = self.lines.borrow_mut().pop_front().unwrap_or_else(|| {
            let last = request.messages.last().map(Message::text).unwrap_or_default();
            let shown: String = last.chars().take(200).collect();
            let message = format!("the script has no line left; the last message of the request is: {shown}");
            Err(ModelError::new(ModelErrorKind::Invalid, message))
        });
        if let Ok(reply) = &line {
            self.answered.borrow_mut().insert(key, reply.clone());
        }
        line
    }
}

impl Model for Script {
    fn complete<'a>(&'a self, request: &'a ModelRequest, on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(async move {
            self.asked.borrow_mut().push(request.clone());
            tokio::time::sleep(THINKS).await;
            let reply = self.next(request)?;
            let text = reply.message.text();
            if !text.is_empty() {
                on_delta(Delta::Text { text });
            }
            Ok(reply)
        })
    }
}

fn reply(message: Message, finish: Finish) -> ModelReply {
    ModelReply {
        message,
        finish,
        usage: USED,
        model: "scripted".to_owned(),
        answered_by: None,
        failed_attempts: Vec::new(),
        extras: Map::new(),
    }
}

fn call(place: usize, tool: &str, arguments: &Value) -> ToolCall {
    let arguments = match arguments {
        Value::Object(object) => Arguments::Object { object: object.clone() },
        other => Arguments::Malformed { text: other.to_string(), reason: "it is no object".to_owned() },
    };
    ToolCall { id: format!("call_{place}"), name: tool.to_owned(), arguments }
}
