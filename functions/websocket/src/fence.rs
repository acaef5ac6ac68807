//! What keeps new things out while a tenant's data is erased.
//!
//! The look comes behind the write of what is new, and remembers nothing from one to the next. So there is no moment between
//! the two: what was written before the erasure began is found by it, and what was written after that finds the erasure.

use longhaul::engine::TenantId;
use longhaul_aws::telemetry::chain;
use longhaul_wire::Problem;

use crate::WebSocket;
use crate::clients::unavailable;

impl WebSocket {
    /// Refuses what has just been written of a tenant whose data is erased; whoever asks takes it back.
    pub(crate) async fn refuse_while_erasing(&self, tenant: &TenantId) -> Result<(), Problem> {
        match self.store.erasure_under_way(tenant).await {
            Ok(None) => Ok(()),
            Ok(Some(stored)) => {
                tracing::info!(%tenant, erasure = %stored.erasure.id, "refused: the tenant's data is being erased");
                Err(Problem::TenantErasing { erasure: stored.erasure.id })
            }
            Err(error) => {
                tracing::error!(%tenant, error = %chain(&error), "nobody knows whether the tenant's data is being erased");
                Err(unavailable())
            }
        }
    }
}
