//! The wall clock of one invocation: read once, then carried on by the monotonic clock.
//!
//! A machine's wall clock may jump while a job is driven; deadlines and heartbeats must not. Under tokio's paused time
//! the same clock is virtual, which is how the simulator drives years in seconds.

use std::time::Duration;

use longhaul_engine::Timestamp;
use tokio::time::Instant;

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

    /// A clock set by the machine's own.
    #[must_use]
    pub fn of_machine() -> Self {
        let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self::set_to(Timestamp::from_millis(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)))
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
