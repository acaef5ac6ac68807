//! What can be asked to go wrong, and the check of what was asked.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How long a held call is held when its rule does not say: longer than a client of ours waits for one try.
const HOLD_DEFAULT_MS: u64 = 4_000;

/// The longest hold: whoever asks for more has miscounted.
const HOLD_MAX_MS: u64 = 60_000;

/// A storage service whose calls can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// The table.
    Dynamodb,
    /// The queues.
    Sqs,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Refused as too much; nothing was done.
    Throttled,
    /// Status 500; nothing was done.
    Failed,
    /// Done, and then status 500 all the same.
    FailedAfter,
    /// The connection ends without an answer; nothing was done.
    Cut,
    /// Done, and then the connection ends without an answer.
    CutAfter,
    /// Nothing is done or answered for a while; then the connection ends.
    Held,
    /// Done, and then nothing is answered for a while; then the connection ends.
    HeldAfter,
    /// Done and answered, but only after a while.
    Slow,
    /// SQS, batches: some entries fail and are named in `Failed`.
    Partial,
    /// SQS: what was sent is there twice; what was received comes again.
    Duplicated,
}

impl FaultKind {
    /// Actions of SQS that this can happen to; none: all actions of all services.
    const fn only(self) -> Option<&'static [&'static str]> {
        match self {
            Self::Partial => Some(&["SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"]),
            Self::Duplicated => Some(&["SendMessage", "SendMessageBatch", "ReceiveMessage"]),
            Self::Throttled
            | Self::Failed
            | Self::FailedAfter
            | Self::Cut
            | Self::CutAfter
            | Self::Held
            | Self::HeldAfter
            | Self::Slow => None,
        }
    }
}

/// One thing that goes wrong, with which calls, and how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The service; none: both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// The action, such as `PutItem`; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Text that the call's body contains, such as a step's name or a job's id; none: any body. What a batch of entries
    /// says can be read until it is so large that it is compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containing: Option<String>,
    /// What goes wrong.
    pub fault: FaultKind,
    /// Hits every so many calls that it is about. This or `probability` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// Hits each call that it is about with this probability, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Most hits; none: no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// How long a call is held or slowed, in milliseconds.
    #[serde(default = "hold_default_ms")]
    pub hold_ms: u64,
}

const fn hold_default_ms() -> u64 {
    HOLD_DEFAULT_MS
}

impl FaultRule {
    /// Whether the rule is about this call.
    pub(super) fn is_about(&self, service: Service, action: &str, body: &[u8]) -> bool {
        self.service.is_none_or(|wanted| wanted == service)
            && self.action.as_ref().is_none_or(|wanted| wanted == action)
            && self.containing.as_ref().is_none_or(|wanted| contains(body, wanted.as_bytes()))
            && self.fault.only().is_none_or(|only| service == Service::Sqs && only.contains(&action))
    }

    /// Whether it hits the `call`th call that it is about, after so many hits.
    pub(super) fn hits(&self, call: u64, hits: u64, roll: u64) -> bool {
        if self.times.is_some_and(|times| hits >= times) {
            return false;
        }
        match (self.every, self.probability) {
            (Some(every), _) => every > 0 && call.is_multiple_of(every),
            // The upper 53 bits are what an f64 holds exactly.
            (None, Some(probability)) => ((roll >> 11) as f64) / ((1_u64 << 53) as f64) < probability,
            (None, None) => false,
        }
    }

    fn check(&self) -> Result<(), String> {
        match (self.every, self.probability) {
            (Some(0), None) => return Err("every must be at least 1".to_owned()),
            (Some(_), None) => {}
            (None, Some(probability)) if (0.0..=1.0).contains(&probability) => {}
            (None, Some(_)) => return Err("probability must be 0 to 1".to_owned()),
            (Some(_), Some(_)) | (None, None) => return Err("give either every or probability".to_owned()),
        }
        if self.containing.as_ref().is_some_and(String::is_empty) {
            return Err("containing must name a text".to_owned());
        }
        if self.hold_ms > HOLD_MAX_MS {
            return Err(format!("hold_ms must be at most {HOLD_MAX_MS}"));
        }
        if let Some(only) = self.fault.only() {
            if self.service == Some(Service::Dynamodb) {
                return Err(format!("{:?} happens to SQS alone", self.fault));
            }
            if let Some(action) = self.action.as_deref().filter(|action| !only.contains(action)) {
                return Err(format!("{:?} happens to {}, not to {action}", self.fault, only.join(", ")));
            }
        }
        Ok(())
    }
}

fn contains(body: &[u8], wanted: &[u8]) -> bool {
    body.windows(wanted.len().max(1)).any(|part| part == wanted)
}

/// Everything that is to go wrong.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// Decides about probabilities: the same seed hits the same calls, counted by rule.
    #[serde(default)]
    pub seed: u64,
    /// The rules; of those that a call meets, the first that hits decides.
    #[serde(default)]
    pub rules: Vec<FaultRule>,
}

/// Why a plan is none.
#[derive(Debug, thiserror::Error)]
pub enum FaultPlanError {
    /// It is not the JSON of a plan.
    #[error("it is not the JSON of a fault plan")]
    Json(#[from] serde_json::Error),
    /// A rule makes no sense.
    #[error("rule {number}: {what}")]
    Rule {
        /// Which, from 1.
        number: usize,
        /// What is wrong with it.
        what: String,
    },
}

impl FaultPlan {
    /// Checks every rule.
    ///
    /// # Errors
    /// [`FaultPlanError::Rule`] with the first that makes no sense.
    pub fn check(&self) -> Result<(), FaultPlanError> {
        for (number, rule) in (1..).zip(&self.rules) {
            rule.check().map_err(|what| FaultPlanError::Rule { number, what })?;
        }
        Ok(())
    }
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let plan: Self = serde_json::from_str(text)?;
        plan.check()?;
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn plans_without_sense_are_refused() {
        let rows = [
            ("nonsense", "it is not the JSON of a fault plan"),
            (r#"{"rules": [{"fault": "explosion", "every": 1}]}"#, "it is not the JSON of a fault plan"),
            (r#"{"rules": [{"fault": "cut", "every": 1, "often": 1}]}"#, "it is not the JSON of a fault plan"),
            (r#"{"rules": [{"fault": "cut"}]}"#, "rule 1: give either every or probability"),
            (
                r#"{"rules": [{"fault": "cut", "every": 1, "probability": 1}]}"#,
                "rule 1: give either every or probability",
            ),
            (
                r#"{"rules": [{"fault": "cut", "every": 1}, {"fault": "cut", "every": 0}]}"#,
                "rule 2: every must be at least 1",
            ),
            (r#"{"rules": [{"fault": "cut", "probability": 1.5}]}"#, "rule 1: probability must be 0 to 1"),
            (r#"{"rules": [{"fault": "cut", "every": 1, "containing": ""}]}"#, "rule 1: containing must name a text"),
            (
                r#"{"rules": [{"fault": "held", "every": 1, "hold_ms": 60001}]}"#,
                "rule 1: hold_ms must be at most 60000",
            ),
            (
                r#"{"rules": [{"service": "dynamodb", "fault": "duplicated", "every": 1}]}"#,
                "rule 1: Duplicated happens to SQS alone",
            ),
            (
                r#"{"rules": [{"action": "SendMessage", "fault": "partial", "every": 1}]}"#,
                "rule 1: Partial happens to SendMessageBatch, DeleteMessageBatch, ChangeMessageVisibilityBatch, not to SendMessage",
            ),
        ];
        for (plan, expected) in rows {
            assert_eq!(plan.parse::<FaultPlan>().unwrap_err().to_string(), expected, "{plan}");
        }
    }

    #[test]
    fn a_plan_reads_as_it_was_written() {
        let text = r#"{"seed": 7, "rules": [{"service": "sqs", "action": "SendMessage", "fault": "cut_after", "probability": 0.25, "times": 4}]}"#;
        let plan: FaultPlan = text.parse().unwrap();
        assert_eq!(serde_json::to_string(&plan).unwrap().parse::<FaultPlan>().unwrap(), plan);
    }
}
