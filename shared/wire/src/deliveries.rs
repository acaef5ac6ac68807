//! Webhook deliveries on the wire: which events of a job were reported, and what each try came to.

use longhaul_engine::delivery::{DeliveryState, Outcome, Try, WhyFailed};
use longhaul_engine::{Delivery, JobId, Seq};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::events::Event;
use crate::schemas;
use crate::text::rfc3339;

/// The id of a delivery: the `webhook-id` that its receiver sees, the same at every try. It holds no full stop, since the
/// signature puts one behind it.
#[must_use]
pub fn delivery_id(job: JobId, seq: Seq) -> String {
    format!("evt_{}_{}", job.as_uuid().simple(), seq.0)
}

/// The position in the id of a delivery of this job; none when it is another's, or none at all.
#[must_use]
pub fn delivery_seq(job: JobId, id: &str) -> Option<Seq> {
    let seq = Seq(id.rsplit_once('_')?.1.parse().ok()?);
    (delivery_id(job, seq) == id).then_some(seq)
}

/// Whether an event is one that a job reports whose order names these types: without any, its end.
#[must_use]
pub fn reported(types: &[String], event: &Event) -> bool {
    if types.is_empty() { event.is_end() } else { types.iter().any(|wanted| wanted == event.kind.as_str()) }
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DeliveryStatus {
    /// It is to be tried, or tried again.
    Pending,
    /// The receiver has taken it.
    Delivered,
    /// It is not tried any more; a resend tries it again.
    Failed,
}

/// Why a delivery is not tried any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryFailure {
    /// It was tried as often as it may be.
    TriesUsed,
    /// The receiver answered 410: it wants no more, neither this event nor a later one of the job.
    Gone,
    /// The address is none that may be reached.
    AddressRefused,
}

/// One try of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TryView {
    /// When it began.
    #[schema(schema_with = schemas::time)]
    pub at: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The status of the receiver's answer; none when there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The beginning of an answer that was no success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    /// Why there was no answer, or nothing was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl TryView {
    fn of(made: &Try) -> Self {
        let (status, excerpt, reason) = match &made.outcome {
            Outcome::Answered { status, excerpt } => (Some(*status), excerpt.clone(), None),
            Outcome::NoAnswer { reason } | Outcome::Refused { reason } | Outcome::NotSent { reason } => {
                (None, None, Some(reason.clone()))
            }
        };
        Self { at: rfc3339(made.at), took_ms: made.took_ms, status, excerpt, reason }
    }
}

/// One event on its way to a job's webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    /// Its id, which the receiver sees as `webhook-id`.
    #[schema(example = "evt_0190b6a27d3c7c4e9b1f0a2b3c4d5e6f_12")]
    pub id: String,
    /// The event's position in the job's journal.
    pub sequence: u64,
    /// The event's type.
    #[serde(rename = "type")]
    #[schema(example = "longhaul.AgentJobCompleted")]
    pub kind: String,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<DeliveryFailure>,
    /// When the event was to be delivered first.
    #[schema(schema_with = schemas::time)]
    pub created_at: String,
    /// When it is tried next, while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schemas::time)]
    pub next_try_at: Option<String>,
    /// Tries since it was ordered, or ordered again.
    pub tries: u32,
    /// The last tries, oldest first.
    pub attempts: Vec<TryView>,
}

impl DeliveryView {
    /// The delivery of this job as it is shown.
    #[must_use]
    pub fn of(job: JobId, delivery: &Delivery) -> Self {
        let (status, failure, next) = match delivery.state {
            DeliveryState::Pending { due } => (DeliveryStatus::Pending, None, Some(due)),
            DeliveryState::Delivered { .. } => (DeliveryStatus::Delivered, None, None),
            DeliveryState::Failed { why, .. } => (DeliveryStatus::Failed, Some(failure(why)), None),
        };
        Self {
            id: delivery_id(job, delivery.seq),
            sequence: delivery.seq.0,
            kind: delivery.event.clone(),
            status,
            failure,
            created_at: rfc3339(delivery.created_at),
            next_try_at: next.map(rfc3339),
            tries: delivery.tries,
            attempts: delivery.tried.iter().map(TryView::of).collect(),
        }
    }
}

const fn failure(why: WhyFailed) -> DeliveryFailure {
    match why {
        WhyFailed::TriesUsed => DeliveryFailure::TriesUsed,
        WhyFailed::Gone => DeliveryFailure::Gone,
        WhyFailed::AddressRefused => DeliveryFailure::AddressRefused,
    }
}

/// A page of a job's deliveries, by position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeliveryList {
    /// The deliveries behind `after`.
    pub deliveries: Vec<DeliveryView>,
    /// The parameter `after` of the next page; none when this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn an_id_belongs_to_one_job() {
        let job: JobId = "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f".parse().unwrap();
        let other: JobId = "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e70".parse().unwrap();
        let id = delivery_id(job, Seq(12));
        assert_eq!(id, "evt_0190b6a27d3c7c4e9b1f0a2b3c4d5e6f_12");
        assert_eq!(delivery_seq(job, &id), Some(Seq(12)));
        assert_eq!(delivery_seq(other, &id), None);
        for text in [
            "",
            "evt",
            "evt__12",
            "12",
            "evt_0190b6a27d3c7c4e9b1f0a2b3c4d5e6f_012",
            "evt_0190b6a27d3c7c4e9b1f0a2b3c4d5e6f_+12",
        ] {
            assert_eq!(delivery_seq(job, text), None, "{text}");
        }
    }
}
