//! The agents' own prompts and schemas, filled and sent through the product's client.

use longhaul_llm::{ChatCompletions, Message, ModelError, ModelReply, ModelRequest, ResponseFormat, Secret};
use longhaul_local::rehearsal::{Rehearsal, RehearsalHandle, start};
use serde_json::Value;

macro_rules! shipped {
    ($agent:literal, $name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../shared/agent/src/", $agent, "/prompts/", $name, ".txt")),
            include_str!(concat!("../../../../shared/agent/src/", $agent, "/schemas/", $name, ".json")),
        )
    };
}

const SHIPPED: [(&str, &str, &str); 5] = [
    shipped!("research", "research_plan"),
    shipped!("research", "reading_notes"),
    shipped!("research", "report"),
    shipped!("compliance", "compliance_finding"),
    shipped!("compliance", "ticket"),
];

/// A running stand-in and a client of it.
pub(crate) struct Stand {
    pub(crate) handle: RehearsalHandle,
    pub(crate) model: ChatCompletions,
}

impl Stand {
    pub(crate) async fn start(options: Rehearsal) -> Self {
        let handle = start("127.0.0.1:0".parse().unwrap(), options).await.unwrap();
        let model = ChatCompletions::new(&handle.base_url, Secret::new("")).unwrap();
        Self { handle, model }
    }

    /// Asks with a shipped prompt; the answer is checked against the shipped schema.
    pub(crate) async fn ask(&self, name: &str, values: &[(&str, &str)]) -> Value {
        let request = request(name, values);
        let reply = self.complete(&request).await.unwrap();
        let ResponseFormat::JsonSchema { schema, .. } = &request.response_format else { unreachable!() };
        reply.structured(schema).unwrap()
    }

    pub(crate) async fn complete(&self, request: &ModelRequest) -> Result<ModelReply, ModelError> {
        self.model.complete_with(request, &mut |_| {}).await
    }

    /// The address beside the model's routes.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.handle.address)
    }
}

/// A shipped prompt, filled as its rules say.
pub(crate) fn request(name: &str, values: &[(&str, &str)]) -> ModelRequest {
    let (_, prompt, schema) = SHIPPED.into_iter().find(|(known, ..)| *known == name).expect(name);
    // In one pass: what is filled in may itself hold braces.
    let mut parts = prompt.split("{{");
    let mut filled = parts.next().unwrap().to_owned();
    for part in parts {
        let (key, rest) = part.split_once("}}").expect(name);
        let (_, value) = values.iter().find(|(known, _)| *known == key).expect(key);
        filled += value;
        filled += rest;
    }
    ModelRequest {
        response_format: ResponseFormat::JsonSchema {
            name: name.to_owned(),
            schema: serde_json::from_str(schema).unwrap(),
        },
        ..ModelRequest::new("rehearsal", vec![Message::system("system"), Message::user(filled)])
    }
}

/// Three sources on queues, as agents would be given them.
pub(crate) const SOURCES: [(&str, &str, &str); 3] =
    [("queues.md", "On queues", QUEUES), ("agents.md", "Agents at work", AGENTS), ("tides.md", "Tides", TIDES)];

const QUEUES: &str = "# On queues\n\nA queue keeps a message until a worker has said that the work is done. When a worker \
    dies, the\nmessage becomes visible again and another worker takes it up. Queues therefore turn a crash into a delay.\n\n\
    - A message may be delivered twice, so every handler of a queue must be idempotent.\n- Order is not kept.\n\n\
    Queues also absorb bursts, because the workers set the pace. A dead-letter queue collects messages that fail again and \
    again. \"Without a queue the caller waits,\" as one engineer put it.\n\n```\nqueue.send(message)\n```\n";

const AGENTS: &str = "Agents at work\n==============\n\nLong agents call models and tools for minutes or hours. Every such call \
    can fail, and reliable agents write down each result before they go on. A queue hands an agent's next step to whichever \
    worker is free. Agents that keep all state in memory lose it with the process. Teams should measure how often agents \
    repeat a step after a failure.\n";

const TIDES: &str = "The moon raises tides twice a day. The sun adds to them at new moon and at full moon.\n";

pub(crate) const TOPIC: &str = "how queues make agents reliable";

/// Notes of the sources, numbered, as the report's prompt takes them.
pub(crate) async fn notes(stand: &Stand, topic: &str, sources: &[(&str, &str, &str)]) -> String {
    let mut notes = String::new();
    let mut number = 0;
    for (file, title, text) in sources {
        let values = [("topic", topic), ("file", file), ("title", title), ("text", text)];
        let note = stand.ask("reading_notes", &values).await;
        if note["relevant"] == Value::Bool(true) {
            number += 1;
            notes += &format!("<note number=\"{number}\" file=\"{file}\" title=\"{title}\">\n{note}\n</note>\n\n");
        }
    }
    notes
}

pub(crate) const OUTLINE: &str =
    "Queues and agents: what is meant\nHow it works: queues\nFailures and limits\nWhat follows in practice";

pub(crate) async fn report(stand: &Stand, topic: &str, sources: &[(&str, &str, &str)]) -> Value {
    let notes = notes(stand, topic, sources).await;
    stand.ask("report", &[("topic", topic), ("outline", OUTLINE), ("notes", &notes)]).await
}
