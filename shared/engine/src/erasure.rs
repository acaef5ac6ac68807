//! The erasure of a tenant's data: in which order what goes, and when it has gone.
//!
//! Nobody is stopped in the middle of what may happen once only, so jobs are ended in the ordinary way first. A job is
//! removed when it has ended; who had read it before that may still write to it, for as long as an invocation lives. So
//! its id is kept, and after a rest that is longer everything is looked at a second time.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::ids::TenantId;
use crate::time::Timestamp;

/// An erasure's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErasureId(Uuid);

impl ErasureId {
    /// The id of a UUID.
    #[must_use]
    pub const fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }
}

impl std::fmt::Display for ErasureId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for ErasureId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

/// How far an erasure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// Open jobs are cancelled, and those that have ended are removed.
    Jobs,
    /// What belongs to no job is removed: definitions, settings, connections, dead letters.
    Rest,
    /// Everything has gone. Whoever had read a job before may write to it until then.
    Waiting {
        /// When nobody does any more.
        until: Timestamp,
    },
    /// What was written late is removed.
    Again,
    /// There is nothing left but this record.
    Done {
        /// Since when.
        at: Timestamp,
    },
}

/// How much was removed, as far as it was written down: a sweep that died may have removed more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Erased {
    /// Jobs.
    pub jobs: u64,
    /// Items of the table, those of jobs included.
    pub items: u64,
    /// Objects of the bucket.
    pub objects: u64,
    /// Messages of the dead-letter queue.
    pub letters: u64,
}

impl Erased {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            jobs: self.jobs.saturating_add(other.jobs),
            items: self.items.saturating_add(other.items),
            objects: self.objects.saturating_add(other.objects),
            letters: self.letters.saturating_add(other.letters),
        }
    }
}

/// The erasure of all data of a tenant. It is also its own record, which is what stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// Its id.
    pub id: ErasureId,
    /// Whose data goes.
    pub tenant: TenantId,
    /// The subject who asked for it.
    pub requested_by: String,
    /// When.
    pub requested_at: Timestamp,
    /// How far it is.
    #[serde(flatten)]
    pub stage: Stage,
    /// Jobs that had not ended at the last look; they were asked to.
    #[serde(default)]
    pub open: u64,
    /// What was removed so far.
    #[serde(default)]
    pub erased: Erased,
}

/// What a look at a tenant's jobs found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jobs {
    /// None.
    None,
    /// Some were removed, so that others may be seen now.
    Removed,
    /// Some have not ended.
    Open(u64),
}

impl Erasure {
    /// One that has just been asked for.
    #[must_use]
    pub fn asked(id: ErasureId, tenant: TenantId, by: String, now: Timestamp) -> Self {
        Self { id, tenant, requested_by: by, requested_at: now, stage: Stage::Jobs, open: 0, erased: Erased::default() }
    }

    /// When it has to be looked after; none when it is done.
    #[must_use]
    pub const fn due(&self) -> Option<Timestamp> {
        match self.stage {
            Stage::Jobs | Stage::Rest | Stage::Again => Some(self.requested_at),
            Stage::Waiting { until } => Some(until),
            Stage::Done { .. } => None,
        }
    }

    /// What it is after a whole look at the tenant's jobs, and whether it can go on at once: jobs that have not ended are
    /// for the next sweep.
    #[must_use]
    pub fn after_jobs(self, found: Jobs) -> (Self, bool) {
        match found {
            Jobs::None => {
                let stage = match self.stage {
                    Stage::Again => Stage::Again,
                    Stage::Jobs | Stage::Rest | Stage::Waiting { .. } | Stage::Done { .. } => Stage::Rest,
                };
                (Self { stage, open: 0, ..self }, true)
            }
            // What was removed only now has had no rest.
            Jobs::Removed => (Self { stage: Stage::Jobs, open: 0, ..self }, true),
            Jobs::Open(open) => (Self { stage: Stage::Jobs, open, ..self }, false),
        }
    }

    /// What it is once everything beside jobs has gone: after the first look it rests, after the second it is done.
    #[must_use]
    pub fn after_rest(self, now: Timestamp, rest: Duration) -> Self {
        let stage = match self.stage {
            Stage::Jobs | Stage::Rest | Stage::Waiting { .. } => Stage::Waiting { until: now.plus(rest) },
            Stage::Again => Stage::Done { at: now },
            Stage::Done { at } => Stage::Done { at },
        };
        Self { stage, ..self }
    }

    /// What it is at `now`: a rest may be over.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        match self.stage {
            Stage::Waiting { until } if until <= now => Self { stage: Stage::Again, ..self },
            Stage::Waiting { .. } | Stage::Jobs | Stage::Rest | Stage::Again | Stage::Done { .. } => self,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_795_953_600_000);
    const REST: Duration = Duration::from_secs(960);

    fn asked() -> Erasure {
        Erasure::asked(ErasureId::from_uuid(Uuid::from_u128(7)), "acme".parse().unwrap(), "ada".to_owned(), NOW)
    }

    #[test]
    fn it_ends_after_a_second_look_that_finds_no_job() {
        let (erasure, on) = asked().after_jobs(Jobs::Open(3));
        assert_eq!((erasure.stage, erasure.open, on), (Stage::Jobs, 3, false));
        let (erasure, on) = erasure.after_jobs(Jobs::Removed);
        assert_eq!((erasure.stage, on), (Stage::Jobs, true));
        let (erasure, on) = erasure.after_jobs(Jobs::None);
        assert_eq!((erasure.stage, erasure.open, on), (Stage::Rest, 0, true));
        let erasure = erasure.after_rest(NOW, REST);
        let until = NOW.plus(REST);
        assert_eq!((erasure.stage, erasure.due()), (Stage::Waiting { until }, Some(until)));
        assert_eq!(erasure.clone().at(NOW).stage, Stage::Waiting { until });
        let erasure = erasure.at(until);
        assert_eq!(erasure.stage, Stage::Again);
        // A job that was found only now rests like the others.
        assert_eq!(erasure.clone().after_jobs(Jobs::Removed).0.stage, Stage::Jobs);
        assert_eq!(erasure.clone().after_jobs(Jobs::Open(1)).0.stage, Stage::Jobs);
        let erasure = erasure.after_jobs(Jobs::None).0.after_rest(until, REST);
        assert_eq!((erasure.stage, erasure.due()), (Stage::Done { at: until }, None));
    }

    #[test]
    fn it_is_stored_as_it_was_first() {
        let stored = r#"{"id":"00000000-0000-0000-0000-000000000007","tenant":"acme","requested_by":"ada","requested_at":1795953600000,"stage":"waiting","until":1795954560000,"open":0,"erased":{"jobs":2,"items":9,"objects":1,"letters":1}}"#;
        let erased = Erased { jobs: 2, items: 9, objects: 1, letters: 1 };
        let erasure = Erasure { stage: Stage::Waiting { until: NOW.plus(REST) }, erased, ..asked() };
        assert_eq!(serde_json::to_string(&erasure).unwrap(), stored);
        assert_eq!(serde_json::from_str::<Erasure>(stored).unwrap(), erasure);
    }
}
