//! Agents that tenants define, for the worker: looked up when a job names one, made ready once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::{AgentRef, TenantId};
use longhaul::store::StoreError;
use longhaul::{Agent, AgentSource};
use longhaul_agent::defined;
use longhaul_agent::defined::equipment::Equipment;
use longhaul_aws::AwsStore;

/// Agents that are kept ready. A version never changes, so they are right for ever; a process that met more begins anew.
const KEPT_MAX: usize = 256;

/// The definitions of all tenants, as the store has them.
pub(crate) struct Definitions {
    store: AwsStore,
    equipment: Rc<Equipment>,
    ready: RefCell<BTreeMap<(TenantId, AgentRef), Agent>>,
}

impl Definitions {
    pub(crate) fn new(store: AwsStore, equipment: Rc<Equipment>) -> Self {
        Self { store, equipment, ready: RefCell::default() }
    }

    async fn look_up(&self, tenant: &TenantId, agent: &AgentRef) -> Result<Option<Agent>, StoreError> {
        let key = (tenant.clone(), agent.clone());
        if let Some(ready) = self.ready.borrow().get(&key) {
            return Ok(Some(ready.clone()));
        }
        let Some(saved) = self.store.definition(tenant, agent).await? else { return Ok(None) };
        // It was checked when it was saved: what cannot be read was written by a newer version, or by other hands.
        let definition = serde_json::from_str(&saved.definition).map_err(|error| StoreError::Corrupt {
            what: format!("the definition of {agent}"),
            detail: error.to_string(),
        })?;
        let made = defined::agent(definition, Rc::clone(&self.equipment));
        let mut ready = self.ready.borrow_mut();
        if ready.len() >= KEPT_MAX {
            ready.clear();
        }
        ready.insert(key, made.clone());
        Ok(Some(made))
    }
}

impl AgentSource for Definitions {
    fn agent<'a>(
        &'a self,
        tenant: &'a TenantId,
        agent: &'a AgentRef,
    ) -> LocalBoxFuture<'a, Result<Option<Agent>, StoreError>> {
        self.look_up(tenant, agent).boxed_local()
    }
}
