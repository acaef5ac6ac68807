//! SQS for the embedded stack: the real protocol, in process, on one SQLite file.
//!
//! It exists because Longhaul's continuations, watchdogs and dead letters rest on what SQS promises
//! (visibility, delay, redrive, at-least-once), and a newcomer should see them at work without an account.
//! Functions reach it through the AWS SDK over loopback; the event source mapping of the same process uses
//! the handle [`Sqs`] directly. Both meet in one thread, the keeper, so they see the same queues.
//!
//! | Part | Does |
//! |---|---|
//! | `http`, `wire` | AWS JSON 1.0 |
//! | `actions`, `admin` | one method an action: check, ask the keeper, answer |
//! | `keeper` | the thread: group commit, waiting receivers, timers |
//! | `queues`, `delivery`, `moves` | what the keeper does |
//! | `shelf` | pure: which message goes out next |
//! | `file` | the SQLite file |
//! | `planned` | faults on order |
//!
//! Left out on purpose: FIFO queues, permissions, encryption, and the minute for which AWS refuses the name of
//! a deleted queue.

mod actions;
mod admin;
mod delivery;
mod digest;
mod error;
mod file;
mod http;
mod ids;
mod keeper;
mod limits;
mod message;
mod moves;
mod planned;
mod queues;
mod settings;
mod shelf;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;

pub use error::SqsError;
pub(super) use http::refused as refused_as_planned;
pub use ids::{QueueName, ReceiptHandle};
pub use message::{AttributeValue, MessageAttribute, ReceivedMessage};

use super::calls::CallCounts;
use super::faults::{FaultKind, Faults, Service};
use delivery::ReceiveCall;
use file::QueueFile;
use ids::{ACCOUNT, Millis};
use keeper::{Keeper, Order};

/// Where the queues live and how they are addressed.
#[derive(Debug, Clone)]
pub struct SqsConfig {
    /// The SQLite file; it is made when it is not there.
    pub file: PathBuf,
    /// The region in the ARNs of queues.
    pub region: String,
    /// What queue URLs begin with: `http://127.0.0.1:<port>`.
    pub endpoint: String,
    /// Whether each commit reaches the disk before it is answered.
    pub durable: bool,
}

/// How many messages of a queue are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Can be received now (`ApproximateNumberOfMessages`).
    pub visible: usize,
    /// Sent with a delay that is not over (`ApproximateNumberOfMessagesDelayed`).
    pub delayed: usize,
    /// Received and neither deleted nor visible again (`ApproximateNumberOfMessagesNotVisible`).
    pub in_flight: usize,
}

/// The queues. Clones are handles to the same ones; the file closes when the last is dropped.
#[derive(Debug, Clone)]
pub struct Sqs {
    orders: mpsc::Sender<Order>,
    counts: CallCounts,
    faults: Faults,
    region: Arc<str>,
    endpoint: Arc<str>,
}

impl Sqs {
    /// Opens the queue file and starts the thread that owns it.
    ///
    /// Messages in flight stay so until their visibility ends; [`Sqs::release_in_flight`] ends it early.
    ///
    /// # Errors
    /// When the file cannot be opened or read, or the thread cannot be started.
    pub fn open(config: SqsConfig) -> Result<Self, SqsError> {
        let file = QueueFile::open(&config.file, config.durable)?;
        let keeper = Keeper::new(file, config.region.clone(), Millis::now())?;
        let (orders, inbox) = mpsc::channel();
        std::thread::Builder::new()
            .name("longhaul-sqs".to_owned())
            .spawn(move || keeper.run(&inbox))
            .map_err(SqsError::Thread)?;
        Ok(Self {
            orders,
            counts: CallCounts::default(),
            faults: Faults::default(),
            region: Arc::from(config.region),
            endpoint: Arc::from(config.endpoint.trim_end_matches('/')),
        })
    }

    /// These queues with the faults of a stack. Handles that were cloned before are spared.
    pub(super) fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// The service over HTTP: AWS JSON 1.0, to be served at the endpoint of the configuration.
    pub fn router(&self) -> axum::Router {
        http::router(self.clone())
    }

    /// The URL by which an SDK names a queue. The queue need not be there.
    #[must_use]
    pub fn queue_url(&self, queue: &QueueName) -> String {
        format!("{}/{ACCOUNT}/{queue}", self.endpoint)
    }

    /// The ARN of a queue. The queue need not be there.
    #[must_use]
    pub fn queue_arn(&self, queue: &QueueName) -> String {
        keeper::arn(&self.region, queue)
    }

    /// How often each action was called, over HTTP and in process.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.all()
    }

    /// Makes a queue with these attributes, or gives them to the one that is there.
    ///
    /// # Errors
    /// When an attribute is wrong, a dead-letter queue is not there, or the file fails.
    pub async fn ensure_queue(&self, queue: &QueueName, attributes: BTreeMap<String, String>) -> Result<(), SqsError> {
        let name = queue.clone();
        self.ask(move |keeper, now| {
            if keeper.queues.contains_key(&name) {
                keeper.set_attributes(&name, &attributes, now)
            } else {
                keeper.create_queue(&name, &attributes, BTreeMap::new(), now)
            }
        })
        .await
    }

    /// Receives up to `max` messages (any number here, ten over HTTP), waiting up to `wait` for the first.
    /// They are invisible for `visibility`, or as long as the queue says.
    ///
    /// Dropping the future gives up the place in the line. Messages that were on their way then come back
    /// when their visibility ends.
    ///
    /// # Errors
    /// When the queue is not there, too many messages are in flight, or the file fails.
    pub async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
        visibility: Option<Duration>,
    ) -> Result<Vec<ReceivedMessage>, SqsError> {
        self.receive_as(ReceiveCall { queue: queue.clone(), max, wait: Some(wait), visibility, apart: false }).await
    }

    /// The same, but a message that was received before comes by itself, as SQS never does: whoever died over it is not to
    /// take others along the next time.
    ///
    /// # Errors
    /// As [`Sqs::receive`].
    pub async fn receive_apart(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<ReceivedMessage>, SqsError> {
        self.receive_as(ReceiveCall { queue: queue.clone(), max, wait: Some(wait), visibility: None, apart: true })
            .await
    }

    async fn receive_as(&self, call: ReceiveCall) -> Result<Vec<ReceivedMessage>, SqsError> {
        self.counts.add("ReceiveMessage");
        let hit = self.faults.hit(Service::Sqs, "ReceiveMessage", b"");
        let queue = &call.queue.clone();
        let messages = planned::around(hit, self.receive_call(call)).await?;
        if hit.is_some_and(|hit| hit.kind == FaultKind::Duplicated) {
            let receipts: Vec<_> = messages.iter().map(|message| message.receipt.clone()).collect();
            self.set_visibility(queue, &receipts, Duration::ZERO).await?;
        }
        Ok(messages)
    }

    async fn receive_call(&self, call: ReceiveCall) -> Result<Vec<ReceivedMessage>, SqsError> {
        let (reply, answer) = oneshot::channel();
        let request = Box::new(move |keeper: &mut Keeper, now| keeper.receive(&call, reply, now));
        self.orders.send(Order::Run(request)).map_err(|_| SqsError::Stopped)?;
        answer.await.map_err(|_| SqsError::Stopped)?
    }

    /// Deletes messages. A receipt that is not the latest of its message deletes nothing, as on SQS.
    ///
    /// # Errors
    /// When the queue is not there, a receipt is none of this queue, or the file fails. The receipts before
    /// the wrong one are deleted then.
    pub async fn delete(&self, queue: &QueueName, receipts: &[ReceiptHandle]) -> Result<(), SqsError> {
        self.counts.add("DeleteMessageBatch");
        let hit = self.faults.hit(Service::Sqs, "DeleteMessageBatch", b"");
        let (receipts, struck) = planned::spared(hit, receipts);
        let name = queue.clone();
        let delete = self.ask(move |keeper, _| receipts.iter().try_for_each(|receipt| keeper.delete(&name, receipt)));
        planned::around(hit, delete).await?;
        if struck { Err(SqsError::Planned) } else { Ok(()) }
    }

    /// Sets for how long from now messages in flight stay invisible; zero makes them visible at once.
    /// Gives back how many were changed: those that are gone or visible already are left alone.
    ///
    /// # Errors
    /// When the queue is not there, a receipt is none of this queue, or the file fails.
    pub async fn change_visibility(
        &self,
        queue: &QueueName,
        receipts: &[ReceiptHandle],
        visibility: Duration,
    ) -> Result<usize, SqsError> {
        self.counts.add("ChangeMessageVisibilityBatch");
        let hit = self.faults.hit(Service::Sqs, "ChangeMessageVisibilityBatch", b"");
        let (receipts, struck) = planned::spared(hit, receipts);
        let changed = planned::around(hit, self.set_visibility(queue, &receipts, visibility)).await?;
        if struck { Err(SqsError::Planned) } else { Ok(changed) }
    }

    async fn set_visibility(
        &self,
        queue: &QueueName,
        receipts: &[ReceiptHandle],
        visibility: Duration,
    ) -> Result<usize, SqsError> {
        let (name, receipts) = (queue.clone(), receipts.to_vec());
        self.ask(move |keeper, now| {
            let mut changed = 0;
            for receipt in &receipts {
                match keeper.change_visibility(&name, receipt, visibility, now) {
                    Ok(()) => changed += 1,
                    Err(SqsError::MessageNotInflight | SqsError::InvalidParameterValue(_)) => {}
                    Err(fault) => return Err(fault),
                }
            }
            Ok(changed)
        })
        .await
    }

    /// Makes every message in flight visible now and gives back how many those were. The stack calls this at
    /// its start: all who had received died with the stack before.
    ///
    /// # Errors
    /// When the queue is not there or the file fails.
    pub async fn release_in_flight(&self, queue: &QueueName) -> Result<usize, SqsError> {
        let name = queue.clone();
        self.ask(move |keeper, now| keeper.release_in_flight(&name, now)).await
    }

    /// How many messages the queue has in each state.
    ///
    /// # Errors
    /// When the queue is not there or the file fails.
    pub async fn depth(&self, queue: &QueueName) -> Result<QueueDepth, SqsError> {
        let name = queue.clone();
        self.ask(move |keeper, now| keeper.depth(&name, now)).await
    }

    /// Sends waiting receivers away empty, stores what was asked before, closes the file, and returns. Later
    /// calls fail with [`SqsError::Stopped`].
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.orders.send(Order::Stop(done)).is_ok() {
            // An error means that the thread ended on the way, which is what was asked for.
            let _ = stopped.await;
        }
    }

    /// As [`Sqs::stop`], without waiting: for whoever drops the queues where nobody can wait.
    pub(super) fn stop_unawaited(&self) {
        let (done, _) = oneshot::channel();
        // An error means that the thread has ended already.
        let _ = self.orders.send(Order::Stop(done));
    }

    /// Has the keeper do something and waits for its answer, which comes when the outcome is stored.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Keeper, Millis) -> Result<T, SqsError> + Send + 'static,
    ) -> Result<T, SqsError> {
        let (reply, answer) = oneshot::channel();
        let request = Box::new(move |keeper: &mut Keeper, now| {
            let outcome = work(keeper, now);
            keeper.answer(reply, outcome);
        });
        self.orders.send(Order::Run(request)).map_err(|_| SqsError::Stopped)?;
        answer.await.map_err(|_| SqsError::Stopped)?
    }
}
