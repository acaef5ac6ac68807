//! Agents that tenants define, for the worker: looked up when a job names one, and kept ready for a while.
//!
//! A version never changes, but it goes with an erasure of its tenant, and its number is given again to what the tenant
//! defines afterwards. So what is ready is looked up anew before an erasure can be over.

use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::{AgentRef, TenantId, Timestamp};
use longhaul::store::StoreError;
use longhaul::{Agent, AgentSource, Clock};
use longhaul_agent::defined;
use longhaul_agent::defined::equipment::Equipment;
use longhaul_aws::AwsStore;
use longhaul_aws::kept::Lately;

/// Agents that are kept ready at once.
const KEPT_MAX: usize = 256;

/// The definitions of all tenants, as the store has them.
pub struct Definitions {
    store: AwsStore,
    equipment: Rc<Equipment>,
    ready: Lately<(TenantId, AgentRef), Agent>,
}

impl Definitions {
    /// The definitions of a store, to be run with this equipment.
    #[must_use]
    pub fn new(store: AwsStore, equipment: Rc<Equipment>) -> Self {
        let ready = Lately::new(store.config().tenant_data_kept(), KEPT_MAX);
        Self { store, equipment, ready }
    }

    /// The agent of this name and version, as a process finds it that has been at work before and meets it now.
    ///
    /// # Errors
    /// Store errors.
    pub async fn look_up(
        &self,
        tenant: &TenantId,
        agent: &AgentRef,
        now: Timestamp,
    ) -> Result<Option<Agent>, StoreError> {
        let key = (tenant.clone(), agent.clone());
        if let Some(ready) = self.ready.get(&key, now) {
            return Ok(Some(ready));
        }
        let Some(saved) = self.store.definition(tenant, agent).await? else { return Ok(None) };
        // It was checked when it was saved: what cannot be read was written by a newer version, or by other hands.
        let definition = serde_json::from_str(&saved.definition).map_err(|error| StoreError::Corrupt {
            what: format!("the definition of {agent}"),
            detail: error.to_string(),
        })?;
        let made = defined::agent(definition, Rc::clone(&self.equipment));
        self.ready.learn(key, made.clone(), now);
        Ok(Some(made))
    }
}

impl AgentSource for Definitions {
    fn agent<'a>(
        &'a self,
        tenant: &'a TenantId,
        agent: &'a AgentRef,
    ) -> LocalBoxFuture<'a, Result<Option<Agent>, StoreError>> {
        let now = Clock::of_machine().now();
        self.look_up(tenant, agent, now).boxed_local()
    }
}
