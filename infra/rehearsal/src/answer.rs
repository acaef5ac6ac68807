//! From a conversation to what the stand-in says to it.

use serde_json::{Map, Value, json};

use super::instance::Filler;
use super::prompt::topic;
use super::ranking::{rank, select};
use super::wire::{Asked, Role};
use super::words::{collapse, shortened, terms};
use super::{compliance, notes, plan, report, ticket};

/// What every free answer begins with, so that no reader takes it for a model's.
pub(super) const LABEL: &str = "[rehearsal, no model]";

/// Sentences of a free answer.
const SENTENCES_MAX: usize = 3;

/// Longest search query.
const QUERY_MAX_CHARS: usize = 200;

/// The tool that is called with the topic, where it is on offer.
const SEARCH_TOOL: &str = "search";

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// Text, JSON where a schema was given.
    Text(String),
    /// One call of a tool.
    ToolCall {
        /// The tool.
        name: String,
        /// Its arguments.
        arguments: Value,
    },
}

pub(super) fn answer(asked: &Asked) -> Answer {
    if let Some(call) = tool_call(asked) {
        return call;
    }
    let message = asked.last_user();
    let Some(schema) = &asked.schema else {
        return Answer::Text(free(asked));
    };
    let value = match schema.name.as_str() {
        "research_plan" => plan::answer(message),
        "reading_notes" => notes::answer(message),
        "report" | "section" => report::answer(message),
        "compliance_finding" => compliance::answer(message),
        "ticket" => ticket::answer(message),
        _ => Filler::new(&schema.schema, &condensed(asked)).instance(),
    };
    Answer::Text(value.to_string())
}

/// A search for the topic, as long as nothing has been looked up for the last question.
fn tool_call(asked: &Asked) -> Option<Answer> {
    if asked.tools_forbidden || asked.messages.last().map(|message| message.role) != Some(Role::User) {
        return None;
    }
    let tool = asked.tools.iter().find(|tool| tool.name == SEARCH_TOOL)?;
    let query = shortened(topic(asked.last_user()), QUERY_MAX_CHARS);
    let mut arguments = match Filler::new(&tool.parameters, &query).instance() {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    };
    if !arguments.values().any(Value::is_string) {
        arguments.insert("query".to_owned(), json!(query));
    }
    Some(Answer::ToolCall { name: tool.name.clone(), arguments: Value::Object(arguments) })
}

/// Some sentences of the tools' results, or of the question where there are none.
fn free(asked: &Asked) -> String {
    format!("{LABEL} {}", condensed(asked))
}

fn condensed(asked: &Asked) -> String {
    let question = asked.last_user();
    let results: Vec<String> = asked
        .messages
        .iter()
        .rev()
        .take_while(|message| message.role != Role::User)
        .filter(|message| message.role == Role::Tool)
        .map(|message| texts(&message.text))
        .collect();
    let text = match results.as_slice() {
        [] => question.to_owned(),
        results => results.iter().rev().cloned().collect::<Vec<_>>().join("\n\n"),
    };
    let ranked = rank(&text, &terms(topic(question)));
    let chosen: Vec<String> =
        select(&ranked, SENTENCES_MAX, &[]).iter().map(|sentence| collapse(sentence.text)).collect();
    if chosen.is_empty() { "There is nothing to condense.".to_owned() } else { chosen.join(" ") }
}

/// The texts of a tool's result: of JSON all strings, paragraph by paragraph.
fn texts(result: &str) -> String {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            Value::Object(fields) => fields.values().for_each(|item| collect(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    match serde_json::from_str::<Value>(result) {
        Ok(value) => {
            let mut found = Vec::new();
            collect(&value, &mut found);
            found.join("\n\n")
        }
        Err(_) => result.to_owned(),
    }
}
