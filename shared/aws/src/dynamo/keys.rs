//! The keys of the one table: what stands where.
//!
//! | PK | SK | item |
//! |---|---|---|
//! | `JOB#<id>` | `JOB` | a job |
//! | `JOB#<id>` | `J#<position, 10 digits>` | a batch of its journal |
//! | `JOB#<id>` | `SUB#<connection>` | who watches it |
//! | `JOB#<id>` | `FIND#…` | its place in the index `search` under its agent or a label (see `search`) |
//! | `SESSION#<id>` | `SESSION` | a worker session's heartbeat |
//! | `CONN#<id>` | `CONN` | a WebSocket connection |
//! | `CONN#<id>` | `SUB#<job>` | what a connection watches |
//! | `TENANT#<tenant>` | `SETTINGS` | what a tenant has settled for all of its jobs |
//! | `HOOK#<job>` | `<position, 10 digits>` | the delivery of an event to the job's webhook |
//! | `HOOK#<job>` | `GONE` | that the webhook wants no more |
//! | `TENANT#<tenant>` | `USE` | what the tenant uses |
//! | `TENANT#<tenant>` | `CONN#<id>` | one of its open connections |
//! | `TENANT#<tenant>` | `ERASURE` | the erasure of its data that is under way |
//! | `TENANT#<tenant>` | `ERASURE#<id>` | the record of one that is done |
//! | `TENANT#<tenant>` | `ERASED#<job>` | a job that an erasure has removed and looks at once more |
//! | `TENANT#<tenant>` | `THREAD#<thread>` | the line of a thread |
//! | `TENANT#<tenant>` | `SCHEDULE#<name>` | a schedule |
//! | `AGENTS#<tenant>` | `<name>#<version, 10 digits>` | a version of an agent that the tenant has defined |

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_engine::ids::{AgentName, AgentRef, ScheduleName};
use longhaul_engine::job::Status;
use longhaul_engine::{ErasureId, JobId, Seq, SessionId, TenantId, ThreadId};

use super::attributes::text;

/// Partition key.
pub(crate) const PK: &str = "PK";
/// Sort key.
pub(crate) const SK: &str = "SK";
/// Sort key of a job item.
pub(crate) const JOB: &str = "JOB";
/// Sort key of a session item.
pub(crate) const SESSION: &str = "SESSION";
/// Sort key of a tenant's settings.
pub(crate) const SETTINGS: &str = "SETTINGS";
/// Sort key of a connection item.
pub(crate) const CONNECTION: &str = "CONN";
/// What the sort keys of subscriptions begin with.
pub(crate) const SUBSCRIPTION_PREFIX: &str = "SUB#";
/// What the sort keys of entry batches begin with.
pub(crate) const BATCH_PREFIX: &str = "J#";
/// Sort key of what a tenant uses.
pub(crate) const USE: &str = "USE";
/// What the sort keys of a tenant's connections begin with.
pub(crate) const CONNECTION_PREFIX: &str = "CONN#";
/// Sort key of an erasure that is under way, and what those of the records of earlier ones begin with.
pub(crate) const ERASURE: &str = "ERASURE";
/// What the sort keys of an erasure's removed jobs begin with.
pub(crate) const ERASED_PREFIX: &str = "ERASED#";
/// The `due` index's shard of erasures.
pub(crate) const ERASURE_SHARD: &str = "ERASE";
/// Sort key of the mark that a webhook wants no more. It stands behind all positions.
pub(crate) const GONE: &str = "GONE";
/// The `due` index's shard of tenants whose use is to be counted.
pub(crate) const USE_SHARD: &str = "USE";
/// A sort key behind all entry batches.
pub(crate) const BATCH_LAST: &str = "J#9999999999";
/// The last position that a sort key has digits for. A range that began behind it would be upside down, which DynamoDB
/// refuses.
pub(crate) const BATCH_AT_MAX: Seq = Seq(9_999_999_999);

/// The partition of a job.
pub(crate) fn job_partition(job: JobId) -> String {
    format!("JOB#{job}")
}

/// The job whose partition this is.
pub(crate) fn job_of_partition(partition: &str) -> Option<JobId> {
    partition.strip_prefix("JOB#")?.parse().ok()
}

/// The partition of a job's webhook deliveries. It is one of its own, so that the function that writes them can be kept
/// from writing jobs.
pub(crate) fn deliveries_partition(job: JobId) -> String {
    format!("HOOK#{job}")
}

/// The sort key of the delivery of the event at a position.
pub(crate) fn delivery_sort(at: Seq) -> String {
    format!("{:010}", at.0)
}

/// The sort key of the record of an erasure that is done.
pub(crate) fn erasure_record_sort(id: ErasureId) -> String {
    format!("{ERASURE}#{id}")
}

/// The sort key of a job that an erasure has removed.
pub(crate) fn erased_sort(job: JobId) -> String {
    format!("{ERASED_PREFIX}{job}")
}

/// The sort key of a tenant's connection.
pub(crate) fn tenant_connection_sort(connection: &str) -> String {
    format!("{CONNECTION_PREFIX}{connection}")
}

/// The sort key of the batch at a position.
pub(crate) fn batch_sort(at: Seq) -> String {
    format!("{BATCH_PREFIX}{:010}", at.0)
}

/// The partition of the agents that a tenant has defined.
pub(crate) fn agents_partition(tenant: &TenantId) -> String {
    format!("AGENTS#{tenant}")
}

/// What the sort keys of an agent's versions begin with. No name has a `#`.
pub(crate) fn definition_prefix(name: &AgentName) -> String {
    format!("{name}#")
}

/// The sort key of an agent's version.
pub(crate) fn definition_sort(agent: &AgentRef) -> String {
    format!("{}{:010}", definition_prefix(&agent.name), agent.version)
}

/// The partition of what belongs to a tenant and to none of its jobs.
pub(crate) fn tenant_partition(tenant: &TenantId) -> String {
    format!("TENANT#{tenant}")
}

/// The sort key of a thread's line.
pub(crate) fn thread_sort(thread: &ThreadId) -> String {
    format!("THREAD#{thread}")
}

/// What the sort keys of schedules begin with.
pub(crate) const SCHEDULE_PREFIX: &str = "SCHEDULE#";
/// The `due` index's shard of schedules.
pub(crate) const SCHEDULE_SHARD: &str = "SCHEDULE";

/// The sort key of a schedule.
pub(crate) fn schedule_sort(name: &ScheduleName) -> String {
    format!("{SCHEDULE_PREFIX}{name}")
}

/// The partition of a session.
pub(crate) fn session_partition(session: &SessionId) -> String {
    format!("SESSION#{session}")
}

/// The partition of a connection.
pub(crate) fn connection_partition(connection: &str) -> String {
    format!("CONN#{connection}")
}

/// The sort key of a subscription to or of `other`.
pub(crate) fn subscription_sort(other: &str) -> String {
    format!("{SUBSCRIPTION_PREFIX}{other}")
}

/// The `due` index's shard of a job that is not ended.
pub(crate) fn live_shard(shard: u8) -> String {
    format!("LIVE#{shard}")
}

/// The `due` index's shard of a tenant's failed jobs.
pub(crate) fn dead_shard(tenant: &TenantId) -> String {
    format!("DEAD#{tenant}")
}

/// What the sort keys of a job's places in the index `search` begin with.
pub(crate) const FIND_PREFIX: &str = "FIND#";

/// What a tenant's jobs are looked for in the index `search`. A label holds no control character, so that a line's end
/// keeps its name and value apart.
pub(crate) fn found_by_label(tenant: &TenantId, name: &str, value: &str) -> String {
    format!("{tenant}#label#{name}\n{value}")
}

/// The same for an agent, any version of it.
pub(crate) fn found_by_agent(tenant: &TenantId, agent: &str) -> String {
    format!("{tenant}#agent#{agent}")
}

/// The same for a thread.
pub(crate) fn found_by_thread(tenant: &TenantId, thread: &str) -> String {
    format!("{tenant}#thread#{thread}")
}

/// The same for a status. All that have not ended stand in one place: a claim or a wait moves nothing.
pub(crate) fn found_by_status(tenant: &TenantId, status: Status) -> String {
    match status {
        Status::Pending | Status::Processing | Status::Waiting | Status::Blocked => format!("{tenant}#open"),
        Status::Completed | Status::Failed | Status::Cancelled => format!("{tenant}#ended#{}", status.as_str()),
    }
}

/// The sort key of a job's place under its agent.
pub(crate) fn find_agent_sort() -> String {
    format!("{FIND_PREFIX}agent")
}

/// The sort key of a job's place under its thread.
pub(crate) fn find_thread_sort() -> String {
    format!("{FIND_PREFIX}thread")
}

/// The sort key of a job's place under a label of this name.
pub(crate) fn find_label_sort(name: &str) -> String {
    format!("{FIND_PREFIX}label#{name}")
}

/// A whole key.
pub(crate) fn key(partition: impl Into<String>, sort: impl Into<String>) -> HashMap<String, AttributeValue> {
    HashMap::from([(PK.to_owned(), text(partition)), (SK.to_owned(), text(sort))])
}

/// The key of a job item.
pub(crate) fn job_key(job: JobId) -> HashMap<String, AttributeValue> {
    key(job_partition(job), JOB)
}
