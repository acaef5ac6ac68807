//! Webhook deliveries: ordered when the stream brings an event that a job's caller wants to hear of, and made when the
//! queue of deliveries says that one is due.
//!
//! The stream only writes the order down and sends for it, so that a receiver that hangs delays no watcher. Whoever is
//! sent for goes by the item: what is settled is left, what is not due yet is sent for again, and a try is written down
//! before it begins, so that two who come for the same delivery do not both make it.

use std::time::Duration;

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use futures::stream::{self, StreamExt};
use longhaul::engine::delivery::{Step, Try};
use longhaul::engine::{Delivery, JobId, Seq, Timestamp, limits};
use longhaul::store::{JobRef, StoreError};
use longhaul_aws::deliveries::{DeliveryMessage, StoredDelivery};
use longhaul_aws::kept::Lately;
use longhaul_aws::telemetry::chain;
use longhaul_wire::Event;
use longhaul_wire::deliveries::{delivery_id, reported};

use crate::stream::News;
use crate::{Time, WebSocket};

/// Deliveries of a batch that are made at a time: all that a batch may have.
const DELIVERIES_AT_ONCE: usize = 10;
/// Orders that are written at a time.
const ORDERS_AT_ONCE: usize = 16;
/// Jobs whose wish is remembered: most have no webhook at all.
const WISHES_KEPT: usize = 4_096;
/// The least time that a try is begun with; the rest of the invocation is for writing down what came of it.
const TRY_TIME_MIN: Duration = Duration::from_secs(2);
/// Time kept back for that.
const WRITE_RESERVE: Duration = Duration::from_secs(3);
/// Looks at a delivery that others write at the same moment.
const SETTLE_TRIES_MAX: usize = 4;

/// What a job's caller wants to hear: the types of the order, and none when there is no webhook.
type Wish = Option<Vec<String>>;

/// The wishes of jobs that were met lately. A job's order never changes, but under a key that is used again behind an
/// erasure, or behind the job's time, there is another job of the same id.
pub(crate) type Wishes = Lately<JobId, Wish>;

/// No wishes yet, to be kept for so long.
pub(crate) const fn wishes(kept_for: Duration) -> Wishes {
    Lately::new(kept_for, WISHES_KEPT)
}

impl WebSocket {
    /// Orders the deliveries of events that somebody wants; the records that must come again because the store did not
    /// answer.
    pub(crate) async fn order_deliveries(&self, news: &[News], time: Time) -> Vec<String> {
        let orders = stream::iter(news).map(async |news| match self.order_of(news, time).await {
            Ok(()) => None,
            Err(error) => {
                let (tenant, job) = (&news.job.tenant, news.job.job);
                tracing::error!(%tenant, %job, error = %chain(&error), "deliveries were not ordered");
                // What cannot be read is not read better the next time, and would hold up everybody behind it.
                news.first.clone().filter(|_| matches!(error, StoreError::Unavailable { .. }))
            }
        });
        let again: Vec<_> = orders.buffer_unordered(ORDERS_AT_ONCE).collect().await;
        again.into_iter().flatten().collect()
    }

    async fn order_of(&self, news: &News, time: Time) -> Result<(), StoreError> {
        let job = &news.job;
        let Some(types) = self.wish(job, time.now()).await? else { return Ok(()) };
        let mut ordered = false;
        for (event, _) in news.events.iter().filter(|(event, _)| reported(&types, event)) {
            let delivery = Delivery::ordered(event.sequence, event.kind.as_str().to_owned(), time.now());
            // Also when it was ordered before: whoever did may have died before it sent.
            self.store.order_delivery(job, &delivery).await?;
            self.store.send_delivery(job, event.sequence, Duration::ZERO).await?;
            ordered = true;
        }
        if ordered {
            // The record may be brought late: what is left of a job that was removed meanwhile must not come back.
            self.store.forget(job.job).await?;
        }
        Ok(())
    }

    /// What the job's caller wants to hear of.
    async fn wish(&self, job: &JobRef, now: Timestamp) -> Result<Wish, StoreError> {
        if let Some(wish) = self.wishes.get(&job.job, now) {
            return Ok(wish);
        }
        // A job that is gone wants nothing more.
        let Some(order) = self.store.order_without_input(job).await? else { return Ok(None) };
        let wish = order.webhook.map(|_| order.webhook_events);
        self.wishes.learn(job.job, wish.clone(), now);
        Ok(wish)
    }

    /// Handles a batch of the queue of deliveries; the answer names the messages that must come again.
    pub(crate) async fn deliver_batch(&self, batch: SqsEvent, time: Time) -> SqsBatchResponse {
        let handled = stream::iter(&batch.records).map(async |message| {
            let failed = self.deliver_message(message, time).await.err()?;
            tracing::warn!(error = %chain(&failed), "a delivery was not looked after; its message comes again");
            Some(message.message_id.clone().unwrap_or_default())
        });
        let failed: Vec<Option<String>> = handled.buffered(DELIVERIES_AT_ONCE).collect().await;
        let mut answer = SqsBatchResponse::default();
        answer.batch_item_failures = failed
            .into_iter()
            .flatten()
            .map(|id| {
                let mut failure = BatchItemFailure::default();
                failure.item_identifier = id;
                failure
            })
            .collect();
        answer
    }

    async fn deliver_message(&self, message: &SqsMessage, time: Time) -> Result<(), StoreError> {
        let body = message.body.as_deref().unwrap_or_default();
        let DeliveryMessage { v, job, seq } = match serde_json::from_str(body) {
            Ok(message) => message,
            Err(error) => {
                // It will not get better, and the delivery that it may have meant is found by a resend.
                tracing::error!(%error, "a message of the queue of deliveries is none");
                return Ok(());
            }
        };
        if v > limits::PROTOCOL_VERSION {
            return Err(StoreError::Newer { what: "a delivery's message".to_owned(), found: v });
        }
        let Some(StoredDelivery { delivery, seen }) = self.store.delivery(&job, seq).await? else { return Ok(()) };
        match delivery.step(time.now()) {
            Step::Nothing => Ok(()),
            Step::GiveUp => {
                tracing::warn!(tenant = %job.tenant, job = %job.job, seq = seq.0, "a delivery was begun as often as it may be");
                self.store.write_delivery(&job, &delivery.given_up(time.now()), seen).await.map(|_| ())
            }
            Step::Wait { due } => self.store.send_delivery(&job, seq, time.now().until(due)).await,
            // Too little of this invocation is left: another one has the whole of its time.
            Step::Try if time.left() < WRITE_RESERVE + TRY_TIME_MIN => {
                self.store.send_delivery(&job, seq, Duration::ZERO).await
            }
            Step::Try => {
                let begun = delivery.begun(time.now());
                match self.store.write_delivery(&job, &begun, seen).await? {
                    Some(seen) => self.make(&job, StoredDelivery { delivery: begun, seen }, time).await,
                    // Somebody else was first.
                    None => Ok(()),
                }
            }
        }
    }

    /// Makes a delivery that was begun.
    async fn make(&self, job: &JobRef, begun: StoredDelivery, time: Time) -> Result<(), StoreError> {
        let seq = begun.delivery.seq;
        let Some((address, event)) = self.what_to_send(job, seq).await? else {
            // Where the job is gone, its deliveries are of no use to anybody; where it stands, this leaves it alone.
            return self.store.forget(job.job).await.map(|_| ());
        };
        if self.store.webhook_gone(job).await? {
            let settled = begun.delivery.not_wanted(time.now());
            return self.store.write_delivery(job, &settled, begun.seen).await.map(|_| ());
        }
        let at = time.now();
        let limit = time.left().saturating_sub(WRITE_RESERVE);
        let id = delivery_id(job.job, seq);
        let tried = self.webhooks.send(&job.tenant, &address, &id, &event, at, limit).await;
        let took_ms = u64::try_from(time.now().since(at).as_millis()).unwrap_or(u64::MAX);
        let made = Try { at, took_ms, outcome: tried.outcome };
        tracing::info!(tenant = %job.tenant, job = %job.job, delivery = id, outcome = made.outcome.kind(), took_ms, "a delivery was tried");
        self.settle(job, begun, made, tried.retry_after, time).await
    }

    /// The address and the event; none when the job or its webhook is gone.
    async fn what_to_send(&self, job: &JobRef, seq: Seq) -> Result<Option<(String, Event)>, StoreError> {
        let Some(order) = self.store.order_without_input(job).await? else { return Ok(None) };
        let batches = self.store.journal_part(job.job, seq, 1).await?;
        let mut events = batches.iter().flat_map(|batch| Event::of_batch(job.job, batch));
        let event = events.find(|event| event.sequence == seq);
        Ok(order.webhook.zip(event))
    }

    /// Writes down what came of a try, and sends for the next one.
    async fn settle(
        &self,
        job: &JobRef,
        begun: StoredDelivery,
        made: Try,
        retry_after: Option<Duration>,
        time: Time,
    ) -> Result<(), StoreError> {
        let seq = begun.delivery.seq;
        let after = begun.delivery.tried(job.job, made.clone(), retry_after, time.now());
        if after.wants_no_more() {
            self.store.set_webhook_gone(job, true, time.now()).await?;
        }
        if self.store.write_delivery(job, &after, begun.seen).await?.is_some() {
            return match after.step(time.now()) {
                Step::Wait { due } => self.store.send_delivery(job, seq, time.now().until(due)).await,
                Step::Try | Step::GiveUp => self.store.send_delivery(job, seq, Duration::ZERO).await,
                Step::Nothing => Ok(()),
            };
        }
        // A person has ordered it again meanwhile, and it was sent for: only the log is for us to write.
        for _ in 0..SETTLE_TRIES_MAX {
            let Some(mut stored) = self.store.delivery(job, seq).await? else { return Ok(()) };
            stored.delivery.log(made.clone());
            if self.store.write_delivery(job, &stored.delivery, stored.seen).await?.is_some() {
                break;
            }
        }
        Ok(())
    }
}
