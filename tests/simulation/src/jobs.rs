//! The jobs of the simulations: what they ask, and what they must come to.

use std::time::Duration;

use longhaul_sim::workshop::Workshop;
use serde_json::{Value, json};

/// A job by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The shipped `research`.
    Research,
    /// The shipped `compliance`, whose tickets wait for a person or not.
    Compliance {
        /// Whether they wait.
        approve: bool,
    },
    /// The shipped `agent-10`.
    Steps {
        /// Whether it fails until its input is mended.
        fails: bool,
    },
    /// Everything that a context can do.
    Everything {
        /// How often a branch fails.
        flaky: u64,
    },
    /// A job with children.
    Parent,
    /// A job that fails until its input is mended.
    Mended,
}

/// What a person who is asked says, if anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Says {
    /// Yes.
    Yes,
    /// No.
    No,
    /// Nothing, until the wait has ended by itself.
    Nothing,
}

/// How long `compliance` waits for a person.
const APPROVAL_SECONDS: u64 = 7_200;

impl Kind {
    /// The agent and its input, as submitted or as mended.
    #[must_use]
    pub fn order(self, mended: bool) -> (&'static str, Value) {
        match self {
            Self::Research => {
                let topic = "how leases and queues keep jobs alive";
                ("research", json!({ "topic": topic, "corpus": "samples/corpus", "sources_max": 3 }))
            }
            Self::Compliance { approve } => ("compliance", compliance(approve)),
            Self::Steps { fails: false } => ("agent-10", json!({ "steps": 10, "bytes": 40 })),
            Self::Steps { fails: true } => {
                ("agent-10", json!({ "steps": 6, "bytes": 40, "fail_at": 4, "mended": mended }))
            }
            Self::Everything { flaky } => ("everything", json!(flaky)),
            Self::Parent => ("parent", json!([2, 13, 5])),
            Self::Mended => ("mended", json!({ "mended": mended })),
        }
    }

    /// Whether its first run ends as a failure by design.
    #[must_use]
    pub const fn fails_at_first(self) -> bool {
        match self {
            Self::Steps { fails } => fails,
            Self::Mended => true,
            Self::Research | Self::Compliance { .. } | Self::Everything { .. } | Self::Parent => false,
        }
    }

    /// The payload by which a person answers.
    #[must_use]
    pub fn answer(self, says: Says) -> Option<Value> {
        match (self, says) {
            (_, Says::Nothing) => None,
            (Self::Compliance { .. }, Says::Yes) => Some(json!({ "decision": "approved" })),
            (Self::Compliance { .. }, Says::No) => Some(json!({ "decision": "rejected", "reason": "not now" })),
            (_, Says::Yes) => Some(json!("yes")),
            (_, Says::No) => Some(json!("no")),
        }
    }

    /// All that a shipped agent is tried with.
    #[must_use]
    pub const fn shipped() -> [(Self, Says); 7] {
        [
            (Self::Research, Says::Nothing),
            (Self::Compliance { approve: false }, Says::Nothing),
            (Self::Compliance { approve: true }, Says::Yes),
            (Self::Compliance { approve: true }, Says::No),
            (Self::Compliance { approve: true }, Says::Nothing),
            (Self::Steps { fails: false }, Says::Nothing),
            (Self::Steps { fails: true }, Says::Nothing),
        ]
    }
}

fn compliance(approve: bool) -> Value {
    json!({
        "document": "samples/agreement.txt",
        "rules": [
            "Customer Data must be encrypted at rest and in transit.",
            { "id": "pay", "requirement": "Invoices must be paid within 60 days after receipt of the invoice." },
            "Audit logs of access must be kept for at least 12 months.",
            { "id": "words", "requirement": "Passwords must have at least 12 characters." },
        ],
        "tickets_url": "https://tickets.invalid/tickets",
        "approve": approve,
        "approval_seconds": APPROVAL_SECONDS,
    })
}

/// Time in which everything that is still under way has come: messages that a dead worker held, late writes, watchdogs,
/// sweeps.
pub const SETTLING: Duration = Duration::from_secs(2 * 3_600);

/// An order of this kind, the number-th of its world.
#[must_use]
pub fn order(workshop: &Workshop, kind: Kind, number: usize) -> longhaul::engine::job::Order {
    let (agent, input) = kind.order(false);
    let mut order = workshop.order(agent, input);
    order.id = longhaul::engine::JobId::of_key(&order.tenant, &format!("{agent} {number}"));
    order
}
