//! What may go wrong, and how often.

use std::ops::RangeInclusive;
use std::time::Duration;

use longhaul::store::StoreError;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What may go wrong in a world. Chances are in thousandths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    /// With calls of the store.
    pub calls: CallFaults,
    /// With messages.
    pub queue: QueueFaults,
}

/// What may go wrong with a call of the store, sends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallFaults {
    /// It fails and nothing happened.
    pub fail_before_permille: u32,
    /// It fails though the write took effect.
    pub fail_after_permille: u32,
    /// The write is made twice and the second answer is given, as when the SDK repeats a call whose answer was lost.
    pub repeat_permille: u32,
    /// It fails, and the write takes effect later, within [`CallFaults::late_max`].
    pub late_permille: u32,
    /// How late a late write can be.
    pub late_max: Duration,
    /// How long a call takes.
    pub latency: RangeInclusive<Duration>,
}

impl Default for CallFaults {
    fn default() -> Self {
        Self {
            fail_before_permille: 0,
            fail_after_permille: 0,
            repeat_permille: 0,
            late_permille: 0,
            late_max: Duration::from_secs(30),
            latency: Duration::ZERO..=Duration::ZERO,
        }
    }
}

/// What may go wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueFaults {
    /// It is never delivered.
    pub lose_permille: u32,
    /// It is delivered twice.
    pub duplicate_permille: u32,
    /// It comes later than asked for, by up to this, and so may be overtaken.
    pub delay_max: Duration,
    /// How long a message stays hidden from others once it was received.
    pub visibility: Duration,
}

impl Default for QueueFaults {
    fn default() -> Self {
        Self {
            lose_permille: 0,
            duplicate_permille: 0,
            delay_max: Duration::ZERO,
            // As the template has it: six times the longest invocation.
            visibility: Duration::from_secs(6 * 900),
        }
    }
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Fine,
    FailBefore,
    FailAfter,
    Repeat,
    Late(Duration),
}

/// Chance, by a seed.
#[derive(Debug)]
pub(crate) struct Dice(StdRng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Whether something happens that has this chance.
    pub(crate) fn falls(&mut self, permille: u32) -> bool {
        // No draw for what cannot happen: then switching one fault off leaves the others' draws alone.
        permille > 0 && self.0.random_range(0..1_000) < permille
    }

    /// A length of time up to `max`.
    pub(crate) fn up_to(&mut self, max: Duration) -> Duration {
        self.between(&(Duration::ZERO..=max))
    }

    /// A length of time in a range, in whole milliseconds.
    pub(crate) fn between(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let millis = |duration: &Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (from, to) = (millis(range.start()), millis(range.end()));
        if from >= to { *range.start() } else { Duration::from_millis(self.0.random_range(from..=to)) }
    }

    /// What becomes of a write.
    pub(crate) fn fate_of_write(&mut self, faults: &CallFaults) -> Fate {
        if self.falls(faults.fail_before_permille) {
            Fate::FailBefore
        } else if self.falls(faults.fail_after_permille) {
            Fate::FailAfter
        } else if self.falls(faults.repeat_permille) {
            Fate::Repeat
        } else if self.falls(faults.late_permille) {
            Fate::Late(self.up_to(faults.late_max))
        } else {
            Fate::Fine
        }
    }

    /// What becomes of a read.
    pub(crate) fn fate_of_read(&mut self, faults: &CallFaults) -> Fate {
        if self.falls(faults.fail_before_permille) { Fate::FailBefore } else { Fate::Fine }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the simulation said so")]
struct OnPurpose;

/// The error of a call that fails on purpose.
pub(crate) fn failure(action: &'static str) -> StoreError {
    StoreError::Unavailable { action, source: Box::new(OnPurpose) }
}
