//! Names and keys under which the product itself writes into journals, and which no caller may use.
//!
//! A job hears of its child's end, is cancelled with its parent or opened again with it by entries like those of a
//! caller. Each has a key, so that writing it once more changes nothing. The same key from outside would make the real
//! entry look written already, and it would be missing for ever: so their beginnings are refused ([`SignalKey::reserved`]).
//!
//! The keys of an erasure and of a dead letter have no beginning of their own and need none: whoever came first under
//! one of them has asked for the same, that the job end or that it go on.

use super::{JobId, Seq, SignalKey, SignalName};
use crate::erasure::ErasureId;

/// How a child reports its end: the beginning of the signal's name, and of its key.
const CHILD: &str = "child:";
/// What a fork has taken over of another job.
const FORK: &str = "fork:";
/// What cancels the jobs in front of one that was submitted to interrupt them.
const INTERRUPTED_BY: &str = "interrupted-by:";
/// What cancels the children of a job that has ended.
const PARENT_ENDED: &str = "parent-ended:";
/// What opens the children of a job again that was itself opened again.
const PARENT_REPLAYED: &str = "parent-replayed:";

/// All beginnings that keys of callers may not have.
const KEYS: [&str; 5] = [CHILD, FORK, INTERRUPTED_BY, PARENT_ENDED, PARENT_REPLAYED];

impl SignalName {
    /// The signal by which a parent learns of this child's end.
    #[must_use]
    pub fn of_child_end(child: JobId) -> Self {
        Self(format!("{CHILD}{child}"))
    }

    /// The beginning for which this name is refused to callers; none when they may use it.
    #[must_use]
    pub fn reserved(&self) -> Option<&'static str> {
        self.0.starts_with(CHILD).then_some(CHILD)
    }
}

impl SignalKey {
    /// The key under which a parent learns of the end of a child that was replayed so often: each end is told once.
    #[must_use]
    pub fn of_child_end(child: JobId, replays: u32) -> Self {
        Self(format!("{CHILD}{child}:{replays}"))
    }

    /// The key under which the children of a job that was replayed so often are cancelled when it ends. With the
    /// replays: a child that was cancelled once and goes on since is cancelled again.
    #[must_use]
    pub fn of_parent_end(parent: JobId, replays: u32) -> Self {
        Self(format!("{PARENT_ENDED}{parent}:{replays}"))
    }

    /// The key under which the children of a job are opened again that was itself opened again so often.
    #[must_use]
    pub fn of_parent_replay(parent: JobId, replays: u32) -> Self {
        Self(format!("{PARENT_REPLAYED}{parent}:{replays}"))
    }

    /// The key under which the jobs in front of this one in its thread are cancelled.
    #[must_use]
    pub fn of_interruption(by: JobId) -> Self {
        Self(format!("{INTERRUPTED_BY}{by}"))
    }

    /// The key of a signal that a fork takes over from this position of the other job.
    #[must_use]
    pub fn of_kept_signal(seq: Seq) -> Self {
        Self(format!("{FORK}{seq}"))
    }

    /// The key under which an erasure asks a job to end, so that each is asked once.
    #[must_use]
    pub fn of_erasure(erasure: ErasureId) -> Self {
        Self(format!("erase-{erasure}"))
    }

    /// The key under which a dead letter opens its job again that had ended behind `tail`. A letter that was sent or
    /// redriven twice is one replay; that of a later failure is another.
    #[must_use]
    pub fn of_redrive(tail: Seq) -> Self {
        Self(format!("redrive-{tail}"))
    }

    /// The beginning for which this key is refused to callers; none when they may use it.
    #[must_use]
    pub fn reserved(&self) -> Option<&'static str> {
        KEYS.into_iter().find(|prefix| self.0.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use uuid::Uuid;

    use super::*;

    /// They are made without a look at what a name and a key may be.
    #[test]
    fn what_is_made_here_is_a_name_and_a_key() {
        let job = JobId::from_uuid(Uuid::from_u128(u128::MAX));
        let name = SignalName::of_child_end(job);
        assert_eq!(name.as_str().parse::<SignalName>().unwrap(), name);
        for (key, is_reserved) in [
            (SignalKey::of_child_end(job, u32::MAX), true),
            (SignalKey::of_parent_end(job, u32::MAX), true),
            (SignalKey::of_parent_replay(job, u32::MAX), true),
            (SignalKey::of_interruption(job), true),
            (SignalKey::of_kept_signal(Seq(u64::MAX)), true),
            (SignalKey::of_erasure(ErasureId::from_uuid(Uuid::from_u128(u128::MAX))), false),
            (SignalKey::of_redrive(Seq(u64::MAX)), false),
        ] {
            assert_eq!(key.as_str().parse::<SignalKey>().unwrap(), key);
            assert_eq!(key.reserved().is_some(), is_reserved, "{key}");
        }
    }

    /// They stand in journals: jobs in flight are known by them.
    #[test]
    fn they_are_what_they_were_first() {
        let job: JobId = "0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f".parse().unwrap();
        let erasure = ErasureId::from_uuid(job.as_uuid());
        for (key, text) in [
            (SignalKey::of_child_end(job, 0), "child:0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f:0"),
            (SignalKey::of_parent_end(job, 1), "parent-ended:0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f:1"),
            (SignalKey::of_parent_replay(job, 2), "parent-replayed:0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f:2"),
            (SignalKey::of_interruption(job), "interrupted-by:0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f"),
            (SignalKey::of_kept_signal(Seq(3)), "fork:3"),
            (SignalKey::of_erasure(erasure), "erase-0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f"),
            (SignalKey::of_redrive(Seq(4)), "redrive-4"),
        ] {
            assert_eq!(key.as_str(), text);
        }
        assert_eq!(SignalName::of_child_end(job).as_str(), "child:0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f");
    }
}
