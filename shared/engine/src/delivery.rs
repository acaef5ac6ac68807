//! A webhook delivery: one event on its way to one address, and what each try came to.
//!
//! A delivery is stored, so that it outlives the invocation that tried it: it waits as an item with a due time, whoever
//! is woken for it looks at that item alone, and a repeated wake-up finds nothing to do. Receivers take an event once by
//! its id, so a delivery is made at least once and never more often than it must.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, Seq};
use crate::limits;
use crate::retry::with_jitter;
use crate::time::Timestamp;

/// One event to one address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The journal position of the event: a job has one delivery for each.
    pub seq: Seq,
    /// The event's type.
    pub event: String,
    /// When the event was to be delivered first.
    pub created_at: Timestamp,
    /// Where it stands.
    pub state: DeliveryState,
    /// Tries since it was ordered, or ordered again.
    pub tries: u32,
    /// What the last tries came to, oldest first, at most [`limits::DELIVERY_TRIES_KEPT`].
    #[serde(default)]
    pub tried: Vec<Try>,
}

/// Where a delivery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is to be tried, or tried again.
    Pending {
        /// Not before this time.
        due: Timestamp,
    },
    /// The receiver has taken it.
    Delivered {
        /// When.
        at: Timestamp,
    },
    /// It is not tried any more, until a person asks for it.
    Failed {
        /// When that was decided.
        at: Timestamp,
        /// Why.
        why: WhyFailed,
    },
}

/// Why a delivery is not tried any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyFailed {
    /// It was tried as often as it may be.
    TriesUsed,
    /// The receiver says that it wants no more (410): neither this event nor a later one of the job.
    Gone,
    /// The address is none that may be reached.
    AddressRefused,
}

/// One try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Try {
    /// When it began.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What came of a try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The receiver answered.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The beginning of its answer, where that was no success.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        excerpt: Option<String>,
    },
    /// No answer came.
    NoAnswer {
        /// Why, in words.
        reason: String,
    },
    /// The address may not be reached; nothing was sent.
    Refused {
        /// Why, in words.
        reason: String,
    },
    /// It could not be signed, or not be read; nothing was sent.
    NotSent {
        /// Why, in words.
        reason: String,
    },
}

impl Outcome {
    /// What it is in two words, without anything that the receiver said.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Answered { status: 200..=299, .. } => "taken",
            Self::Answered { .. } => "answered otherwise",
            Self::NoAnswer { .. } => "no answer",
            Self::Refused { .. } => "address refused",
            Self::NotSent { .. } => "not sent",
        }
    }
}

impl Delivery {
    /// An event that is to be delivered at once.
    #[must_use]
    pub const fn ordered(seq: Seq, event: String, now: Timestamp) -> Self {
        Self { seq, event, created_at: now, state: DeliveryState::Pending { due: now }, tries: 0, tried: Vec::new() }
    }

    /// The same, ordered again by a person. What was tried before stays in the log.
    #[must_use]
    pub fn ordered_again(self, now: Timestamp) -> Self {
        Self { state: DeliveryState::Pending { due: now }, tries: 0, ..self }
    }

    /// What is to be done about it at `now`.
    #[must_use]
    pub const fn step(&self, now: Timestamp) -> Step {
        match self.state {
            // Tries that were begun and never settled count as well: what kills whoever tries it must not do so for ever.
            DeliveryState::Pending { due } if due.as_millis() <= now.as_millis() => {
                if self.tries as usize > limits::DELIVERY_WAITS_SECONDS.len() { Step::GiveUp } else { Step::Try }
            }
            DeliveryState::Pending { due } => Step::Wait { due },
            DeliveryState::Delivered { .. } | DeliveryState::Failed { .. } => Step::Nothing,
        }
    }

    /// The delivery when its tries are used up and none of the last was settled.
    #[must_use]
    pub fn given_up(self, now: Timestamp) -> Self {
        Self { state: DeliveryState::Failed { at: now, why: WhyFailed::TriesUsed }, ..self }
    }

    /// The delivery as it is stored before a try, so that nobody else tries at the same time. Should the process die in
    /// it, the delivery is due again when no try can still be running.
    #[must_use]
    pub fn begun(self, now: Timestamp) -> Self {
        let due = now.plus(Duration::from_secs(limits::DELIVERY_TRY_LEASE_SECONDS));
        Self { state: DeliveryState::Pending { due }, tries: self.tries.saturating_add(1), ..self }
    }

    /// The delivery after a try that ended at `now`. `retry_after` is what the receiver asked for.
    #[must_use]
    pub fn tried(mut self, job: JobId, made: Try, retry_after: Option<Duration>, now: Timestamp) -> Self {
        self.state = match &made.outcome {
            Outcome::Answered { status: 200..=299, .. } => DeliveryState::Delivered { at: now },
            Outcome::Answered { status: 410, .. } => DeliveryState::Failed { at: now, why: WhyFailed::Gone },
            Outcome::Refused { .. } => DeliveryState::Failed { at: now, why: WhyFailed::AddressRefused },
            // Every other answer may be a deployment or a typing error of the receiver's that is mended within the day.
            Outcome::Answered { .. } | Outcome::NoAnswer { .. } | Outcome::NotSent { .. } => {
                match self.wait(job, retry_after) {
                    Some(wait) => DeliveryState::Pending { due: now.plus(wait) },
                    None => DeliveryState::Failed { at: now, why: WhyFailed::TriesUsed },
                }
            }
        };
        self.log(made);
        self
    }

    /// The delivery of an event of a job whose receiver wants no more.
    #[must_use]
    pub fn not_wanted(self, now: Timestamp) -> Self {
        Self { state: DeliveryState::Failed { at: now, why: WhyFailed::Gone }, ..self }
    }

    /// Whether the receiver has said that it wants no more.
    #[must_use]
    pub const fn wants_no_more(&self) -> bool {
        matches!(self.state, DeliveryState::Failed { why: WhyFailed::Gone, .. })
    }

    /// Adds a try to the log.
    pub fn log(&mut self, made: Try) {
        self.tried.push(made);
        let over = self.tried.len().saturating_sub(limits::DELIVERY_TRIES_KEPT);
        self.tried.drain(..over);
    }

    /// The wait before the next try; none when there is none.
    fn wait(&self, job: JobId, retry_after: Option<Duration>) -> Option<Duration> {
        let made = usize::try_from(self.tries.max(1)).unwrap_or(usize::MAX);
        let distance = *limits::DELIVERY_WAITS_SECONDS.get(made.saturating_sub(1))?;
        let asked = retry_after.map_or(0, |asked| asked.as_secs().min(limits::DELIVERY_RETRY_AFTER_MAX_SECONDS));
        let wait_ms = distance.max(asked).saturating_mul(1_000);
        let bytes = job.as_uuid().into_bytes().into_iter().chain(self.seq.0.to_le_bytes());
        Some(with_jitter(wait_ms, bytes.chain(self.tries.to_le_bytes())))
    }
}

/// What is to be done about a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Try it.
    Try,
    /// All its tries were begun: it has failed.
    GiveUp,
    /// Come back.
    Wait {
        /// Not before this time.
        due: Timestamp,
    },
    /// It is settled.
    Nothing,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_795_953_600_000);

    fn job() -> JobId {
        "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f".parse().unwrap()
    }

    fn answered(status: u16) -> Try {
        Try { at: NOW, took_ms: 7, outcome: Outcome::Answered { status, excerpt: None } }
    }

    fn after(tries: u32, made: Try, retry_after: Option<u64>) -> DeliveryState {
        let delivery = Delivery { tries, ..Delivery::ordered(Seq(2), "e".to_owned(), NOW) };
        delivery.tried(job(), made, retry_after.map(Duration::from_secs), NOW).state
    }

    fn wait(tries: u32, made: Try, retry_after: Option<u64>) -> Option<u64> {
        match after(tries, made, retry_after) {
            DeliveryState::Pending { due } => Some(NOW.until(due).as_secs()),
            DeliveryState::Delivered { .. } | DeliveryState::Failed { .. } => None,
        }
    }

    #[test]
    fn an_answer_decides() {
        for status in [200, 202, 204, 299] {
            assert_eq!(after(1, answered(status), Some(60)), DeliveryState::Delivered { at: NOW }, "{status}");
        }
        assert_eq!(after(1, answered(410), None), DeliveryState::Failed { at: NOW, why: WhyFailed::Gone });
        let refused = Outcome::Refused { reason: "inside".to_owned() };
        let refused = Try { outcome: refused, ..answered(0) };
        assert_eq!(after(1, refused, None), DeliveryState::Failed { at: NOW, why: WhyFailed::AddressRefused });
        for status in [301, 302, 400, 401, 404, 408, 429, 500, 503] {
            assert!(wait(1, answered(status), None).is_some(), "{status}");
        }
    }

    #[test]
    fn the_distance_grows_and_ends() {
        let waits = limits::DELIVERY_WAITS_SECONDS;
        for (made, seconds) in (1_u32..).zip(waits) {
            let found = wait(made, answered(500), None).unwrap();
            assert!((seconds..=seconds + seconds / 5).contains(&found), "after {made}: {found} s, not {seconds}");
        }
        let last = u32::try_from(waits.len()).unwrap() + 1;
        let given_up = DeliveryState::Failed { at: NOW, why: WhyFailed::TriesUsed };
        assert_eq!(after(last, answered(500), Some(1)), given_up);
    }

    #[test]
    fn tries_that_nobody_settled_end_as_well() {
        let most = u32::try_from(limits::DELIVERY_WAITS_SECONDS.len()).unwrap();
        let begun = |tries| Delivery { tries, ..Delivery::ordered(Seq(2), "e".to_owned(), NOW) };
        assert_eq!((begun(most).step(NOW), begun(most + 1).step(NOW)), (Step::Try, Step::GiveUp));
        let given_up = begun(most + 1).given_up(NOW);
        assert_eq!(given_up.state, DeliveryState::Failed { at: NOW, why: WhyFailed::TriesUsed });
        assert_eq!(given_up.step(NOW), Step::Nothing);
    }

    #[test]
    fn what_the_receiver_asks_for_stands_above_the_distance() {
        // What it asks for, and the least and most that it gets.
        for (asked, least, most) in
            [(0, 5, 6), (3, 5, 6), (60, 60, 72), (86_400, 86_400, 103_680), (u64::MAX, 86_400, 103_680)]
        {
            let found = wait(1, answered(429), Some(asked)).unwrap();
            assert!((least..=most).contains(&found), "{asked}: {found}");
        }
    }

    #[test]
    fn it_is_tried_when_it_is_due_and_by_one_at_a_time() {
        let ordered = Delivery::ordered(Seq(2), "e".to_owned(), NOW);
        assert_eq!(ordered.step(NOW), Step::Try);
        let begun = ordered.begun(NOW);
        assert!(matches!(begun.step(NOW), Step::Wait { due } if due > NOW), "somebody tries it");
        let due = NOW.plus(Duration::from_secs(limits::DELIVERY_TRY_LEASE_SECONDS));
        assert_eq!(begun.step(due), Step::Try, "whoever tried it has died");
        let settled = begun.tried(job(), answered(200), None, NOW);
        assert_eq!(settled.step(due), Step::Nothing);
        let again = settled.ordered_again(due);
        assert_eq!((again.step(due), again.tries, again.tried.len()), (Step::Try, 0, 1));
    }

    #[test]
    fn the_log_is_bounded() {
        let mut delivery = Delivery::ordered(Seq(2), "e".to_owned(), NOW);
        for status in 500..600 {
            delivery.log(answered(status));
        }
        assert_eq!(delivery.tried.len(), limits::DELIVERY_TRIES_KEPT);
        assert_eq!(delivery.tried.last(), Some(&answered(599)));
    }
}
