//! The lines of threads: one small item a thread, in its tenant's partition.
//!
//! `TENANT#<tenant>` / `THREAD#<thread>` is all that a thread leaves behind; the jobs are named in it and stand by
//! themselves. Who removes a tenant removes these with everything else in the partition. A line that has become empty
//! goes by its expiry, so that nobody needs the right to delete it.

use std::time::Duration;

use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem};
use longhaul::store::{InLine, LineWritten, StoreError, Submit, ThreadRef};
use longhaul_engine::thread::{Line, LineWrite};
use longhaul_engine::{Job, limits};

use super::attributes::{Item, Reader, json_text, mark, number, text, time};
use super::keys::{key, tenant_partition, thread_sort};
use super::table::EXPIRY_ATTRIBUTE;
use super::{AwsStore, refused, unavailable};

/// How long an empty line is kept: a conversation that goes on within a day finds its item.
const EMPTY_KEPT: Duration = Duration::from_secs(24 * 3_600);
/// Tries of a transaction that met another one: each is over in milliseconds.
const TRANSACTION_TRIES_MAX: u32 = 8;
/// Wait before the second of them; it doubles.
const TRANSACTION_WAIT_FIRST_MS: u64 = 20;

/// The condition under which a line is written.
const ABSENT: &str = "attribute_not_exists(PK)";
const AS_READ: &str = "last_write = :seen";

impl AwsStore {
    pub(super) async fn get_line(&self, thread: &ThreadRef) -> Result<Line, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(tenant_partition(&thread.tenant), thread_sort(&thread.thread))))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a thread's line", error))?;
        answer.item.as_ref().map_or_else(|| Ok(Line::default()), decode)
    }

    pub(super) async fn put_line(&self, thread: &ThreadRef, write: &LineWrite) -> Result<LineWritten, StoreError> {
        let put = self
            .dynamodb()
            .put_item()
            .table_name(self.table())
            .set_item(Some(encode(thread, write)?))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let put = match write.mark {
            None => put.condition_expression(ABSENT),
            Some(seen) => put.condition_expression(AS_READ).expression_attribute_values(":seen", mark(seen)),
        };
        let error = match Box::pin(put.send()).await {
            Ok(_) => return Ok(LineWritten::Written),
            Err(error) => error,
        };
        let found = refused("writing a thread's line", error, |error| match error {
            PutItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
            _ => None,
        })?;
        let found = found.as_ref().map_or_else(|| Ok(Line::default()), decode)?;
        Ok(match found.mark == Some(write.nonce) {
            true => LineWritten::Written,
            false => LineWritten::Refused(found),
        })
    }

    pub(super) async fn put_job_in_line(
        &self,
        job: &Job,
        thread: &ThreadRef,
        write: &LineWrite,
    ) -> Result<InLine, StoreError> {
        const ACTION: &str = "storing a job of a thread";
        let job_put = Put::builder()
            .table_name(self.table())
            .set_item(Some(self.new_item(job).await?))
            .condition_expression(ABSENT)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .map_err(|error| unavailable(ACTION, error))?;
        let line_put = Put::builder()
            .table_name(self.table())
            .set_item(Some(encode(thread, write)?))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let line_put = match write.mark {
            None => line_put.condition_expression(ABSENT),
            Some(seen) => line_put.condition_expression(AS_READ).expression_attribute_values(":seen", mark(seen)),
        };
        let line_put = line_put.build().map_err(|error| unavailable(ACTION, error))?;
        let mut tries = 0_u32;
        loop {
            let call = self
                .dynamodb()
                .transact_write_items()
                .transact_items(TransactWriteItem::builder().put(job_put.clone()).build())
                .transact_items(TransactWriteItem::builder().put(line_put.clone()).build());
            let error = match Box::pin(call.send()).await {
                Ok(_) => return Ok(InLine::Submit(Submit::Created)),
                Err(error) => error,
            };
            let Some([of_job, of_line]) = reasons(&error) else { return Err(unavailable(ACTION, error)) };
            tries = tries.saturating_add(1);
            if let Some(found) = failed_condition(of_job) {
                let found = found.ok_or(StoreError::Missing { job: job.order.id })?;
                return Ok(InLine::Submit(Submit::Exists(Box::new(self.whole_job(&found).await?))));
            }
            if let Some(found) = failed_condition(of_line) {
                return Ok(InLine::Refused(found.as_ref().map_or_else(|| Ok(Line::default()), decode)?));
            }
            if tries >= TRANSACTION_TRIES_MAX {
                return Err(unavailable(ACTION, error));
            }
            // Another write of one of the two items was under way.
            let wait = TRANSACTION_WAIT_FIRST_MS.saturating_mul(1_u64 << tries.min(6));
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
    }
}

/// Why a transaction of two writes was cancelled; none when it was not.
fn reasons<R>(error: &SdkError<TransactWriteItemsError, R>) -> Option<[&CancellationReason; 2]> {
    match error.as_service_error()? {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => match cancelled.cancellation_reasons() {
            [of_job, of_line] => Some([of_job, of_line]),
            _ => None,
        },
        _ => None,
    }
}

/// What stood in the place of a write whose condition failed; none when it was not that.
fn failed_condition(reason: &CancellationReason) -> Option<Option<Item>> {
    (reason.code() == Some("ConditionalCheckFailed")).then(|| reason.item().cloned())
}

pub(super) fn encode(thread: &ThreadRef, write: &LineWrite) -> Result<Item, StoreError> {
    let mut item = key(tenant_partition(&thread.tenant), thread_sort(&thread.thread));
    item.extend([
        ("v".to_owned(), number(u64::from(limits::PROTOCOL_VERSION_PLAIN))),
        ("places".to_owned(), text(json_text(&write.places)?)),
        ("last_write".to_owned(), mark(write.nonce)),
        ("updated_at".to_owned(), time(write.at)),
    ]);
    if write.places.is_empty() {
        item.insert(EXPIRY_ATTRIBUTE.to_owned(), number(write.at.plus(EMPTY_KEPT).as_seconds()));
    }
    Ok(item)
}

pub(super) fn decode(item: &Item) -> Result<Line, StoreError> {
    let reader = Reader::new(item, "a thread's line")?;
    Ok(Line { places: reader.json("places")?, mark: Some(reader.mark("last_write")?) })
}
