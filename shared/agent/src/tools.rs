//! What the shipped agents work with, made once per process, and the registry that holds them; and, below, the kinds of
//! tools that agent definitions grant.

pub(crate) mod http;
pub(crate) mod lambda;
pub(crate) mod library;
pub(crate) mod mcp;
pub(crate) mod outcome;
pub(crate) mod reach;
pub(crate) mod secrets;

use std::rc::Rc;

use longhaul::Registry;
use longhaul::engine::ids::IdError;
use longhaul_llm::{Model, ModelError};

use crate::blocking::HeavyWork;
use crate::compliance::{HttpTickets, TicketServer, compliance};
use crate::model::{ModelSteps, server};
use crate::paths::Paths;
use crate::research::research;
use crate::settings::Settings;
use crate::shelf::Shelf;
use crate::synthetic::agent_10;

/// A model, a way to ticket servers, the places where documents lie, and the document read last.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) model: ModelSteps,
    pub(crate) tickets: Rc<dyn TicketServer>,
    pub(crate) paths: Paths,
    pub(crate) shelf: Shelf,
    pub(crate) heavy: HeavyWork,
}

/// What the agents reach outside of the worker. A simulation hands in its own, since virtual time stands still for no
/// socket and no thread.
#[derive(Clone)]
pub struct Surroundings {
    /// The model that is asked.
    pub model: Rc<dyn Model>,
    /// What opens tickets.
    pub tickets: Rc<dyn TicketServer>,
    /// Where heavy work is done.
    pub heavy: HeavyWork,
}

impl Surroundings {
    /// The model server of the settings, ticket servers over HTTP, threads for heavy work.
    ///
    /// # Errors
    /// When the settings name no model server.
    pub fn of_worker(settings: &Settings) -> Result<Self, ModelError> {
        Ok(Self { model: server(settings)?, tickets: Rc::new(HttpTickets), heavy: HeavyWork::Apart })
    }
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
    shipped_amid(settings, Surroundings::of_worker(settings)?)
}

/// The same agents in other surroundings.
///
/// # Errors
/// [`ShippedError::Name`]; a test keeps it from happening.
pub fn shipped_amid(settings: &Settings, surroundings: Surroundings) -> Result<Registry, ShippedError> {
    let Surroundings { model, tickets, heavy } = surroundings;
    let (model, paths) = (ModelSteps::new(settings, model), settings.paths.clone());
    let tools = Rc::new(Tools { model, tickets, paths, shelf: Shelf::default(), heavy });
    let mut registry = Registry::default();
    let of_agent = Rc::clone(&tools);
    registry.add("research", 1, async move |ctx, input| research(ctx, &of_agent, input).await)?;
    let of_agent = Rc::clone(&tools);
    registry.add("compliance", 1, async move |ctx, input| compliance(ctx, &of_agent, input).await)?;
    registry.add("agent-10", 1, async move |ctx, input| agent_10(ctx, &tools, input).await)?;
    Ok(registry)
}
