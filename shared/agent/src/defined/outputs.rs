//! What tools have said: whole in the journal, in part before the model.
//!
//! A result stands in its step's record, which the store puts aside when it is large (the claim check). The model sees
//! its head and its tail and gets a handle; the tool `read_more` shows any other part. Reading costs no step: it follows
//! from what is recorded.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;

use longhaul_llm::ToolSpec;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The tool that reads on.
pub(super) const READ_MORE: &str = "read_more";

/// Names the result of one call: the turn and the call's place in it, both from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Handle {
    pub(super) turn: u32,
    pub(super) call: usize,
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}.{}", self.turn, self.call)
    }
}

impl FromStr for Handle {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (turn, call) = text.trim().strip_prefix('t').and_then(|rest| rest.split_once('.')).ok_or(())?;
        Ok(Self { turn: turn.parse().map_err(|_| ())?, call: call.parse().map_err(|_| ())? })
    }
}

/// All results so far.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    whole: BTreeMap<Handle, Rc<str>>,
}

impl Outputs {
    /// Keeps a result and gives what the model sees of it at once.
    pub(super) fn keep(&mut self, handle: Handle, text: String, bytes_max: usize) -> String {
        let shown = excerpt(&text, handle, bytes_max);
        self.whole.insert(handle, text.into());
        shown
    }

    /// Bytes of a result.
    pub(super) fn bytes(&self, handle: Handle) -> usize {
        self.whole.get(&handle).map_or(0, |text| text.len())
    }

    /// Whether there is anything that a model could read on.
    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_empty()
    }

    /// Answers a call of [`READ_MORE`].
    ///
    /// # Errors
    /// What the model must be told about its call.
    pub(super) fn read_more(
        &self,
        arguments: &Map<String, Value>,
        bytes_max: usize,
    ) -> Result<(Handle, String), String> {
        let asked: Asked = serde_json::from_value(Value::Object(arguments.clone()))
            .map_err(|error| format!("{READ_MORE} takes {{handle, offset?, find?}}: {error}"))?;
        let handle = asked.handle.parse::<Handle>().ok().filter(|handle| self.whole.contains_key(handle));
        let Some((handle, text)) = handle.and_then(|handle| Some((handle, self.whole.get(&handle)?))) else {
            return Err(format!("there is no result with the handle {:?}", asked.handle));
        };
        let from = text.floor_char_boundary(usize::try_from(asked.offset).unwrap_or(usize::MAX).min(text.len()));
        let start = match asked.find.as_deref().filter(|find| !find.is_empty()) {
            None => from,
            Some(find) => match text.get(from..).and_then(|rest| rest.find(find)) {
                // A little before the place, so that it can be understood.
                Some(at) => text.floor_char_boundary((from + at).saturating_sub(bytes_max / 8)),
                None => return Err(format!("{find:?} does not stand in {handle} behind byte {from}")),
            },
        };
        let room = bytes_max.saturating_sub(160).max(bytes_max / 2);
        let end = text.floor_char_boundary(start.saturating_add(room).min(text.len()));
        let piece = text.get(start..end).unwrap_or_default();
        let on = match text.len().saturating_sub(end) {
            0 => "the end".to_owned(),
            left => format!("{left} bytes follow; go on with offset {end}"),
        };
        Ok((handle, format!("[bytes {start} to {end} of {} of {handle}; {on}]\n{piece}", text.len())))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    handle: String,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    find: Option<String>,
}

/// What the model knows of [`READ_MORE`].
pub(super) fn read_more_spec() -> ToolSpec {
    ToolSpec {
        name: READ_MORE.to_owned(),
        description:
            "Reads a part of an earlier result that was cut or left out: from a byte offset on, or around the \
                      next place where a text stands."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "handle": {"type": "string", "description": "The handle that stands in the mark of the cut."},
                "offset": {"type": "integer", "minimum": 0, "description": "The byte to read from; 0 when absent."},
                "find": {"type": "string", "description": "Reads around the next place where this text stands."}
            },
            "required": ["handle"],
            "additionalProperties": false
        }),
    }
}

/// Head and tail of a text with a mark between them; the text itself when it is short enough.
fn excerpt(text: &str, handle: Handle, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let room = bytes_max.saturating_sub(160).max(bytes_max / 2);
    let head_end = text.floor_char_boundary(room / 3 * 2);
    let tail_start = text.ceil_char_boundary(text.len().saturating_sub(room / 3));
    let head = text.get(..head_end).unwrap_or_default();
    let tail = text.get(tail_start..).unwrap_or_default();
    let left_out = tail_start.saturating_sub(head_end);
    format!(
        "{head}\n[cut: {left_out} of {} bytes are not shown; {READ_MORE} with handle \"{handle}\" and offset {head_end} \
         reads on]\n{tail}",
        text.len()
    )
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]

    use super::*;

    const HANDLE: Handle = Handle { turn: 3, call: 1 };

    /// A20 (d): a cut lies between characters, wherever the limit falls.
    #[test]
    fn a20_emoji_are_cut_between_characters() {
        let text = "🙂".repeat(50_000);
        for bytes_max in 512..530 {
            let mut outputs = Outputs::default();
            let shown = outputs.keep(HANDLE, text.clone(), bytes_max);
            assert!(shown.len() <= bytes_max, "{}", shown.len());
            assert!(shown.starts_with('🙂') && shown.ends_with('🙂') && !shown.contains('\u{fffd}'));
        }
    }

    #[test]
    fn everything_can_be_read_on() {
        let text: String = (0..5_000).map(|number| format!("line {number} ü\n")).collect();
        let mut outputs = Outputs::default();
        outputs.keep(HANDLE, text.clone(), 1_024);
        let mut read = String::new();
        while read.len() < text.len() {
            let arguments = json!({"handle": "t3.1", "offset": read.len()});
            let (_, piece) = outputs.read_more(arguments.as_object().unwrap(), 1_024).unwrap();
            assert!(piece.len() <= 1_024);
            read.push_str(piece.split_once("]\n").unwrap().1);
        }
        assert_eq!(read, text);
        let found = json!({"handle": "t3.1", "find": "line 4321 "});
        assert!(outputs.read_more(found.as_object().unwrap(), 1_024).unwrap().1.contains("line 4321 ü"));
        for wrong in [
            json!({"handle": "t3.2"}),
            json!({"handle": "x"}),
            json!({}),
            json!({"handle": "t3.1", "find": "nowhere"}),
            json!({"handle": "t3.1", "offset": -1}),
        ] {
            assert!(outputs.read_more(wrong.as_object().unwrap(), 1_024).is_err(), "{wrong}");
        }
    }
}
