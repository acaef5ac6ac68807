//! The agents that a worker can drive.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul_engine::ids::{AgentRef, IdError};
use longhaul_engine::{ErrorClass, Failure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ctx::Ctx;
use crate::error::{Error, Result};

type Run = Rc<dyn Fn(Ctx, Value) -> LocalBoxFuture<'static, Result<Value>>>;

/// Agents by name and version. A job stays on the version it began with, so a changed agent is registered beside the
/// old version until no job runs on that.
#[derive(Default, Clone)]
pub struct Registry {
    agents: BTreeMap<AgentRef, Run>,
}

impl Registry {
    /// Adds an agent.
    ///
    /// # Errors
    /// When the name is not one.
    pub fn add<I, O, F>(&mut self, name: &str, version: u32, agent: F) -> Result<(), IdError>
    where
        F: AsyncFn(&mut Ctx, I) -> Result<O> + 'static,
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
    {
        let reference = AgentRef { name: name.parse()?, version };
        let agent = Rc::new(agent);
        let run: Run = Rc::new(move |mut ctx, input| {
            let agent = Rc::clone(&agent);
            async move {
                let input = serde_json::from_value(input).map_err(|error| {
                    let message = format!("the input does not have the form that the agent expects: {error}");
                    Error::Terminal(Failure::new(ErrorClass::Invalid, message))
                })?;
                let output = agent(&mut ctx, input).await?;
                serde_json::to_value(output).map_err(|error| {
                    let message = format!("the agent's result is no JSON: {error}");
                    Error::Terminal(Failure::new(ErrorClass::Schema, message))
                })
            }
            .boxed_local()
        });
        self.agents.insert(reference, run);
        Ok(())
    }

    /// The agents, by name and version.
    pub fn agents(&self) -> impl Iterator<Item = &AgentRef> {
        self.agents.keys()
    }

    pub(crate) fn find(&self, agent: &AgentRef) -> Option<&Run> {
        self.agents.get(agent)
    }
}
