//! What authors of agents import, and the machine that drives their jobs.
//!
//! An agent is an ordinary async function over a [`Ctx`]. Each operation of the context is a step whose outcome is
//! written to the job's journal; when the job goes on in another invocation the function runs again from its start and
//! every recorded step gives back its recorded outcome. See `ARCHITECTURE.md` for the protocol underneath.

// A lifecycle that gets a new state must be looked at wherever it is acted on.
#![deny(clippy::wildcard_enum_match_arm)]

mod child;
pub mod clock;
mod ctx;
pub mod drive;
mod error;
pub mod forking;
mod live;
pub mod outside;
mod registry;
mod shared;
mod signal;
mod step;
pub mod store;
mod thread;

pub use child::ChildJob;
pub use clock::Clock;
pub use ctx::Ctx;
pub use error::{Error, Result, StepError};
pub use live::{Audience, Delta, Live};
pub use longhaul_engine as engine;
pub use longhaul_engine::job::Usage;
pub use longhaul_engine::retry::RetryPolicy;
pub use longhaul_engine::{ErrorClass, Failure};
pub use registry::{Agent, AgentSource, Recorded, Registry};
pub use signal::SignalWait;
pub use step::{Effect, EffectKey, Step};
