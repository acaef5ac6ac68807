//! What keeps new things out while a tenant's data is erased.
//!
//! A process looks once in some seconds whether an erasure is under way, so that a busy tenant pays next to nothing for
//! it. What comes in meanwhile is found by the erasure's second look, which comes much later.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use longhaul::engine::{TenantId, limits};
use longhaul_aws::AwsStore;
use longhaul_wire::Problem;

use crate::answer::Refused;
use crate::service::TENANTS_KEPT;

/// When a tenant was last seen without an erasure.
#[derive(Debug, Default)]
pub(crate) struct Fence(Mutex<BTreeMap<TenantId, Instant>>);

impl Fence {
    /// Refuses what would be new of a tenant whose data is erased.
    ///
    /// # Errors
    /// [`Problem::TenantErasing`]; what the store says.
    pub(crate) async fn pass(&self, store: &AwsStore, tenant: &TenantId) -> Result<(), Refused> {
        let fresh = Duration::from_millis(limits::ERASURE_UNSEEN_MS);
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(tenant).copied();
        if seen.is_some_and(|seen| seen.elapsed() < fresh) {
            return Ok(());
        }
        let looked = Instant::now();
        if let Some(stored) = store.erasure_under_way(tenant).await? {
            return Err(Refused(Problem::TenantErasing { erasure: stored.erasure.id }));
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TENANTS_KEPT && !known.contains_key(tenant) {
            known.pop_first();
        }
        known.insert(tenant.clone(), looked);
        Ok(())
    }

    /// Has the next look at a tenant be a look.
    pub(crate) fn forget(&self, tenant: &TenantId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(tenant);
    }
}
