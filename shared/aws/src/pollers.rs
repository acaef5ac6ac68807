//! Several invocations at once in one process.
//!
//! On Lambda a process has one invocation at a time and polls for the next one behind it. On Managed Instances, and in
//! the embedded stack, it may have several, which suits functions that wait most of their time. So a process polls once
//! more than it has invocations, up to what its environment allows: who has nothing to do keeps one connection open.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;

/// The variable that says how many invocations a process may have at once. It is not set on Lambda.
pub const AT_ONCE_VARIABLE: &str = "LONGHAUL_INVOCATIONS_AT_ONCE";

/// How many invocations this process may have at once, as its environment says; one where it says nothing.
#[must_use]
pub fn at_once() -> usize {
    std::env::var(AT_ONCE_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(1).max(1)
}

/// Counts the pollers that have no invocation. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Pollers(Rc<Count>);

#[derive(Debug, Default)]
struct Count {
    free: Cell<usize>,
    none_free: Notify,
}

/// An invocation is under way as long as this lives.
#[derive(Debug)]
pub struct Busy(Rc<Count>);

impl Pollers {
    /// Says that an invocation begins.
    #[must_use]
    pub fn busy(&self) -> Busy {
        let free = self.0.free.get().saturating_sub(1);
        self.0.free.set(free);
        if free == 0 {
            self.0.none_free.notify_one();
        }
        Busy(Rc::clone(&self.0))
    }

    /// Says that an invocation begins whose end nobody will tell: its poller counts as busy from then on, so that there
    /// is one more for each such invocation, up to the limit.
    pub fn busy_for_good(&self) {
        std::mem::forget(self.busy());
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.free.set(self.0.free.get().saturating_add(1));
    }
}

/// Polls with one poller, and with one more whenever none is free, up to `at_once` of them. `poll` makes a poller, which
/// must say by [`Pollers::busy`] when it has an invocation.
///
/// # Errors
/// What the first poller that ends says.
pub async fn serve<Poll, Polling, E>(at_once: usize, poll: Poll) -> Result<(), E>
where
    Poll: Fn(Pollers) -> Polling,
    Polling: Future<Output = Result<(), E>>,
{
    let count = Pollers::default();
    count.0.free.set(1);
    if at_once <= 1 {
        return poll(count).await;
    }
    let mut polling = FuturesUnordered::from_iter([poll(count.clone())]);
    loop {
        tokio::select! {
            ended = polling.next() => return ended.unwrap_or(Ok(())),
            () = count.0.none_free.notified(), if polling.len() < at_once => {
                count.0.free.set(count.0.free.get().saturating_add(1));
                polling.push(poll(count.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Pollers whose invocations never end; how many there came to be of `wanted` invocations.
    async fn pollers(at_once: usize, wanted: usize) -> usize {
        let (made, left) = (Cell::new(0), Cell::new(wanted));
        let (made, left) = (&made, &left);
        let serving = serve(at_once, async |count: Pollers| {
            made.set(made.get() + 1);
            if left.get() > 0 {
                left.set(left.get() - 1);
                let _busy = count.busy();
                return std::future::pending::<Result<(), ()>>().await;
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

    #[tokio::test(start_paused = true)]
    async fn the_first_end_is_the_end() {
        let ended = serve(3, async |count: Pollers| {
            let _busy = count.busy();
            Err::<(), &str>("broken")
        });
        assert_eq!(ended.await, Err("broken"));
    }
}
