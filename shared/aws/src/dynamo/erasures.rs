//! Erasures: the one that is under way, which also keeps the tenant's submissions out, and the records of earlier ones.

use longhaul::outside::fresh_nonce;
use longhaul::store::StoreError;
use longhaul_engine::{Erasure, ErasureId, Nonce, TenantId, Timestamp, limits};

use super::attributes::{Item, Reader, json_text, mark, number, text, time};
use super::keys::{ERASURE, ERASURE_SHARD, PK, SK, erasure_record_sort, key, tenant_partition};
use super::table::{DUE_AT, DUE_INDEX, DUE_SHARD};
use super::{AwsStore, unavailable};

/// Erasures that one sweep looks after, and records that one answer lists.
const ERASURES_MAX: i32 = 100;

/// An erasure as it was read, with the mark that the next write requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredErasure {
    /// The erasure.
    pub erasure: Erasure,
    /// The mark of its last write.
    pub seen: Nonce,
}

impl AwsStore {
    /// Begins an erasure, unless one of the tenant is under way: the one that is.
    ///
    /// # Errors
    /// Store errors.
    pub async fn begin_erasure(&self, erasure: &Erasure) -> Result<Erasure, StoreError> {
        match self.put_where_none("beginning an erasure", encode(erasure, fresh_nonce())?).await? {
            Some(found) => decode(&found).map(|stored| stored.erasure),
            None => Ok(erasure.clone()),
        }
    }

    /// The erasure of a tenant's data that is under way (one cheap read).
    ///
    /// # Errors
    /// Store errors.
    pub async fn erasure_under_way(&self, tenant: &TenantId) -> Result<Option<StoredErasure>, StoreError> {
        self.erasure_item(tenant, ERASURE.to_owned()).await?.as_ref().map(decode).transpose()
    }

    /// An erasure of a tenant's data, under way or done.
    ///
    /// # Errors
    /// Store errors.
    pub async fn erasure(&self, tenant: &TenantId, id: ErasureId) -> Result<Option<Erasure>, StoreError> {
        // In this order: the record is written before the other goes.
        match self.erasure_under_way(tenant).await? {
            Some(StoredErasure { erasure, .. }) if erasure.id == id => Ok(Some(erasure)),
            Some(_) | None => {
                self.erasure_item(tenant, erasure_record_sort(id)).await?.as_ref().map(decode_record).transpose()
            }
        }
    }

    /// A tenant's erasures, the one under way first, then the latest.
    ///
    /// # Errors
    /// Store errors.
    pub async fn erasures(&self, tenant: &TenantId) -> Result<Vec<Erasure>, StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .key_condition_expression("PK = :tenant AND begins_with(SK, :erasure)")
            .expression_attribute_values(":tenant", text(tenant_partition(tenant)))
            .expression_attribute_values(":erasure", text(ERASURE))
            .consistent_read(true)
            .scan_index_forward(false)
            .limit(ERASURES_MAX);
        let answer = Box::pin(query.send()).await.map_err(|error| unavailable("listing erasures", error))?;
        let mut erasures: Vec<Erasure> = answer.items().iter().map(decode_record).collect::<Result<_, _>>()?;
        // The one under way sorts before its record, so that it comes last here; between the two writes of its end both
        // stand.
        erasures.sort_by_key(|erasure| (erasure.due().is_none(), std::cmp::Reverse(erasure.id)));
        erasures.dedup_by_key(|erasure| erasure.id);
        Ok(erasures)
    }

    /// Tenants with an erasure that is due. May lag behind writes.
    ///
    /// # Errors
    /// Store errors.
    pub async fn due_erasures(&self, now: Timestamp) -> Result<Vec<TenantId>, StoreError> {
        let query = self
            .dynamodb()
            .query()
            .table_name(self.table())
            .index_name(DUE_INDEX)
            .key_condition_expression("due_shard = :shard AND due_at <= :now")
            .expression_attribute_values(":shard", text(ERASURE_SHARD))
            .expression_attribute_values(":now", time(now))
            .limit(ERASURES_MAX);
        let answer = Box::pin(query.send()).await.map_err(|error| unavailable("looking for erasures", error))?;
        let mut tenants = Vec::new();
        for item in answer.items() {
            let partition = Reader::unversioned(item, "an erasure").text(PK)?;
            tenants.extend(partition.strip_prefix("TENANT#").and_then(|tenant| tenant.parse().ok()));
        }
        Ok(tenants)
    }

    /// Writes an erasure over the one that was read. The mark of the write; none when somebody else has written since.
    ///
    /// # Errors
    /// Store errors.
    pub async fn write_erasure(&self, erasure: &Erasure, seen: Nonce) -> Result<Option<Nonce>, StoreError> {
        let nonce = fresh_nonce();
        let written = self.put_over("writing an erasure", encode(erasure, nonce)?, seen).await?;
        Ok(written.then_some(nonce))
    }

    /// Writes the record of an erasure that is done, and lets the tenant submit again.
    ///
    /// # Errors
    /// Store errors; calling again does it again.
    pub async fn end_erasure(&self, erasure: &Erasure) -> Result<(), StoreError> {
        const ACTION: &str = "ending an erasure";
        let mut record = key(tenant_partition(&erasure.tenant), erasure_record_sort(erasure.id));
        record.extend(body(erasure)?);
        let put = self.dynamodb().put_item().table_name(self.table()).set_item(Some(record));
        Box::pin(put.send()).await.map_err(|error| unavailable(ACTION, error))?;
        self.delete_items(vec![key(tenant_partition(&erasure.tenant), ERASURE)]).await
    }

    async fn erasure_item(&self, tenant: &TenantId, sort: String) -> Result<Option<Item>, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(tenant_partition(tenant), sort)))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading an erasure", error))?;
        Ok(answer.item)
    }
}

fn body(erasure: &Erasure) -> Result<Item, StoreError> {
    Ok(Item::from([
        ("v".to_owned(), number(u64::from(limits::PROTOCOL_VERSION_PLAIN))),
        ("erasure".to_owned(), text(json_text(erasure)?)),
    ]))
}

pub(super) fn encode(erasure: &Erasure, nonce: Nonce) -> Result<Item, StoreError> {
    let mut item = key(tenant_partition(&erasure.tenant), ERASURE);
    item.extend(body(erasure)?);
    item.insert("last_write".to_owned(), mark(nonce));
    if let Some(due) = erasure.due() {
        item.extend([(DUE_SHARD.to_owned(), text(ERASURE_SHARD)), (DUE_AT.to_owned(), time(due))]);
    }
    Ok(item)
}

pub(super) fn decode(item: &Item) -> Result<StoredErasure, StoreError> {
    let seen = Reader::unversioned(item, "an erasure").mark("last_write")?;
    Ok(StoredErasure { erasure: decode_record(item)?, seen })
}

fn decode_record(item: &Item) -> Result<Erasure, StoreError> {
    let reader = Reader::new(item, "an erasure")?;
    let erasure: Erasure = reader.json("erasure")?;
    if reader.text(PK)? != tenant_partition(&erasure.tenant) {
        return Err(reader.corrupt(SK, "it is another tenant's"));
    }
    Ok(erasure)
}
