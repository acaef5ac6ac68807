//! Several invocations at once in one process.
//!
//! On Lambda a process has one invocation at a time and polls for the next one behind it. On Managed Instances, and in
//! the embedded stack, it may have several, which suits functions that wait most of their time. So a process polls once
//! more than it has invocations, up to what its environment allows: who has nothing to do keeps one connection open.

use std::cell::Cell;
use std::fmt::Display;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The variable that says how many invocations a process may have at once. It is not set on Lambda.
pub const AT_ONCE_VARIABLE: &str = "LONGHAUL_INVOCATIONS_AT_ONCE";

/// How long after a poller's failure the next one is made: where the Runtime API answers nobody, this is how often it is
/// asked while the invocations that are under way come to their ends.
const PAUSE: Duration = Duration::from_secs(1);

/// How many invocations this process may have at once, as its environment says; one where it says nothing.
#[must_use]
pub fn at_once() -> usize {
    std::env::var(AT_ONCE_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// What a poller says by of itself. Its clones speak for the same poller; all pollers are counted together.
#[derive(Debug, Clone)]
pub struct Pollers {
    count: Rc<Count>,
    has_invocation: Rc<Cell<bool>>,
}

#[derive(Debug, Default)]
struct Count {
    free: Cell<usize>,
    none_free: Notify,
}

/// An invocation is under way as long as this lives.
#[derive(Debug)]
pub struct Busy(Pollers);

impl Pollers {
    /// A poller more, which is free.
    fn one_more(count: &Rc<Count>) -> Self {
        count.free.set(count.free.get().saturating_add(1));
        Self { count: Rc::clone(count), has_invocation: Rc::default() }
    }

    /// Says that an invocation begins.
    #[must_use]
    pub fn busy(&self) -> Busy {
        self.has_invocation.set(true);
        self.one_free_less();
        Busy(self.clone())
    }

    /// Says that an invocation begins whose end nobody will tell: its poller counts as busy from then on, so that there
    /// is one more for each that has had such an invocation, up to the limit.
    pub fn busy_for_good(&self) {
        if !self.has_invocation.replace(true) {
            self.one_free_less();
        }
    }

    /// The poller is no more.
    fn ended(&self) {
        if !self.has_invocation.get() {
            self.one_free_less();
        }
    }

    fn one_free_less(&self) {
        let free = self.count.free.get().saturating_sub(1);
        self.count.free.set(free);
        if free == 0 {
            self.count.none_free.notify_one();
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.has_invocation.set(false);
        self.0.count.free.set(self.0.count.free.get().saturating_add(1));
    }
}

/// Polls with one poller, and with one more whenever none is free, up to `at_once` of them. `poll` makes a poller, which
/// must say by [`Pollers::busy`] when it has an invocation.
///
/// A poller that fails is let go of as long as there are others, since their invocations are as good as ever: a broken
/// connection to the Runtime API costs one connection. Where that is gone for good, they fail one after the other.
///
/// # Errors
/// What the last poller said.
pub async fn serve<Poll, Polling, E>(at_once: usize, poll: Poll) -> Result<(), E>
where
    Poll: Fn(Pollers) -> Polling,
    Polling: Future<Output = Result<(), E>>,
    E: Display,
{
    let count = Rc::new(Count::default());
    let first = Pollers::one_more(&count);
    if at_once <= 1 {
        return poll(first).await;
    }
    let poller = |own: Pollers| {
        let polling = poll(own.clone());
        async move { (polling.await, own) }
    };
    let mut polling = FuturesUnordered::from_iter([poller(first)]);
    let mut next_at = Instant::now();
    loop {
        let none_is_free = async {
            // The count says it, and the word of it only wakes: this may be let go of in its middle.
            while count.free.get() > 0 {
                count.none_free.notified().await;
            }
            tokio::time::sleep_until(next_at).await;
        };
        tokio::select! {
            Some((ended, own)) = polling.next() => {
                if polling.is_empty() {
                    return ended;
                }
                own.ended();
                // A pause that is under way is not made longer: somebody must come after those who fail.
                let now = Instant::now();
                if next_at <= now {
                    next_at = now.checked_add(PAUSE).unwrap_or(next_at);
                }
                if let Err(error) = ended {
                    tracing::warn!(%error, pollers = polling.len(), "a poller failed; the others go on");
                }
            }
            () = none_is_free, if polling.len() < at_once => polling.push(poller(Pollers::one_more(&count))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Pollers whose invocations never end; how many there came to be of `wanted` invocations.
    async fn pollers(at_once: usize, wanted: usize) -> usize {
        let (made, left) = (Cell::new(0), Cell::new(wanted));
        let (made, left) = (&made, &left);
        let serving = serve(at_once, async |own: Pollers| {
            made.set(made.get() + 1);
            if left.get() > 0 {
                left.set(left.get() - 1);
                let _busy = own.busy();
                return std::future::pending::<Result<(), &str>>().await;
            }
            std::future::pending().await
        });
        let _waited = tokio::time::timeout(Duration::from_secs(1), serving).await;
        made.get()
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_one_poller_more_than_invocations_up_to_the_limit() {
        for (at_once, wanted, expected) in [(1, 0, 1), (1, 5, 1), (4, 0, 1), (4, 1, 2), (4, 3, 4), (4, 9, 4)] {
            assert_eq!(pollers(at_once, wanted).await, expected, "{at_once} {wanted}");
        }
    }

    /// What a poller does.
    #[derive(Clone, Copy)]
    enum Does {
        /// It works for so many seconds, and then its answer reaches nobody.
        Work(u64),
        /// The same, and nobody will tell when its invocation ends.
        WorkForGood(u64),
        /// It waits for an invocation that does not come.
        Wait,
        /// It waits for so many seconds, then its connection breaks.
        WaitAndBreak(u64),
    }

    /// Pollers by a script, all further ones as the last; which of them was the end, after how long, and how many there
    /// were. None: there was no end within an hour.
    async fn ends(at_once: usize, script: &[Does]) -> (Option<(usize, u64)>, usize) {
        let made = Cell::new(0);
        let made = &made;
        let began = Instant::now();
        let serving = serve(at_once, async |own: Pollers| {
            let number = made.get();
            made.set(number + 1);
            match *script.get(number).or(script.last()).unwrap() {
                // And a half, so that it ends between two other pollers.
                Does::Work(seconds) => {
                    let busy = own.busy();
                    tokio::time::sleep(Duration::from_millis(seconds * 1_000 + 500)).await;
                    drop(busy);
                }
                Does::WorkForGood(seconds) => {
                    own.busy_for_good();
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
                Does::Wait => std::future::pending().await,
                Does::WaitAndBreak(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            }
            Err(number)
        });
        let ended = tokio::time::timeout(Duration::from_secs(3_600), serving).await.ok();
        (ended.map(|ended| (ended.unwrap_err(), began.elapsed().as_secs())), made.get())
    }

    #[tokio::test(start_paused = true)]
    async fn a_poller_that_fails_ends_nobody_elses_invocation() {
        use Does::{Wait, WaitAndBreak, Work, WorkForGood};
        // The one that waited beside an invocation is broken: another one takes its place.
        assert_eq!(ends(2, &[Work(7_200), WaitAndBreak(5), Wait]).await, (None, 3));
        assert_eq!(ends(2, &[WorkForGood(7_200), WaitAndBreak(5), Wait]).await, (None, 3));
        // The one whose answer reaches nobody: who waits goes on.
        assert_eq!(ends(3, &[Work(5), Wait]).await, (None, 2));
        assert_eq!(ends(3, &[WorkForGood(5), Wait]).await, (None, 2));
        // With all places taken, there is one again as soon as a place is free.
        assert_eq!(ends(2, &[Work(5), Work(7_200), Wait]).await, (None, 3));
        // The Runtime API is gone: it is asked once a second until the last invocation has come to its end.
        assert_eq!(ends(2, &[Work(5), WaitAndBreak(0)]).await, (Some((0, 5)), 7));
        assert_eq!(ends(2, &[WaitAndBreak(3)]).await, (Some((0, 3)), 1));
        assert_eq!(ends(1, &[Work(2)]).await, (Some((0, 2)), 1), "one at a time, as on Lambda");
    }
}
