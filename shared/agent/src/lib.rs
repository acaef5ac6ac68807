//! The agents that ship with the project, and what they are made of.
//!
//! Each agent is an ordinary async function over a [`longhaul::Ctx`]. What they share: a model call as a step
//! (`model`), prompts in which foreign text stays foreign (`prompt`), documents and their quotes ([`documents`]), and
//! settings from the environment ([`settings`]). [`shipped`] gives the registry that a worker drives.

mod blocking;
pub mod compliance;
pub mod defined;
pub mod documents;
mod excerpt;
mod markdown;
mod model;
pub mod model_keys;
mod paths;
mod prompt;
mod ranking;
pub mod research;
pub mod settings;
mod shelf;
pub mod synthetic;
mod tools;

pub use blocking::HeavyWork;
pub use model::STAND_IN;
pub use paths::Paths;
pub use settings::{Settings, SettingsError};
pub use tools::lambda::{Functions, Invoked, NoFunctions};
pub use tools::reach::{Lookup, Reach, SystemLookup};
pub use tools::secrets::{NoSecrets, SecretText, Secrets};
pub use tools::{ShippedError, Surroundings, shipped, shipped_amid};

use tools::Tools;
