//! What watchers are to be sent, to each at its own pace: one that does not take its messages keeps nobody else waiting.

use std::cell::RefCell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use longhaul_aws::push::{Push, Pushed};
use longhaul_aws::telemetry::chain;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

/// How long one post may take. A watcher that takes longer is passed over for a while.
const POST_MS: u64 = 1_000;
/// How long a watcher that did not take a piece in time, or is gone, is passed over.
const PASSED_OVER_MS: u64 = 5_000;
/// Posts under way at once. As many watchers would have to hang together for others to wait for them.
const POSTS_AT_ONCE: usize = 32;
/// Messages that may still wait for a watcher when the next ones come: more are not caught up with by somebody who reads.
const WAITING_MAX: usize = 64;

/// Messages by connection, and who is passed over.
pub(crate) struct Outbox {
    push: Push,
    /// A connection is in here as long as it is sent to.
    waiting: RefCell<BTreeMap<String, VecDeque<Rc<str>>>>,
    /// Connections that have come in here and that nobody sends to yet.
    new: RefCell<Vec<String>>,
    passed_over: RefCell<BTreeMap<String, Instant>>,
    filled: Notify,
    places: Semaphore,
}

impl Outbox {
    pub(crate) fn new(push: Push) -> Self {
        Self {
            push,
            waiting: RefCell::default(),
            new: RefCell::default(),
            passed_over: RefCell::default(),
            filled: Notify::new(),
            places: Semaphore::new(POSTS_AT_ONCE),
        }
    }

    /// Lets go of everything that was not sent.
    pub(crate) fn clear(&self) {
        self.waiting.borrow_mut().clear();
        self.new.borrow_mut().clear();
    }

    /// Whether a watcher is sent nothing for now.
    pub(crate) fn passes_over(&self, connection: &str) -> bool {
        let mut passed_over = self.passed_over.borrow_mut();
        passed_over.retain(|_, since| since.elapsed() < Duration::from_millis(PASSED_OVER_MS));
        passed_over.contains_key(connection)
    }

    /// Takes the messages of one round, which are sent in their order to each watcher.
    pub(crate) fn take(&self, messages: Vec<(String, Rc<str>)>) {
        let mut waiting = self.waiting.borrow_mut();
        for (connection, unsent) in waiting.iter_mut().filter(|(_, unsent)| unsent.len() > WAITING_MAX) {
            unsent.clear();
            self.passed_over.borrow_mut().insert(connection.clone(), Instant::now());
        }
        for (connection, text) in messages {
            if self.passed_over.borrow().contains_key(&connection) {
                continue;
            }
            match waiting.entry(connection) {
                Entry::Occupied(mut unsent) => unsent.get_mut().push_back(text),
                Entry::Vacant(place) => {
                    self.new.borrow_mut().push(place.key().clone());
                    place.insert(VecDeque::from([text]));
                }
            }
        }
        self.filled.notify_one();
    }

    /// Sends what comes in for as long as this is polled: it never returns.
    pub(crate) async fn send(&self) -> ! {
        let mut sending = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = self.filled.notified() => sending.extend(self.new.take().into_iter().map(|to| self.send_to(to))),
                Some(()) = sending.next() => {}
            }
        }
    }

    /// Sends one watcher its messages, one after the other, until there are no more.
    async fn send_to(&self, connection: String) {
        while let Some(text) = self.next_for(&connection) {
            // It is never closed.
            let _place = self.places.acquire().await;
            if !self.post(&connection, &text).await {
                self.passed_over.borrow_mut().insert(connection.clone(), Instant::now());
                self.waiting.borrow_mut().remove(&connection);
                return;
            }
        }
    }

    /// The next message; without one, nobody sends to the connection any more.
    fn next_for(&self, connection: &str) -> Option<Rc<str>> {
        let mut waiting = self.waiting.borrow_mut();
        let next = waiting.get_mut(connection).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(connection);
        }
        next
    }

    /// Whether a watcher took a message.
    async fn post(&self, connection: &str, text: &str) -> bool {
        match tokio::time::timeout(Duration::from_millis(POST_MS), self.push.post(connection, text)).await {
            Ok(Ok(Pushed::Sent)) => true,
            Ok(Ok(Pushed::Gone | Pushed::TooLarge | Pushed::Throttled)) | Err(_) => false,
            Ok(Err(error)) => {
                tracing::debug!(connection, error = %chain(&error), "a delta was not sent");
                false
            }
        }
    }
}
