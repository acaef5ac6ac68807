//! Removing what is left of a job whose item has expired.
//!
//! Only the job item carries an expiry: a job may wait for years, and renewing the expiry of each of its entries would
//! cost a write each. When DynamoDB removes the job item the stream says so, and its reader calls this.

use std::time::Duration;

use aws_sdk_dynamodb::types::{DeleteRequest, WriteRequest};
use aws_sdk_s3::types::{Delete, ObjectIdentifier};
use longhaul::store::StoreError;
use longhaul_engine::JobId;
use longhaul_engine::erasure::Erased;

use super::attributes::{Item, text};
use super::keys::{JOB, PK, SK, deliveries_partition, job_key, job_of_partition, job_partition};
use super::{AwsStore, unavailable};
use crate::claim_check;

/// Items of one batch write (DynamoDB's bound).
const WRITE_ITEMS_MAX: usize = 25;
/// Tries for items that a batch write left out for load.
const WRITE_TRIES_MAX: u32 = 8;
/// Wait before the second of them; it doubles.
const WRITE_RETRY_WAIT_FIRST_MS: u64 = 50;

impl AwsStore {
    /// The job whose item a stream record of kind REMOVE is about, by its keys; none when it is about something else.
    #[must_use]
    pub fn removed_job(keys: serde_dynamo::Item) -> Option<JobId> {
        let keys: Item = keys.into();
        if keys.get(SK) != Some(&text(JOB)) {
            return None;
        }
        keys.get(PK)?.as_s().ok().and_then(|partition| job_of_partition(partition))
    }

    /// Removes the journal, subscriptions and payloads of a job that has no item any more. False, and nothing removed,
    /// when it has one (again).
    ///
    /// # Errors
    /// Store errors; calling again goes on where it stopped.
    pub async fn forget(&self, job: JobId) -> Result<bool, StoreError> {
        self.forget_counted(job).await.map(|removed| removed.is_some())
    }

    /// The same; how much was removed, none when the job has an item.
    ///
    /// # Errors
    /// As [`Self::forget`].
    pub async fn forget_counted(&self, job: JobId) -> Result<Option<Erased>, StoreError> {
        const ACTION: &str = "reading what is left of a job";
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(job_key(job)))
            .projection_expression(PK)
            .consistent_read(true);
        if Box::pin(get.send()).await.map_err(|error| unavailable(ACTION, error))?.item.is_some() {
            return Ok(None);
        }
        let objects = self.forget_payloads(job).await?;
        let deliveries = self.forget_partition(deliveries_partition(job), |_| true).await?;
        let own = self.forget_partition(job_partition(job), |_| true).await?;
        Ok(Some(Erased { objects, items: deliveries.saturating_add(own), ..Erased::default() }))
    }

    /// Removes the items of a partition whose sort keys `goes` says yes to; how many.
    pub(super) async fn forget_partition(
        &self,
        partition: String,
        goes: impl Fn(&str) -> bool,
    ) -> Result<u64, StoreError> {
        const ACTION: &str = "reading what is to be removed";
        let (mut start, mut removed) = (None, 0_u64);
        loop {
            let query = self
                .dynamodb()
                .query()
                .table_name(self.table())
                .key_condition_expression("PK = :partition")
                .expression_attribute_values(":partition", text(partition.clone()))
                .projection_expression("PK, SK")
                .consistent_read(true)
                .set_exclusive_start_key(start);
            let answer = Box::pin(query.send()).await.map_err(|error| unavailable(ACTION, error))?;
            let mut keys = answer.items.unwrap_or_default();
            keys.retain(|key| key.get(SK).and_then(|sort| sort.as_s().ok()).is_some_and(|sort| goes(sort)));
            removed = removed.saturating_add(u64::try_from(keys.len()).unwrap_or(u64::MAX));
            self.delete_items(keys).await?;
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(removed);
            }
        }
    }

    async fn forget_payloads(&self, job: JobId) -> Result<u64, StoreError> {
        const ACTION: &str = "removing a job's payloads";
        let (mut token, mut gone) = (None, 0_u64);
        loop {
            let list = self
                .clients
                .s3()
                .list_objects_v2()
                .bucket(self.bucket())
                .prefix(claim_check::prefix(job))
                .set_continuation_token(token);
            let answer = Box::pin(list.send()).await.map_err(|error| unavailable(ACTION, error))?;
            let mut objects = Vec::new();
            for object in answer.contents() {
                let key = object.key().unwrap_or_default();
                objects.push(ObjectIdentifier::builder().key(key).build().map_err(|e| unavailable(ACTION, e))?);
            }
            if !objects.is_empty() {
                gone = gone.saturating_add(u64::try_from(objects.len()).unwrap_or(u64::MAX));
                let delete = Delete::builder()
                    .set_objects(Some(objects))
                    .quiet(true)
                    .build()
                    .map_err(|error| unavailable(ACTION, error))?;
                let call = self.clients.s3().delete_objects().bucket(self.bucket()).delete(delete);
                let removed = Box::pin(call.send()).await.map_err(|error| unavailable(ACTION, error))?;
                if let Some(error) = removed.errors().first() {
                    let code = error.code().unwrap_or("no code").to_owned();
                    return Err(unavailable(ACTION, format!("an object could not be removed: {code}")));
                }
            }
            token = answer.next_continuation_token;
            if token.is_none() {
                return Ok(gone);
            }
        }
    }

    /// Deletes items by their keys.
    pub(crate) async fn delete_items(&self, keys: Vec<Item>) -> Result<(), StoreError> {
        let mut writes = Vec::new();
        for key in keys {
            let delete = DeleteRequest::builder()
                .set_key(Some(key))
                .build()
                .map_err(|error| unavailable("removing items", error))?;
            writes.push(WriteRequest::builder().delete_request(delete).build());
        }
        self.write_batches(writes).await
    }

    /// Makes unconditional writes, some at a time, until all are done.
    pub(crate) async fn write_batches(&self, writes: Vec<WriteRequest>) -> Result<(), StoreError> {
        const ACTION: &str = "writing several items";
        for chunk in writes.chunks(WRITE_ITEMS_MAX) {
            let mut left = chunk.to_vec();
            let mut tries = 0_u32;
            while !left.is_empty() {
                if tries >= WRITE_TRIES_MAX {
                    return Err(unavailable(ACTION, "the table is too busy"));
                }
                if tries > 0 {
                    let wait = WRITE_RETRY_WAIT_FIRST_MS.saturating_mul(1_u64 << tries.min(8));
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                }
                let call = self.dynamodb().batch_write_item().request_items(self.table(), left);
                let answer = Box::pin(call.send()).await.map_err(|error| unavailable(ACTION, error))?;
                left = answer.unprocessed_items.and_then(|mut items| items.remove(self.table())).unwrap_or_default();
                tries = tries.saturating_add(1);
            }
        }
        Ok(())
    }
}
