//! Lists of jobs: a tenant's own, newest first, and its dead letters.
//!
//! A filter is looked up in the index `search` by one of its parts; the others are compared with the items of what is
//! found there. Whose jobs are looked at comes from the caller's tenant alone, never from a cursor.
//!
//! The indexes hold keys alone; the items are read in batches, consistently, so that a list never shows a status that
//! a later read of the job contradicts.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul::store::StoreError;
use longhaul_engine::job::{Status, Totals};
use longhaul_engine::{AgentRef, JobId, TenantId, ThreadId, Timestamp, limits};
use serde::Serialize;

use super::attributes::{Item, Reader, text};
use super::job_item::{self, LISTED_DIGITS};
use super::keys::{
    JOB, PK, dead_shard, find_agent_sort, find_label_sort, find_thread_sort, found_by_agent, found_by_label,
    found_by_status, found_by_thread, job_key, job_of_partition, job_partition, key,
};
use super::table::{DUE_AT, DUE_INDEX, DUE_SHARD, FOUND_BY, JOBS_INDEX, LISTED, SEARCH_INDEX, TENANT};
use super::{AwsStore, unavailable};

/// Items of one batch read (DynamoDB's bound).
const READ_ITEMS_MAX: usize = 100;
/// Index entries looked at for one page: a filter that matches next to nothing ends here, with a cursor.
const LOOKED_AT_MAX: usize = 1_000;
/// Tries for items that a batch read left out for load.
const READ_TRIES_MAX: u32 = 6;
/// Wait before the second of them; it doubles.
const READ_RETRY_WAIT_FIRST_MS: u64 = 50;

/// Which jobs a list shows; what is not named does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Their status.
    pub status: Option<Status>,
    /// The name of their agent.
    pub agent: Option<String>,
    /// Its version; any, where none is named.
    pub version: Option<u32>,
    /// A label and its value.
    pub label: Option<(String, String)>,
    /// Their thread.
    pub thread: Option<String>,
    /// Submitted at this time or later.
    pub since: Option<Timestamp>,
    /// Submitted before this time.
    pub until: Option<Timestamp>,
}

impl JobFilter {
    /// The sort values of the index between which its jobs stand: a time alone comes before all jobs of its
    /// millisecond.
    fn range(&self) -> (String, String) {
        let at = |time: Timestamp| format!("{:0LISTED_DIGITS$}", time.as_millis().min(LISTED_MILLIS_MAX));
        // One digit stands before all times, and one more than they have behind them.
        let (first, last) = ("0".to_owned(), "9".repeat(LISTED_DIGITS + 1));
        (self.since.map_or(first, at), self.until.map_or(last, at))
    }

    fn admits(&self, job: &JobSummary) -> bool {
        self.status.is_none_or(|status| job.status == status)
            && self.agent.as_ref().is_none_or(|agent| job.agent.name.as_str() == agent)
            && self.version.is_none_or(|version| job.agent.version == version)
            && self.label.as_ref().is_none_or(|(name, value)| job.labels.get(name) == Some(value))
            && self.thread.as_ref().is_none_or(|thread| job.thread.as_ref().is_some_and(|of| of.as_str() == thread))
            && self.since.is_none_or(|since| job.submitted_at >= since)
            && self.until.is_none_or(|until| job.submitted_at < until)
    }
}

/// A job in a list: all but its input.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobSummary {
    /// Its id.
    pub id: JobId,
    /// Its agent.
    pub agent: AgentRef,
    /// Where it stands.
    pub status: Status,
    /// Its owner's marks.
    pub labels: BTreeMap<String, String>,
    /// Its thread.
    pub thread: Option<ThreadId>,
    /// When it was accepted.
    pub submitted_at: Timestamp,
    /// The subject of the token that submitted it.
    pub submitted_by: String,
    /// When its state was last written.
    pub updated_at: Timestamp,
    /// What it has used as last known.
    pub totals: Totals,
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobSummary>,
    /// Where the next page begins; none when this is the last. It says nothing to its reader and may follow a page
    /// that is empty.
    pub next: Option<String>,
}

/// The latest time that a sort value of the indexes has digits for.
const LISTED_MILLIS_MAX: u64 = 999_999_999_999_999;

/// Which part of which index a list is read from.
struct List {
    index: &'static str,
    hash: (&'static str, String),
    range: &'static str,
    /// The sort values that its places have; all, where there are none.
    between: Option<(String, String)>,
    /// The sort key of the items that stand there.
    sort: String,
    /// Whether all that stand there belong to it, so that nothing is looked at in vain.
    exact: bool,
}

impl List {
    fn dead_letters(tenant: &TenantId) -> Self {
        Self {
            index: DUE_INDEX,
            hash: (DUE_SHARD, dead_shard(tenant)),
            range: DUE_AT,
            between: None,
            sort: JOB.to_owned(),
            exact: true,
        }
    }

    /// By the part of the filter that most probably leaves the least: a thread before a label, that before an agent, and that
    /// before a status.
    /// Open jobs go first of all where they are asked for: most have ended.
    fn jobs(tenant: &TenantId, filter: &JobFilter) -> Self {
        let JobFilter { status, agent, version, label, thread, since: _, until: _ } = filter;
        let (found_by, sort) = match (thread, label, agent, status) {
            (Some(thread), _, _, _) => (Some(found_by_thread(tenant, thread)), find_thread_sort()),
            (None, Some((name, value)), _, _) => (Some(found_by_label(tenant, name, value)), find_label_sort(name)),
            (None, None, _, Some(status)) if is_open(*status) => {
                (Some(found_by_status(tenant, *status)), JOB.to_owned())
            }
            (None, None, Some(agent), _) => (Some(found_by_agent(tenant, agent)), find_agent_sort()),
            (None, None, None, Some(status)) => (Some(found_by_status(tenant, *status)), JOB.to_owned()),
            (None, None, None, None) => (None, JOB.to_owned()),
        };
        let parts = usize::from(label.is_some()) + usize::from(agent.is_some()) + usize::from(status.is_some());
        // The index knows an agent by its name alone.
        let parts = parts + usize::from(thread.is_some()) + usize::from(version.is_some());
        let exact = parts <= 1 && !status.is_some_and(is_open);
        let (index, hash) = match found_by {
            Some(found_by) => (SEARCH_INDEX, (FOUND_BY, found_by)),
            None => (JOBS_INDEX, (TENANT, tenant.to_string())),
        };
        Self { index, hash, range: LISTED, between: Some(filter.range()), sort, exact }
    }

    /// Whether a place is one of the list's own, as far as its sort value tells.
    fn holds(&self, place: &Place) -> bool {
        match (&self.between, &place.sort) {
            (Some((first, last)), AttributeValue::S(sort)) => first <= sort && sort <= last,
            _ => true,
        }
    }
}

const fn is_open(status: Status) -> bool {
    match status {
        Status::Pending | Status::Processing | Status::Waiting | Status::Blocked => true,
        Status::Completed | Status::Failed | Status::Cancelled => false,
    }
}

/// A place in an index.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    job: JobId,
    sort: AttributeValue,
}

/// Where the next page of a list begins, as an earlier page's `next` said.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor(Place);

impl Cursor {
    /// Reads the `next` of a page of [`AwsStore::list_jobs`]; none when it is no such text.
    #[must_use]
    pub fn of_jobs(text: &str) -> Option<Self> {
        let place = decode_cursor(text)?;
        // Exactly as the index has them: DynamoDB refuses a place that no item can have, and that would look like a fault
        // of ours.
        let AttributeValue::S(listed) = &place.sort else { return None };
        let (millis, id) = listed.split_once('#')?;
        let whole = millis.len() == LISTED_DIGITS && millis.bytes().all(|byte| byte.is_ascii_digit());
        (whole && id == place.job.to_string()).then_some(Self(place))
    }

    /// Reads the `next` of a page of [`AwsStore::dead_letters`]; none when it is no such text.
    #[must_use]
    pub fn of_dead_letters(text: &str) -> Option<Self> {
        let place = decode_cursor(text)?;
        matches!(place.sort, AttributeValue::N(_)).then_some(Self(place))
    }
}

impl AwsStore {
    /// A tenant's jobs that `filter` admits, newest first, `jobs_max` at most.
    ///
    /// # Errors
    /// Store errors.
    pub async fn list_jobs(
        &self,
        tenant: &TenantId,
        filter: &JobFilter,
        cursor: Option<Cursor>,
        jobs_max: usize,
    ) -> Result<JobPage, StoreError> {
        // Longer texts than jobs may have, and a time that ends before it begins, are no keys that DynamoDB would take.
        let long = |text: &str, length_max| text.chars().count() > length_max;
        let label = filter.label.as_ref();
        if label.is_some_and(|(name, value)| [name, value].iter().any(|part| long(part, limits::LABEL_LENGTH_MAX)))
            || filter.since.zip(filter.until).is_some_and(|(since, until)| since >= until)
            || filter.thread.as_ref().is_some_and(|thread| long(thread, limits::THREAD_LENGTH_MAX))
            || filter.agent.as_ref().is_some_and(|agent| long(agent, limits::AGENT_NAME_LENGTH_MAX))
        {
            return Ok(JobPage::default());
        }
        self.list(&List::jobs(tenant, filter), filter, cursor, jobs_max).await
    }

    /// A tenant's failed jobs, the latest failure first.
    ///
    /// # Errors
    /// Store errors.
    pub async fn dead_letters(
        &self,
        tenant: &TenantId,
        cursor: Option<Cursor>,
        jobs_max: usize,
    ) -> Result<JobPage, StoreError> {
        // The index may lag behind a replay; the item says what the job is now.
        let filter = JobFilter { status: Some(Status::Failed), ..JobFilter::default() };
        self.list(&List::dead_letters(tenant), &filter, cursor, jobs_max).await
    }

    async fn list(
        &self,
        list: &List,
        filter: &JobFilter,
        cursor: Option<Cursor>,
        jobs_max: usize,
    ) -> Result<JobPage, StoreError> {
        let mut page = JobPage::default();
        let mut start = cursor.map(|Cursor(place)| place);
        if start.as_ref().is_some_and(|start| !list.holds(start)) {
            // None of this list's; DynamoDB would refuse it, and that would look like a fault of ours.
            return Ok(page);
        }
        let at_once = if list.exact { jobs_max } else { READ_ITEMS_MAX };
        let mut looked_at = 0_usize;
        loop {
            let (places, more) = self.places(list, start.as_ref(), at_once).await?;
            looked_at = looked_at.saturating_add(places.len());
            let mut items = self.summaries(&places).await?;
            for place in places {
                let admitted = items.remove(&place.job).filter(|job| filter.admits(job));
                if let Some(job) = admitted {
                    if page.jobs.len() == jobs_max {
                        page.next = start.as_ref().map(encode_cursor);
                        return Ok(page);
                    }
                    page.jobs.push(job);
                }
                start = Some(place);
            }
            if !more {
                return Ok(page);
            }
            if page.jobs.len() == jobs_max || looked_at >= LOOKED_AT_MAX {
                page.next = start.as_ref().map(encode_cursor);
                return Ok(page);
            }
        }
    }

    /// The next places of a list behind `start`, and whether there may be more.
    async fn places(
        &self,
        list: &List,
        start: Option<&Place>,
        places_max: usize,
    ) -> Result<(Vec<Place>, bool), StoreError> {
        let List { index, hash: (hash, found_by), range, between, sort, exact: _ } = list;
        let start = start.map(|place| {
            let mut at = key(job_partition(place.job), sort.clone());
            at.insert((*hash).to_owned(), text(found_by.clone()));
            at.insert((*range).to_owned(), place.sort.clone());
            at
        });
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .index_name(*index)
            .expression_attribute_names("#hash", *hash)
            .expression_attribute_values(":hash", text(found_by.clone()))
            .scan_index_forward(false)
            .limit(i32::try_from(places_max.clamp(1, READ_ITEMS_MAX)).unwrap_or(1))
            .set_exclusive_start_key(start);
        let query = match between {
            Some((first, last)) => query
                .key_condition_expression("#hash = :hash AND #range BETWEEN :first AND :last")
                .expression_attribute_names("#range", *range)
                .expression_attribute_values(":first", text(first.clone()))
                .expression_attribute_values(":last", text(last.clone())),
            None => query.key_condition_expression("#hash = :hash"),
        };
        let answer = Box::pin(query.send()).await.map_err(|error| unavailable("listing jobs", error))?;
        let mut places = Vec::new();
        for item in answer.items() {
            let reader = Reader::unversioned(item, "an index entry");
            let job = job_of_partition(reader.text(PK)?).ok_or_else(|| reader.corrupt(PK, "it names no job"))?;
            let sort = item.get(*range).cloned().ok_or_else(|| reader.corrupt(range, "it is missing"))?;
            places.push(Place { job, sort });
        }
        Ok((places, answer.last_evaluated_key.is_some()))
    }

    /// Reads the items of places, at most [`READ_ITEMS_MAX`] of them.
    async fn summaries(&self, places: &[Place]) -> Result<HashMap<JobId, JobSummary>, StoreError> {
        const ACTION: &str = "reading listed jobs";
        let mut found = HashMap::new();
        let mut keys: Vec<Item> = places.iter().map(|place| job_key(place.job)).collect();
        let mut tries = 0_u32;
        while !keys.is_empty() {
            if tries > 0 {
                let wait = READ_RETRY_WAIT_FIRST_MS.saturating_mul(1_u64 << tries.min(8));
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
            let wanted = KeysAndAttributes::builder()
                .set_keys(Some(keys))
                .consistent_read(true)
                .projection_expression(
                    "PK, SK, v, #order, #status, epoch, attempts, tail, totals, updated_at, wakes, sweeps, last_write, \
                     lease_session, lease_nonce, wait_until, wait_seen, mismatch, due_at",
                )
                .expression_attribute_names("#order", "order")
                .expression_attribute_names("#status", "status")
                .build()
                .map_err(|error| unavailable(ACTION, error))?;
            let read = self.dynamodb().batch_get_item().request_items(self.table(), wanted);
            let answer = Box::pin(read.send()).await.map_err(|error| unavailable(ACTION, error))?;
            for item in answer.responses.unwrap_or_default().remove(self.table()).unwrap_or_default() {
                let summary = summary(&item)?;
                found.insert(summary.id, summary);
            }
            keys = answer
                .unprocessed_keys
                .and_then(|mut left| left.remove(self.table()))
                .map(|left| left.keys)
                .unwrap_or_default();
            tries = tries.saturating_add(1);
            if !keys.is_empty() && tries >= READ_TRIES_MAX {
                return Err(unavailable(ACTION, "the table is too busy"));
            }
        }
        Ok(found)
    }
}

fn summary(item: &Item) -> Result<JobSummary, StoreError> {
    let job = job_item::decode(item)?.job;
    Ok(JobSummary {
        id: job.order.id,
        agent: job.order.agent,
        status: job.progress.state.status(),
        labels: job.order.labels,
        thread: job.order.thread.map(|thread| thread.id),
        submitted_at: job.order.submitted_at,
        submitted_by: job.order.submitted_by,
        updated_at: job.progress.updated_at,
        totals: job.progress.totals,
    })
}

/// A cursor holds the job and the sort value of the last place looked at; the tenant comes from the caller each time.
fn encode_cursor(place: &Place) -> String {
    let (kind, sort) = match &place.sort {
        AttributeValue::N(number) => ("n", number.as_str()),
        AttributeValue::S(text) => ("s", text.as_str()),
        _ => ("", ""),
    };
    URL_SAFE_NO_PAD.encode(format!("{kind} {} {sort}", place.job))
}

fn decode_cursor(cursor: &str) -> Option<Place> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let mut parts = std::str::from_utf8(&bytes).ok()?.splitn(3, ' ');
    let (kind, job, sort) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?.to_owned());
    match kind {
        "n" => sort.parse::<u64>().ok().map(|number| Place { job, sort: AttributeValue::N(number.to_string()) }),
        "s" => Some(Place { job, sort: AttributeValue::S(sort) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use uuid::Uuid;

    use super::*;

    #[test]
    fn cursors_come_back_and_foreign_ones_do_not() {
        let job = JobId::from_uuid(Uuid::from_u128(7));
        let number = AttributeValue::N("1795953600000".to_owned());
        let listed = AttributeValue::S(format!("001795953600000#{job}"));
        for sort in [number.clone(), listed.clone(), AttributeValue::S("0017#a b c".to_owned())] {
            let place = Place { job, sort };
            assert_eq!(decode_cursor(&encode_cursor(&place)), Some(place));
        }
        let texts = [number, listed].map(|sort| encode_cursor(&Place { job, sort }));
        // Each list takes its own.
        assert_eq!(texts.each_ref().map(|text| Cursor::of_jobs(text).is_some()), [false, true]);
        assert_eq!(texts.each_ref().map(|text| Cursor::of_dead_letters(text).is_some()), [true, false]);
        for sort in ["", "001795953600000", "1795953600000#", "00179595360000x#", "001795953600000#other"] {
            let text = encode_cursor(&Place { job, sort: AttributeValue::S(sort.to_owned()) });
            assert!(Cursor::of_jobs(&text).is_none(), "{sort}");
        }
        let foreign = [
            "",
            "not base64!",
            &URL_SAFE_NO_PAD.encode("n 7 1"),
            &URL_SAFE_NO_PAD.encode(format!("n {job} one")),
            &URL_SAFE_NO_PAD.encode(format!("x {job} 1")),
            &URL_SAFE_NO_PAD.encode(format!("s {job}")),
            &URL_SAFE_NO_PAD.encode([0xff, 0xfe]),
        ];
        for cursor in foreign {
            assert!(decode_cursor(cursor).is_none(), "{cursor}");
        }
    }
}
