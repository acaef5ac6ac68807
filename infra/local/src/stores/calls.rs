//! How often each action of a storage service was called.
//!
//! Tests hold Longhaul to its promise of one write a step by these numbers, so each service counts every call.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// More names than a service has actions; a caller that makes up names cannot fill the memory.
const NAMES_MAX: usize = 128;

/// Counts calls by the name of the action. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallCounts(Arc<Mutex<BTreeMap<String, u64>>>);

impl CallCounts {
    /// Counts one call.
    pub(crate) fn add(&self, action: &str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(action) {
            *count += 1;
        } else if counts.len() < NAMES_MAX {
            counts.insert(action.to_owned(), 1);
        }
    }

    /// All counts so far.
    pub(crate) fn all(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
