//! Message move tasks: what the console's "DLQ redrive" button starts.
//!
//! A task takes the messages that wait in a dead-letter queue and puts each back where it came from, or into
//! one queue that the caller names. Tasks are stored, so one that a crash interrupts goes on at the next start.

use std::time::Duration;

use super::error::SqsError;
use super::ids::{MessageKey, Millis, QueueName};
use super::keeper::Keeper;
use super::shelf::{Entry, State};

/// Messages moved in one go, so that other requests get their turn in between.
const CHUNK_MESSAGES: usize = 200;

/// How often a task with a rate looks whether it may go on.
const PACE: Duration = Duration::from_millis(20);

/// How a move task stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MoveStatus {
    Running,
    Completed,
    Cancelled,
    Failed { reason: String },
}

impl MoveStatus {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Failed { .. } => "FAILED",
        }
    }

    pub(super) fn failure(&self) -> Option<&str> {
        match self {
            Self::Running | Self::Completed | Self::Cancelled => None,
            Self::Failed { reason } => Some(reason),
        }
    }

    pub(super) fn read(name: &str, failure: Option<String>) -> Option<Self> {
        match name {
            "RUNNING" => Some(Self::Running),
            "COMPLETED" => Some(Self::Completed),
            "CANCELLED" => Some(Self::Cancelled),
            "FAILED" => Some(Self::Failed { reason: failure.unwrap_or_default() }),
            _ => None,
        }
    }
}

/// One move task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MoveTask {
    pub(super) handle: String,
    pub(super) source: QueueName,
    /// `None`: each message goes back to the queue it came from.
    pub(super) destination: Option<QueueName>,
    /// Messages per second; `None`: as fast as it goes.
    pub(super) rate: Option<u32>,
    pub(super) status: MoveStatus,
    pub(super) moved: u64,
    pub(super) to_move: u64,
    pub(super) started_at: Millis,
}

impl MoveTask {
    pub(super) fn running(&self) -> bool {
        self.status == MoveStatus::Running
    }

    /// How many messages may be moved at this moment.
    fn allowance(&self, now: Millis) -> usize {
        let Some(rate) = self.rate else {
            return CHUNK_MESSAGES;
        };
        let elapsed_millis = u64::try_from(now.0.saturating_sub(self.started_at.0)).unwrap_or_default();
        // One message is due at once, the others as the seconds pass.
        let due = 1 + elapsed_millis.saturating_mul(u64::from(rate)) / 1000;
        usize::try_from(due.saturating_sub(self.moved)).unwrap_or(CHUNK_MESSAGES).min(CHUNK_MESSAGES)
    }

    /// When the task wants its next turn.
    pub(super) fn next_turn(&self, now: Millis) -> Option<Millis> {
        let pause = if self.rate.is_some() { PACE } else { Duration::ZERO };
        self.running().then(|| now.after(pause))
    }
}

impl Keeper {
    /// Starts a task.
    pub(super) fn start_move(
        &mut self,
        source: QueueName,
        destination: Option<QueueName>,
        rate: Option<u32>,
        now: Millis,
    ) -> Result<MoveTask, SqsError> {
        let to_move = self.queue_of_arn(&source)?.shelf.depth().visible as u64;
        if let Some(destination) = &destination {
            self.queue_of_arn(destination)?;
        }
        if self.dead_letter_sources(&source).is_empty() {
            return Err(SqsError::InvalidParameterValue(
                "Source queue must be configured as a Dead Letter Queue.".to_owned(),
            ));
        }
        if self.moves.iter().any(|task| task.source == source && task.running()) {
            return Err(SqsError::InvalidParameterValue(
                "There is already a task running. Only one active task is allowed for a source queue arn at a given \
                 time."
                    .to_owned(),
            ));
        }
        let task = MoveTask {
            handle: uuid::Uuid::new_v4().to_string(),
            source,
            destination,
            rate,
            status: MoveStatus::Running,
            moved: 0,
            to_move,
            started_at: now,
        };
        self.file.put_move(&task)?;
        self.moves.insert(0, task.clone());
        Ok(task)
    }

    /// Stops a running task; what it moved stays moved.
    pub(super) fn cancel_move(&mut self, handle: &str) -> Result<u64, SqsError> {
        let task = self
            .moves
            .iter_mut()
            .find(|task| task.handle == handle)
            .ok_or_else(|| SqsError::ResourceNotFound("Task does not exist.".to_owned()))?;
        if !task.running() {
            return Err(SqsError::UnsupportedOperation("Task is not running, so it cannot be cancelled.".to_owned()));
        }
        task.status = MoveStatus::Cancelled;
        let moved = task.moved;
        self.file.put_move(&task.clone())?;
        Ok(moved)
    }

    /// Gives every running task a turn.
    pub(super) fn run_moves(&mut self, now: Millis) -> Result<(), SqsError> {
        let mut tasks = std::mem::take(&mut self.moves);
        let mut outcome = Ok(());
        for task in tasks.iter_mut().filter(|task| task.running()) {
            outcome = outcome.and(self.run_move(task, now));
        }
        self.moves = tasks;
        outcome
    }

    fn run_move(&mut self, task: &mut MoveTask, now: Millis) -> Result<(), SqsError> {
        let allowed = task.allowance(now);
        let Some(source) = self.queues.get_mut(&task.source) else {
            task.status = MoveStatus::Failed { reason: "AWS.SimpleQueueService.NonExistentQueue".to_owned() };
            return self.file.put_move(task);
        };
        source.shelf.advance(now);
        let waiting = source.shelf.depth().visible;
        let keys = source.shelf.visible(allowed);
        for key in keys {
            match self.move_one(task, key, now)? {
                Ok(()) => task.moved += 1,
                Err(reason) => {
                    task.status = MoveStatus::Failed { reason };
                    break;
                }
            }
        }
        if task.running() && waiting <= allowed {
            task.status = MoveStatus::Completed;
        }
        self.file.put_move(task)
    }

    /// Moves one message; the inner error is the reason for which the task fails.
    fn move_one(&mut self, task: &MoveTask, key: MessageKey, now: Millis) -> Result<Result<(), String>, SqsError> {
        let target = match &task.destination {
            Some(destination) => Some(destination.clone()),
            None => self.file.source_arn(key)?.as_deref().and_then(QueueName::from_arn),
        };
        let Some(target) = target else {
            return Ok(Err("CouldNotDetermineMessageSource".to_owned()));
        };
        let Some(target_id) = self.queues.get(&target).map(|queue| queue.id) else {
            return Ok(Err("AWS.SimpleQueueService.NonExistentQueue".to_owned()));
        };
        let new_key = self.new_key(now);
        self.file.revive(key, new_key, target_id, now)?;
        let group =
            self.queues.get_mut(&task.source).and_then(|queue| queue.shelf.remove(key)).and_then(|entry| entry.group);
        if let Some(queue) = self.queues.get_mut(&target) {
            let entry = Entry { group, state: State::Visible { since: now }, sent_at: now, receives: 0 };
            queue.shelf.insert(new_key, entry);
        }
        Ok(Ok(()))
    }
}
