//! Webhook deliveries: an item for each event that is to be reported, and the queue that says when to look at it.
//!
//! The item is the truth: what is to be delivered, when, and what was tried. A message of the queue only says "look at
//! this delivery"; it may come twice, early or late, and whoever has it goes by the item.

use std::time::Duration;

use longhaul::outside::fresh_nonce;
use longhaul::store::{JobRef, StoreError};
use longhaul_engine::job::Order;
use longhaul_engine::{Delivery, Nonce, Seq, Timestamp, limits};
use serde::{Deserialize, Serialize};

use crate::dynamo::{
    AwsStore, EXPIRY_ATTRIBUTE, GONE, Item, Reader, SK, TENANT, deliveries_partition, delivery_sort, job_key,
    json_text, key, mark, number, text, unavailable,
};

/// A delivery as it was read, with the mark that the next write requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDelivery {
    /// The delivery.
    pub delivery: Delivery,
    /// The mark of its last write.
    pub seen: Nonce,
}

/// "Look at this delivery."
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryMessage {
    /// Version of the protocol that wrote it.
    pub v: u32,
    /// The job.
    #[serde(flatten)]
    pub job: JobRef,
    /// The position of the event.
    pub seq: Seq,
}

/// A page of deliveries, by position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryPage {
    /// The deliveries.
    pub deliveries: Vec<Delivery>,
    /// Whether more follow.
    pub more: bool,
}

impl AwsStore {
    /// What a job's caller asked for, without its input (one cheap read); none when there is no such job of the tenant.
    ///
    /// # Errors
    /// Store errors.
    pub async fn order_without_input(&self, job: &JobRef) -> Result<Option<Order>, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(job_key(job.job)))
            .projection_expression("v, tenant, #order")
            .expression_attribute_names("#order", "order")
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a job's order", error))?;
        match answer.item {
            Some(item) if item.get(TENANT) == Some(&text(job.tenant.as_str())) => {
                Reader::new(&item, "a job item")?.json("order").map(Some)
            }
            Some(_) | None => Ok(None),
        }
    }

    /// Stores a delivery unless there is one of the same event. False: there was.
    ///
    /// # Errors
    /// Store errors.
    pub async fn order_delivery(&self, job: &JobRef, delivery: &Delivery) -> Result<bool, StoreError> {
        let item = encode(job, delivery, fresh_nonce())?;
        Ok(self.put_where_none("storing a delivery", item).await?.is_none())
    }

    /// Writes a delivery over the one that was read. The mark of the write; none when somebody else has written since.
    ///
    /// # Errors
    /// Store errors.
    pub async fn write_delivery(
        &self,
        job: &JobRef,
        delivery: &Delivery,
        seen: Nonce,
    ) -> Result<Option<Nonce>, StoreError> {
        let nonce = fresh_nonce();
        let written = self.put_over("writing a delivery", encode(job, delivery, nonce)?, seen).await?;
        Ok(written.then_some(nonce))
    }

    /// Reads the delivery of an event; none when there is none of the tenant's.
    ///
    /// # Errors
    /// Store errors.
    pub async fn delivery(&self, job: &JobRef, seq: Seq) -> Result<Option<StoredDelivery>, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(deliveries_partition(job.job), delivery_sort(seq))))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a delivery", error))?;
        match answer.item {
            Some(item) if owned_by(&item, job) => decode(&item).map(Some),
            Some(_) | None => Ok(None),
        }
    }

    /// Reads a page of a job's deliveries behind a position.
    ///
    /// # Errors
    /// Store errors.
    pub async fn deliveries(&self, job: &JobRef, after: Seq, size: usize) -> Result<DeliveryPage, StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .key_condition_expression("PK = :partition AND SK BETWEEN :first AND :last")
            .expression_attribute_values(":partition", text(deliveries_partition(job.job)))
            .expression_attribute_values(":first", text(delivery_sort(Seq(after.plus(1).0.min(LAST)))))
            .expression_attribute_values(":last", text(delivery_sort(Seq(LAST))))
            .consistent_read(true)
            .limit(i32::try_from(size.saturating_add(1)).unwrap_or(i32::MAX));
        let answer = Box::pin(query.send()).await.map_err(|error| unavailable("reading deliveries", error))?;
        // A page that DynamoDB ends by its size has a key to go on from.
        let more = answer.count() > i32::try_from(size).unwrap_or(i32::MAX) || answer.last_evaluated_key().is_some();
        let owned = answer.items().iter().filter(|item| owned_by(item, job)).take(size);
        let deliveries = owned.map(|item| decode(item).map(|stored| stored.delivery)).collect::<Result<_, _>>()?;
        Ok(DeliveryPage { deliveries, more })
    }

    /// Whether the job's webhook has said that it wants no more.
    ///
    /// # Errors
    /// Store errors.
    pub async fn webhook_gone(&self, job: &JobRef) -> Result<bool, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(deliveries_partition(job.job), GONE)))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a webhook's mark", error))?;
        Ok(answer.item.is_some_and(|item| item.get("gone") == Some(&number(1))))
    }

    /// Notes whether the job's webhook wants no more.
    ///
    /// # Errors
    /// Store errors.
    pub async fn set_webhook_gone(&self, job: &JobRef, gone: bool, now: Timestamp) -> Result<(), StoreError> {
        let mut item = key(deliveries_partition(job.job), GONE);
        item.extend([
            ("owner".to_owned(), text(job.tenant.as_str())),
            ("gone".to_owned(), number(u64::from(gone))),
            (EXPIRY_ATTRIBUTE.to_owned(), number(expires(now))),
        ]);
        let put = self.dynamodb().put_item().table_name(self.table()).set_item(Some(item));
        Box::pin(put.send()).await.map(|_| ()).map_err(|error| unavailable("writing a webhook's mark", error))
    }

    /// Sends the message that has a delivery looked at after `delay`, or as late as the queue can where that is sooner:
    /// whoever has it then sends it on.
    ///
    /// # Errors
    /// Store errors.
    pub async fn send_delivery(&self, job: &JobRef, seq: Seq, delay: Duration) -> Result<(), StoreError> {
        const ACTION: &str = "sending for a delivery";
        let queue = self.config().webhook_queue_url().map_err(|error| unavailable(ACTION, error))?;
        let message = DeliveryMessage { v: limits::PROTOCOL_VERSION_PLAIN, job: job.clone(), seq };
        let seconds = delay.as_secs().saturating_add(u64::from(delay.subsec_nanos() > 0));
        let seconds = i32::try_from(seconds.min(limits::MESSAGE_DELAY_MAX_SECONDS)).unwrap_or(0);
        let send = self
            .clients()
            .sqs()
            .send_message()
            .queue_url(queue)
            // A tenant whose receiver hangs does not keep the others waiting.
            .message_group_id(job.tenant.as_str())
            .message_body(serde_json::to_string(&message).map_err(|error| unavailable(ACTION, error))?)
            .set_delay_seconds((seconds > 0).then_some(seconds));
        Box::pin(send.send()).await.map(|_| ()).map_err(|error| unavailable(ACTION, error))
    }
}

/// The last position that a sort key has digits for.
const LAST: u64 = 9_999_999_999;

fn expires(from: Timestamp) -> u64 {
    from.plus(Duration::from_secs(limits::DELIVERY_KEPT_SECONDS)).as_seconds()
}

fn owned_by(item: &Item, job: &JobRef) -> bool {
    item.get("owner") == Some(&text(job.tenant.as_str()))
}

pub(crate) fn encode(job: &JobRef, delivery: &Delivery, nonce: Nonce) -> Result<Item, StoreError> {
    let mut item = key(deliveries_partition(job.job), delivery_sort(delivery.seq));
    item.extend([
        ("v".to_owned(), number(u64::from(limits::PROTOCOL_VERSION_PLAIN))),
        // Not `tenant`: that is the key of the index of jobs.
        ("owner".to_owned(), text(job.tenant.as_str())),
        ("delivery".to_owned(), text(json_text(delivery)?)),
        ("last_write".to_owned(), mark(nonce)),
        (EXPIRY_ATTRIBUTE.to_owned(), number(expires(delivery.created_at))),
    ]);
    Ok(item)
}

pub(crate) fn decode(item: &Item) -> Result<StoredDelivery, StoreError> {
    let reader = Reader::new(item, "a delivery")?;
    let stored = StoredDelivery { delivery: reader.json("delivery")?, seen: reader.mark("last_write")? };
    if reader.text(SK)? != delivery_sort(stored.delivery.seq) {
        return Err(reader.corrupt(SK, "it is another delivery's"));
    }
    Ok(stored)
}
