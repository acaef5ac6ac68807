//! Job items: submission, the conditional writes, wakes and due times.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};
use longhaul::store::{JobRef, StoreError, Submit, Woken, Write};
use longhaul_engine::job::JobWrite;
use longhaul_engine::{Job, Timestamp, limits};

use super::attributes::{Item, Reader, json_text, mark, number, text, time};
use super::job_item::{self, StoredInput};
use super::keys::{PK, SK, job_key, job_of_partition, live_shard};
use super::table::{DUE_AT, DUE_INDEX, DUE_SHARD, TENANT};
use super::{AwsStore, refused, unavailable};
use crate::claim_check;

/// The part of every condition that keeps a tenant from another's job.
const OWNED: &str = "attribute_exists(PK) AND tenant = :tenant";

impl AwsStore {
    pub(super) async fn put_job(&self, job: &Job) -> Result<Submit, StoreError> {
        const ACTION: &str = "storing a job";
        let put = self
            .dynamodb()
            .put_item()
            .table_name(self.table())
            .set_item(Some(self.new_item(job).await?))
            .condition_expression("attribute_not_exists(PK)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let error = match Box::pin(put.send()).await {
            Ok(_) => return Ok(Submit::Created),
            Err(error) => error,
        };
        let found = refused(ACTION, error, |error| match error {
            PutItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
            _ => None,
        })?;
        // An item that stood in the way and is gone again can only have expired in this very moment.
        let found = found.ok_or(StoreError::Missing { job: job.order.id })?;
        Ok(Submit::Exists(Box::new(self.whole_job(&found).await?)))
    }

    /// The item of a new job, its input brought to the bucket where it is too large for the item.
    pub(super) async fn new_item(&self, job: &Job) -> Result<Item, StoreError> {
        let json = json_text(&job.order.input)?;
        let input = if json.len() <= limits::INPUT_INLINE_BYTES_MAX {
            StoredInput::Inline(json)
        } else {
            let key = claim_check::input_key(job.order.id, job.last_write);
            claim_check::put(&self.clients, self.bucket(), &key, claim_check::pack(&json)?).await?;
            StoredInput::Referenced(key)
        };
        job_item::encode(job, input)
    }

    pub(super) async fn get_job(&self, job: &JobRef) -> Result<Option<Job>, StoreError> {
        let get =
            self.dynamodb().get_item().table_name(self.table()).set_key(Some(job_key(job.job))).consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a job", error))?;
        match answer.item {
            Some(item) if owned_by(&item, job) => self.whole_job(&item).await.map(Some),
            Some(_) | None => Ok(None),
        }
    }

    pub(super) async fn update_job(&self, job: &JobRef, write: &JobWrite) -> Result<Write, StoreError> {
        const ACTION: &str = "writing a job's state";
        let kept = match write.progress.state.is_terminal() {
            true => self.job_kept(&job.tenant).await?,
            false => job_item::KEPT_USUALLY,
        };
        let update = job_item::update(&job.tenant, job.job, write, kept)?;
        let mut call = self
            .update_owned(job)
            .update_expression(update.expression)
            .set_expression_attribute_names(Some(update.names.into_iter().collect()))
            .return_values(ReturnValue::AllNew);
        for (name, value) in update.values {
            call = call.expression_attribute_values(name, value);
        }
        call = call.expression_attribute_values(":seen", mark(write.last_write));
        let mut condition = format!("{OWNED} AND last_write = :seen");
        if let Some(wakes) = write.wakes {
            condition.push_str(" AND wakes = :wakes");
            call = call.expression_attribute_values(":wakes", number(wakes));
        }
        let error = match Box::pin(call.condition_expression(condition).send()).await {
            Ok(answer) => return Ok(Write::Written { wakes: wakes_of(&answer.attributes.unwrap_or_default())? }),
            Err(error) => error,
        };
        let found = refused_update(ACTION, error)?.filter(|item| owned_by(item, job));
        let found = found.ok_or(StoreError::Missing { job: job.job })?;
        if Reader::new(&found, "a job item")?.mark("last_write")? == write.nonce {
            return Ok(Write::Written { wakes: wakes_of(&found)? });
        }
        Ok(Write::Refused(Box::new(self.whole_job(&found).await?)))
    }

    /// Most signals find a job that waits for them, so that is tried first; each of the two writes is conditional on the
    /// status, so that whichever goes through did what the status of that moment asks for.
    pub(super) async fn wake_job(&self, job: &JobRef, now: Timestamp) -> Result<Woken, StoreError> {
        const ACTION: &str = "waking a job";
        let mut waiting = true;
        loop {
            let call = if waiting {
                self.update_owned(job)
                    .update_expression(
                        "SET #status = :pending, due_shard = :shard, due_at = :now, updated_at = :now \
                         REMOVE wait_until, wait_seen ADD wakes :one",
                    )
                    .condition_expression(format!("{OWNED} AND #status = :waiting"))
                    .expression_attribute_values(":pending", text("PENDING"))
                    .expression_attribute_values(":shard", text(live_shard(Job::due_shard(job.job))))
                    .expression_attribute_values(":now", time(now))
            } else {
                self.update_owned(job)
                    .update_expression("ADD wakes :one")
                    .return_values(ReturnValue::AllNew)
                    .condition_expression(format!("{OWNED} AND #status <> :waiting"))
            };
            let call = call
                .expression_attribute_names("#status", "status")
                .expression_attribute_values(":waiting", text("WAITING"))
                .expression_attribute_values(":one", number(1));
            let error = match Box::pin(call.send()).await {
                Ok(_) if waiting => return Ok(Woken::Open),
                Ok(woken) => return woken_of(&woken.attributes.unwrap_or_default()),
                Err(error) => error,
            };
            let found = refused_update(ACTION, error)?.filter(|item| owned_by(item, job));
            found.ok_or(StoreError::Missing { job: job.job })?;
            waiting = !waiting;
        }
    }

    pub(super) async fn query_due(
        &self,
        shard: u8,
        until: Timestamp,
        jobs_max: usize,
    ) -> Result<Vec<JobRef>, StoreError> {
        let mut jobs = Vec::new();
        let mut start = None;
        loop {
            let missing = jobs_max.saturating_sub(jobs.len());
            if missing == 0 {
                return Ok(jobs);
            }
            let query = self
                .dynamodb()
                .query()
                .table_name(self.table())
                .index_name(DUE_INDEX)
                .key_condition_expression("due_shard = :shard AND due_at <= :until")
                .expression_attribute_values(":shard", text(live_shard(shard)))
                .expression_attribute_values(":until", time(until))
                .limit(i32::try_from(missing).unwrap_or(i32::MAX))
                .set_exclusive_start_key(start);
            let answer = Box::pin(query.send()).await.map_err(|error| unavailable("reading the due index", error))?;
            for item in answer.items() {
                match reference(item) {
                    Ok(job) => jobs.push(job),
                    // One bad item must not keep all the others of its shard from being looked after.
                    Err(error) => tracing::error!(shard, %error, "an item of the due index is passed over"),
                }
            }
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(jobs);
            }
        }
    }

    pub(super) async fn update_due(
        &self,
        job: &JobRef,
        seen_due: Timestamp,
        due: Timestamp,
    ) -> Result<bool, StoreError> {
        const ACTION: &str = "moving a due time";
        // The shard is compared as well: among the dead letters the same attribute is the time of the failure.
        let call = self
            .update_owned(job)
            .update_expression("SET due_at = :due ADD sweeps :one")
            .condition_expression(format!("{OWNED} AND due_at = :seen AND due_shard = :shard"))
            .expression_attribute_values(":due", time(due))
            .expression_attribute_values(":seen", time(seen_due))
            .expression_attribute_values(":shard", text(live_shard(Job::due_shard(job.job))))
            .expression_attribute_values(":one", number(1));
        let error = match Box::pin(call.send()).await {
            Ok(_) => return Ok(true),
            Err(error) => error,
        };
        match refused_update(ACTION, error)?.filter(|item| owned_by(item, job)) {
            // Its own echo, or another sweeper that wrote the same: a second continuation does no harm.
            Some(found) => {
                let live = text(live_shard(Job::due_shard(job.job)));
                Ok(found.get(DUE_AT) == Some(&time(due)) && found.get(DUE_SHARD) == Some(&live))
            }
            None => Ok(false),
        }
    }

    /// An update of a job item that gets back what stands in its way; the condition must begin with [`OWNED`].
    fn update_owned(&self, job: &JobRef) -> UpdateItemFluentBuilder {
        self.dynamodb()
            .update_item()
            .table_name(self.table())
            .set_key(Some(job_key(job.job)))
            .expression_attribute_values(":tenant", text(job.tenant.as_str()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }

    /// The job of an item, its input fetched where that is in the bucket.
    pub(super) async fn whole_job(&self, item: &Item) -> Result<Job, StoreError> {
        let job_item::Decoded { mut job, input_ref } = job_item::decode(item)?;
        if let Some(key) = input_ref {
            let json = claim_check::get(&self.clients, self.bucket(), &key).await?;
            job.order.input = serde_json::from_str(&json).map_err(|error| StoreError::Corrupt {
                what: format!("the input of job {}", job.order.id),
                detail: error.to_string(),
            })?;
        }
        Ok(job)
    }
}

fn refused_update(
    action: &'static str,
    error: aws_sdk_dynamodb::error::SdkError<UpdateItemError>,
) -> Result<Option<Item>, StoreError> {
    refused(action, error, |error| match error {
        UpdateItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
        _ => None,
    })
}

fn owned_by(item: &Item, job: &JobRef) -> bool {
    item.get(TENANT) == Some(&text(job.tenant.as_str()))
}

fn wakes_of(item: &Item) -> Result<u64, StoreError> {
    Reader::new(item, "a job item")?.number("wakes")
}

fn woken_of(item: &Item) -> Result<Woken, StoreError> {
    let ended = job_item::decode(item)?.job.progress.state.is_terminal();
    Ok(if ended { Woken::Ended } else { Woken::Open })
}

/// The job that an entry of the due index names.
pub(super) fn reference(item: &Item) -> Result<JobRef, StoreError> {
    let reader = Reader::unversioned(item, "an entry of the due index");
    let job = job_of_partition(reader.text(PK)?).ok_or_else(|| reader.corrupt(SK, "it names no job"))?;
    Ok(JobRef { tenant: reader.id(TENANT)?, job })
}
