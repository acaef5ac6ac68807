//! The work of an erasure: finding what is a tenant's, and removing it.
//!
//! Each call can be made again after one that died in its middle. Nothing is removed that is not in the tenant's own
//! partitions or in those of its jobs, which are found by the index of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::types::{PutRequest, ReturnValuesOnConditionCheckFailure, WriteRequest};
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message, QueueAttributeName,
};
use longhaul::store::{JobRef, StoreError};
use longhaul_engine::erasure::Erased;
use longhaul_engine::{JobId, Nonce, TenantId};
use serde_json::Value;

use super::attributes::{Item, Reader, mark, text};
use super::keys::{
    CONNECTION_PREFIX, ERASED_PREFIX, ERASURE, PK, SK, agents_partition, erased_sort, job_key, job_of_partition, key,
    tenant_partition,
};
use super::table::{JOBS_INDEX, TENANT};
use super::{AwsStore, refused, unavailable};

/// Messages of one receive (the bound of SQS).
const LETTERS_AT_ONCE: i32 = 10;
/// How long a letter that was looked at stays out of sight should the sweep die: until the next one, and longer than one.
const LETTERS_HIDDEN_SECONDS: i32 = 60;
/// What is done to them.
const LETTERS: &str = "removing dead letters";

/// Where a job stands for an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has no item.
    Gone,
    /// It can be removed, if this is still the mark of its last write: it has ended, or came as a file, which nobody drives.
    Ended {
        /// The mark.
        seen: Nonce,
    },
    /// It has not ended.
    Open {
        /// The mark.
        seen: Nonce,
    },
}

impl AwsStore {
    /// A page of all jobs of a tenant, and where the next begins. May lag behind writes.
    ///
    /// # Errors
    /// Store errors.
    pub async fn tenant_jobs(
        &self,
        tenant: &TenantId,
        start: Option<Item>,
        jobs_max: usize,
    ) -> Result<(Vec<JobId>, Option<Item>), StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .index_name(JOBS_INDEX)
            .key_condition_expression("tenant = :tenant")
            .expression_attribute_values(":tenant", text(tenant.as_str()))
            .limit(i32::try_from(jobs_max).unwrap_or(i32::MAX))
            .set_exclusive_start_key(start);
        let answer = Box::pin(query.send()).await.map_err(|error| unavailable("looking for a tenant's jobs", error))?;
        let mut jobs = Vec::new();
        for item in answer.items() {
            let reader = Reader::unversioned(item, "an index entry");
            jobs.push(job_of_partition(reader.text(PK)?).ok_or_else(|| reader.corrupt(PK, "it names no job"))?);
        }
        Ok((jobs, answer.last_evaluated_key))
    }

    /// Where a job stands. It is read as far as every version of the protocol writes it.
    ///
    /// # Errors
    /// Store errors.
    pub async fn standing(&self, job: &JobRef) -> Result<Standing, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(job_key(job.job)))
            .projection_expression("tenant, #status, #order, last_write")
            .expression_attribute_names("#status", "status")
            .expression_attribute_names("#order", "order")
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading where a job stands", error))?;
        let Some(item) = answer.item.filter(|item| item.get(TENANT) == Some(&text(job.tenant.as_str()))) else {
            return Ok(Standing::Gone);
        };
        let reader = Reader::unversioned(&item, "a job item");
        let seen = reader.mark("last_write")?;
        // What cannot be read counts as open: asked to end, it says what is wrong with it.
        let ended = reader.text("status").is_ok_and(|status| matches!(status, "COMPLETED" | "FAILED" | "CANCELLED"));
        let order = reader.json::<Value>("order").unwrap_or_default();
        let imported = order.pointer("/origin/from").is_some_and(|from| from == "imported");
        Ok(if ended || imported { Standing::Ended { seen } } else { Standing::Open { seen } })
    }

    /// Writes down jobs that are about to be removed, to be looked at once more.
    ///
    /// # Errors
    /// Store errors.
    pub async fn note_erased(&self, tenant: &TenantId, jobs: &[JobId]) -> Result<(), StoreError> {
        let mut writes = Vec::new();
        for job in jobs {
            let put = PutRequest::builder()
                .set_item(Some(key(tenant_partition(tenant), erased_sort(*job))))
                .build()
                .map_err(|error| unavailable("noting a job", error))?;
            writes.push(WriteRequest::builder().put_request(put).build());
        }
        self.write_batches(writes).await
    }

    /// Jobs that were noted and may have been written to since.
    ///
    /// # Errors
    /// Store errors.
    pub async fn noted_erased(&self, tenant: &TenantId, jobs_max: usize) -> Result<Vec<JobId>, StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .key_condition_expression("PK = :tenant AND begins_with(SK, :erased)")
            .expression_attribute_values(":tenant", text(tenant_partition(tenant)))
            .expression_attribute_values(":erased", text(ERASED_PREFIX))
            .consistent_read(true)
            .limit(i32::try_from(jobs_max).unwrap_or(i32::MAX));
        let answer =
            Box::pin(query.send()).await.map_err(|error| unavailable("reading which jobs were removed", error))?;
        let sorts = answer.items().iter().filter_map(|item| item.get(SK)?.as_s().ok());
        Ok(sorts.filter_map(|sort| sort.strip_prefix(ERASED_PREFIX)?.parse().ok()).collect())
    }

    /// Removes the note of jobs that nobody writes to any more.
    ///
    /// # Errors
    /// Store errors.
    pub async fn drop_noted(&self, tenant: &TenantId, jobs: &[JobId]) -> Result<(), StoreError> {
        self.delete_items(jobs.iter().map(|job| key(tenant_partition(tenant), erased_sort(*job))).collect()).await
    }

    /// Removes a job's item, if it was not written since. False: it was.
    ///
    /// # Errors
    /// Store errors.
    pub async fn remove_job(&self, job: &JobRef, seen: Nonce) -> Result<bool, StoreError> {
        let delete = self
            .dynamodb()
            .delete_item()
            .table_name(self.table())
            .set_key(Some(job_key(job.job)))
            .condition_expression("tenant = :tenant AND last_write = :seen")
            .expression_attribute_values(":tenant", text(job.tenant.as_str()))
            .expression_attribute_values(":seen", mark(seen))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        match Box::pin(delete.send()).await {
            Ok(_) => Ok(true),
            Err(error) => {
                let found = refused("removing a job", error, |error| match error {
                    DeleteItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
                    _ => None,
                })?;
                Ok(found.is_none())
            }
        }
    }

    /// Removes what is a tenant's and no job's: its definitions, settings, book and connections, which are told nothing more
    /// from then on. What erasures know of themselves stays.
    ///
    /// # Errors
    /// Store errors; calling again goes on where it stopped.
    pub async fn clear_tenant(&self, tenant: &TenantId) -> Result<Erased, StoreError> {
        for connection in self.tenant_connections(tenant).await? {
            self.drop_connection(&connection).await?;
        }
        let agents = self.forget_partition(agents_partition(tenant), |_| true).await?;
        let stays = |sort: &str| sort == ERASURE || sort.starts_with("ERASURE#") || sort.starts_with(ERASED_PREFIX);
        let own = self.forget_partition(tenant_partition(tenant), |sort| !stays(sort)).await?;
        Ok(Erased { items: agents.saturating_add(own), ..Erased::default() })
    }

    /// The gateway's ids of a tenant's connections.
    ///
    /// # Errors
    /// Store errors.
    pub async fn tenant_connections(&self, tenant: &TenantId) -> Result<Vec<String>, StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .key_condition_expression("PK = :tenant AND begins_with(SK, :connection)")
            .expression_attribute_values(":tenant", text(tenant_partition(tenant)))
            .expression_attribute_values(":connection", text(CONNECTION_PREFIX))
            .projection_expression("SK")
            .consistent_read(true);
        let mut items = query.into_paginator().items().send();
        let mut connections = Vec::new();
        while let Some(item) = items.next().await {
            let item = item.map_err(|error| unavailable("reading a tenant's connections", error))?;
            let id =
                item.get(SK).and_then(|sort| sort.as_s().ok()).and_then(|sort| sort.strip_prefix(CONNECTION_PREFIX));
            connections.extend(id.map(str::to_owned));
        }
        Ok(connections)
    }

    /// Removes the messages of some tenants from the dead-letter queue. How many of each, and whether the whole queue was
    /// gone through before `until`: a letter that somebody else has in hand is not seen. Others' letters are handed back.
    ///
    /// # Errors
    /// Store errors; calling again goes on where it stopped.
    pub async fn remove_dead_letters(
        &self,
        tenants: &BTreeSet<TenantId>,
        until: Instant,
    ) -> Result<(BTreeMap<TenantId, u64>, bool), StoreError> {
        let (mut removed, mut others) = (BTreeMap::new(), Vec::new());
        // Asked first: what this sweep takes in hand shows in the count for up to a minute.
        let in_hand = self.dead_letters_in_hand().await?;
        // Handing a letter back takes as long as receiving it.
        let began = Instant::now();
        let until = began + until.saturating_duration_since(began) / 2;
        let whole = loop {
            if Instant::now() >= until {
                break false;
            }
            let messages = self.receive_dead_letters().await?;
            if messages.is_empty() {
                break true;
            }
            let mut own = Vec::new();
            for message in messages {
                let receipt = message.receipt_handle.unwrap_or_default();
                match tenants.iter().find(|tenant| names(message.body.as_deref().unwrap_or_default(), tenant)) {
                    Some(tenant) => {
                        let count: &mut u64 = removed.entry(tenant.clone()).or_default();
                        *count = count.saturating_add(1);
                        own.push(receipt);
                    }
                    None => others.push(receipt),
                }
            }
            self.delete_dead_letters(own).await?;
        };
        self.give_back_dead_letters(others).await?;
        Ok((removed, whole && !in_hand))
    }

    async fn receive_dead_letters(&self) -> Result<Vec<Message>, StoreError> {
        let receive = self
            .clients()
            .sqs()
            .receive_message()
            .queue_url(&self.config().dead_letter_queue_url)
            .max_number_of_messages(LETTERS_AT_ONCE)
            // One that waits asks all servers of the queue.
            .wait_time_seconds(1)
            .visibility_timeout(LETTERS_HIDDEN_SECONDS);
        let answer = Box::pin(receive.send()).await.map_err(|error| unavailable(LETTERS, error))?;
        Ok(answer.messages.unwrap_or_default())
    }

    async fn delete_dead_letters(&self, receipts: Vec<String>) -> Result<(), StoreError> {
        if receipts.is_empty() {
            return Ok(());
        }
        let entry = |(at, receipt): (usize, String)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(at.to_string()).receipt_handle(receipt);
            entry.build().map_err(|error| unavailable(LETTERS, error))
        };
        let entries = receipts.into_iter().enumerate().map(entry).collect::<Result<_, _>>()?;
        let queue = &self.config().dead_letter_queue_url;
        let delete = self.clients().sqs().delete_message_batch().queue_url(queue).set_entries(Some(entries));
        let deleted = Box::pin(delete.send()).await.map_err(|error| unavailable(LETTERS, error))?;
        match deleted.failed().first() {
            Some(failed) => Err(unavailable(LETTERS, format!("a message could not be removed: {}", failed.code()))),
            None => Ok(()),
        }
    }

    /// Brings letters back into sight. One that is not comes back by itself.
    async fn give_back_dead_letters(&self, receipts: Vec<String>) -> Result<(), StoreError> {
        let batch_max = usize::try_from(LETTERS_AT_ONCE).unwrap_or(1);
        for batch in receipts.chunks(batch_max) {
            let entry = |(at, receipt): (usize, &String)| {
                let entry = ChangeMessageVisibilityBatchRequestEntry::builder().id(at.to_string());
                let entry = entry.receipt_handle(receipt).visibility_timeout(0);
                entry.build().map_err(|error| unavailable(LETTERS, error))
            };
            let entries = batch.iter().enumerate().map(entry).collect::<Result<_, _>>()?;
            let queue = &self.config().dead_letter_queue_url;
            let change = self.clients().sqs().change_message_visibility_batch().queue_url(queue);
            Box::pin(change.set_entries(Some(entries)).send()).await.map_err(|error| unavailable(LETTERS, error))?;
        }
        Ok(())
    }

    /// Whether somebody has letters in hand: a sweep that died, or a person.
    async fn dead_letters_in_hand(&self) -> Result<bool, StoreError> {
        let name = QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
        let queue = &self.config().dead_letter_queue_url;
        let get = self.clients().sqs().get_queue_attributes().queue_url(queue).attribute_names(name.clone());
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable(LETTERS, error))?;
        Ok(answer.attributes().and_then(|attributes| attributes.get(&name)).is_some_and(|count| count != "0"))
    }
}

/// Whether a message of ours, of whatever version, is about a tenant's job. One that is about several jobs wakes nobody
/// from there: their due times do.
fn names(body: &str, tenant: &TenantId) -> bool {
    let Ok(message) = serde_json::from_str::<Value>(body) else { return false };
    let is_of = |about: &Value| about.get("tenant").and_then(Value::as_str) == Some(tenant.as_str());
    is_of(&message) || message.get("jobs").and_then(Value::as_array).is_some_and(|jobs| jobs.iter().any(is_of))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use super::*;

    #[test]
    fn messages_that_name_the_tenant() {
        let tenant = "acme".parse().unwrap();
        for (body, wanted) in [
            (r#"{"v":1,"type":"job","tenant":"acme","job":"x","dead_letter":{}}"#, true),
            (r#"{"v":9,"type":"job","tenant":"acme"}"#, true),
            (r#"{"v":1,"type":"watchdog","session":"s","jobs":[{"tenant":"b"},{"tenant":"acme"}]}"#, true),
            (r#"{"v":1,"type":"job","tenant":"acme2"}"#, false),
            (r#"{"v":1,"type":"watchdog","session":"acme","jobs":[{"tenant":"b"}]}"#, false),
            ("acme", false),
        ] {
            assert_eq!(names(body, &tenant), wanted, "{body}");
        }
    }
}
