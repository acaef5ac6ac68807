//! What a tenant has settled for all of its jobs: how long they are kept behind their end.
//!
//! One small item a tenant, read when one of its jobs ends and kept in memory for a minute: a step pays nothing for it.

use std::time::Duration;

use longhaul::Clock;
use longhaul::store::StoreError;
use longhaul_engine::{TenantId, Timestamp, limits};

use super::attributes::{Item, Reader, number, text, time};
use super::keys::{SETTINGS, key, tenant_partition};
use super::{AwsStore, unavailable};
use crate::kept::Lately;

/// Tenants whose settings are kept in memory; a process that met more begins anew.
const TENANTS_MAX: usize = 10_000;

/// A tenant's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantSettings {
    /// Days for which a job is kept behind its end, 1 to [`limits::JOB_KEPT_DAYS_MAX`].
    pub job_kept_days: u32,
}

impl Default for TenantSettings {
    fn default() -> Self {
        Self { job_kept_days: limits::JOB_KEPT_DAYS_DEFAULT }
    }
}

impl TenantSettings {
    /// How long a job is kept behind its end. Never under a day: for so long an idempotency key is its job's.
    #[must_use]
    pub fn job_kept(self) -> Duration {
        let days = self.job_kept_days.clamp(1, limits::JOB_KEPT_DAYS_MAX);
        Duration::from_secs(u64::from(days).saturating_mul(24 * 3_600))
    }
}

/// Settings as last read.
pub(super) type SettingsRead = Lately<TenantId, TenantSettings>;

/// No settings yet, to be kept for so long.
pub(super) const fn settings_read(kept_for: Duration) -> SettingsRead {
    Lately::new(kept_for, TENANTS_MAX)
}

impl AwsStore {
    /// A tenant's settings; the usual ones where it has none.
    ///
    /// # Errors
    /// Store errors.
    pub async fn tenant_settings(&self, tenant: &TenantId) -> Result<TenantSettings, StoreError> {
        let get = self
            .dynamodb()
            .get_item()
            .table_name(self.table())
            .set_key(Some(key(tenant_partition(tenant), SETTINGS)))
            .consistent_read(true);
        let answer = Box::pin(get.send()).await.map_err(|error| unavailable("reading a tenant's settings", error))?;
        let settings = answer.item.as_ref().map(decode).transpose()?.unwrap_or_default();
        self.settings_read.learn(tenant.clone(), settings, Clock::of_machine().now());
        Ok(settings)
    }

    /// Changes a tenant's settings, for jobs that end from then on: within a minute everywhere.
    ///
    /// # Errors
    /// Store errors.
    pub async fn put_tenant_settings(
        &self,
        tenant: &TenantId,
        settings: TenantSettings,
        by: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let item = encode(tenant, settings, by, now);
        let put = self.dynamodb().put_item().table_name(self.table()).set_item(Some(item));
        Box::pin(put.send()).await.map_err(|error| unavailable("writing a tenant's settings", error))?;
        self.settings_read.learn(tenant.clone(), settings, now);
        Ok(())
    }

    /// How long a tenant's jobs are kept behind their end.
    pub(super) async fn job_kept(&self, tenant: &TenantId) -> Result<Duration, StoreError> {
        match self.settings_read.get(tenant, Clock::of_machine().now()) {
            Some(settings) => Ok(settings.job_kept()),
            None => self.tenant_settings(tenant).await.map(TenantSettings::job_kept),
        }
    }
}

pub(super) fn encode(tenant: &TenantId, settings: TenantSettings, by: &str, now: Timestamp) -> Item {
    let mut item = key(tenant_partition(tenant), SETTINGS);
    item.extend([
        ("v".to_owned(), number(u64::from(limits::PROTOCOL_VERSION_PLAIN))),
        ("job_kept_days".to_owned(), number(u64::from(settings.job_kept_days))),
        ("changed_at".to_owned(), time(now)),
        ("changed_by".to_owned(), text(by)),
    ]);
    item
}

pub(super) fn decode(item: &Item) -> Result<TenantSettings, StoreError> {
    let reader = Reader::new(item, "a tenant's settings")?;
    Ok(TenantSettings { job_kept_days: reader.small_number("job_kept_days")? })
}
