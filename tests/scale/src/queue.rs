//! The queue of continuations: in order of coming, or fair among tenants.
//!
//! SQS's fair queues watch which tenant has a disproportionate share of the messages in flight, and hand out the others'
//! first while that lasts. Turns among the tenants that have messages are what comes of it in the long run.

use std::collections::VecDeque;

/// A message: the job that it is about.
pub type Message = usize;

/// The queue.
#[derive(Debug)]
pub struct Queue {
    lines: Vec<VecDeque<Message>>,
    turn: usize,
    length: usize,
}

impl Queue {
    /// A queue with a line for each tenant, or with one for all.
    #[must_use]
    pub fn new(tenants: usize, fair: bool) -> Self {
        Self { lines: vec![VecDeque::new(); if fair { tenants.max(1) } else { 1 }], turn: 0, length: 0 }
    }

    /// Puts a message of a tenant in.
    pub fn send(&mut self, tenant: usize, message: Message) {
        let lines = self.lines.len();
        if let Some(line) = self.lines.get_mut(tenant % lines) {
            line.push_back(message);
            self.length += 1;
        }
    }

    /// Takes the next message.
    pub fn receive(&mut self) -> Option<Message> {
        for _ in 0..self.lines.len() {
            let turn = self.turn % self.lines.len();
            self.turn = turn + 1;
            if let Some(message) = self.lines.get_mut(turn).and_then(VecDeque::pop_front) {
                self.length -= 1;
                return Some(message);
            }
        }
        None
    }

    /// Messages that can be received.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(fair: bool) -> Vec<Message> {
        let mut queue = Queue::new(2, fair);
        for message in [1, 2, 3] {
            queue.send(0, message);
        }
        queue.send(1, 10);
        std::iter::from_fn(|| queue.receive()).collect()
    }

    #[test]
    fn a_fair_queue_takes_turns_and_another_does_not() {
        assert_eq!(received(true), [1, 10, 2, 3]);
        assert_eq!(received(false), [1, 2, 3, 10]);
    }
}
