//! Whether a submission may come in, by the limits of its tenant.
//!
//! The store is asked beside the submission and not before it (`engine::admission` has the reasoning), so a tenant that
//! stays within its limits waits for nothing. Only who is at a limit is looked at more closely.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul::engine::admission::{Known, TenantLimits, Verdict};
use longhaul::engine::{TenantId, Timestamp};
use longhaul_aws::AwsStore;
use longhaul_aws::telemetry::chain;
use longhaul_wire::Problem;

use crate::service::TENANTS_KEPT;

/// What this process knows of tenants' use.
#[derive(Debug, Default)]
pub(crate) struct Admission(Mutex<BTreeMap<TenantId, Known>>);

/// An admitted submission, whose tenant's book may have to be written.
#[derive(Debug)]
#[must_use = "what was admitted is to be written down"]
pub(crate) struct Admitted<'a> {
    admission: &'a Admission,
    tenant: TenantId,
    limits: TenantLimits,
    /// How many submissions are to be written down, and whether the tenant was idle before; none: not now.
    count: Option<(u32, bool)>,
}

impl Admission {
    fn books(&self) -> MutexGuard<'_, BTreeMap<TenantId, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides by what is known, which is brought up to date first where it is too old to refuse by.
    ///
    /// # Errors
    /// [`Problem::LimitReached`].
    pub(crate) async fn admit(
        &self,
        store: &AwsStore,
        tenant: &TenantId,
        now: Timestamp,
    ) -> Result<Admitted<'_>, Problem> {
        let limits = *store.config().tenant_limits.of(tenant);
        let mut verdict = self.decide(tenant, &limits, now);
        if let Verdict::Ask = verdict {
            match store.used(tenant, now).await {
                Ok(used) => {
                    self.books().entry(tenant.clone()).or_default().written(0, used, now);
                    verdict = self.decide(tenant, &limits, now);
                }
                Err(error) => tracing::warn!(%tenant, error = %chain(&error), "a tenant's use was not read"),
            }
        }
        let admitted = |count| Admitted { admission: self, tenant: tenant.clone(), limits, count };
        match verdict {
            Verdict::Admit { write } => {
                let mut books = self.books();
                let known = books.get_mut(tenant).filter(|_| write);
                Ok(admitted(known.map(|known| (known.take_unwritten(), known.was_idle(now)))))
            }
            // The store does not say; it is not the limits that should make a submission fail then.
            Verdict::Ask => Ok(admitted(None)),
            Verdict::Refuse { limit, value, retry_after } => {
                tracing::info!(%tenant, limit = limit.as_str(), value, "a submission was refused");
                Err(Problem::LimitReached { limit, value, retry_after })
            }
        }
    }

    fn decide(&self, tenant: &TenantId, limits: &TenantLimits, now: Timestamp) -> Verdict {
        let mut books = self.books();
        if books.len() >= TENANTS_KEPT && !books.contains_key(tenant) {
            // Whoever is forgotten is let in once more before its book is looked at again.
            books.pop_first();
        }
        books.entry(tenant.clone()).or_default().admit(limits, now)
    }
}

impl Admitted<'_> {
    /// Writes down what was admitted, if it is time to. To be run beside the submission: it does not matter to it, and
    /// what is not written now is written with the next.
    pub(crate) async fn write(mut self, store: &AwsStore, now: Timestamp) {
        let Some((count, was_idle)) = self.count else { return };
        match store.charge(&self.tenant, count, &self.limits, was_idle, now).await {
            Ok(used) => {
                self.count = None;
                if let Some(known) = self.admission.books().get_mut(&self.tenant) {
                    known.written(count, used, now);
                }
            }
            Err(error) => {
                let tenant = &self.tenant;
                tracing::warn!(%tenant, count, error = %chain(&error), "a tenant's use was not written down");
            }
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if let Some((count, _)) = self.count
            && let Some(known) = self.admission.books().get_mut(&self.tenant)
        {
            known.not_written(count);
        }
    }
}
