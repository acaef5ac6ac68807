//! The tools of one job: what the model is offered, and what stands behind each name.

use std::collections::BTreeMap;
use std::time::Duration;

use jsonschema::Validator;
use longhaul::{Ctx, Error};
use longhaul_definition::{Definition, Effect, McpTool, Tool};
use longhaul_llm::ToolSpec;
use serde_json::{Map, Value, json};

use super::Defined;
use super::outputs::read_more_spec;
use crate::tools::http::Caller;
use crate::tools::library::{read_schema, search_schema};
use crate::tools::mcp::Described;

/// Violations that a model is told of: enough for the next try.
const VIOLATIONS_MAX: usize = 5;

/// What stands behind a tool's name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Behind<'a> {
    /// A tool of the definition.
    Tool(&'a Tool),
    /// One tool of an MCP server, by the server's own name for it.
    OfServer { server: &'a McpTool, tool: &'a str },
}

impl Behind<'_> {
    /// What may happen when it is called a second time.
    pub(super) fn effect(self) -> Effect {
        match self {
            Self::OfServer { server, .. } => server.effect(),
            Self::Tool(Tool::Http(tool)) => tool.effect(),
            Self::Tool(Tool::Lambda(tool)) => tool.effect(),
            Self::Tool(
                Tool::Mcp(_) | Tool::AskPerson(_) | Tool::RunAgent(_) | Tool::Documents(_) | Tool::Search(_),
            ) => Effect::Idempotent,
        }
    }

    /// How long an attempt may take.
    pub(super) fn time_limit(self) -> Duration {
        let seconds = match self {
            Self::OfServer { server, .. } => server.timeout_seconds,
            Self::Tool(Tool::Http(tool)) => tool.timeout_seconds,
            Self::Tool(Tool::Lambda(tool)) => tool.timeout_seconds,
            Self::Tool(
                Tool::Mcp(_) | Tool::AskPerson(_) | Tool::RunAgent(_) | Tool::Documents(_) | Tool::Search(_),
            ) => longhaul_definition::limits::TOOL_TIMEOUT_SECONDS_MAX / 2,
        };
        Duration::from_secs(seconds)
    }
}

/// One granted tool.
pub(super) struct Grant<'a> {
    pub(super) behind: Behind<'a>,
    pub(super) needs_approval: bool,
    arguments: Validator,
}

impl Grant<'_> {
    /// Checks the arguments of a call.
    ///
    /// # Errors
    /// What the model must be told.
    pub(super) fn check(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        let value = Value::Object(arguments.clone());
        let wrong: Vec<String> = self
            .arguments
            .iter_errors(&value)
            .take(VIOLATIONS_MAX)
            .map(|violation| format!("{violation} (at {:?})", violation.instance_path().to_string()))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

/// The granted tools.
pub(super) struct Grants<'a> {
    by_name: BTreeMap<String, Grant<'a>>,
    specs: Vec<ToolSpec>,
}

impl<'a> Grants<'a> {
    /// Finds out what the definition grants. What MCP servers say of their tools is a step each, so that a replay offers
    /// the model the same.
    pub(super) async fn open(ctx: &mut Ctx, agent: &'a Defined) -> longhaul::Result<Self> {
        let mut grants = Self { by_name: BTreeMap::new(), specs: Vec::new() };
        for tool in &agent.definition.tools {
            match tool {
                Tool::Mcp(server) => {
                    for described in described(ctx, agent, server).await? {
                        let known = server.tools.iter().find(|name| **name == described.name);
                        let Some(tool) = known else { continue };
                        let Described { description, input_schema, .. } = described;
                        let behind = Behind::OfServer { server, tool };
                        grants.add(&agent.definition, server.exposed(tool), description, input_schema, behind)?;
                    }
                }
                Tool::Http(of) => grants.plain(agent, tool, &of.description, of.input_schema.clone())?,
                Tool::Lambda(of) => grants.plain(agent, tool, &of.description, of.input_schema.clone())?,
                Tool::RunAgent(of) => grants.plain(agent, tool, &of.description, of.input_schema.clone())?,
                Tool::AskPerson(of) => grants.plain(agent, tool, &of.description, question_schema())?,
                Tool::Documents(of) => grants.plain(agent, tool, &of.description, read_schema())?,
                Tool::Search(of) => grants.plain(agent, tool, &of.description, search_schema())?,
            }
        }
        Ok(grants)
    }

    fn plain(&mut self, agent: &Defined, tool: &'a Tool, description: &str, schema: Value) -> longhaul::Result<()> {
        self.add(&agent.definition, tool.name().to_owned(), description.to_owned(), schema, Behind::Tool(tool))
    }

    fn add(
        &mut self,
        definition: &Definition,
        name: String,
        description: String,
        schema: Value,
        behind: Behind<'a>,
    ) -> longhaul::Result<()> {
        let arguments = jsonschema::validator_for(&schema).map_err(|error| {
            Error::terminal(format!("the arguments of the tool {name} are described by no JSON Schema: {error}"))
        })?;
        let needs_approval = definition.approval.contains(&name);
        self.specs.push(ToolSpec { name: name.clone(), description, parameters: schema });
        self.by_name.insert(name, Grant { behind, needs_approval, arguments });
        Ok(())
    }

    /// What the model is offered.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        let mut specs = self.specs.clone();
        if !specs.is_empty() {
            specs.push(read_more_spec());
        }
        specs
    }

    pub(super) fn get(&self, name: &str) -> Option<&Grant<'a>> {
        self.by_name.get(name)
    }

    /// The names of what is granted, for a model that has named something else.
    pub(super) fn names(&self) -> String {
        if self.by_name.is_empty() {
            return "none".to_owned();
        }
        self.by_name.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

async fn described(ctx: &mut Ctx, agent: &Defined, server: &McpTool) -> longhaul::Result<Vec<Described>> {
    let tenant = ctx.tenant().clone();
    let traceparent = ctx.traceparent();
    let equipment = &agent.equipment;
    ctx.step(&format!("tools of {}", server.name), async || {
        let (reach, secrets) = (&equipment.reach, &*equipment.secrets);
        let caller = Caller { reach, secrets, tenant: &tenant, traceparent: &traceparent };
        equipment.sessions.list(&caller, server).await
    })
    .retry(agent.retry())
    .time_limit(Duration::from_secs(server.timeout_seconds) + super::CALL_MARGIN)
    .await
}

fn question_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"question": {"type": "string", "description": "The question, with all that one needs to answer it."}},
        "required": ["question"],
        "additionalProperties": false
    })
}
