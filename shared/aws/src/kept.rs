//! Values that are fetched from outside, kept for a short time, and never fetched twice at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
}
