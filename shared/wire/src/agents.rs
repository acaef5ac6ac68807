//! Agents as callers see them: what they are called, what they take, which signals they wait for.

use longhaul_engine::AgentRef;
use longhaul_engine::ids::{AgentName, SignalName};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::problem::Problem;

/// One agent at one version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(title = "Agent")]
pub struct AgentCard {
    /// Its name.
    #[schema(value_type = String, example = "research")]
    pub name: AgentName,
    /// Its version, from 1. A job stays on the version that it began with.
    #[schema(minimum = 1)]
    pub version: u32,
    /// What it does, in a sentence or two.
    pub description: String,
    /// The JSON Schema (draft 2020-12) of its input.
    #[schema(value_type = Object)]
    pub input_schema: Value,
    /// The signals that it waits for.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub signals: Vec<SignalName>,
}

impl AgentCard {
    /// The agent as a job names it.
    #[must_use]
    pub fn reference(&self) -> AgentRef {
        AgentRef { name: self.name.clone(), version: self.version }
    }
}

/// One agent at one version, with how it was defined where a tenant has defined it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    /// What it is called and takes.
    #[serde(flatten)]
    pub card: AgentCard,
    /// The digest of its definition (SHA-256, hexadecimal): the same text again is no new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When this version was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub created_at: Option<String>,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The definition; agents that ship have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub definition: Option<Value>,
    /// What the deployment does not have that the definition names (model providers, agents): it was saved all the same,
    /// and its jobs fail for as long as that is so. Only in the answer to a `PUT`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// All agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentList {
    /// By name, the versions of each in order.
    pub agents: Vec<AgentCard>,
    /// Whether there are more than an answer takes; those are found by their names.
    #[serde(default)]
    pub truncated: bool,
}

/// The agents that ship with the project. The list is data, so that the api can check inputs without the agents' code;
/// a test holds it to the worker's registry.
///
/// # Errors
/// When the embedded list is no list of agents; a test reads it at every build.
pub fn shipped() -> Result<Vec<AgentCard>, serde_json::Error> {
    serde_json::from_str(include_str!("../agents.json"))
}

/// Reads what a caller calls an agent, `name` or `name@version`; none when no agent can be called so.
#[must_use]
pub fn reference(text: &str) -> Option<(AgentName, Option<u32>)> {
    match text.split_once('@') {
        None => Some((text.parse().ok()?, None)),
        Some((name, version)) => {
            // Only the plain form: `1`, not `+1` or `01`.
            let number = version.parse().ok().filter(|number: &u32| number.to_string() == version)?;
            Some((name.parse().ok()?, Some(number)))
        }
    }
}

/// Finds what a caller calls `name` or `name@version`; without a version, the highest.
///
/// # Errors
/// [`Problem::UnknownAgent`].
pub fn find<'a>(cards: &'a [AgentCard], text: &str) -> Result<&'a AgentCard, Problem> {
    let found = reference(text).and_then(|(name, version)| {
        let named = cards.iter().filter(|card| card.name == name);
        match version {
            None => named.max_by_key(|card| card.version),
            Some(version) => named.into_iter().find(|card| card.version == version),
        }
    });
    found.ok_or_else(|| Problem::UnknownAgent {
        agent: text.to_owned(),
        known: cards.iter().map(|card| card.reference().to_string()).collect(),
    })
}
