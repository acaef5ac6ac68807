//! Points in time as the protocol stores them: whole milliseconds since the Unix epoch.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The timestamp that is `millis` after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, as DynamoDB's expiry attribute wants them.
    #[must_use]
    pub const fn as_seconds(self) -> u64 {
        self.0 / 1_000
    }

    /// This time and `duration`; stops at the largest time that can be written down.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// How long until `later`; zero when that has passed.
    #[must_use]
    pub const fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }

    /// How long since `earlier`; zero when that is still to come.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        earlier.until(self)
    }
}
