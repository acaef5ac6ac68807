//! From an answer's text to the JSON value that was asked for.

use serde_json::Value;

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
