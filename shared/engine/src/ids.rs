//! Names of things, each a type of its own so that one cannot stand where another is meant.

mod reserved;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::limits;
use crate::time::Timestamp;

/// Why a text is not the id it was taken for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// A job id is a UUID.
    #[error("a job id is a UUID such as 0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f")]
    Job,
    /// The text is empty, too long or holds a character that ids may not have.
    #[error("{what} has 1 to {length_max} characters out of letters, digits, '-', '_', '.' and ':'")]
    Text {
        /// Which id was asked for.
        what: &'static str,
        /// The most characters it may have.
        length_max: usize,
    },
}

/// A text id: short, printable, safe in keys, addresses and logs.
fn checked(text: &str, what: &'static str, length_max: usize) -> Result<String, IdError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if text.is_empty() || text.len() > length_max || !text.chars().all(allowed) {
        return Err(IdError::Text { what, length_max });
    }
    Ok(text.to_owned())
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $length_max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                checked(text, $what, $length_max).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// Owner of data, quota and rights.
    TenantId, "a tenant", limits::TENANT_LENGTH_MAX
);
text_id!(
    /// What an agent is called.
    AgentName, "an agent name", limits::AGENT_NAME_LENGTH_MAX
);
text_id!(
    /// What a signal is called.
    SignalName, "a signal name", limits::SIGNAL_NAME_LENGTH_MAX
);
text_id!(
    /// A signal's own idempotency key: one key is taken in once a job.
    SignalKey, "a signal key", limits::IDEMPOTENCY_KEY_LENGTH_MAX
);
text_id!(
    /// What a tenant calls jobs that run one after another.
    ThreadId, "a thread", limits::THREAD_LENGTH_MAX
);
text_id!(
    /// What a tenant calls a schedule.
    ScheduleName, "a schedule", limits::SCHEDULE_NAME_LENGTH_MAX
);
text_id!(
    /// One worker invocation. New for each invocation, so that a lease never outlives the process that took it.
    SessionId, "a session", limits::SESSION_LENGTH_MAX
);

/// An agent at one version. A job stays on the version that it began with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AgentRef {
    /// The agent's name.
    pub name: AgentName,
    /// Its version, counted from 1.
    pub version: u32,
}

impl fmt::Display for AgentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

/// One job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

/// The namespace of job ids that are made from a tenant and an idempotency key (UUIDv5, RFC 9562).
const KEYED_JOBS: Uuid = Uuid::from_u128(0x6c6f_6e67_6861_756c_8a0d_6b65_7965_6401);
/// The namespace of the ids of jobs that schedules submit.
const SCHEDULED_JOBS: Uuid = Uuid::from_u128(0x6c6f_6e67_6861_756c_8a0d_7469_6d65_6403);
/// The namespace of the ids of child jobs.
const CHILD_JOBS: Uuid = Uuid::from_u128(0x6c6f_6e67_6861_756c_8a0d_6368_696c_6402);

impl JobId {
    /// The id that stands for this tenant's idempotency key: the same key gives the same job, so that one conditional
    /// put both submits and finds the earlier submission.
    #[must_use]
    pub fn of_key(tenant: &TenantId, key: &str) -> Self {
        // The length in front keeps ("a", "b:c") and ("a:b", "c") apart.
        let name = format!("{}:{}:{key}", tenant.as_str().len(), tenant);
        Self(Uuid::new_v5(&KEYED_JOBS, name.as_bytes()))
    }

    /// The id of the job that a schedule submits for a time: whoever submits it again meets the job that is there.
    #[must_use]
    pub fn of_schedule(tenant: &TenantId, schedule: &ScheduleName, time: Timestamp) -> Self {
        // The lengths in front keep the parts apart.
        let (tenant, schedule) = (tenant.as_str(), schedule.as_str());
        let name = format!("{}:{tenant}:{}:{schedule}:{}", tenant.len(), schedule.len(), time.as_millis());
        Self(Uuid::new_v5(&SCHEDULED_JOBS, name.as_bytes()))
    }

    /// The id of the child that `step` of the job `parent` starts, the same at every replay.
    #[must_use]
    pub fn of_child(parent: Self, step: &StepKey) -> Self {
        Self(Uuid::new_v5(&CHILD_JOBS, format!("{parent}/{step}").as_bytes()))
    }

    /// The job with this UUID (UUIDv7 where the caller gave no key).
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The id as a UUID.
    #[must_use]
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl FromStr for JobId {
    type Err = IdError;
    fn from_str(text: &str) -> Result<Self, IdError> {
        // Only as it is written itself, hyphenated and in small letters: one job has one address.
        match Uuid::try_parse(text) {
            Ok(uuid) if uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text => Ok(Self(uuid)),
            Ok(_) | Err(_) => Err(IdError::Job),
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_hyphenated())
    }
}

/// The mark of one logical write. A writer whose condition failed looks for its own mark: finding it means that the
/// write had gone through and was only repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nonce(Uuid);

impl Nonce {
    /// The mark with these 128 bits; the caller draws them.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The mark as a UUID.
    #[must_use]
    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

/// The number that grows with each claim of a job (its fencing token). Zero: never claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the next claim.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// An entry's position in its job's journal, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The first position of a journal.
    pub const FIRST: Self = Self(1);

    /// The position `count` further on.
    #[must_use]
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A step's place in its job: the positions of the branches it is in and its own, such as `2` or `1[3].0`. The same at
/// every replay of the same code; with the job id it makes the key that is sent with a side effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepKey(String);

impl StepKey {
    /// The key at `position` inside `scope` (empty for the job's own function).
    #[must_use]
    pub fn at(scope: &str, position: u64) -> Self {
        Self(format!("{scope}{position}"))
    }

    /// The scope of branch `index` of the fan-out that stands at this key.
    #[must_use]
    pub fn branch_scope(&self, index: usize) -> String {
        format!("{}[{index}].", self.0)
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
