//! What tenants use, and what they may use.
//!
//! One small item a tenant is its book: the rate at which it submits, and how many of its jobs are open. The api writes
//! what it admits, the WebSocket function what has ended, and the sweeper sets the count right each minute. A book that
//! is a little wrong for a minute harms nobody, so none of these writes is part of a job's own.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure, Select};
use longhaul::store::StoreError;
use longhaul_engine::admission::{TenantLimits, Use};
use longhaul_engine::{TenantId, Timestamp, limits};
use serde_json::{Map, Value};

use crate::dynamo::{
    AwsStore, CONNECTION_PREFIX, DUE_AT, DUE_INDEX, DUE_SHARD, EXPIRY_ATTRIBUTE, Item, PK, Reader, TENANT, USE,
    USE_SHARD, key, live_shard, number, refused, tenant_connection_sort, tenant_partition, text, time, unavailable,
};

/// Looks at a book that others write at the same moment: the form of the write depends on the time that stands there.
const CHARGE_TRIES_MAX: u32 = 4;

/// The limits of a deployment: for all, and for single tenants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TenantLimitsTable {
    usual: TenantLimits,
    single: BTreeMap<TenantId, TenantLimits>,
}

impl TenantLimitsTable {
    /// Reads the table: a JSON object of limits, in which `tenants` holds objects of the limits in which single tenants
    /// differ. None when it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut usual: Map<String, Value> = serde_json::from_str(text).ok()?;
        let tenants = usual.remove("tenants").unwrap_or_else(|| Value::Object(Map::new()));
        let Value::Object(tenants) = tenants else { return None };
        let mut single = BTreeMap::new();
        for (tenant, own) in tenants {
            let Value::Object(own) = own else { return None };
            // What a tenant does not have of its own is as usual.
            let mut whole = usual.clone();
            whole.extend(own);
            single.insert(tenant.parse().ok()?, serde_json::from_value(Value::Object(whole)).ok()?);
        }
        Some(Self { usual: serde_json::from_value(Value::Object(usual)).ok()?, single })
    }

    /// The limits of a tenant.
    #[must_use]
    pub fn of(&self, tenant: &TenantId) -> &TenantLimits {
        self.single.get(tenant).unwrap_or(&self.usual)
    }
}

impl AwsStore {
    /// Writes down that submissions were admitted, and tells what the tenant uses with them (one small write). `was_idle`
    /// is whether the tenant's whole burst was free as last known: a guess that is wrong costs another try.
    ///
    /// # Errors
    /// Store errors.
    pub async fn charge(
        &self,
        tenant: &TenantId,
        count: u32,
        limits: &TenantLimits,
        was_idle: bool,
        now: Timestamp,
    ) -> Result<Use, StoreError> {
        const ACTION: &str = "writing down a tenant's use";
        // The index is written once, until the sweeper has counted.
        const COUNTED: &str = "due_shard = if_not_exists(due_shard, :shard), due_at = if_not_exists(due_at, :at)";
        let now_micros = now.as_millis().saturating_mul(1_000);
        let cost = limits.interval_micros().saturating_mul(u64::from(count));
        // A tenant that was idle has its whole burst again: its rate counts from now. One that was not goes on from
        // where it stands. Which of the two holds is a condition of the write; what the caller knows is tried first.
        let mut idle = was_idle;
        for _ in 0..CHARGE_TRIES_MAX {
            let call = self
                .dynamodb()
                .update_item()
                .table_name(self.table())
                .set_key(Some(key(tenant_partition(tenant), USE)))
                .expression_attribute_values(":count", number(u64::from(count)))
                .expression_attribute_values(":now", number(now_micros))
                .expression_attribute_values(":shard", text(USE_SHARD))
                .expression_attribute_values(":at", time(now))
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            let call = if idle {
                call.update_expression(format!("SET rate_at = :from, {COUNTED} ADD opened :count"))
                    .expression_attribute_values(":from", number(now_micros.saturating_add(cost)))
                    .condition_expression("attribute_not_exists(rate_at) OR rate_at <= :now")
            } else {
                call.update_expression(format!("SET rate_at = rate_at + :cost, {COUNTED} ADD opened :count"))
                    .expression_attribute_values(":cost", number(cost))
                    .condition_expression("rate_at > :now")
            };
            match Box::pin(call.send()).await {
                Ok(answer) => return read_use(&answer.attributes.unwrap_or_default(), now),
                Err(error) => {
                    refused(ACTION, error, |error| match error {
                        UpdateItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
                        _ => None,
                    })?;
                    idle = !idle;
                }
            }
        }
        Err(unavailable(ACTION, "others write at the same time"))
    }

    /// What a tenant uses (one cheap read).
    ///
    /// # Errors
    /// Store errors.
    pub async fn used(&self, tenant: &TenantId, now: Timestamp) -> Result<Use, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(tenant_partition(tenant), USE)))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a tenant's use", error))?;
        answer.item.map_or_else(|| Ok(Use::default()), |item| read_use(&item, now))
    }

    /// Writes down that jobs of a tenant have ended.
    ///
    /// # Errors
    /// Store errors.
    pub async fn note_ends(&self, tenant: &TenantId, count: u64) -> Result<(), StoreError> {
        let call = self
            .dynamodb()
            .update_item()
            .table_name(self.table())
            .set_key(Some(key(tenant_partition(tenant), USE)))
            .update_expression("ADD ended :count")
            .expression_attribute_values(":count", number(count));
        Box::pin(call.send()).await.map(|_| ()).map_err(|error| unavailable("writing down ends of jobs", error))
    }

    /// Counts the open jobs of every tenant that has submitted any since its last count, and of those that had some then.
    /// How many tenants were counted; none when there are more jobs than one sweep counts.
    ///
    /// # Errors
    /// Store errors.
    pub async fn count_open_jobs(&self, now: Timestamp) -> Result<Option<usize>, StoreError> {
        let mut counts: BTreeMap<TenantId, u64> = BTreeMap::new();
        self.each_in_shard(USE_SHARD, PK, |item| {
            let tenant = Reader::unversioned(item, "a tenant's use").text(PK)?.strip_prefix("TENANT#");
            if let Some(tenant) = tenant.and_then(|tenant| tenant.parse().ok()) {
                counts.insert(tenant, 0);
            }
            Ok(true)
        })
        .await?;
        if counts.is_empty() {
            return Ok(Some(0));
        }
        let mut jobs = 0_usize;
        for shard in 0..limits::DUE_SHARDS {
            self.each_in_shard(&live_shard(shard), TENANT, |item| {
                let tenant: TenantId = Reader::unversioned(item, "an entry of the due index").id(TENANT)?;
                if let Some(count) = counts.get_mut(&tenant) {
                    *count = count.saturating_add(1);
                }
                jobs = jobs.saturating_add(1);
                Ok(jobs <= limits::SWEEP_COUNT_MAX)
            })
            .await?;
        }
        if jobs > limits::SWEEP_COUNT_MAX {
            return Ok(None);
        }
        for (tenant, count) in &counts {
            self.set_open_jobs(tenant, *count, now).await?;
        }
        Ok(Some(counts.len()))
    }

    async fn set_open_jobs(&self, tenant: &TenantId, count: u64, now: Timestamp) -> Result<(), StoreError> {
        let call = self
            .dynamodb()
            .update_item()
            .table_name(self.table())
            .set_key(Some(key(tenant_partition(tenant), USE)))
            .expression_attribute_values(":zero", number(0))
            .expression_attribute_values(":count", number(count))
            .expression_attribute_values(":now", time(now));
        let set = "SET counted = :count, counted_at = :now, opened = :zero, ended = :zero";
        // A tenant without open jobs need not be counted again until it submits one.
        let call = match count {
            0 => call.update_expression(format!("{set} REMOVE {DUE_SHARD}, {DUE_AT}")),
            _ => call.update_expression(set),
        };
        Box::pin(call.send()).await.map(|_| ()).map_err(|error| unavailable("writing a count of open jobs", error))
    }

    /// Hands over the items of a shard of the due index until `take` says no.
    async fn each_in_shard(
        &self,
        shard: &str,
        attribute: &str,
        mut take: impl FnMut(&Item) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut start = None;
        loop {
            let query = self
                .dynamodb()
                .query()
                .table_name(self.table())
                .index_name(DUE_INDEX)
                .key_condition_expression("due_shard = :shard")
                .expression_attribute_values(":shard", text(shard))
                .projection_expression(attribute)
                .set_exclusive_start_key(start);
            let answer = Box::pin(query.send()).await.map_err(|error| unavailable("reading the due index", error))?;
            for item in answer.items() {
                if !take(item)? {
                    return Ok(());
                }
            }
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(());
            }
        }
    }

    /// How many connections a tenant has. Those that vanished without a word count until they are found out or expire.
    ///
    /// # Errors
    /// Store errors.
    pub async fn connections_of(&self, tenant: &TenantId, now: Timestamp) -> Result<u64, StoreError> {
        let mut count = 0_u64;
        let mut start = None;
        loop {
            let query = self
                .dynamodb()
                .query()
                .table_name(self.table())
                .key_condition_expression("PK = :partition AND begins_with(SK, :prefix)")
                // DynamoDB removes what has expired days later.
                .filter_expression("#expires > :now")
                .expression_attribute_names("#expires", EXPIRY_ATTRIBUTE)
                .expression_attribute_values(":partition", text(tenant_partition(tenant)))
                .expression_attribute_values(":prefix", text(CONNECTION_PREFIX))
                .expression_attribute_values(":now", number(now.as_seconds()))
                .select(Select::Count)
                .consistent_read(true)
                .set_exclusive_start_key(start);
            let answer = Box::pin(query.send()).await.map_err(|error| unavailable("counting connections", error))?;
            count = count.saturating_add(u64::try_from(answer.count()).unwrap_or(0));
            start = answer.last_evaluated_key;
            if start.is_none() {
                return Ok(count);
            }
        }
    }
}

/// The item by which a tenant's connection is counted.
pub(crate) fn tenant_connection_item(tenant: &TenantId, connection: &str, expires: u64) -> Item {
    let mut item = tenant_connection_key(tenant, connection);
    item.insert(EXPIRY_ATTRIBUTE.to_owned(), number(expires));
    item
}

/// Its key.
pub(crate) fn tenant_connection_key(tenant: &TenantId, connection: &str) -> Item {
    key(tenant_partition(tenant), tenant_connection_sort(connection))
}

fn read_use(item: &Item, now: Timestamp) -> Result<Use, StoreError> {
    let reader = Reader::unversioned(item, "a tenant's use");
    let amount = |name: &str| if reader.has(name) { reader.number(name) } else { Ok(0) };
    let holds = Duration::from_millis(limits::TENANT_COUNT_HOLDS_MS);
    // What was opened and ended since a count is believed as long as the count: a sweeper that does not come refuses nobody.
    let open = match reader.optional_time("counted_at")? {
        Some(at) if now.since(at) > holds => 0,
        Some(_) | None => amount("counted")?.saturating_add(amount("opened")?).saturating_sub(amount("ended")?),
    };
    Ok(Use { rate_at_micros: amount("rate_at")?, open })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]
    use super::*;

    #[test]
    fn a_tenant_differs_in_what_it_has_of_its_own() {
        let table = TenantLimitsTable::parse(
            r#"{"jobs_open": 50, "tenants": {"acme": {"submissions_per_second": 7}, "big": {"jobs_open": 100000}}}"#,
        )
        .unwrap();
        let of = |tenant: &str| *table.of(&tenant.parse().unwrap());
        let usual = TenantLimits { jobs_open: 50, ..TenantLimits::default() };
        assert_eq!(of("other"), usual);
        assert_eq!(of("acme"), TenantLimits { submissions_per_second: 7, ..usual });
        assert_eq!(of("big"), TenantLimits { jobs_open: 100_000, ..usual });
        assert_eq!(*TenantLimitsTable::default().of(&"acme".parse().unwrap()), TenantLimits::default());
        for wrong in [
            "",
            "[]",
            "7",
            r#"{"jobs": 1}"#,
            r#"{"tenants": []}"#,
            r#"{"tenants": {"a b": {}}}"#,
            r#"{"jobs_open": -1}"#,
        ] {
            assert_eq!(TenantLimitsTable::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_count_holds_for_some_minutes() {
        let now = Timestamp::from_millis(1_795_953_600_000);
        let item = Item::from([
            ("rate_at".to_owned(), number(5)),
            ("counted".to_owned(), number(40)),
            ("counted_at".to_owned(), time(now)),
            ("opened".to_owned(), number(7)),
            ("ended".to_owned(), number(3)),
        ]);
        let later = |ms| now.plus(Duration::from_millis(ms));
        assert_eq!(read_use(&item, now).unwrap(), Use { rate_at_micros: 5, open: 44 });
        assert_eq!(read_use(&item, later(limits::TENANT_COUNT_HOLDS_MS)).unwrap().open, 44);
        assert_eq!(read_use(&item, later(limits::TENANT_COUNT_HOLDS_MS + 1)).unwrap().open, 0);
        assert_eq!(read_use(&Item::new(), now).unwrap(), Use::default());
    }
}
