//! The [`Store`] on DynamoDB and SQS.
//!
//! One table holds everything (see [`table_definition`]). Every write of the protocol is one conditional call that gets
//! back what stands in its way, so that a conflict needs no second read.

mod attributes;
mod batch_item;
mod definitions;
mod erasing;
mod erasures;
mod forget;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod golden;
mod job_item;
mod jobs;
mod journal;
mod keys;
mod lists;
mod puts;
mod schedules;
mod search;
mod sessions;
mod stream;
mod table;
mod tenants;
mod threads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::error::SdkError;
use longhaul::store::{
    Append, Continuation, InLine, JobRef, LineWritten, Store, StoreError, Submit, ThreadRef, Woken, Write,
};
use longhaul_engine::ids::SessionId;
use longhaul_engine::job::JobWrite;
use longhaul_engine::thread::{Line, LineWrite};
use longhaul_engine::{Batch, Failure, Job, JobId, Seq, Timestamp};

use crate::clients::Clients;
use crate::config::Config;

pub(crate) use attributes::{Item, Reader, json_text, mark, number, text, time};
pub use definitions::{NewDefinition, Saved, SavedDefinition};
pub use erasing::Standing;
pub use erasures::StoredErasure;
pub(crate) use keys::{
    CONNECTION, CONNECTION_PREFIX, GONE, PK, SK, SUBSCRIPTION_PREFIX, USE, USE_SHARD, connection_partition,
    deliveries_partition, delivery_sort, job_key, job_partition, key, live_shard, subscription_sort,
    tenant_connection_sort, tenant_partition,
};
pub use lists::{Cursor, JobFilter, JobPage, JobSummary};
pub use schedules::{Schedule, UnreadableSchedule};
pub use stream::StreamedBatch;
pub(crate) use table::{DUE_AT, DUE_SHARD, TENANT};
pub use table::{DUE_INDEX, EXPIRY_ATTRIBUTE, JOBS_INDEX, SEARCH_INDEX, table_definition};
pub use tenants::TenantSettings;

/// Jobs, journals, sessions and queues on AWS. Clones share their clients.
#[derive(Debug, Clone)]
pub struct AwsStore {
    clients: Arc<Clients>,
    config: Arc<Config>,
    settings_read: Arc<tenants::SettingsRead>,
}

impl AwsStore {
    /// The store that `config` describes.
    #[must_use]
    pub fn new(clients: Arc<Clients>, config: Arc<Config>) -> Self {
        let settings_read = Arc::new(tenants::settings_read(config.tenant_data_kept()));
        Self { clients, config, settings_read }
    }

    /// The store that `config` describes, with clients of its own.
    pub async fn connect(config: Config) -> Self {
        let clients = Clients::load(&config).await;
        Self::new(Arc::new(clients), Arc::new(config))
    }

    /// The clients.
    #[must_use]
    pub fn clients(&self) -> &Arc<Clients> {
        &self.clients
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// How many calls were made so far, by operation (`PutItem`, `SendMessage`…).
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.clients.counts().read()
    }

    pub(crate) fn dynamodb(&self) -> &aws_sdk_dynamodb::Client {
        self.clients.dynamodb()
    }

    pub(crate) fn table(&self) -> &str {
        &self.config.table
    }

    pub(crate) fn bucket(&self) -> &str {
        &self.config.bucket
    }
}

/// An answer that is none.
pub(crate) fn unavailable(
    action: &'static str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> StoreError {
    StoreError::Unavailable { action, source: source.into() }
}

/// What a conditional write that was refused found in its place; `item` takes it out of the service's error.
pub(crate) fn refused<E, R>(
    action: &'static str,
    error: SdkError<E, R>,
    item: impl FnOnce(&E) -> Option<Option<&Item>>,
) -> Result<Option<Item>, StoreError>
where
    E: std::error::Error + Send + Sync + 'static,
    R: std::fmt::Debug + Send + Sync + 'static,
{
    match error.as_service_error().and_then(item) {
        Some(found) => Ok(found.cloned()),
        None => Err(unavailable(action, error)),
    }
}

impl Store for AwsStore {
    async fn submit(&self, job: &Job) -> Result<Submit, StoreError> {
        self.put_job(job).await
    }

    async fn submit_in_line(&self, job: &Job, thread: &ThreadRef, write: &LineWrite) -> Result<InLine, StoreError> {
        self.put_job_in_line(job, thread, write).await
    }

    async fn line(&self, thread: &ThreadRef) -> Result<Line, StoreError> {
        self.get_line(thread).await
    }

    async fn write_line(&self, thread: &ThreadRef, write: &LineWrite) -> Result<LineWritten, StoreError> {
        self.put_line(thread, write).await
    }

    async fn job(&self, job: &JobRef) -> Result<Option<Job>, StoreError> {
        self.get_job(job).await
    }

    async fn journal(&self, job: JobId, from: Seq) -> Result<Vec<Batch>, StoreError> {
        self.journal_part(job, from, usize::MAX).await
    }

    async fn batch_at(&self, job: JobId, at: Seq) -> Result<Option<Batch>, StoreError> {
        self.get_batch(job, at).await
    }

    async fn append(&self, job: &JobRef, batch: &Batch) -> Result<Append, StoreError> {
        self.put_batch(job, batch).await
    }

    async fn write_job(&self, job: &JobRef, write: &JobWrite) -> Result<Write, StoreError> {
        self.update_job(job, write).await
    }

    async fn wake(&self, job: &JobRef, now: Timestamp) -> Result<Woken, StoreError> {
        self.wake_job(job, now).await
    }

    async fn due(&self, shard: u8, until: Timestamp, jobs_max: usize) -> Result<Vec<JobRef>, StoreError> {
        self.query_due(shard, until, jobs_max).await
    }

    async fn move_due(&self, job: &JobRef, seen_due: Timestamp, due: Timestamp) -> Result<bool, StoreError> {
        self.update_due(job, seen_due, due).await
    }

    async fn beat(&self, session: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        self.put_session(session, now).await
    }

    async fn last_beat(&self, session: &SessionId) -> Result<Option<Timestamp>, StoreError> {
        self.get_session(session).await
    }

    async fn end_session(&self, session: &SessionId) -> Result<(), StoreError> {
        self.delete_session(session).await
    }

    async fn send(&self, continuation: &Continuation, delay: Duration) -> Result<(), StoreError> {
        self.send_continuation(continuation, delay).await
    }

    async fn dead_letter(&self, job: &Job, failure: &Failure) -> Result<(), StoreError> {
        self.send_dead_letter(job, failure).await
    }
}
