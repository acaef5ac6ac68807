//! Where a job spends a wait: inside the invocation, or released with nobody paying for it.

use std::time::Duration;

use crate::limits;
use crate::time::Timestamp;

/// How a wait is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// The worker stays: the wait is shorter than a release and a claim.
    Inside,
    /// The job is released.
    Released,
}

/// Decides for a wait until `until` in an invocation that ends at `deadline`.
#[must_use]
pub fn spent(now: Timestamp, until: Timestamp, deadline: Timestamp) -> Spent {
    let wait = now.until(until);
    let reserve = Duration::from_millis(limits::DEADLINE_RESERVE_MS);
    let fits = until.plus(reserve) < deadline;
    if wait <= Duration::from_millis(limits::INLINE_WAIT_MAX_MS) && fits { Spent::Inside } else { Spent::Released }
}

/// Whether something that takes up to `time_limit` may start in an invocation that ends at `deadline`.
#[must_use]
pub fn fits(now: Timestamp, time_limit: Duration, deadline: Timestamp) -> bool {
    now.plus(time_limit).plus(Duration::from_millis(limits::DEADLINE_RESERVE_MS)) <= deadline
}

/// How a released job comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComeBack {
    /// When the sweeper looks, in any case.
    pub due: Timestamp,
    /// The delay of the continuation to send; none when only the due time or a signal brings it back.
    pub message_delay: Option<Duration>,
}

/// Plans the return of a job that waits until `until` (none: for a signal alone).
#[must_use]
pub fn come_back(now: Timestamp, until: Option<Timestamp>) -> ComeBack {
    let slack = Duration::from_millis(limits::CONTINUATION_DUE_MS);
    let look = Duration::from_millis(limits::SWEEP_DISTANCE_FIRST_MS);
    match until {
        None => ComeBack { due: now.plus(look), message_delay: None },
        Some(until) => {
            let wait = now.until(until);
            if wait <= Duration::from_secs(limits::MESSAGE_DELAY_MAX_SECONDS) {
                // The message is the fast way; the due time, a little later, is the net under it.
                ComeBack { due: until.plus(slack), message_delay: Some(whole_seconds(wait)) }
            } else {
                // Sooner than the wait's end: a signal whose sender died between the journal and the wake is found by a
                // look, and the looks grow rarer.
                ComeBack { due: until.min(now.plus(look)), message_delay: None }
            }
        }
    }
}

/// A queue counts delays in whole seconds; a message that came too early would find nothing to do.
fn whole_seconds(wait: Duration) -> Duration {
    let up = u64::from(wait.subsec_nanos() > 0);
    Duration::from_secs(wait.as_secs().saturating_add(up).min(limits::MESSAGE_DELAY_MAX_SECONDS))
}
