//! The authors' testing kit: an agent under test, in virtual time, with a scripted model or with recorded traffic.
//!
//! A [`Trial`] runs an agent, in Rust or by its definition, through the real drive loop over a store in memory: waits of
//! days take no time, a worker can be made to die at any of its calls, and the same trial gives the same journal. What the
//! agent talks to is a [`Script`] in the place of a model, functions of the test's own, and [`Traffic`]: real requests and
//! answers, recorded once into a file without their secrets and replayed from it. A request that the recording does not
//! have fails the trial and says what differs. `docs/testing-agents.md` shows all of it in one example.

mod journal;
mod models;
mod people;
mod script;
mod traffic;
mod trial;

pub use script::Script;
pub use traffic::{Traffic, TrafficError};
pub use trial::{Ended, Trial, TrialError};
