//! A person's word before anything leaves the house.

use std::ops::RangeInclusive;
use std::time::Duration;

use longhaul::{Ctx, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The signal that carries the decision: `{"decision": "approved"}` or `{"decision": "rejected", "reason": "…"}`.
pub const APPROVAL_SIGNAL: &str = "approval";

/// How long a person may be given: a minute is for trying it out, a job is kept for 30 days.
pub(super) const SECONDS: RangeInclusive<u64> = 1..=30 * 24 * 3_600;

/// Three days: over a weekend.
pub(super) const fn seconds_default() -> u64 {
    3 * 24 * 3_600
}

/// What came of asking a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Approval {
    /// The tickets may be opened.
    Approved,
    /// They may not.
    Rejected {
        /// Why, if the person said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Nobody decided in time.
    NotDecided,
}

impl Approval {
    /// Reads a signal's payload; also the bare word, since people type it.
    fn read(payload: &Value) -> Option<Self> {
        match payload {
            Value::String(word) => match word.as_str() {
                "approved" => Some(Self::Approved),
                "rejected" => Some(Self::Rejected { reason: None }),
                _ => None,
            },
            // Nobody can signal that nobody decided.
            Value::Object(_) => {
                Self::deserialize(payload).ok().filter(|approval| !matches!(approval, Self::NotDecided))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        }
    }
}

/// Waits for the decision. A signal that says neither yes nor no is answered with what was expected, and does not end
/// the wait: a slip of the keyboard must not cost a job.
pub(super) async fn wait(ctx: &mut Ctx, seconds: u64) -> longhaul::Result<Approval> {
    loop {
        match ctx.signal::<Value>(APPROVAL_SIGNAL).timeout(Duration::from_secs(seconds)).await {
            Ok(payload) => match Approval::read(&payload) {
                Some(approval) => return Ok(approval),
                None => {
                    let expected = serde_json::json!({ "expected": [
                        { "decision": "approved" },
                        { "decision": "rejected", "reason": "…" },
                    ]});
                    ctx.emit("approval not understood", expected).await?;
                }
            },
            Err(Error::TimedOut { .. }) => return Ok(Approval::NotDecided),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn decisions_are_read() {
        let reason = || Some("no".to_owned());
        let cases = [
            (json!("approved"), Some(Approval::Approved)),
            (json!({"decision": "approved"}), Some(Approval::Approved)),
            (json!("rejected"), Some(Approval::Rejected { reason: None })),
            (json!({"decision": "rejected", "reason": "no"}), Some(Approval::Rejected { reason: reason() })),
            (json!({"decision": "not_decided"}), None),
            (json!({"decision": "maybe"}), None),
            (json!({}), None),
            (json!(null), None),
            (json!(true), None),
            (json!("yes"), None),
        ];
        for (payload, expected) in cases {
            assert_eq!(Approval::read(&payload), expected, "{payload}");
        }
    }
}
