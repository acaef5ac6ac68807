//! Who asked what, and what is to go wrong: the stand-in's memory, which tests read to prove that no step ran twice.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One request, as `GET /rehearsal/requests` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Counts all requests from 1.
    pub sequence: u64,
    /// The name of the asked schema.
    pub schema: Option<String>,
    /// SHA-256 of the messages as they were sent, in hexadecimal: equal for equal conversations.
    pub messages_hash: String,
    /// The `Idempotency-Key` header.
    pub idempotency_key: Option<String>,
    /// When the request arrived.
    pub started_at: Timestamp,
    /// Whether the whole answer was handed to the connection. A client that hung up, and a scripted cut, leave it false.
    pub finished: bool,
}

/// One thing that is to go wrong, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Only requests with this schema's name count; all do when it is absent.
    #[serde(default)]
    pub schema: Option<String>,
    /// Which of the counted requests is hit, from 1 for the next one.
    #[serde(default = "next")]
    pub nth: u64,
    /// Answer with this HTTP status and an error body.
    #[serde(default)]
    pub status: Option<u16>,
    /// With `status`: the `Retry-After` header, in seconds.
    #[serde(default)]
    pub retry_after: Option<u64>,
    /// Tear the connection down after so many bytes of the body.
    #[serde(default)]
    pub cut_after_bytes: Option<usize>,
    /// Decline to answer.
    #[serde(default)]
    pub refuse: bool,
    /// Think so much longer before answering, in milliseconds.
    #[serde(default)]
    pub think_ms: Option<u64>,
}

fn next() -> u64 {
    1
}

impl Fault {
    /// Whether the fault does anything at all.
    pub(super) fn has_effect(&self) -> bool {
        self.nth > 0
            && (self.status.is_some() || self.cut_after_bytes.is_some() || self.refuse || self.think_ms.is_some())
    }
}

#[derive(Debug, Default)]
struct Memory {
    requests: Vec<RequestRecord>,
    faults: Vec<Fault>,
}

/// The memory of one server.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Memory>);

impl Ledger {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        // A panic elsewhere leaves lists that are still whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request; its number, and the fault that hits it.
    pub(super) fn begin(
        &self,
        schema: Option<&str>,
        messages_hash: String,
        idempotency_key: Option<String>,
        started_at: Timestamp,
    ) -> (u64, Option<Fault>) {
        let mut memory = self.memory();
        let sequence = memory.requests.len() as u64 + 1;
        let schema = schema.map(str::to_owned);
        let mut hit = None;
        for (position, fault) in memory.faults.iter_mut().enumerate() {
            if fault.schema.is_none() || fault.schema == schema {
                fault.nth = fault.nth.saturating_sub(1);
                if fault.nth == 0 && hit.is_none() {
                    hit = Some(position);
                } else if fault.nth == 0 {
                    // Two faults for one request: the second one waits for the next.
                    fault.nth = 1;
                }
            }
        }
        let fault = hit.map(|position| memory.faults.remove(position));
        memory.requests.push(RequestRecord {
            sequence,
            schema,
            messages_hash,
            idempotency_key,
            started_at,
            finished: false,
        });
        (sequence, fault)
    }

    /// Notes that an answer is out.
    pub(super) fn finish(&self, sequence: u64) {
        let mut memory = self.memory();
        // Sequences count from 1 and none is left out; a soak has too many to look for one.
        let position = sequence.checked_sub(1).and_then(|position| usize::try_from(position).ok());
        if let Some(record) = position.and_then(|position| memory.requests.get_mut(position)) {
            record.finished = true;
        }
    }

    pub(super) fn requests(&self) -> Vec<RequestRecord> {
        self.memory().requests.clone()
    }

    /// Adds faults; how many are waiting then.
    pub(super) fn plan(&self, faults: Vec<Fault>) -> usize {
        let mut memory = self.memory();
        memory.faults.extend(faults);
        memory.faults.len()
    }
}
