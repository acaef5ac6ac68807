//! Schedules: one item each in its tenant's partition, in the index `due` at the time at which it is to be looked at.
//!
//! `TENANT#<tenant>` / `SCHEDULE#<name>` is all that a schedule leaves behind; who removes a tenant removes it with
//! everything else in the partition, and it fires no more. What it submits is JSON text here: this room keeps it and does
//! not look inside.

use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use longhaul::store::StoreError;
use longhaul_engine::ids::{Nonce, ScheduleName};
use longhaul_engine::{TenantId, Timestamp, limits};

use super::attributes::{Item, Reader, mark, number, text, time};
use super::keys::{PK, SCHEDULE_PREFIX, SCHEDULE_SHARD, SK, key, schedule_sort, tenant_partition};
use super::table::{DUE_AT, DUE_INDEX, DUE_SHARD, TENANT};
use super::{AwsStore, refused, unavailable};

/// A schedule as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Its owner.
    pub tenant: TenantId,
    /// Its name.
    pub name: ScheduleName,
    /// What its owner asked for, as JSON.
    pub request: String,
    /// When it fires next; none when it is paused or will not.
    pub next: Option<Timestamp>,
    /// When it is looked at where that is later than `next`, since a firing found no room.
    pub again: Option<Timestamp>,
    /// Its last firing, as JSON.
    pub last: Option<String>,
    /// When its owner changed it.
    pub changed_at: Timestamp,
    /// Who.
    pub changed_by: String,
    /// The mark of the write that made it so.
    pub mark: Nonce,
}

/// A schedule that stands in its tenant's partition and that this version cannot read.
#[derive(Debug, thiserror::Error)]
#[error("the schedule {name}")]
pub struct UnreadableSchedule {
    /// Its name.
    pub name: String,
    /// Why.
    #[source]
    pub why: StoreError,
}

impl AwsStore {
    /// Reads a schedule.
    ///
    /// # Errors
    /// Store errors.
    pub async fn schedule(&self, tenant: &TenantId, name: &ScheduleName) -> Result<Option<Schedule>, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(tenant_partition(tenant), schedule_sort(name))))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a schedule", error))?;
        answer.item.as_ref().map(decode).transpose()
    }

    /// A tenant's schedules, by name: some [`limits::SCHEDULES_MAX`]. One that cannot be read hides no other.
    ///
    /// # Errors
    /// Store errors.
    pub async fn schedules(&self, tenant: &TenantId) -> Result<Vec<Result<Schedule, UnreadableSchedule>>, StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .key_condition_expression("PK = :tenant AND begins_with(SK, :prefix)")
            .expression_attribute_values(":tenant", text(tenant_partition(tenant)))
            .expression_attribute_values(":prefix", text(SCHEDULE_PREFIX))
            .consistent_read(true);
        let mut schedules = Vec::new();
        let mut items = query.into_paginator().items().send();
        while let Some(item) = items.next().await {
            schedules.push(stands(&item.map_err(|error| unavailable("listing schedules", error))?));
        }
        Ok(schedules)
    }

    /// Writes a schedule if the one that stands there has the mark `seen` (none: if none stands there). False: it has not.
    ///
    /// # Errors
    /// Store errors.
    pub async fn write_schedule(&self, schedule: &Schedule, seen: Option<Nonce>) -> Result<bool, StoreError> {
        let (action, item) = ("writing a schedule", encode(schedule));
        match seen {
            None => Ok(self.put_where_none(action, item).await?.is_none()),
            Some(seen) => self.put_over(action, item, seen).await,
        }
    }

    /// Removes a schedule, readable or not, and gives it as it was; none where there is none. What it has submitted stays.
    ///
    /// # Errors
    /// Store errors.
    pub async fn remove_schedule(
        &self,
        tenant: &TenantId,
        name: &ScheduleName,
    ) -> Result<Option<Result<Schedule, UnreadableSchedule>>, StoreError> {
        let delete = self
            .dynamodb()
            .delete_item()
            .table_name(self.table())
            .set_key(Some(key(tenant_partition(tenant), schedule_sort(name))))
            .return_values(aws_sdk_dynamodb::types::ReturnValue::AllOld);
        let answer = Box::pin(delete.send()).await.map_err(|error| unavailable("removing a schedule", error))?;
        Ok(answer.attributes.as_ref().map(stands))
    }

    /// Moves one that could not be looked at behind the others that are due, whatever else its item holds: however many
    /// there are of its kind, the rest fire.
    ///
    /// # Errors
    /// Store errors.
    pub async fn set_schedule_aside(
        &self,
        tenant: &TenantId,
        name: &ScheduleName,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let update = self
            .dynamodb()
            .update_item()
            .table_name(self.table())
            .set_key(Some(key(tenant_partition(tenant), schedule_sort(name))))
            .update_expression("SET due_at = :until")
            // Nobody makes an item of a schedule that is removed meanwhile, or has one wait that rests.
            .condition_expression("due_at < :until")
            .expression_attribute_values(":until", time(until));
        match Box::pin(update.send()).await {
            Ok(_) => Ok(()),
            Err(error) => {
                refused("setting a schedule aside", error, |error| match error {
                    UpdateItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
                    _ => None,
                })?;
                Ok(())
            }
        }
    }

    /// Schedules to be looked at by `until`, earliest first. May lag behind writes.
    ///
    /// # Errors
    /// Store errors.
    pub async fn due_schedules(
        &self,
        until: Timestamp,
        schedules_max: usize,
    ) -> Result<Vec<(TenantId, ScheduleName)>, StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .index_name(DUE_INDEX)
            .key_condition_expression("due_shard = :shard AND due_at <= :until")
            .expression_attribute_values(":shard", text(SCHEDULE_SHARD))
            .expression_attribute_values(":until", time(until))
            .limit(i32::try_from(schedules_max).unwrap_or(i32::MAX));
        let answer = Box::pin(query.send()).await.map_err(|error| unavailable("reading due schedules", error))?;
        let mut due = Vec::new();
        for item in answer.items() {
            match named(item) {
                Ok(schedule) => due.push(schedule),
                // One bad item must not keep the others from firing.
                Err(error) => tracing::error!(%error, "an item of the due index is passed over"),
            }
        }
        Ok(due)
    }
}

/// The schedule that an entry of the due index names.
fn named(item: &Item) -> Result<(TenantId, ScheduleName), StoreError> {
    let reader = Reader::unversioned(item, "an entry of the due index");
    let sort = reader.text(SK)?;
    let name = sort.strip_prefix(SCHEDULE_PREFIX).ok_or_else(|| reader.corrupt(SK, "it names no schedule"))?;
    let name = name.parse().map_err(|error| reader.corrupt(SK, error))?;
    let tenant: TenantId = reader.id(TENANT)?;
    if reader.text(PK)? != tenant_partition(&tenant) {
        return Err(reader.corrupt(PK, "it is not its tenant's"));
    }
    Ok((tenant, name))
}

/// The schedule of an item, or its name and why it cannot be read.
fn stands(item: &Item) -> Result<Schedule, UnreadableSchedule> {
    decode(item).map_err(|why| {
        let sort = Reader::unversioned(item, "a schedule").text(SK).unwrap_or_default();
        UnreadableSchedule { name: sort.strip_prefix(SCHEDULE_PREFIX).unwrap_or(sort).to_owned(), why }
    })
}

pub(super) fn encode(schedule: &Schedule) -> Item {
    let mut item = key(tenant_partition(&schedule.tenant), schedule_sort(&schedule.name));
    item.extend([
        ("v".to_owned(), number(u64::from(limits::PROTOCOL_VERSION_PLAIN))),
        (TENANT.to_owned(), text(schedule.tenant.as_str())),
        ("name".to_owned(), text(schedule.name.as_str())),
        ("request".to_owned(), text(schedule.request.clone())),
        ("changed_at".to_owned(), time(schedule.changed_at)),
        ("changed_by".to_owned(), text(schedule.changed_by.clone())),
        ("last_write".to_owned(), mark(schedule.mark)),
    ]);
    if let Some(next) = schedule.next {
        item.insert("next_at".to_owned(), time(next));
        item.insert(DUE_SHARD.to_owned(), text(SCHEDULE_SHARD));
        item.insert(DUE_AT.to_owned(), time(schedule.again.unwrap_or(next)));
    }
    if let Some(last) = &schedule.last {
        item.insert("last".to_owned(), text(last.clone()));
    }
    item
}

pub(super) fn decode(item: &Item) -> Result<Schedule, StoreError> {
    let reader = Reader::new(item, "a schedule")?;
    let next = reader.optional_time("next_at")?;
    Ok(Schedule {
        tenant: reader.id(TENANT)?,
        name: reader.id("name")?,
        request: reader.text("request")?.to_owned(),
        next,
        again: reader.optional_time(DUE_AT)?.filter(|due| Some(*due) != next),
        last: if reader.has("last") { Some(reader.text("last")?.to_owned()) } else { None },
        changed_at: reader.time("changed_at")?,
        changed_by: reader.text("changed_by")?.to_owned(),
        mark: reader.mark("last_write")?,
    })
}
