//! The wall clock of one invocation: read once, then carried on by the monotonic clock.
//!
//! A machine's wall clock may jump while a job is driven; deadlines and heartbeats must not. Under tokio's paused time
//! the same clock is virtual, which is how the simulator drives years in seconds.

use std::sync::OnceLock;
use std::time::Duration;

use longhaul_engine::Timestamp;
use tokio::time::Instant;

/// The environment variable by which tests move this process's clock: seconds, negative for a clock that is behind.
/// Nothing is safe by a clock (protocol rule 5), and this is how that is shown with real processes. Never set it else.
pub const OFFSET_VARIABLE: &str = "LONGHAUL_CLOCK_OFFSET_SECONDS";

/// A wall clock that cannot jump.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    read_at: Instant,
    wall: Timestamp,
}

impl Clock {
    /// A clock that shows `wall` now.
    #[must_use]
    pub fn set_to(wall: Timestamp) -> Self {
        Self { read_at: Instant::now(), wall }
    }

    /// A clock set by the machine's own, and wrong by [`OFFSET_VARIABLE`] where that is set.
    #[must_use]
    pub fn of_machine() -> Self {
        static OFFSET_MS: OnceLock<i64> = OnceLock::new();
        let offset_ms = *OFFSET_MS.get_or_init(|| offset_ms(std::env::var(OFFSET_VARIABLE).ok().as_deref()));
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
        Self::set_to(Timestamp::from_millis(millis.saturating_add_signed(offset_ms)))
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.wall.plus(self.read_at.elapsed())
    }

    /// Waits until `time`.
    pub async fn sleep_until(&self, time: Timestamp) {
        tokio::time::sleep(self.now().until(time)).await;
    }

    /// Waits for `duration`.
    pub async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// What the variable says, in milliseconds. A value that is no number moves nothing: it is a test's own fault.
fn offset_ms(value: Option<&str>) -> i64 {
    value.and_then(|seconds| seconds.trim().parse::<i64>().ok()).unwrap_or_default().saturating_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_whole_seconds_or_nothing() {
        let rows = [
            (None, 0),
            (Some("90"), 90_000),
            (Some(" -90 "), -90_000),
            (Some("soon"), 0),
            (Some(""), 0),
            (Some("1.5"), 0),
        ];
        for (value, expected) in rows {
            assert_eq!(offset_ms(value), expected, "{value:?}");
        }
    }
}
