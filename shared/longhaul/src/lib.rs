//! What authors of agents import, and the machine that drives their jobs.
//!
//! An agent is an ordinary async function over a [`Ctx`]. Each operation of the context is a step whose outcome is
//! written to the job's journal; when the job goes on in another invocation the function runs again from its start and
//! every recorded step gives back its recorded outcome. See `ARCHITECTURE.md` for the protocol underneath.

pub mod clock;
pub mod outside;
pub mod store;

pub use longhaul_engine as engine;
pub use longhaul_engine::{ErrorClass, Failure};
