//! The journal: one conditional put a batch, consistent reads.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use futures::{StreamExt, TryStreamExt};
use longhaul::store::{Append, JobRef, StoreError};
use longhaul_engine::{Batch, JobId, Seq, limits};
use serde::{Deserialize, Serialize};

use super::attributes::{Item, Reader, text};
use super::batch_item::{self, Decoded, StoredEntries};
use super::keys::{BATCH_AT_MAX, BATCH_LAST, BATCH_PREFIX, SK, batch_sort, job_partition, key};
use super::{AwsStore, refused, unavailable};
use crate::claim_check;
use crate::first_try::Said;

/// Nothing stands there.
const NEW: &str = "attribute_not_exists(PK)";

/// Large batches fetched from the bucket at a time: each may be some megabytes of a small function's memory.
const FETCHES_MAX: usize = 4;

impl AwsStore {
    pub(super) async fn put_batch(&self, job: &JobRef, batch: &Batch) -> Result<Append, StoreError> {
        const ACTION: &str = "appending to a journal";
        let mut entries = batch_item::place(job, batch)?;
        if let StoredEntries::Referenced { key, packed } = &mut entries {
            claim_check::put(&self.clients, self.bucket(), key, std::mem::take(packed)).await?;
        }
        let item = batch_item::encode(job, batch, entries);
        let found = match self.try_put_new(&item).await {
            Some(Put::Done) => return Ok(Append::Written),
            Some(Put::Refused(found)) => found,
            Some(Put::Never(why)) => return Err(unavailable(ACTION, why)),
            None => {
                let put = self
                    .dynamodb()
                    .put_item()
                    .table_name(self.table())
                    .set_item(Some(item))
                    .condition_expression(NEW)
                    .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
                let put = put.customize().config_override(crate::clients::later_tries());
                let error = match Box::pin(put.send()).await {
                    Ok(_) => return Ok(Append::Written),
                    Err(error) => error,
                };
                refused(ACTION, error, |error| match error {
                    PutItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
                    _ => None,
                })?
            }
        };
        // Batches are only ever removed with their whole job, long after its end.
        let found = batch_item::decode(&found.ok_or(StoreError::Missing { job: job.job })?)?;
        if found.batch.nonce == batch.nonce {
            return Ok(Append::Written);
        }
        Ok(Append::Conflict(Box::new(self.whole_batch(found).await?)))
    }

    /// Tries once, without the SDK, to put an item where nothing stands. None where the SDK is to be asked.
    async fn try_put_new(&self, item: &Item) -> Option<Put> {
        #[derive(Serialize)]
        #[serde(rename_all = "PascalCase")]
        struct Request<'a> {
            table_name: &'a str,
            item: serde_dynamo::Item,
            condition_expression: &'static str,
            return_values_on_condition_check_failure: &'static str,
        }
        #[derive(Deserialize)]
        struct Refusal {
            #[serde(rename = "Item")]
            item: Option<serde_dynamo::Item>,
        }
        let request = Request {
            table_name: self.table(),
            item: item.clone().into(),
            condition_expression: NEW,
            return_values_on_condition_check_failure: "ALL_OLD",
        };
        match Box::pin(self.clients().try_write("PutItem", serde_json::to_vec(&request).ok()?)).await? {
            Said::Done => Some(Put::Done),
            Said::Never(why) => Some(Put::Never(why)),
            Said::Refused(body) => {
                let refusal: Refusal = serde_json::from_slice(&body).ok()?;
                Some(Put::Refused(refusal.item.map(Item::from)))
            }
        }
    }

    pub(super) async fn get_batch(&self, job: JobId, at: Seq) -> Result<Option<Batch>, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(job_partition(job), batch_sort(at))))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a batch", error))?;
        match answer.item {
            Some(item) => self.whole_batch(batch_item::decode(&item)?).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads a part of a journal, as [`Store::journal`](longhaul::store::Store::journal) does the whole: it stops behind
    /// the batch with which `entries_max` entries from `from` on are there. For pages, whose readers would otherwise
    /// have the rest of the journal read for each of them.
    ///
    /// # Errors
    /// Store errors.
    pub async fn journal_part(&self, job: JobId, from: Seq, entries_max: usize) -> Result<Vec<Batch>, StoreError> {
        if from > BATCH_AT_MAX {
            return Ok(Vec::new());
        }
        // The batch that holds `from` begins at most this far before it.
        let reach = u64::try_from(limits::BATCH_ENTRIES_MAX).unwrap_or(u64::MAX).saturating_sub(1);
        let first = Seq(from.0.saturating_sub(reach).max(Seq::FIRST.0));
        // A batch has one entry at least.
        let items_max = i32::try_from(entries_max.saturating_add(limits::BATCH_ENTRIES_MAX)).ok();
        let enough = from.plus(u64::try_from(entries_max).unwrap_or(u64::MAX));
        let mut prefix = Prefix { from, enough, next: None, batches: Vec::new() };
        let mut start = None;
        loop {
            let query = self
                .dynamodb()
                .query()
                .table_name(self.table())
                .key_condition_expression("PK = :partition AND SK BETWEEN :first AND :last")
                .expression_attribute_values(":partition", text(job_partition(job)))
                .expression_attribute_values(":first", text(batch_sort(first)))
                .expression_attribute_values(":last", text(BATCH_LAST))
                .consistent_read(true)
                .set_limit(items_max)
                .set_exclusive_start_key(start);
            let answer = Box::pin(query.send()).await.map_err(|error| unavailable("reading a journal", error))?;
            let whole = prefix.extend(answer.items())?;
            start = answer.last_evaluated_key;
            if whole == Whole::Cut || start.is_none() {
                break;
            }
        }
        futures::stream::iter(prefix.batches)
            .map(|batch| self.whole_batch(batch))
            .buffered(FETCHES_MAX)
            .try_collect()
            .await
    }

    /// A batch with its entries, fetched where they are in the bucket.
    pub(super) async fn whole_batch(&self, decoded: Decoded) -> Result<Batch, StoreError> {
        let Decoded { job, mut batch, next: _, entries_ref } = decoded;
        if let Some(key) = entries_ref {
            let json = claim_check::get(&self.clients, self.bucket(), &key).await?;
            batch.entries = serde_json::from_str(&json).map_err(|error| StoreError::Corrupt {
                what: format!("the batch at {} of job {}", batch.at, job.job),
                detail: error.to_string(),
            })?;
        }
        Ok(batch)
    }
}

/// What became of a put where nothing was to stand.
enum Put {
    /// It is done.
    Done,
    /// This stands there; nothing, if it went away in that moment.
    Refused(Option<Item>),
    /// It cannot be done.
    Never(String),
}

/// Whether a journal goes on behind what was read.
#[derive(PartialEq, Eq)]
enum Whole {
    /// It may.
    Open,
    /// A gap was met, so that what follows does not count; or there is enough.
    Cut,
}

/// The batches from the one that holds `from` on, up to the first gap or until they reach `enough`.
struct Prefix {
    from: Seq,
    enough: Seq,
    /// Where the next batch must stand; none before the first.
    next: Option<Seq>,
    batches: Vec<Decoded>,
}

impl Prefix {
    fn extend(&mut self, items: &[Item]) -> Result<Whole, StoreError> {
        for item in items {
            if self.next.is_some_and(|next| next >= self.enough) {
                return Ok(Whole::Cut);
            }
            let at = position(item)?;
            let follows = self.next.map_or(at <= self.from, |next| at == next);
            if !follows {
                return Ok(Whole::Cut);
            }
            let batch = batch_item::decode(item)?;
            // What ends before `from` was met on the way to the batch that holds it.
            if batch.next > self.from {
                self.next = Some(batch.next);
                self.batches.push(batch);
            }
        }
        Ok(Whole::Open)
    }
}

/// The position of a batch, by its key alone: what stands behind a gap is not looked into.
fn position(item: &Item) -> Result<Seq, StoreError> {
    let reader = Reader::unversioned(item, "an entry batch");
    let digits = reader.text(SK)?.strip_prefix(BATCH_PREFIX).unwrap_or_default();
    digits.parse().map(Seq).map_err(|error| reader.corrupt(SK, error))
}
