//! A person's word: before a tool acts, in answer to a question, about a call that a crash cut off.
//!
//! Each wait has a name of its own, made from the call that it is about: a word given for one call can never be taken for
//! another, and one that comes early is kept until the call is reached.

use std::time::Duration;

use longhaul::{Ctx, Error};
use longhaul_definition::digest;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::calls::Due;

/// Characters of a tool's name in a signal's: the whole has 64 at most.
const TOOL_CHARS: usize = 32;

/// What came of asking for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// The call may be made: with these arguments, where the person has changed them.
    Approved(Option<Map<String, Value>>),
    /// It may not; what the model is told.
    Not(String),
}

/// What a person may say.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
enum Decision {
    Approved {
        #[serde(default)]
        arguments: Option<Map<String, Value>>,
    },
    Rejected {
        #[serde(default)]
        reason: Option<String>,
    },
    Changes {
        #[serde(default)]
        reason: Option<String>,
    },
}

impl Decision {
    /// Reads a signal's payload; also the bare word, since people type it.
    fn read(payload: &Value) -> Option<Self> {
        match payload {
            Value::String(word) => Self::deserialize(&json!({ "decision": word })).ok(),
            Value::Object(_) => Self::deserialize(payload).ok(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        }
    }
}

/// The signal for one call: what it is about, the tool, and a digest of turn, place and arguments.
pub(super) fn signal_name(about: &str, due: &Due<'_>) -> String {
    let tool: String = due.call.name.chars().take(TOOL_CHARS).collect();
    let call = json!([due.handle.turn, due.handle.call, due.call.name, due.arguments]);
    let mark: String = digest(&call).chars().take(12).collect();
    format!("{about}:{tool}:{mark}")
}

/// Waits for approval of a call. A word that is neither yes nor no, and changed arguments that do not fit the tool, are
/// answered with what was expected.
pub(super) async fn approve(ctx: &mut Ctx, due: &Due<'_>, wait_seconds: u64) -> longhaul::Result<Word> {
    let signal = signal_name("approval", due);
    let shown = json!({ "signal": signal, "tool": due.call.name, "arguments": due.arguments });
    ctx.emit("approval needed", shown).await?;
    loop {
        let wrong = match ctx.signal::<Value>(&signal).timeout(Duration::from_secs(wait_seconds)).await {
            Ok(payload) => match Decision::read(&payload) {
                Some(Decision::Approved { arguments: None }) => return Ok(Word::Approved(None)),
                Some(Decision::Approved { arguments: Some(changed) }) => match due.grant.check(&changed) {
                    Ok(()) => return Ok(Word::Approved(Some(changed))),
                    Err(fault) => format!("the changed arguments do not fit: {fault}"),
                },
                Some(Decision::Rejected { reason }) => {
                    return Ok(Word::Not(told("A person has rejected this call; it was not made.", reason)));
                }
                Some(Decision::Changes { reason }) => {
                    return Ok(Word::Not(told("A person asks for changes; the call was not made.", reason)));
                }
                None => "it is no decision".to_owned(),
            },
            Err(Error::TimedOut { .. }) => {
                return Ok(Word::Not(told("Nobody has approved this call in time; it was not made.", None)));
            }
            Err(error) => return Err(error),
        };
        let expected = json!({ "signal": signal, "why": wrong, "expected": [
            { "decision": "approved" },
            { "decision": "approved", "arguments": due.arguments },
            { "decision": "rejected", "reason": "…" },
            { "decision": "changes", "reason": "…" },
        ]});
        ctx.emit("approval not understood", expected).await?;
    }
}

fn told(what: &str, reason: Option<String>) -> String {
    match reason {
        Some(reason) if !reason.trim().is_empty() => format!("{what} Their words: {reason}"),
        Some(_) | None => what.to_owned(),
    }
}

/// Asks a person something and gives their words; none when nobody answered in time.
pub(super) async fn ask(
    ctx: &mut Ctx,
    about: &str,
    due: &Due<'_>,
    question: &str,
    wait_seconds: u64,
) -> longhaul::Result<Option<String>> {
    let signal = signal_name(about, due);
    ctx.emit("question", json!({ "signal": signal, "tool": due.call.name, "question": question })).await?;
    match ctx.signal::<Value>(&signal).timeout(Duration::from_secs(wait_seconds)).await {
        Ok(Value::String(words)) => Ok(Some(words)),
        Ok(other) => Ok(Some(other.to_string())),
        Err(Error::TimedOut { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
