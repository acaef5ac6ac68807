//! What happens to messages: sent, handed out, buried, deleted, made visible again.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use super::error::SqsError;
use super::ids::{MessageKey, Millis, QueueName, Receipt, ReceiptHandle};
use super::keeper::{Keeper, Queue, ReceiveReply, Waiter};
use super::limits;
use super::message::{NewMessage, ReceivedMessage};
use super::shelf::{Entry, State};
use super::{QueueDepth, file::HandedOut};

/// A receive call, checked.
pub(super) struct ReceiveCall {
    pub(super) queue: QueueName,
    pub(super) max: usize,
    /// `None`: as the queue says.
    pub(super) wait: Option<Duration>,
    /// `None`: as the queue says.
    pub(super) visibility: Option<Duration>,
    /// Whether a message that was received before comes by itself.
    pub(super) apart: bool,
}

impl Keeper {
    /// Stores a message.
    pub(super) fn send(&mut self, name: &QueueName, message: &NewMessage, now: Millis) -> Result<(), SqsError> {
        let key = self.new_key(now);
        let queue = self.queues.get_mut(name).ok_or(SqsError::QueueDoesNotExist)?;
        let message_max_bytes = queue.settings.message_max_bytes;
        if message.bytes > usize::try_from(message_max_bytes).unwrap_or(usize::MAX) {
            return Err(SqsError::InvalidParameterValue(format!(
                "One or more parameters are invalid. Reason: Message must be shorter than {message_max_bytes} bytes."
            )));
        }
        let delay_seconds = message.delay_seconds.unwrap_or(queue.settings.delay_seconds);
        let visible_at = now.after_seconds(delay_seconds);
        self.file.insert_message(key, queue.id, message, now, visible_at)?;
        let state =
            if delay_seconds == 0 { State::Visible { since: now } } else { State::Delayed { until: visible_at } };
        let entry = Entry { group: message.group.clone(), state, sent_at: now, receives: 0 };
        queue.shelf.insert(key, entry);
        Ok(())
    }

    /// Answers a receive call now, or parks it until there is a message or its time is over.
    pub(super) fn receive(&mut self, call: &ReceiveCall, reply: ReceiveReply, now: Millis) {
        match self.receive_now(call, now) {
            Ok(Received::Messages(messages)) => self.answer(reply, Ok(messages)),
            Err(fault) => self.answer(reply, Err(fault)),
            Ok(Received::Wait { wait, visibility }) => {
                let waiter = Waiter { max: call.max, visibility, apart: call.apart, deadline: now.after(wait), reply };
                if let Some(queue) = self.queues.get_mut(&call.queue) {
                    queue.waiters.push_back(waiter);
                }
            }
        }
    }

    fn receive_now(&mut self, call: &ReceiveCall, now: Millis) -> Result<Received, SqsError> {
        let queue = self.queue(&call.queue)?;
        queue.shelf.advance(now);
        if queue.shelf.depth().in_flight >= limits::IN_FLIGHT_MAX_MESSAGES {
            return Err(SqsError::OverLimit);
        }
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        let visibility = call.visibility.unwrap_or(seconds(queue.settings.visibility_seconds));
        let wait = call.wait.unwrap_or(seconds(queue.settings.wait_seconds));
        let messages = self.hand_out(&call.queue, call.max, call.apart, visibility, now)?;
        if messages.is_empty() && !wait.is_zero() {
            Ok(Received::Wait { wait, visibility })
        } else {
            Ok(Received::Messages(messages))
        }
    }

    /// Hands out up to `max` of the messages that are visible on the shelf, and buries those that were received too often.
    /// `apart`: one that was received before comes by itself.
    fn hand_out(
        &mut self,
        name: &QueueName,
        max: usize,
        apart: bool,
        visibility: Duration,
        now: Millis,
    ) -> Result<Vec<ReceivedMessage>, SqsError> {
        let mut messages = Vec::new();
        let mut handed = HashSet::new();
        while messages.len() < max {
            let Some(queue) = self.queues.get_mut(name) else {
                break;
            };
            let Some(next) = queue.shelf.next() else {
                break;
            };
            // Without visibility a message is visible again at once; each goes out once in a call all the same.
            if visibility.is_zero() && !handed.insert(next.key) {
                break;
            }
            if let Some(target) = grave_of(queue, next.receives)
                && self.bury(name, &target, next.key, now)?
            {
                continue;
            }
            let again = apart && next.receives > 0;
            if again && !messages.is_empty() {
                break;
            }
            messages.push(self.hand_out_one(name, next.key, visibility, now)?);
            if again {
                break;
            }
        }
        Ok(messages)
    }

    fn hand_out_one(
        &mut self,
        name: &QueueName,
        key: MessageKey,
        visibility: Duration,
        now: Millis,
    ) -> Result<ReceivedMessage, SqsError> {
        let visible_at = now.after(visibility);
        let stored = self.file.hand_out(key, now, visible_at)?;
        let queue = self.queue(name)?;
        queue.shelf.hand_out(key, now, visible_at);
        let receipt = Receipt { queue: queue.id, message: key, receives: stored.receives };
        received(stored, receipt)
    }

    /// Moves a message to the dead-letter queue. False when that queue is not there: SQS goes on delivering.
    fn bury(&mut self, name: &QueueName, target: &QueueName, key: MessageKey, now: Millis) -> Result<bool, SqsError> {
        let Some(target_id) = self.queues.get(target).map(|queue| queue.id) else {
            return Ok(false);
        };
        let source_arn = self.arn(name);
        self.file.bury(key, target_id, &source_arn, now)?;
        let entry = self.queue(name)?.shelf.remove(key);
        if let Some(entry) = entry {
            let buried = Entry { state: State::Visible { since: now }, ..entry };
            self.queue(target)?.shelf.insert(key, buried);
        }
        Ok(true)
    }

    /// Serves receivers that wait, and sends those away whose time is over.
    pub(super) fn serve_waiters(&mut self, now: Millis) -> Result<(), SqsError> {
        // Serving one queue can bury messages in another whose receivers wait too; at the second pass those
        // are served. A chain of dead-letter queues is served in as many passes as it has links.
        for _ in 0..self.queues.len() {
            let waiting: Vec<QueueName> = self
                .queues
                .iter()
                .filter(|(_, queue)| !queue.waiters.is_empty())
                .map(|(name, _)| name.clone())
                .collect();
            let mut served = false;
            for name in &waiting {
                served |= self.serve_waiters_of(name, now)?;
            }
            if !served {
                break;
            }
        }
        Ok(())
    }

    fn serve_waiters_of(&mut self, name: &QueueName, now: Millis) -> Result<bool, SqsError> {
        let mut served = false;
        loop {
            let Some(queue) = self.queues.get_mut(name) else {
                return Ok(served);
            };
            queue.waiters.retain(|waiter| !waiter.reply.is_closed());
            queue.shelf.advance(now);
            let Some(&Waiter { max, visibility, apart, .. }) = queue.waiters.front() else { return Ok(served) };
            if queue.shelf.depth().visible == 0 {
                break;
            }
            served = true;
            let messages = self.hand_out(name, max, apart, visibility, now)?;
            if messages.is_empty() {
                break;
            }
            if let Some(waiter) = self.queue(name)?.waiters.pop_front() {
                self.answer(waiter.reply, Ok(messages));
            }
        }
        let queue = self.queue(name)?;
        let (late, waiting): (VecDeque<Waiter>, _) =
            std::mem::take(&mut queue.waiters).into_iter().partition(|waiter| waiter.deadline <= now);
        queue.waiters = waiting;
        for waiter in late {
            self.answer(waiter.reply, Ok(Vec::new()));
        }
        Ok(served)
    }

    /// Deletes the message that a receipt stands for. A receipt that is not the latest deletes nothing, and a
    /// message that is gone is deleted well: both are how a standard queue behaves.
    pub(super) fn delete(&mut self, name: &QueueName, handle: &ReceiptHandle) -> Result<(), SqsError> {
        let queue = self.queues.get_mut(name).ok_or(SqsError::QueueDoesNotExist)?;
        let receipt = receipt_of(queue, handle)?;
        if queue.shelf.get(receipt.message).is_some_and(|entry| entry.receives == receipt.receives) {
            self.file.delete_message(receipt.message)?;
            queue.shelf.remove(receipt.message);
        }
        Ok(())
    }

    /// Sets until when a message in flight is invisible, counted from now.
    pub(super) fn change_visibility(
        &mut self,
        name: &QueueName,
        handle: &ReceiptHandle,
        visibility: Duration,
        now: Millis,
    ) -> Result<(), SqsError> {
        let queue = self.queues.get_mut(name).ok_or(SqsError::QueueDoesNotExist)?;
        let receipt = receipt_of(queue, handle)?;
        queue.shelf.advance(now);
        let entry =
            queue.shelf.get(receipt.message).filter(|entry| entry.receives == receipt.receives).ok_or_else(|| {
                SqsError::InvalidParameterValue(format!(
                    "Value {} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not \
                     available for visibility timeout change.",
                    handle.as_str()
                ))
            })?;
        let State::InFlight { received_at, .. } = entry.state else {
            return Err(SqsError::MessageNotInflight);
        };
        let until = now.after(visibility);
        if until > received_at.after_seconds(limits::VISIBILITY_MAX_SECONDS) {
            return Err(SqsError::InvalidParameterValue(format!(
                "Value {} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message \
                 is beyond the limit [{} seconds].",
                visibility.as_secs(),
                limits::VISIBILITY_MAX_SECONDS
            )));
        }
        self.file.set_visible_at(receipt.message, until)?;
        let state =
            if visibility.is_zero() { State::Visible { since: now } } else { State::InFlight { until, received_at } };
        queue.shelf.set_state(receipt.message, state);
        Ok(())
    }

    /// Makes every message in flight visible now.
    pub(super) fn release_in_flight(&mut self, name: &QueueName, now: Millis) -> Result<usize, SqsError> {
        let queue = self.queues.get_mut(name).ok_or(SqsError::QueueDoesNotExist)?;
        queue.shelf.advance(now);
        let flying = queue.shelf.in_flight();
        for key in &flying {
            self.file.set_visible_at(*key, now)?;
            queue.shelf.set_state(*key, State::Visible { since: now });
        }
        Ok(flying.len())
    }

    /// How many messages a queue has in each state now.
    pub(super) fn depth(&mut self, name: &QueueName, now: Millis) -> Result<QueueDepth, SqsError> {
        let queue = self.queue(name)?;
        queue.shelf.advance(now);
        Ok(queue.shelf.depth())
    }
}

/// What a receive call comes to.
enum Received {
    Messages(Vec<ReceivedMessage>),
    Wait { wait: Duration, visibility: Duration },
}

/// The dead-letter queue for a message that was received this often, if it was too often.
fn grave_of(queue: &Queue, receives: u32) -> Option<QueueName> {
    let policy = queue.settings.redrive.as_ref()?;
    (receives >= policy.max_receives).then(|| policy.target.clone())
}

fn receipt_of(queue: &Queue, handle: &ReceiptHandle) -> Result<Receipt, SqsError> {
    let receipt = Receipt::read(handle)?;
    if receipt.queue == queue.id {
        Ok(receipt)
    } else {
        Err(SqsError::ReceiptHandleIsInvalid(handle.as_str().to_owned()))
    }
}

fn received(stored: HandedOut, receipt: Receipt) -> Result<ReceivedMessage, SqsError> {
    let attributes = match stored.attributes {
        None => BTreeMap::new(),
        Some(json) => serde_json::from_str(&json)
            .map_err(|fault| SqsError::Unreadable(format!("attributes of message {}: {fault}", stored.message_id)))?,
    };
    Ok(ReceivedMessage {
        message_id: stored.message_id,
        receipt: receipt.to_handle(),
        body: stored.body,
        attributes,
        group: stored.group,
        trace_header: stored.trace_header,
        receive_count: stored.receives,
        sent_at_millis: stored.sent_at.0,
        first_received_at_millis: stored.first_received_at.0,
        dead_letter_source_arn: stored.source_arn,
    })
}
