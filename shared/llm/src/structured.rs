//! From an answer's text to the JSON value that was asked for.

use serde_json::{Map, Value};

use crate::error::{ModelError, ModelErrorKind};
use crate::lenient_json::lenient_json;

/// Violations named in an error: enough for one repair by the model.
const VIOLATIONS_MAX: usize = 5;

const FENCE: &str = "```";

/// The one JSON value in `text`: the whole of it, or what one code fence encloses.
pub(crate) fn extract(text: &str) -> Result<Value, ModelError> {
    let error = match lenient_json(text.trim()) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    match fenced(text) {
        Some(inner) => lenient_json(inner.trim()).map_err(|inner_error| unreadable(&inner_error)),
        None => Err(unreadable(&error)),
    }
}

fn unreadable(error: &serde_json::Error) -> ModelError {
    ModelError::new(ModelErrorKind::Schema, format!("the answer is not one JSON value: {error}"))
}

/// What stands between the first fence line and the last, unless further fence lines stand between them: then there are
/// several blocks, and choosing one would be a guess. Back-ticks inside a line are no fence.
fn fenced(text: &str) -> Option<&str> {
    let mut fences = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if line.trim_start().starts_with(FENCE) {
            fences.push((start, end, line.trim() == FENCE));
        }
        start = end;
    }
    match fences.as_slice() {
        [(_, open_end, _), (close_start, _, true)] => text.get(*open_end..*close_start),
        _ => None,
    }
}

/// Constraints that decoders of Anthropic and Bedrock refuse. The answer is checked against them afterwards anyway.
const NOT_ENFORCED: [&str; 12] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
];

/// The part of a schema that those decoders can enforce, or `None` where they cannot at all: they want every object
/// closed, so an object of free form has no place in them, and references may be recursive, which they refuse.
pub(crate) fn enforceable(schema: &Value) -> Option<Value> {
    let Value::Object(fields) = schema else {
        return None;
    };
    if fields.contains_key("$ref") || fields.contains_key("patternProperties") {
        return None;
    }
    let mut kept = Map::new();
    for (name, value) in fields {
        let value = match name.as_str() {
            name if NOT_ENFORCED.contains(&name) => continue,
            "properties" | "$defs" | "definitions" => Value::Object(
                value
                    .as_object()?
                    .iter()
                    .map(|(name, inner)| Some((name.clone(), enforceable(inner)?)))
                    .collect::<Option<_>>()?,
            ),
            "items" => enforceable(value)?,
            "anyOf" | "allOf" | "oneOf" => {
                Value::Array(value.as_array()?.iter().map(enforceable).collect::<Option<_>>()?)
            }
            _ => value.clone(),
        };
        kept.insert(name.clone(), value);
    }
    let is_object = match fields.get("type") {
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) | None => fields.contains_key("properties"),
    };
    if is_object {
        let open = fields.get("additionalProperties").is_some_and(|extra| extra != &Value::Bool(false));
        if open || !fields.contains_key("properties") {
            return None;
        }
        kept.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Some(Value::Object(kept))
}

/// What the field for schemas would have said, for servers and schemas that have no use of it.
pub(crate) fn in_words(schema: &Value) -> String {
    format!(
        "When you give your final answer, give it as one JSON value that satisfies this JSON Schema, and nothing else \
         around it: {schema}"
    )
}

/// `value`, if it satisfies `schema`.
pub(crate) fn validate(schema: &Value, value: Value) -> Result<Value, ModelError> {
    let validator = jsonschema::validator_for(schema).map_err(|error| {
        ModelError::new(ModelErrorKind::Invalid, format!("the asked schema is no JSON Schema: {error}"))
    })?;
    let violations: Vec<String> = validator
        .iter_errors(&value)
        .take(VIOLATIONS_MAX)
        .map(|violation| format!("{violation} (at {:?})", violation.instance_path().to_string()))
        .collect();
    if violations.is_empty() {
        return Ok(value);
    }
    Err(ModelError::new(
        ModelErrorKind::Schema,
        format!("the answer does not satisfy the schema: {}", violations.join("; ")),
    ))
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    #[test]
    fn what_decoders_can_enforce() {
        let rows = [
            (
                json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}, "required": ["a"]}),
                Some(
                    json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}),
                ),
            ),
            (
                json!({"type": "array", "minItems": 2, "items": {"properties": {"minimum": {"type": "string"}}}}),
                Some(
                    json!({"type": "array", "items": {"properties": {"minimum": {"type": "string"}}, "additionalProperties": false}}),
                ),
            ),
            (
                json!({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]}),
                Some(json!({"anyOf": [{"type": "string"}, {"type": "null"}]})),
            ),
            (json!({"type": "object"}), None),
            (json!({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}), None),
            (json!({"type": "object", "properties": {"next": {"$ref": "#"}}}), None),
            (json!({"anyOf": [{"type": ["object", "null"]}]}), None),
            (json!(true), None),
        ];
        for (schema, expected) in rows {
            assert_eq!(enforceable(&schema), expected, "{schema}");
        }
    }
}
