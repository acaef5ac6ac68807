//! What a warm process keeps of what it has fetched, for a short time.
//!
//! [`Kept`] is for values from outside, which are never fetched twice at once. [`Lately`] is for what was read of tenants'
//! data: an erasure reckons with a process that has it still, and so nothing of that kind is kept in another way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_engine::Timestamp;
use tokio::time::Instant;

/// How long a failure is kept: those who wait for the same value hear of it at once, and what has been mended is seen
/// in a moment.
const FAILURE_KEPT: Duration = Duration::from_secs(1);

/// What was fetched, and when.
type Slot<V, E> = Arc<tokio::sync::Mutex<Option<(Instant, Result<V, E>)>>>;

/// Values by key.
#[derive(Debug)]
pub(crate) struct Kept<K, V, E> {
    kept_for: Duration,
    keys_max: usize,
    slots: Mutex<BTreeMap<K, Slot<V, E>>>,
}

impl<K: Ord + Clone, V: Clone, E: Clone> Kept<K, V, E> {
    /// Keeps values for so long, of at most so many keys; with more it begins anew.
    pub(crate) const fn new(kept_for: Duration, keys_max: usize) -> Self {
        Self { kept_for, keys_max, slots: Mutex::new(BTreeMap::new()) }
    }

    /// The value of a key: the one that is kept, or what `fetch` brings. Of those who ask for it at the same time one
    /// fetches and the others wait; if that one is dropped, the next fetches.
    pub(crate) async fn get(&self, key: &K, fetch: impl AsyncFnOnce() -> Result<V, E>) -> Result<V, E> {
        let slot = self.slot(key);
        let mut kept = slot.lock().await;
        if let Some((at, value)) = &*kept {
            let good_for = if value.is_ok() { self.kept_for } else { FAILURE_KEPT };
            if at.elapsed() < good_for {
                return value.clone();
            }
        }
        let value = fetch().await;
        *kept = Some((Instant::now(), value.clone()));
        value
    }

    fn slot(&self, key: &K) -> Slot<V, E> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= self.keys_max && !slots.contains_key(key) {
            slots.clear();
        }
        Arc::clone(slots.entry(key.clone()).or_default())
    }
}

/// What was read of tenants' data lately, by key. By the wall clock: a frozen process may find its others stopped.
#[derive(Debug)]
pub struct Lately<K, V> {
    kept_for: Duration,
    keys_max: usize,
    known: Mutex<BTreeMap<K, (Timestamp, V)>>,
}

impl<K: Ord, V: Clone> Lately<K, V> {
    /// Takes values for true for so long, of at most so many keys. How long is [`Config::tenant_data_kept`] or less.
    ///
    /// [`Config::tenant_data_kept`]: crate::Config::tenant_data_kept
    #[must_use]
    pub const fn new(kept_for: Duration, keys_max: usize) -> Self {
        Self { kept_for, keys_max, known: Mutex::new(BTreeMap::new()) }
    }

    /// The value of a key, if it was read lately.
    #[must_use]
    pub fn get(&self, key: &K, now: Timestamp) -> Option<V> {
        let known = self.known();
        known.get(key).filter(|(read_at, _)| self.is_fresh(*read_at, now)).map(|(_, value)| value.clone())
    }

    /// Keeps what was read now, and lets go of what is old.
    pub fn learn(&self, key: K, value: V, now: Timestamp) {
        let mut known = self.known();
        known.retain(|_, (read_at, _)| self.is_fresh(*read_at, now));
        if known.len() >= self.keys_max && !known.contains_key(&key) {
            // Any may go: it is read again. Where keys are in the order of time, the oldest is the likeliest to be over.
            known.pop_first();
        }
        known.insert(key, (now, value));
    }

    /// A clock that was set back makes nothing young.
    fn is_fresh(&self, read_at: Timestamp, now: Timestamp) -> bool {
        read_at <= now && read_at.until(now) < self.kept_for
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<K, (Timestamp, V)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_value_is_fetched_once_for_all_who_ask_and_again_when_it_is_old() {
        let kept: Kept<u8, u32, String> = Kept::new(Duration::from_secs(60), 2);
        let fetched = Cell::new(0);
        let ask = async |key: u8| {
            let fetch = async || {
                tokio::time::sleep(Duration::from_secs(1)).await;
                fetched.set(fetched.get() + 1);
                if key == 9 { Err("no".to_owned()) } else { Ok(fetched.get()) }
            };
            kept.get(&key, fetch).await
        };
        assert_eq!(tokio::join!(ask(1), ask(1), ask(1)), (Ok(1), Ok(1), Ok(1)));
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(ask(1).await, Ok(1));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(ask(1).await, Ok(2));
        // A failure is heard by all who wait, and tried again soon.
        let failed: Result<u32, String> = Err("no".to_owned());
        assert_eq!(tokio::join!(ask(9), ask(9)), (failed.clone(), failed));
        assert_eq!(fetched.get(), 3);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(ask(9).await.is_err());
        assert_eq!(fetched.get(), 4);
        // One who gives up leaves the fetching to the next.
        let gave_up = tokio::time::timeout(Duration::from_millis(500), ask(2)).await;
        assert!(gave_up.is_err());
        assert_eq!(ask(2).await, Ok(5));
    }

    #[test]
    fn what_was_read_lately_is_known_and_nothing_older() {
        let start = Timestamp::from_millis(1_795_953_600_000);
        let at = |ms: u64| start.plus(Duration::from_millis(ms));
        let lately = Lately::new(Duration::from_secs(60), 2);
        lately.learn("a", 1, at(0));
        for (ms, expected) in [(0, Some(1)), (59_999, Some(1)), (60_000, None), (3_600_000, None)] {
            assert_eq!(lately.get(&"a", at(ms)), expected, "after {ms} ms");
        }
        assert_eq!(lately.get(&"a", Timestamp::from_millis(start.as_millis() - 1)), None, "a clock that was set back");
        lately.learn("b", 2, at(59_000));
        // What is old is not even kept; of what is young no more than it may.
        lately.learn("c", 3, at(61_000));
        assert_eq!(lately.known().keys().copied().collect::<Vec<_>>(), ["b", "c"]);
        lately.learn("d", 4, at(62_000));
        lately.learn("d", 5, at(63_000));
        assert_eq!(lately.known().len(), 2);
        assert_eq!(lately.get(&"d", at(63_000)), Some(5));
        let nothing = Lately::new(Duration::ZERO, 2);
        nothing.learn("a", 1, at(0));
        assert_eq!(nothing.get(&"a", at(0)), None);
    }
}
