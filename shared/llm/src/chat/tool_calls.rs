//! Tool calls from the fragments of a stream.
//!
//! The format says that `index` tells calls apart. Servers leave it out, start it at 1, or use it twice, so the rules
//! are: an id not seen before opens a call, whatever the index says; without an id, a name under a label not seen before
//! (or after arguments that are complete) opens one; everything else continues the call that it points to, or the one
//! being streamed. Indexes are labels, never positions.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::arguments::arguments;
use crate::lenient_json::lenient_json;
use crate::message::{ToolCall, Vendor};

/// A call being put together.
#[derive(Debug, Default)]
struct OpenCall {
    id: Option<String>,
    name: String,
    arguments: String,
    vendor: Map<String, Value>,
}

impl OpenCall {
    /// Whether nothing is missing: a name, and arguments that are none or one JSON value.
    fn is_whole(&self) -> bool {
        !self.name.is_empty() && (self.arguments.trim().is_empty() || lenient_json(&self.arguments).is_ok())
    }
}

/// All calls of one answer.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    calls: Vec<OpenCall>,
    by_index: BTreeMap<u64, usize>,
    current: Option<usize>,
}

/// What a fragment says about which call it belongs to.
struct Marks {
    id: Option<String>,
    index: Option<u64>,
    name: Option<String>,
}

impl ToolCalls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    pub(super) fn all_whole(&self) -> bool {
        self.calls.iter().all(OpenCall::is_whole)
    }

    pub(super) fn all_named(&self) -> bool {
        self.calls.iter().all(|call| !call.name.is_empty())
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.calls.iter().map(|call| call.name.clone()).collect()
    }

    /// Takes in one element of `tool_calls`; the tool's name when it opened a call.
    pub(super) fn feed(&mut self, fragment: Value) -> Option<String> {
        let Value::Object(mut fragment) = fragment else {
            return None;
        };
        let function = match fragment.remove("function") {
            Some(Value::Object(function)) => function,
            Some(_) | None => Map::new(),
        };
        let text =
            |value: Option<&Value>| value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        let marks = Marks {
            id: text(fragment.get("id")),
            index: fragment.get("index").and_then(Value::as_u64),
            name: text(function.get("name")),
        };
        let (position, opened) = match self.continued(&marks) {
            Some(position) => (position, false),
            None => (self.calls.len(), true),
        };
        if opened {
            self.calls.push(OpenCall { id: marks.id, ..OpenCall::default() });
        }
        self.current = Some(position);
        if let Some(index) = marks.index {
            self.by_index.insert(index, position);
        }
        let call = self.calls.get_mut(position)?;
        if let Some(name) = &marks.name
            && call.name.is_empty()
        {
            call.name.clone_from(name);
        }
        match function.get("arguments") {
            Some(Value::String(more)) => call.arguments.push_str(more),
            // Some servers send the object itself.
            Some(object @ Value::Object(_)) => call.arguments.push_str(&object.to_string()),
            Some(_) | None => {}
        }
        call.vendor.extend(
            fragment
                .into_iter()
                .filter(|(key, value)| !matches!(key.as_str(), "id" | "index" | "type") && !value.is_null()),
        );
        opened.then_some(marks.name).flatten()
    }

    /// The call that a fragment continues; `None` when it opens one.
    fn continued(&self, marks: &Marks) -> Option<usize> {
        if let Some(id) = &marks.id {
            let known = self.calls.iter().position(|call| call.id.as_ref() == Some(id))?;
            let call = self.calls.get(known)?;
            // A second head under the id of a complete call is a call of its own that deserves an id of its own.
            let second_head = marks.name.is_some() && !call.arguments.is_empty() && call.is_whole();
            return (!second_head).then_some(known);
        }
        let pointed_to = match marks.index {
            Some(index) => self.by_index.get(&index).copied(),
            None => self.current,
        };
        match (&marks.name, pointed_to) {
            // A head without an id: continues only a call whose arguments are under way, as a server does that repeats
            // the name in every fragment.
            (Some(_), Some(position)) => {
                let call = self.calls.get(position)?;
                let under_way = !call.arguments.is_empty() && !call.is_whole();
                (under_way || call.name.is_empty()).then_some(position)
            }
            (Some(_), None) => None,
            // A tail: under an unknown label it can only belong to the call being streamed.
            (None, Some(position)) => Some(position),
            (None, None) => self.current,
        }
    }

    /// The finished calls, and the vendor fields of each by id. `taken` are ids already in the conversation.
    pub(super) fn into_calls(self, taken: &[&str], vendor: &mut Vendor) -> Vec<ToolCall> {
        let sent: Vec<String> = self.calls.iter().filter_map(|call| call.id.clone()).collect();
        let mut number = taken.len();
        let mut calls = Vec::with_capacity(self.calls.len());
        for call in self.calls {
            let id = call.id.unwrap_or_else(|| {
                // Counted, not random: the same answer to the same conversation gets the same ids.
                loop {
                    number += 1;
                    let id = format!("call_{number}");
                    if !taken.contains(&id.as_str()) && !sent.contains(&id) {
                        break id;
                    }
                }
            });
            if !call.vendor.is_empty() {
                vendor.tool_calls.insert(id.clone(), call.vendor);
            }
            calls.push(ToolCall { id, name: call.name, arguments: arguments(call.arguments) });
        }
        calls
    }
}
