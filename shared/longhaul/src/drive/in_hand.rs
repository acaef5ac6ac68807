//! How many jobs a process has in hand: its death takes all of them along, and a claim says how many they were.

use std::cell::Cell;
use std::rc::Rc;

/// The jobs that a process has in hand, counted. Clones count the same; invocations of one process share one.
#[derive(Debug, Clone, Default)]
pub struct InHand {
    jobs: Rc<Cell<u32>>,
}

impl InHand {
    /// Takes one in hand, until what comes back is dropped.
    pub(super) fn take(&self) -> Taken {
        self.jobs.set(self.jobs.get().saturating_add(1));
        Taken { jobs: Rc::clone(&self.jobs) }
    }

    /// How many are in hand beside one that is.
    pub(super) fn others(&self) -> u32 {
        self.jobs.get().saturating_sub(1)
    }
}

/// A job in hand.
pub(super) struct Taken {
    jobs: Rc<Cell<u32>>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.jobs.set(self.jobs.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::InHand;

    #[test]
    fn what_is_dropped_is_in_hand_no_more() {
        let all = InHand::default();
        let first = all.clone().take();
        assert_eq!(all.others(), 0);
        let second = all.take();
        assert_eq!(all.others(), 1);
        drop(first);
        assert_eq!(all.others(), 0);
        drop(second);
        assert_eq!(all.others(), 0, "none is in hand");
    }
}
