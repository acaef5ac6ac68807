//! A place where a definition runs: the simulated store, a scripted model, functions that count.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::journal::Ending;
use longhaul::engine::{AgentRef, Entry, TenantId};
use longhaul::store::JobRef;
use longhaul::{Failure, Registry, StepError};
use longhaul_agent::defined::equipment::{Equipment, Models, Opened};
use longhaul_agent::{Functions, HeavyWork, Invoked, Paths, Reach, SystemLookup, defined};
use longhaul_definition::{Format, ModelChoice, Policy, read};
use longhaul_llm::{
    Arguments, Completion, Delta, Finish, Message, Model, ModelError, ModelReply, ModelRequest, Part, Role, ToolCall,
    Usage,
};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use serde_json::{Value, json};

type Answer = dyn Fn(usize, &ModelRequest) -> Result<ModelReply, ModelError>;

/// A model that plays a script and remembers what it was asked.
pub(crate) struct Script {
    answer: Box<Answer>,
    pub(crate) asked: RefCell<Vec<ModelRequest>>,
    takes: Duration,
    /// Whether requests are kept; a long job's are counted alone.
    keeps: bool,
    /// Calls whose answer was waited for to the end.
    pub(crate) finished: RefCell<usize>,
}

impl Script {
    /// Answers request number n (from 0) as the script says, after one second.
    pub(crate) fn new(answer: impl Fn(usize, &ModelRequest) -> Result<ModelReply, ModelError> + 'static) -> Rc<Self> {
        Self::taking(Duration::from_secs(1), answer)
    }

    pub(crate) fn taking(
        takes: Duration,
        answer: impl Fn(usize, &ModelRequest) -> Result<ModelReply, ModelError> + 'static,
    ) -> Rc<Self> {
        Rc::new(Self {
            answer: Box::new(answer),
            asked: RefCell::default(),
            takes,
            keeps: true,
            finished: RefCell::default(),
        })
    }

    /// One that keeps no requests.
    pub(crate) fn forgetful(
        answer: impl Fn(usize, &ModelRequest) -> Result<ModelReply, ModelError> + 'static,
    ) -> Rc<Self> {
        let (answer, takes) = (Box::new(answer), Duration::from_secs(1));
        Rc::new(Self { answer, asked: RefCell::default(), takes, keeps: false, finished: RefCell::default() })
    }

    pub(crate) fn calls(&self) -> usize {
        self.asked.borrow().len()
    }
}

/// The model behind the trait.
struct Playing(Rc<Script>);

impl Model for Playing {
    fn complete<'a>(&'a self, request: &'a ModelRequest, _on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        Box::pin(async move {
            let number = self.0.calls();
            if self.0.keeps {
                self.0.asked.borrow_mut().push(request.clone());
            }
            tokio::time::sleep(self.0.takes).await;
            *self.0.finished.borrow_mut() += 1;
            (self.0.answer)(number, request)
        })
    }
}

struct OneModel(Rc<Script>);

impl Models for OneModel {
    fn open(&self, _choices: &[ModelChoice]) -> Result<Opened, String> {
        Ok(Opened { model: Rc::new(Playing(Rc::clone(&self.0))), names: vec!["scripted".to_owned()] })
    }
}

/// How many turns a request has seen: the assistant's messages in it.
pub(crate) fn turn_of(request: &ModelRequest) -> usize {
    request.messages.iter().filter(|message| message.role == Role::Assistant).count()
}

pub(crate) fn usage() -> Usage {
    Usage { input_tokens: 100, output_tokens: 20, ..Usage::default() }
}

pub(crate) fn says(text: &str) -> Result<ModelReply, ModelError> {
    Ok(reply(Message::assistant(text), Finish::Stop))
}

/// An answer with calls: name and arguments of each. Their ids are made of their places.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Result<ModelReply, ModelError> {
    let tool_calls = calls.iter().enumerate().map(|(index, (name, arguments))| ToolCall {
        id: format!("call_{index}"),
        name: (*name).to_owned(),
        arguments: match arguments {
            Value::Object(object) => Arguments::Object { object: object.clone() },
            other => Arguments::Malformed { text: other.to_string(), reason: "no object".to_owned() },
        },
    });
    let message = Message { content: Vec::new(), tool_calls: tool_calls.collect(), ..Message::assistant("") };
    Ok(reply(message, Finish::ToolCalls))
}

fn reply(message: Message, finish: Finish) -> ModelReply {
    serde_json::from_value(json!({
        "message": message, "finish": finish, "usage": usage(), "model": "scripted-1",
    }))
    .unwrap()
}

type Act = dyn Fn(&str, &Value) -> Result<Invoked, StepError>;

/// Functions in memory: what was asked of each, and what they answer.
pub(crate) struct Hall {
    act: Box<Act>,
    takes: Duration,
    pub(crate) done: RefCell<Vec<(String, Value)>>,
}

impl Hall {
    pub(crate) fn new(act: impl Fn(&str, &Value) -> Result<Invoked, StepError> + 'static) -> Rc<Self> {
        Self::taking(Duration::from_millis(200), act)
    }

    pub(crate) fn taking(
        takes: Duration,
        act: impl Fn(&str, &Value) -> Result<Invoked, StepError> + 'static,
    ) -> Rc<Self> {
        Rc::new(Self { act: Box::new(act), takes, done: RefCell::default() })
    }

    /// How often each function was called.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (function, _) in self.done.borrow().iter() {
            *counts.entry(function.clone()).or_insert(0) += 1;
        }
        counts
    }

    pub(crate) fn count(&self, function: &str) -> usize {
        self.counts().get(function).copied().unwrap_or_default()
    }
}

pub(crate) struct InHall(pub(crate) Rc<Hall>);

impl Functions for InHall {
    fn invoke<'a>(
        &'a self,
        _tenant: &'a TenantId,
        function: &'a str,
        event: Value,
        _time_limit: Duration,
    ) -> LocalBoxFuture<'a, Result<Invoked, StepError>> {
        async move {
            // It acts at once and answers later: a caller that dies in between does not know.
            self.0.done.borrow_mut().push((function.to_owned(), event.clone()));
            tokio::time::sleep(self.0.takes).await;
            (self.0.act)(function, &event)
        }
        .boxed_local()
    }
}

/// A function that gives its name and arguments back.
pub(crate) fn echo(function: &str, event: &Value) -> Result<Invoked, StepError> {
    Ok(Invoked::Answered(json!(format!("{function}: {}", event["arguments"]))))
}

/// A definition of Lambda tools of these names, with further fields.
pub(crate) fn definition(tools: &[&str], fields: Value) -> Value {
    let tools: Vec<Value> = tools.iter().map(|name| lambda(name, "keyed")).collect();
    let mut whole = json!({
        "name": "agent", "description": "Does what the script says.", "instructions": "Do it.",
        "models": [{"provider": "default"}], "tools": tools,
        "retry": {"attempts": 3, "wait_first_seconds": 10, "wait_factor": 3},
    });
    for (name, value) in fields.as_object().unwrap() {
        whole[name] = value.clone();
    }
    whole
}

pub(crate) fn lambda(name: &str, effect: &str) -> Value {
    json!({
        "kind": "lambda", "name": name, "description": format!("Does {name}."), "function": name, "effect": effect,
        "input_schema": {"type": "object"},
    })
}

/// A workshop in which `definition` is the agent "agent", version 1.
pub(crate) fn workshop(definition: &Value, script: &Rc<Script>, hall: &Rc<Hall>) -> Workshop {
    let mut registry = Registry::default();
    add(&mut registry, "agent", definition, script, hall);
    Workshop::new(Sim::faultless(), registry)
}

pub(crate) fn equipment(script: &Rc<Script>, hall: &Rc<Hall>) -> Equipment {
    equipment_with(script, hall, Paths::default())
}

pub(crate) fn equipment_with(script: &Rc<Script>, hall: &Rc<Hall>, paths: Paths) -> Equipment {
    let reach = Reach::new(Policy::default(), Arc::new(SystemLookup)).unwrap();
    Equipment::new(Rc::new(OneModel(Rc::clone(script))), reach, paths)
        .with_functions(Rc::new(InHall(Rc::clone(hall))))
        .with_heavy_work(HeavyWork::Here)
}

pub(crate) fn add(registry: &mut Registry, name: &str, definition: &Value, script: &Rc<Script>, hall: &Rc<Hall>) {
    add_with(registry, name, definition, equipment(script, hall));
}

pub(crate) fn add_with(registry: &mut Registry, name: &str, definition: &Value, equipment: Equipment) {
    let text = definition.to_string();
    let checked = read(&text, Format::Json).unwrap_or_else(|found| panic!("{found:#?}"));
    let reference = AgentRef { name: name.parse().unwrap(), version: 1 };
    registry.add_agent(reference, defined::agent(checked.definition, Rc::new(equipment)));
}

/// Runs a definition to its end on one worker.
pub(crate) async fn run(definition: &Value, script: &Rc<Script>, hall: &Rc<Hall>) -> (Workshop, JobRef) {
    let workshop = workshop(definition, script, hall);
    let job = finish(&workshop, 1).await;
    (workshop, job)
}

pub(crate) async fn finish(workshop: &Workshop, workers: usize) -> JobRef {
    workshop
        .run(workers, async {
            let job = workshop.submit(workshop.order("agent", json!({"task": "the task"}))).await;
            workshop.ended(&job).await;
            job
        })
        .await
}

pub(crate) fn result(workshop: &Workshop, job: &JobRef) -> Value {
    match workshop.journal(job).ending() {
        Some(Ending::Completed { output }) => output.clone(),
        other => panic!("{other:?}\n{}", workshop.story(job)),
    }
}

pub(crate) fn failure(workshop: &Workshop, job: &JobRef) -> Failure {
    match workshop.journal(job).ending() {
        Some(Ending::Failed { failure }) => failure.clone(),
        other => panic!("{other:?}\n{}", workshop.story(job)),
    }
}

/// The entries of a job's journal.
pub(crate) fn entries(workshop: &Workshop, job: &JobRef) -> Vec<Entry> {
    let batches = workshop.sim.snapshot().journals.remove(&job.job).unwrap_or_default();
    batches.into_iter().flat_map(|batch| batch.entries).collect()
}

/// What the model was told of the calls of its last answer: id, text, whether it failed.
pub(crate) fn told(request: &ModelRequest) -> Vec<(String, String, bool)> {
    let from = request.messages.iter().rposition(|message| message.role == Role::Assistant).map_or(0, |at| at + 1);
    let results = request.messages.iter().skip(from).filter(|message| message.role == Role::Tool);
    results.map(|message| (message.tool_call_id.clone().unwrap(), message.text(), message.is_error)).collect()
}

/// Bytes of a request's texts.
pub(crate) fn bytes_of(request: &ModelRequest) -> usize {
    let text = |part: &Part| match part {
        Part::Text { text } => text.len(),
        Part::Image { .. } | Part::Raw { .. } => 0,
    };
    request.messages.iter().flat_map(|message| &message.content).map(text).sum()
}
