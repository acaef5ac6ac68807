//! Which messages of one queue are visible, delayed or in flight, and which is handed out next.
//!
//! The shelf is pure: it holds no message bodies, knows no file and takes the time as an argument. The file
//! is the truth; the shelf is rebuilt from it at start and answers in memory what would otherwise be a search.
//!
//! **Fairness.** Of the groups that have a visible message, the one with the fewest messages in flight goes
//! first (of equals: the one whose message waits longest). So a tenant with a long backlog cannot hold every
//! receiver while another tenant's single message waits. Messages without a group form one group.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::QueueDepth;
use super::ids::{MessageKey, Millis};

/// The fairness group of a message; `None` for messages sent without one.
pub(super) type Group = Option<Arc<str>>;

/// Where a message stands. Each state carries what only it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Can be handed out; the longest waiting goes first.
    Visible { since: Millis },
    /// Sent with a delay that is not over.
    Delayed { until: Millis },
    /// Handed out, and invisible to others until then.
    InFlight { until: Millis, received_at: Millis },
}

/// What the shelf knows of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) group: Group,
    pub(super) state: State,
    pub(super) sent_at: Millis,
    pub(super) receives: u32,
}

/// The message that would be handed out next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) key: MessageKey,
    pub(super) receives: u32,
}

/// The messages of one fairness group that matter for choosing.
#[derive(Debug, Default)]
struct GroupShelf {
    visible: BTreeSet<(Millis, MessageKey)>,
    in_flight: usize,
}

/// A group's place among the groups with a visible message. Field order is the order of preference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    in_flight: usize,
    since: Millis,
    key: MessageKey,
    group: Group,
}

impl GroupShelf {
    fn rank(&self, group: &Group) -> Option<Rank> {
        self.visible.first().map(|(since, key)| Rank {
            in_flight: self.in_flight,
            since: *since,
            key: *key,
            group: group.clone(),
        })
    }
}

/// The messages of one queue.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    entries: HashMap<MessageKey, Entry>,
    groups: HashMap<Group, GroupShelf>,
    ranks: BTreeSet<Rank>,
    /// Delayed and in-flight messages by the moment they become visible.
    timed: BTreeSet<(Millis, MessageKey)>,
    depth: QueueDepth,
}

impl Shelf {
    /// Puts a message on the shelf.
    pub(super) fn insert(&mut self, key: MessageKey, mut entry: Entry) {
        // One allocation of the group's name serves all its messages.
        if let Some((group, _)) = self.groups.get_key_value(&entry.group) {
            entry.group = group.clone();
        }
        self.attach(key, &entry);
        self.entries.insert(key, entry);
    }

    /// Takes a message off the shelf for good.
    pub(super) fn remove(&mut self, key: MessageKey) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        self.detach(key, &entry);
        Some(entry)
    }

    /// What is known of a message.
    pub(super) fn get(&self, key: MessageKey) -> Option<&Entry> {
        self.entries.get(&key)
    }

    /// Makes visible what has become due by `now`.
    pub(super) fn advance(&mut self, now: Millis) {
        while let Some((until, key)) = self.timed.first().copied() {
            if until > now {
                break;
            }
            // Out of `timed` by hand first: the loop must end even if an entry were missing.
            self.timed.remove(&(until, key));
            self.set_state(key, State::Visible { since: until });
        }
    }

    /// The message to hand out next, by fairness.
    pub(super) fn next(&self) -> Option<Candidate> {
        let rank = self.ranks.first()?;
        let entry = self.entries.get(&rank.key)?;
        Some(Candidate { key: rank.key, receives: entry.receives })
    }

    /// Marks a message as handed out until then.
    pub(super) fn hand_out(&mut self, key: MessageKey, now: Millis, until: Millis) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.receives = entry.receives.saturating_add(1);
        }
        // A visibility of zero means that the message may go out again at once.
        let state =
            if until <= now { State::Visible { since: now } } else { State::InFlight { until, received_at: now } };
        self.set_state(key, state);
    }

    /// Moves a message to another state.
    pub(super) fn set_state(&mut self, key: MessageKey, state: State) {
        let Some(mut entry) = self.entries.remove(&key) else {
            return;
        };
        self.detach(key, &entry);
        entry.state = state;
        self.attach(key, &entry);
        self.entries.insert(key, entry);
    }

    /// The messages in flight now.
    pub(super) fn in_flight(&self) -> Vec<MessageKey> {
        let flying = |entry: &Entry| matches!(entry.state, State::InFlight { .. });
        let mut keys: Vec<_> = self.entries.iter().filter(|(_, entry)| flying(entry)).map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys
    }

    /// The messages that can be handed out now, longest waiting first, at most `max` of them.
    pub(super) fn visible(&self, max: usize) -> Vec<MessageKey> {
        let mut waiting: Vec<_> =
            self.groups.values().flat_map(|group| group.visible.iter().take(max)).copied().collect();
        waiting.sort_unstable();
        waiting.into_iter().take(max).map(|(_, key)| key).collect()
    }

    /// The messages sent at or before a moment: those whose retention is over.
    pub(super) fn sent_until(&self, moment: Millis) -> Vec<MessageKey> {
        self.entries.iter().filter(|(_, entry)| entry.sent_at <= moment).map(|(key, _)| *key).collect()
    }

    /// When the next message becomes visible by itself.
    pub(super) fn next_change(&self) -> Option<Millis> {
        self.timed.first().map(|(until, _)| *until)
    }

    /// How many messages are in each state.
    pub(super) fn depth(&self) -> QueueDepth {
        self.depth
    }

    /// Enters a message in every index that its state belongs to.
    fn attach(&mut self, key: MessageKey, entry: &Entry) {
        match entry.state {
            State::Visible { since } => {
                self.depth.visible += 1;
                self.change_group(&entry.group, |group| {
                    group.visible.insert((since, key));
                });
            }
            State::Delayed { until } => {
                self.depth.delayed += 1;
                self.timed.insert((until, key));
            }
            State::InFlight { until, .. } => {
                self.depth.in_flight += 1;
                self.timed.insert((until, key));
                self.change_group(&entry.group, |group| group.in_flight += 1);
            }
        }
    }

    /// The exact reverse of [`Self::attach`].
    fn detach(&mut self, key: MessageKey, entry: &Entry) {
        match entry.state {
            State::Visible { since } => {
                self.depth.visible = self.depth.visible.saturating_sub(1);
                self.change_group(&entry.group, |group| {
                    group.visible.remove(&(since, key));
                });
            }
            State::Delayed { until } => {
                self.depth.delayed = self.depth.delayed.saturating_sub(1);
                self.timed.remove(&(until, key));
            }
            State::InFlight { until, .. } => {
                self.depth.in_flight = self.depth.in_flight.saturating_sub(1);
                self.timed.remove(&(until, key));
                self.change_group(&entry.group, |group| {
                    group.in_flight = group.in_flight.saturating_sub(1);
                });
            }
        }
    }

    /// Changes a group and keeps its rank true. A group without messages is forgotten.
    fn change_group(&mut self, name: &Group, change: impl FnOnce(&mut GroupShelf)) {
        let group = self.groups.entry(name.clone()).or_default();
        if let Some(rank) = group.rank(name) {
            self.ranks.remove(&rank);
        }
        change(group);
        match group.rank(name) {
            Some(rank) => {
                self.ranks.insert(rank);
            }
            None if group.in_flight == 0 => {
                self.groups.remove(name);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed step of a test is a failed test")]

    use super::*;

    /// Sends `(key, group, visible_at)` and lets time pass.
    fn shelf(messages: &[(i64, &str, i64)], now: i64) -> Shelf {
        let mut shelf = Shelf::default();
        for (key, group, visible_at) in messages {
            let entry = Entry {
                group: (!group.is_empty()).then(|| Arc::from(*group)),
                state: State::Delayed { until: Millis(*visible_at) },
                sent_at: Millis(*visible_at),
                receives: 0,
            };
            shelf.insert(MessageKey(*key), entry);
        }
        shelf.advance(Millis(now));
        shelf
    }

    fn take(shelf: &mut Shelf, now: i64, until: i64) -> Option<i64> {
        let candidate = shelf.next()?;
        shelf.hand_out(candidate.key, Millis(now), Millis(until));
        Some(candidate.key.0)
    }

    /// One family: what is sent, and the order in which it is handed out with nothing deleted in between.
    fn check(name: &str, messages: &[(i64, &str, i64)], order: &[i64]) {
        let mut shelf = shelf(messages, 100);
        let taken: Vec<i64> = std::iter::from_fn(|| take(&mut shelf, 100, 500)).collect();
        assert_eq!(taken, order, "{name}");
        let depth = shelf.depth();
        assert_eq!(depth.in_flight, order.len(), "{name}");
        assert_eq!(depth.visible, 0, "{name}");
        assert_eq!(depth.delayed, messages.len() - order.len(), "{name}");
    }

    #[test]
    fn hands_out_fairly() {
        check("no groups: oldest first", &[(2, "", 2), (1, "", 1), (3, "", 3)], &[1, 2, 3]);
        check(
            "one noisy group does not hold the quiet one",
            &[(1, "a", 1), (2, "a", 1), (3, "a", 1), (4, "b", 9)],
            &[1, 4, 2, 3],
        );
        check(
            "three groups take turns",
            &[(1, "a", 1), (2, "a", 1), (3, "b", 2), (4, "b", 2), (5, "c", 3), (6, "c", 3)],
            &[1, 3, 5, 2, 4, 6],
        );
        check("what is delayed is not handed out", &[(1, "a", 101), (2, "a", 100)], &[2]);
    }

    #[test]
    fn a_group_with_work_in_flight_steps_back_until_it_is_done() {
        let mut shelf = shelf(&[(1, "a", 1), (2, "a", 1), (3, "b", 9), (4, "b", 9)], 100);
        assert_eq!(take(&mut shelf, 100, 500), Some(1));
        assert_eq!(take(&mut shelf, 100, 500), Some(3));
        shelf.remove(MessageKey(3)).unwrap();
        // b has nothing in flight any more, a still has one.
        assert_eq!(take(&mut shelf, 100, 500), Some(4));
        assert_eq!(take(&mut shelf, 100, 500), Some(2));
        assert_eq!(take(&mut shelf, 100, 500), None);
        assert_eq!(shelf.next_change(), Some(Millis(500)));
    }

    #[test]
    fn what_comes_back_goes_behind_what_waited_longer() {
        let mut shelf = shelf(&[(1, "", 1), (2, "", 2)], 100);
        assert_eq!(take(&mut shelf, 100, 200), Some(1));
        shelf.advance(Millis(199));
        assert_eq!(shelf.depth().in_flight, 1);
        shelf.advance(Millis(200));
        assert_eq!(shelf.depth(), QueueDepth { visible: 2, delayed: 0, in_flight: 0 });
        assert_eq!(take(&mut shelf, 200, 300), Some(2));
        assert_eq!(take(&mut shelf, 200, 300), Some(1));
        assert_eq!(shelf.get(MessageKey(1)).unwrap().receives, 2);
        assert!(shelf.groups.len() == 1 && shelf.ranks.is_empty());
        shelf.remove(MessageKey(1));
        shelf.remove(MessageKey(2));
        assert!(shelf.groups.is_empty() && shelf.timed.is_empty());
        assert_eq!(shelf.depth(), QueueDepth::default());
    }
}
