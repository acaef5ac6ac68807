//! Session items: one small item a worker session, refreshed while it lives, outside every index.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul::store::StoreError;
use longhaul_engine::{SessionId, Timestamp};

use super::attributes::{Item, Reader, number, time};
use super::keys::{SESSION, key, session_partition};
use super::table::EXPIRY_ATTRIBUTE;
use super::{AwsStore, unavailable};

/// How long a session's last heartbeat is kept: far longer than the silence that makes it dead, so that the item is
/// still there for whoever asks what happened.
const SESSION_KEPT_SECONDS: u64 = 24 * 3_600;

/// The item of a session that was alive at `now`.
pub(super) fn encode(session: &SessionId, now: Timestamp) -> Item {
    let mut item = key(session_partition(session), SESSION);
    let expires = now.plus(Duration::from_secs(SESSION_KEPT_SECONDS)).as_seconds();
    item.insert("beat_at".to_owned(), time(now));
    item.insert(EXPIRY_ATTRIBUTE.to_owned(), number(expires));
    item
}

/// When the session of an item was last alive.
pub(super) fn decode(item: &Item) -> Result<Timestamp, StoreError> {
    Reader::unversioned(item, "a session").time("beat_at")
}

impl AwsStore {
    pub(super) async fn put_session(&self, session: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        let put = self.dynamodb().put_item().table_name(self.table()).set_item(Some(encode(session, now)));
        Box::pin(put.send()).await.map(|_| ()).map_err(|error| unavailable("refreshing a session", error))
    }

    pub(super) async fn get_session(&self, session: &SessionId) -> Result<Option<Timestamp>, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(session_partition(session), SESSION)))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a session", error))?;
        answer.item.as_ref().map(decode).transpose()
    }

    pub(super) async fn delete_session(&self, session: &SessionId) -> Result<(), StoreError> {
        let delete = self
            .dynamodb()
            .delete_item()
            .table_name(self.table())
            .set_key(Some(key(session_partition(session), SESSION)));
        Box::pin(delete.send()).await.map(|_| ()).map_err(|error| unavailable("ending a session", error))
    }

    /// Removes every session's item. Only for whoever knows that no worker lives: the embedded stack at its start,
    /// since its workers died with it. It reads the whole table, which is one file there.
    ///
    /// # Errors
    /// Store errors.
    pub async fn end_all_sessions(&self) -> Result<(), StoreError> {
        let scan = self
            .dynamodb()
            .scan()
            .table_name(self.table())
            .projection_expression("PK")
            .filter_expression("SK = :session")
            .expression_attribute_values(":session", AttributeValue::S(SESSION.to_owned()));
        let mut pages = scan.into_paginator().items().send();
        while let Some(item) = pages.next().await {
            let item = item.map_err(|error| unavailable("looking for sessions", error))?;
            let Some(partition) = item.get("PK") else { continue };
            let key = Item::from([
                ("PK".to_owned(), partition.clone()),
                ("SK".to_owned(), AttributeValue::S(SESSION.to_owned())),
            ]);
            let delete = self.dynamodb().delete_item().table_name(self.table()).set_key(Some(key));
            Box::pin(delete.send()).await.map_err(|error| unavailable("ending a session", error))?;
        }
        Ok(())
    }
}
