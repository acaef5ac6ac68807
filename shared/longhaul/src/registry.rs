//! The agents that a worker can drive.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul_engine::ids::{AgentRef, IdError, TenantId};
use longhaul_engine::{ErrorClass, Failure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::store::StoreError;

type Run = Rc<dyn Fn(Ctx, Value) -> LocalBoxFuture<'static, Result<Value>>>;

type Leave = Rc<dyn for<'a> Fn(&'a [Recorded<'a>]) -> LocalBoxFuture<'a, ()>>;

/// A step with its recorded result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recorded<'a> {
    /// The author's name for it.
    pub name: &'a str,
    /// The result.
    pub output: &'a Value,
}

/// An agent's code, ready to be driven.
#[derive(Clone)]
pub struct Agent {
    pub(crate) run: Run,
    pub(crate) leave: Option<Leave>,
}

impl Agent {
    /// An agent is an async function from its input to its output.
    pub fn new<I, O, F>(agent: F) -> Self
    where
        F: AsyncFn(&mut Ctx, I) -> Result<O> + 'static,
        I: DeserializeOwned + 'static,
        O: Serialize + 'static,
    {
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
        Self { run, leave: None }
    }

    /// Has this done when a job ends without a result of the agent, by a cancel or a failure: telling others that what
    /// they do for the job is not wanted any more. It is given the steps that have a result, in the order of the journal,
    /// has a few seconds, and may be done more than once.
    #[must_use]
    pub fn leaving<F>(mut self, leave: F) -> Self
    where
        F: for<'a> AsyncFn(&'a [Recorded<'a>]) + 'static,
    {
        let leave = Rc::new(leave);
        self.leave = Some(Rc::new(move |steps| leaves(Rc::clone(&leave), steps)));
        self
    }
}

/// The future of one leave, which borrows what it is told of.
fn leaves<'a, F>(leave: Rc<F>, steps: &'a [Recorded<'a>]) -> LocalBoxFuture<'a, ()>
where
    F: for<'b> AsyncFn(&'b [Recorded<'b>]) + 'static,
{
    async move { leave(steps).await }.boxed_local()
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Agent")
    }
}

/// Where agents come from that are not built in: a tenant's own definitions, say. What it gives for a name and version
/// must be the same each time, since a job is replayed with it.
pub trait AgentSource {
    /// The tenant's agent of this name and version; none when there is none.
    ///
    /// # Errors
    /// When it cannot be looked up now. The job goes back to the queue.
    fn agent<'a>(
        &'a self,
        tenant: &'a TenantId,
        agent: &'a AgentRef,
    ) -> LocalBoxFuture<'a, Result<Option<Agent>, StoreError>>;
}

/// Agents by name and version. A job stays on the version it began with, so a changed agent is registered beside the
/// old version until no job runs on that.
#[derive(Default, Clone)]
pub struct Registry {
    agents: BTreeMap<AgentRef, Agent>,
    source: Option<Rc<dyn AgentSource>>,
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
        self.add_agent(AgentRef { name: name.parse()?, version }, Agent::new(agent));
        Ok(())
    }

    /// Adds an agent that is ready.
    pub fn add_agent(&mut self, reference: AgentRef, agent: Agent) {
        self.agents.insert(reference, agent);
    }

    /// Asks this source for agents that are not built in.
    pub fn set_source(&mut self, source: Rc<dyn AgentSource>) {
        self.source = Some(source);
    }

    /// The agents that are built in, by name and version.
    pub fn agents(&self) -> impl Iterator<Item = &AgentRef> {
        self.agents.keys()
    }

    pub(crate) fn find(&self, agent: &AgentRef) -> Option<Agent> {
        self.agents.get(agent).cloned()
    }

    /// What the source has of an agent that is not built in.
    pub(crate) async fn ask_source(&self, tenant: &TenantId, agent: &AgentRef) -> Result<Option<Agent>, StoreError> {
        match &self.source {
            Some(source) => source.agent(tenant, agent).await,
            None => Ok(None),
        }
    }
}
