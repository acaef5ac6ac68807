//! What every request of a process shares.

use std::sync::Arc;

use longhaul::clock::Clock;
use longhaul::engine::{TenantId, Timestamp};
use longhaul_aws::AwsStore;
use longhaul_wire::{AgentCard, TokenCheck};

use crate::admission::Admission;
use crate::agents::Agents;
use crate::answer::Refused;
use crate::fence::Fence;

/// Tenants of which a process remembers anything: those that it meets in a while.
pub(crate) const TENANTS_KEPT: usize = 4_096;

/// The store, the check of tokens and the agents. Clones share them.
#[derive(Debug, Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: AwsStore,
    tokens: TokenCheck,
    agents: Agents,
    admission: Admission,
    fence: Fence,
}

impl Service {
    /// A service over this store, for callers whose tokens pass this check, with these agents.
    #[must_use]
    pub fn new(store: AwsStore, tokens: TokenCheck, agents: Vec<AgentCard>) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                tokens,
                agents: Agents::new(agents),
                admission: Admission::default(),
                fence: Fence::default(),
            }),
        }
    }

    pub(crate) fn store(&self) -> &AwsStore {
        &self.shared.store
    }

    pub(crate) fn tokens(&self) -> &TokenCheck {
        &self.shared.tokens
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.shared.admission
    }

    pub(crate) fn fence(&self) -> &Fence {
        &self.shared.fence
    }

    /// Refuses what would be new of a tenant whose data is erased.
    pub(crate) async fn refuse_while_erasing(&self, tenant: &TenantId) -> Result<(), Refused> {
        self.fence().pass(self.store(), tenant).await
    }

    pub(crate) fn agents(&self) -> &Agents {
        &self.shared.agents
    }
}

/// The time of a request, read anew for each: a frozen process must not go on with the time of its last one.
pub(crate) fn now() -> Timestamp {
    Clock::of_machine().now()
}
