//! A tool call's arguments from the text that a model wrote.

use serde_json::{Map, Value};

use crate::lenient_json::lenient_json;
use crate::message::Arguments;

/// Reads what a model wrote. Blank text and `null` are no arguments.
pub(crate) fn arguments(text: String) -> Arguments {
    if text.trim().is_empty() {
        return Arguments::Object { object: Map::new() };
    }
    match lenient_json(&text) {
        Ok(Value::Object(object)) => Arguments::Object { object },
        Ok(Value::Null) => Arguments::Object { object: Map::new() },
        Ok(_) => Arguments::Malformed { text, reason: "the arguments are not a JSON object".to_owned() },
        Err(error) => Arguments::Malformed { reason: format!("the arguments are not JSON: {error}"), text },
    }
}

/// Arguments that arrived as JSON already.
pub(crate) fn arguments_of(value: Value) -> Arguments {
    match value {
        Value::Object(object) => Arguments::Object { object },
        Value::Null => Arguments::Object { object: Map::new() },
        Value::String(text) => arguments(text),
        other => {
            Arguments::Malformed { text: other.to_string(), reason: "the arguments are not a JSON object".to_owned() }
        }
    }
}

/// What goes back for the arguments of a past call. Servers parse them, so what was no JSON goes back wrapped.
pub(crate) fn wire_arguments(arguments: &Arguments) -> Value {
    match arguments {
        Arguments::Object { object } => Value::Object(object.clone()),
        Arguments::Malformed { text, .. } => {
            let mut wrapped = Map::new();
            wrapped.insert("unreadable_arguments".to_owned(), Value::String(text.clone()));
            Value::Object(wrapped)
        }
    }
}
