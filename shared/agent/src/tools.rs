//! What the shipped agents work with, made once per process, and the registry that holds them.

use std::rc::Rc;

use longhaul::Registry;
use longhaul::engine::ids::IdError;
use longhaul_llm::ModelError;

use crate::compliance::compliance;
use crate::model::ModelSteps;
use crate::paths::Paths;
use crate::research::research;
use crate::settings::Settings;
use crate::shelf::Shelf;
use crate::synthetic::agent_10;

/// A model, the places where documents lie, and the document read last.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    pub(crate) model: ModelSteps,
    pub(crate) paths: Paths,
    pub(crate) shelf: Shelf,
}

/// Why the agents cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ShippedError {
    /// The model server cannot be used.
    #[error("LONGHAUL_MODEL_URL does not name a model server")]
    Model(#[from] ModelError),
    /// An agent's name is none; a test keeps this from happening.
    #[error("an agent cannot be registered")]
    Name(#[from] IdError),
}

/// The agents that ship with the project, each at the version that its card in `longhaul-wire` names.
///
/// # Errors
/// [`ShippedError`] when the settings name no model server.
pub fn shipped(settings: &Settings) -> Result<Registry, ShippedError> {
    let (model, paths) = (ModelSteps::new(settings)?, settings.paths.clone());
    let tools = Rc::new(Tools { model, paths, shelf: Shelf::default() });
    let mut registry = Registry::default();
    let of_agent = Rc::clone(&tools);
    registry.add("research", 1, async move |ctx, input| research(ctx, &of_agent, input).await)?;
    let of_agent = Rc::clone(&tools);
    registry.add("compliance", 1, async move |ctx, input| compliance(ctx, &of_agent, input).await)?;
    registry.add("agent-10", 1, async move |ctx, input| agent_10(ctx, &tools, input).await)?;
    Ok(registry)
}
