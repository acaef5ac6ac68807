//! The keeper: the one thread that owns the queue file and everything in memory about it.
//!
//! Requests come to it as closures and run one after the other, so no lock is held anywhere and no two
//! requests can disagree. What has arrived by the time a request is done joins its transaction (group
//! commit); answers go out only after the commit. Receivers that wait are parked here and served in the very
//! transaction in which a message becomes visible, in the order in which they came: nobody polls.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::error::SqsError;
use super::file::{QueueFile, StoredMessage};
use super::ids::{ACCOUNT, MessageKey, Millis, QueueId, QueueName};
use super::message::ReceivedMessage;
use super::moves::MoveTask;
use super::settings::{AttributeMap, Settings};
use super::shelf::{Entry, Shelf, State};

/// Requests that share one transaction at most; more would only delay the first answer.
const GROUP_MAX_REQUESTS: usize = 256;

/// How often retention is looked after.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);

/// Finished move tasks are shown for a day.
const MOVES_KEPT: Duration = Duration::from_secs(24 * 3600);

/// A request: it gets the keeper and the time, and leaves its answer with [`Keeper::answer`].
pub(super) type Request = Box<dyn FnOnce(&mut Keeper, Millis) + Send>;

/// What the keeper's thread is told.
pub(super) enum Order {
    /// Do this.
    Run(Request),
    /// Answer everyone, close the file, say so, and end.
    Stop(oneshot::Sender<()>),
}

/// An answer that waits for the commit; it gets the fault when there was one.
type Answer = Box<dyn FnOnce(Option<&Arc<rusqlite::Error>>) + Send>;

/// The reply channel of a receive call.
pub(super) type ReceiveReply = oneshot::Sender<Result<Vec<ReceivedMessage>, SqsError>>;

/// A receive call that waits for a message.
pub(super) struct Waiter {
    pub(super) max: usize,
    pub(super) visibility: Duration,
    pub(super) apart: bool,
    pub(super) deadline: Millis,
    pub(super) reply: ReceiveReply,
}

/// One queue: its settings, and its messages as the shelf sees them.
pub(super) struct Queue {
    pub(super) id: QueueId,
    pub(super) settings: Settings,
    pub(super) tags: AttributeMap,
    pub(super) created_at: Millis,
    pub(super) modified_at: Millis,
    pub(super) purged_at: Option<Millis>,
    pub(super) shelf: Shelf,
    pub(super) waiters: VecDeque<Waiter>,
}

/// The owner of the queue file.
pub(super) struct Keeper {
    pub(super) file: QueueFile,
    pub(super) queues: BTreeMap<QueueName, Queue>,
    pub(super) moves: Vec<MoveTask>,
    region: String,
    answers: Vec<Answer>,
    last_key: i64,
    next_upkeep: Millis,
}

impl Keeper {
    /// Builds what is in memory from the file.
    pub(super) fn new(file: QueueFile, region: String, now: Millis) -> Result<Self, SqsError> {
        let mut keeper = Self {
            file,
            queues: BTreeMap::new(),
            moves: Vec::new(),
            region,
            answers: Vec::new(),
            last_key: 0,
            next_upkeep: now,
        };
        keeper.load()?;
        Ok(keeper)
    }

    /// Reads queues, messages and tasks. Receivers that wait keep waiting.
    fn load(&mut self) -> Result<(), SqsError> {
        let mut queues = BTreeMap::new();
        let mut names = HashMap::new();
        for stored in self.file.queues()? {
            let unreadable = || SqsError::Unreadable(format!("queue {}", stored.name));
            let name = QueueName::parse(&stored.name).map_err(|_| unreadable())?;
            let attributes: AttributeMap = serde_json::from_str(&stored.attributes).map_err(|_| unreadable())?;
            let settings = Settings::default().with(&attributes).map_err(|_| unreadable())?;
            let queue = Queue {
                id: stored.id,
                settings,
                tags: serde_json::from_str(&stored.tags).map_err(|_| unreadable())?,
                created_at: stored.created_at,
                modified_at: stored.modified_at,
                purged_at: None,
                shelf: Shelf::default(),
                waiters: self.queues.get_mut(&name).map(|queue| std::mem::take(&mut queue.waiters)).unwrap_or_default(),
            };
            names.insert(stored.id, name.clone());
            queues.insert(name, queue);
        }
        for stored in self.file.messages()? {
            self.last_key = self.last_key.max(stored.key.0);
            let queue = names.get(&stored.queue).and_then(|name| queues.get_mut(name));
            if let Some(queue) = queue {
                queue.shelf.insert(stored.key, entry_of(stored));
            }
        }
        self.moves = self.file.moves()?;
        self.queues = queues;
        Ok(())
    }

    /// The thread's loop. Returns when told to stop or when nobody is left to ask.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let now = Millis::now();
            let first = match self.next_turn(now) {
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(turn) => orders.recv_timeout(turn.ahead_of(now)),
            };
            let mut end = match first {
                Ok(order) => self.take(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(End::Unasked),
            };
            let mut requests = 1;
            while end.is_none() && requests < GROUP_MAX_REQUESTS {
                match orders.try_recv() {
                    Ok(order) => end = self.take(order),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => end = Some(End::Unasked),
                }
                requests += 1;
            }
            self.turn(Millis::now());
            if end.is_some() {
                self.dismiss_waiters();
            }
            self.end_group();
            match end {
                None => {}
                Some(End::Unasked) => return,
                Some(End::Stopped(done)) => {
                    // Closing the file before the answer: whoever waits may open it again at once.
                    drop(self);
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    fn take(&mut self, order: Order) -> Option<End> {
        match order {
            Order::Run(request) => {
                request(self, Millis::now());
                None
            }
            Order::Stop(done) => Some(End::Stopped(done)),
        }
    }

    /// Leaves an answer that goes out when the group is stored.
    pub(super) fn answer<T: Send + 'static>(
        &mut self,
        reply: oneshot::Sender<Result<T, SqsError>>,
        answer: Result<T, SqsError>,
    ) {
        self.answers.push(Box::new(move |fault| {
            let answer = match fault {
                None => answer,
                Some(fault) => Err(SqsError::NotStored(Arc::clone(fault))),
            };
            // Whoever asked may be gone; then nobody misses the answer.
            let _ = reply.send(answer);
        }));
    }

    /// What is due without being asked: deadlines, delays, moves, retention.
    fn turn(&mut self, now: Millis) {
        let outcome = self.run_moves(now).and_then(|()| self.serve_waiters(now)).and_then(|()| self.upkeep(now));
        if let Err(fault) = outcome {
            tracing::error!(error = &fault as &dyn std::error::Error, "the queue file failed");
        }
    }

    /// Commits, and sends the answers. After a fault memory is rebuilt from the file.
    fn end_group(&mut self) {
        let outcome = self.file.end_group();
        let fault = outcome.as_ref().err();
        for answer in std::mem::take(&mut self.answers) {
            answer(fault);
        }
        if let Some(fault) = fault {
            tracing::error!(error = fault.as_ref() as &dyn std::error::Error, "a group of requests is not stored");
            if let Err(fault) = self.load() {
                tracing::error!(error = &fault as &dyn std::error::Error, "the queue file cannot be read again");
            }
        }
    }

    /// When there is something to do without being asked.
    fn next_turn(&self, now: Millis) -> Option<Millis> {
        let waiting = self.queues.values().filter_map(|queue| {
            let deadline = queue.waiters.iter().map(|waiter| waiter.deadline).min()?;
            Some(queue.shelf.next_change().map_or(deadline, |change| change.min(deadline)))
        });
        let moving = self.moves.iter().filter_map(|task| task.next_turn(now));
        waiting.chain(moving).chain([self.next_upkeep]).min()
    }

    /// Drops messages whose retention is over, and old tasks.
    fn upkeep(&mut self, now: Millis) -> Result<(), SqsError> {
        if now < self.next_upkeep {
            return Ok(());
        }
        self.next_upkeep = now.after(UPKEEP_EVERY);
        for queue in self.queues.values_mut() {
            let retention = i64::from(queue.settings.retention_seconds) * 1000;
            for key in queue.shelf.sent_until(Millis(now.0 - retention)) {
                self.file.delete_message(key)?;
                queue.shelf.remove(key);
            }
        }
        let kept = i64::try_from(MOVES_KEPT.as_millis()).unwrap_or(i64::MAX);
        let horizon = Millis(now.0.saturating_sub(kept));
        if self.moves.iter().any(|task| !task.running() && task.started_at < horizon) {
            self.file.forget_moves_before(horizon)?;
            self.moves.retain(|task| task.running() || task.started_at >= horizon);
        }
        Ok(())
    }

    fn dismiss_waiters(&mut self) {
        let waiters: Vec<Waiter> =
            self.queues.values_mut().flat_map(|queue| std::mem::take(&mut queue.waiters)).collect();
        for waiter in waiters {
            self.answer(waiter.reply, Ok(Vec::new()));
        }
    }

    /// A message key that was never used: the time in microseconds, or one more than the last.
    pub(super) fn new_key(&mut self, now: Millis) -> MessageKey {
        self.last_key = (self.last_key + 1).max(now.0.saturating_mul(1000));
        MessageKey(self.last_key)
    }

    pub(super) fn queue(&mut self, name: &QueueName) -> Result<&mut Queue, SqsError> {
        self.queues.get_mut(name).ok_or(SqsError::QueueDoesNotExist)
    }

    pub(super) fn queue_of_arn(&self, name: &QueueName) -> Result<&Queue, SqsError> {
        self.queues.get(name).ok_or_else(|| {
            SqsError::ResourceNotFound("The resource that you specified for the ARN does not exist.".to_owned())
        })
    }

    /// The queues that name this one as their dead-letter queue.
    pub(super) fn dead_letter_sources(&self, target: &QueueName) -> Vec<QueueName> {
        let buries_here =
            |queue: &Queue| queue.settings.redrive.as_ref().is_some_and(|policy| policy.target == *target);
        self.queues.iter().filter(|(_, queue)| buries_here(queue)).map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn arn(&self, name: &QueueName) -> String {
        arn(&self.region, name)
    }
}

/// Why the loop ends.
enum End {
    Unasked,
    Stopped(oneshot::Sender<()>),
}

/// The ARN of a queue.
pub(super) fn arn(region: &str, name: &QueueName) -> String {
    format!("arn:aws:sqs:{region}:{ACCOUNT}:{name}")
}

/// How a stored message stands. What is due by now becomes visible when the shelf is next looked at.
fn entry_of(stored: StoredMessage) -> Entry {
    let state = match stored.received_at {
        Some(received_at) => State::InFlight { until: stored.visible_at, received_at },
        None => State::Delayed { until: stored.visible_at },
    };
    Entry { group: stored.group, state, sent_at: stored.sent_at, receives: stored.receives }
}
