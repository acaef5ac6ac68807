//! From a request's body to its fields, or to what is wrong with it.

use longhaul_engine::limits::BODY_BYTES_MAX;
use serde::de::DeserializeOwned;

use crate::problem::Problem;
use crate::text::shortened;
use crate::{limits, names};

/// Reads a request body. No object in it may name a field twice, whatever it is a part of.
///
/// # Errors
/// [`Problem::BodyTooLarge`], [`Problem::InvalidJson`] with the position, [`Problem::InvalidField`] with the field.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    type PathError = serde_path_to_error::Error<serde_json::Error>;
    if body.len() > BODY_BYTES_MAX {
        return Err(Problem::BodyTooLarge { bytes_max: BODY_BYTES_MAX });
    }
    // A list would pass for the fields in their order, which nobody has agreed on.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::field("", "must be an object"));
    }
    let problem = |error: &PathError| problem_of(error.inner(), pointer(error.path()));
    names::check(body).map_err(|error| problem(&error))?;
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error: PathError| match problem(&error) {
        // It has just been read, as JSON: where a name is wanted and `null` or a number stands, the reader speaks of syntax.
        Problem::InvalidJson { .. } => {
            Problem::field(pointer(error.path()), "must be one of the texts that stand for it")
        }
        problem => problem,
    })?;
    reader.end().map_err(|error| problem_of(&error, String::new()))?;
    Ok(value)
}

/// As [`parse`], where an empty body means the default.
///
/// # Errors
/// See [`parse`].
pub fn parse_or_default<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Problem> {
    if body.is_empty() { Ok(T::default()) } else { parse(body) }
}

fn problem_of(error: &serde_json::Error, field: String) -> Problem {
    let detail = without_values(&error.to_string());
    match error.classify() {
        serde_json::error::Category::Data => Problem::InvalidField { field, detail },
        serde_json::error::Category::Io | serde_json::error::Category::Syntax | serde_json::error::Category::Eof => {
            Problem::InvalidJson { line: error.line(), column: error.column(), detail }
        }
    }
}

/// A reader's message without the value that it met (which may be a secret or a megabyte) and without the position
/// (which has its own place).
fn without_values(message: &str) -> String {
    let message = message.rsplit_once(" at line ").map_or(message, |(message, _)| message);
    let message = match message.rsplit_once(", expected ") {
        Some((found, expected)) if found.starts_with("invalid type: ") || found.starts_with("invalid value: ") => {
            format!("must be {}", in_json_words(expected))
        }
        Some((found, expected)) => format!("{}, expected {expected}", shortened(found, limits::ECHO_LENGTH_MAX + 20)),
        None => message.to_owned(),
    };
    shortened(&message, 200)
}

/// What a reader expected, in the words of JSON and not of Rust.
fn in_json_words(expected: &str) -> &str {
    match expected {
        "u64" | "u32" | "usize" => "a whole number, 0 or more",
        "a map" => "an object",
        "a sequence" => "a list",
        _ if expected.starts_with("struct ") => "an object",
        _ => expected,
    }
}

/// A reader's path as a JSON pointer (RFC 6901).
fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    path.iter().fold(String::new(), |pointer, segment| match segment {
        Segment::Seq { index } => format!("{pointer}/{index}"),
        Segment::Map { key } => pointer_at(&pointer, key),
        Segment::Enum { .. } | Segment::Unknown => pointer,
    })
}

/// The pointer to `key` of what stands at `parent`.
#[must_use]
pub fn pointer_at(parent: &str, key: &str) -> String {
    let key = shortened(key, limits::ECHO_LENGTH_MAX).replace('~', "~0").replace('/', "~1");
    format!("{parent}/{key}")
}
