//! Telling when the model goes in circles: the very same call in turn after turn. The same call several times in one
//! answer is one answer's doing and counts as once; how many calls an answer may make has a bound of its own.

use std::collections::BTreeMap;

use longhaul_definition::canonical;
use longhaul_llm::{Arguments, ToolCall};
use serde_json::Value;

/// What a repeated call comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is carried out.
    Fine,
    /// It is refused, and the model is told.
    Refuse,
    /// The model was told and does it again: the job ends.
    End,
}

/// In how many turns in a row each call was made.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    before: BTreeMap<String, u32>,
    now: BTreeMap<String, u32>,
}

impl Repeats {
    /// A new turn begins: what was not called in the last one is no repetition any more.
    pub(super) fn next_turn(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Counts a call of this turn.
    pub(super) fn count(&mut self, call: &ToolCall, repeats_max: u32) -> Verdict {
        let key = key(call);
        let before = self.before.get(&key).copied().unwrap_or_default();
        let count = before.saturating_add(1);
        self.now.insert(key, count);
        match count {
            count if count <= repeats_max => Verdict::Fine,
            count if count == repeats_max.saturating_add(1) => Verdict::Refuse,
            _ => Verdict::End,
        }
    }
}

/// A call, whatever the spacing and order of its arguments.
pub(super) fn key(call: &ToolCall) -> String {
    let arguments = match &call.arguments {
        Arguments::Object { object } => canonical(&Value::Object(object.clone())),
        Arguments::Malformed { text, reason: _ } => text.trim().to_owned(),
    };
    format!("{} {arguments}", call.name)
}
