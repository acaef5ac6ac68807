//! Session items: one small item a worker session, refreshed while it lives, outside every index.

use std::time::Duration;

use longhaul::store::StoreError;
use longhaul_engine::{SessionId, Timestamp};

use super::attributes::{Reader, number, time};
use super::keys::{SESSION, key, session_partition};
use super::table::EXPIRY_ATTRIBUTE;
use super::{AwsStore, unavailable};

/// How long a session's last heartbeat is kept: far longer than the silence that makes it dead, so that the item is
/// still there for whoever asks what happened.
const SESSION_KEPT_SECONDS: u64 = 24 * 3_600;

impl AwsStore {
    pub(super) async fn put_session(&self, session: &SessionId, now: Timestamp) -> Result<(), StoreError> {
        let mut item = key(session_partition(session), SESSION);
        let expires = now.plus(Duration::from_secs(SESSION_KEPT_SECONDS)).as_seconds();
        item.insert("beat_at".to_owned(), time(now));
        item.insert(EXPIRY_ATTRIBUTE.to_owned(), number(expires));
        let put = self.dynamodb().put_item().table_name(self.table()).set_item(Some(item));
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
        answer.item.map(|item| Reader::unversioned(&item, "a session").time("beat_at")).transpose()
    }

    pub(super) async fn delete_session(&self, session: &SessionId) -> Result<(), StoreError> {
        let delete = self
            .dynamodb()
            .delete_item()
            .table_name(self.table())
            .set_key(Some(key(session_partition(session), SESSION)));
        Box::pin(delete.send()).await.map(|_| ()).map_err(|error| unavailable("ending a session", error))
    }
}
