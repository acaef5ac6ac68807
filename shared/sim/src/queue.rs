//! The queue of a world: delays, visibility, and what the faults do to messages.

use std::sync::Arc;
use std::time::Duration;

use longhaul::store::{About, Continuation};
use tokio::time::Instant;

use crate::Shared;
use crate::plan::{MessageMishap, Planned};
use crate::world::World;

/// A message in the queue.
#[derive(Debug, Clone)]
pub(crate) struct Queued {
    id: u64,
    continuation: Continuation,
    visible_at: Instant,
    receives: u32,
}

/// A message that was received.
#[derive(Debug)]
pub struct Message {
    /// What it asks for.
    pub continuation: Continuation,
    /// How often it was received, this time included.
    pub receives: u32,
    id: u64,
    shared: Arc<Shared>,
}

impl Message {
    /// Removes the message from the queue.
    pub fn acknowledge(self) {
        self.shared.world().messages.retain(|message| message.id != self.id);
    }

    /// Makes the message visible again at once.
    pub fn give_back(self) {
        for message in self.shared.world().messages.iter_mut().filter(|message| message.id == self.id) {
            message.visible_at = Instant::now();
        }
        self.shared.changed.notify_waiters();
    }
}

impl World {
    /// Puts a message into the queue, as the faults have it.
    pub(crate) fn enqueue(&mut self, continuation: &Continuation, delay: Duration) {
        let faults = self.faults.queue.clone();
        self.sends = self.sends.saturating_add(1);
        let mishap = match self.plan {
            Some(Planned::Message(number, mishap)) if number == self.sends => Some(mishap),
            Some(Planned::Message(..) | Planned::Call(..)) | None => None,
        };
        if mishap == Some(MessageMishap::Lost) || self.dice.falls(faults.lose_permille) {
            self.note(|| format!("lost {}", told(continuation)));
            return;
        }
        let mut delays = vec![delay];
        match mishap {
            Some(MessageMishap::Doubled(later)) => delays.push(delay + later),
            Some(MessageMishap::Late(later)) => delays = vec![delay + later],
            Some(MessageMishap::Lost) | None if self.dice.falls(faults.duplicate_permille) => delays.push(delay),
            Some(MessageMishap::Lost) | None => {}
        }
        for delay in delays {
            let visible_at = Instant::now() + delay + self.dice.up_to(faults.delay_max);
            self.messages_sent = self.messages_sent.saturating_add(1);
            let id = self.messages_sent;
            self.messages.push(Queued { id, continuation: continuation.clone(), visible_at, receives: 0 });
        }
    }

    /// Takes the message that has been visible for longest, or says when one will be.
    fn dequeue(&mut self, now: Instant) -> Result<Queued, Option<Instant>> {
        let visibility = self.faults.queue.visibility;
        let first = self.messages.iter_mut().min_by_key(|message| (message.visible_at, message.id));
        match first {
            Some(message) if message.visible_at <= now => {
                message.receives = message.receives.saturating_add(1);
                message.visible_at = now + visibility;
                let message = message.clone();
                self.note(|| format!("received {} for the {}th time", told(&message.continuation), message.receives));
                Ok(message)
            }
            Some(message) => Err(Some(message.visible_at)),
            None => Err(None),
        }
    }
}

/// A continuation in a trace.
pub(crate) fn told(continuation: &Continuation) -> String {
    match &continuation.about {
        About::Job(job) => format!("{}", job.job),
        About::Watchdog { session, jobs } => format!("the watchdog of {session} over {} jobs", jobs.len()),
    }
}

pub(crate) async fn next(shared: &Arc<Shared>) -> Message {
    loop {
        // Listened for before the look, so that a message sent between look and wait is not missed.
        let changed = shared.changed.notified();
        let found = shared.world().dequeue(Instant::now());
        match found {
            Ok(Queued { id, continuation, visible_at: _, receives }) => {
                return Message { continuation, receives, id, shared: Arc::clone(shared) };
            }
            Err(Some(visible_at)) => {
                tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(visible_at) => {}
                }
            }
            Err(None) => changed.await,
        }
    }
}
