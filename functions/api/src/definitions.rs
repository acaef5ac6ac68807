//! Agents that a tenant has defined: taken in as versions, found by name, shown to people.

use std::borrow::Cow;

use longhaul::engine::ids::AgentName;
use longhaul::engine::{AgentRef, TenantId};
use longhaul::store::StoreError;
use longhaul_aws::AwsStore;
use longhaul_aws::dynamo::{NewDefinition, Saved, SavedDefinition};
use longhaul_definition::{Checked, Definition, Finding, Format, Policy, Tool, read_within};
use longhaul_wire::agents::AgentView;
use longhaul_wire::problem::Fault;
use longhaul_wire::text::rfc3339;
use longhaul_wire::{AgentCard, Caller, Problem, agents, limits};
use serde_json::Value;

use crate::answer::Refused;
use crate::service::{Service, now};

/// Most bytes of a definition with what people are shown of it. An item of the table takes 400 KB, names included.
const STORED_BYTES_MAX: usize = 350 * 1024;

/// The agent that a tenant calls `text`: one that ships, or one of its own.
pub(crate) async fn find<'a>(
    service: &'a Service,
    tenant: &TenantId,
    text: &str,
) -> Result<Cow<'a, AgentCard>, Refused> {
    let unknown = match service.agents().find(text) {
        Ok(card) => return Ok(Cow::Borrowed(card)),
        Err(unknown) => unknown,
    };
    match saved(service.store(), tenant, text).await? {
        Some(saved) => Ok(Cow::Owned(card(&saved)?)),
        None => Err(known_besides(service, tenant, unknown).await.into()),
    }
}

/// The agent of a job that was submitted before.
pub(crate) async fn of_job<'a>(
    service: &'a Service,
    tenant: &TenantId,
    agent: &AgentRef,
) -> Result<Cow<'a, AgentCard>, Refused> {
    find(service, tenant, &agent.to_string()).await
}

/// An unknown agent, with the tenant's own among those that there are.
async fn known_besides(service: &Service, tenant: &TenantId, unknown: Problem) -> Problem {
    match unknown {
        Problem::UnknownAgent { agent, mut known } => {
            // Only help; without it the answer is the same.
            let (cards, _) = cards(service.store(), tenant, limits::KNOWN_AGENTS_MAX).await.unwrap_or_default();
            known.extend(cards.iter().map(|card| card.reference().to_string()));
            known.truncate(limits::KNOWN_AGENTS_MAX);
            Problem::UnknownAgent { agent, known }
        }
        other => other,
    }
}

/// The versions of the agents that a tenant has defined, at most `cards_max`, and whether these are all. One that cannot
/// be read is left out: it must not hide the others.
pub(crate) async fn cards(
    store: &AwsStore,
    tenant: &TenantId,
    cards_max: usize,
) -> Result<(Vec<AgentCard>, bool), Refused> {
    let (cards, all) = store.definition_cards(tenant, cards_max).await?;
    let readable = cards.iter().filter_map(|card| {
        read_card(card).inspect_err(|error| tracing::error!(%tenant, %error, "an agent is left out of a list")).ok()
    });
    Ok((readable.collect(), all))
}

/// An agent with all that is known of it.
pub(crate) async fn view(service: &Service, tenant: &TenantId, text: &str) -> Result<AgentView, Refused> {
    if let Ok(card) = service.agents().find(text) {
        return Ok(AgentView {
            card: card.clone(),
            digest: None,
            created_at: None,
            created_by: None,
            definition: None,
            warnings: Vec::new(),
        });
    }
    match saved(service.store(), tenant, text).await? {
        Some(saved) => Ok(AgentView {
            card: card(&saved)?,
            definition: Some(json(&saved, "definition", &saved.definition)?),
            digest: Some(saved.digest),
            created_at: Some(rfc3339(saved.created_at)),
            created_by: Some(saved.created_by),
            warnings: Vec::new(),
        }),
        None => Err(Problem::NoSuchAgent { agent: text.to_owned() }.into()),
    }
}

/// The definition of the agent of a job, as its author wrote it; none when the agent ships with Longhaul.
pub(crate) async fn source(service: &Service, tenant: &TenantId, agent: &AgentRef) -> Result<Option<Value>, Refused> {
    if service.agents().find(&agent.to_string()).is_ok() {
        return Ok(None);
    }
    match service.store().definition(tenant, agent).await? {
        Some(saved) => Ok(Some(json(&saved, "definition", &saved.definition)?)),
        None => Ok(None),
    }
}

/// Saves a definition; whether it is a new version, and which.
pub(crate) async fn save(
    service: &Service,
    caller: &Caller,
    name: &str,
    body: &[u8],
    format: Format,
) -> Result<(AgentView, bool), Refused> {
    let agent: AgentName = name.parse().map_err(|error| Problem::parameter("name", format!("{error}")))?;
    if service.agents().cards().iter().any(|card| card.name == agent) {
        return Err(Problem::parameter("name", "is that of an agent that ships with Longhaul; take another one").into());
    }
    let text = std::str::from_utf8(body)
        .map_err(|error| Problem::InvalidDefinition { faults: vec![Fault::whole(format!("is no UTF-8: {error}"))] })?;
    let policy = Policy { allowed_hosts: service.store().config().tool_hosts.clone(), ..Policy::default() };
    let Checked { definition, source, digest } =
        read_within(text, format, &policy).map_err(|findings| refused(&findings))?;
    if definition.name != name {
        let detail = format!("is `{}`, but the address says `{name}`", definition.name);
        return Err(Problem::field("/name", detail).into());
    }
    let make_card = |agent: &AgentRef| card_of(agent, &definition);
    let source_text = source.to_string();
    let shown = make_card(&AgentRef { name: agent.clone(), version: u32::MAX });
    if source_text.len().saturating_add(shown.len()) > STORED_BYTES_MAX {
        return Err(Problem::BodyTooLarge { bytes_max: STORED_BYTES_MAX }.into());
    }
    let new = NewDefinition { name: agent, digest, definition: source_text, by: caller.subject.clone() };
    let saved = service.store().save_definition(&caller.tenant, &new, now(), make_card).await?;
    let (agent, created) = match saved {
        Saved::Created(agent) => (agent, true),
        Saved::Unchanged(agent) => (agent, false),
    };
    tracing::info!(tenant = %caller.tenant, agent = %agent, created, "a definition was saved");
    let warnings = missing(service, &caller.tenant, &definition).await?;
    Ok((AgentView { warnings, ..view(service, &caller.tenant, &agent.to_string()).await? }, created))
}

/// What a definition names that this deployment does not have, as of now: it may have it by the time that a job runs.
async fn missing(service: &Service, tenant: &TenantId, definition: &Definition) -> Result<Vec<String>, Refused> {
    let providers = &service.store().config().providers;
    let mut missing = Vec::new();
    for (index, choice) in definition.models.iter().enumerate() {
        if !providers.contains(&choice.provider) {
            let known = if providers.is_empty() { " none".to_owned() } else { format!(": {}", providers.join(", ")) };
            missing.push(format!(
                "/models/{index}/provider: this deployment has no model provider `{}`; it has{known}",
                choice.provider
            ));
        }
    }
    for (index, tool) in definition.tools.iter().enumerate() {
        let Tool::RunAgent(tool) = tool else { continue };
        let text = format!("{}@{}", tool.agent, tool.version);
        if service.agents().find(&text).is_err() && saved(service.store(), tenant, &text).await?.is_none() {
            missing.push(format!("/tools/{index}/agent: there is no agent `{text}`"));
        }
    }
    Ok(missing)
}

/// A version of a tenant's own agent, by `name` or `name@version`.
async fn saved(store: &AwsStore, tenant: &TenantId, text: &str) -> Result<Option<SavedDefinition>, StoreError> {
    match agents::reference(text) {
        Some((name, Some(version))) => store.definition(tenant, &AgentRef { name, version }).await,
        Some((name, None)) => store.newest_definition(tenant, &name).await,
        None => Ok(None),
    }
}

fn card(saved: &SavedDefinition) -> Result<AgentCard, StoreError> {
    read_card(&saved.card)
}

fn read_card(card: &str) -> Result<AgentCard, StoreError> {
    serde_json::from_str(card).map_err(|error| StoreError::Corrupt {
        what: "an agent's definition".to_owned(),
        detail: format!("attribute card: {error}"),
    })
}

fn json(saved: &SavedDefinition, attribute: &str, text: &str) -> Result<Value, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt {
        what: format!("the definition of {}", saved.agent),
        detail: format!("attribute {attribute}: {error}"),
    })
}

/// What people are shown of a definition, as JSON.
#[must_use]
pub fn card_of(agent: &AgentRef, definition: &Definition) -> String {
    let asks = definition.tools.iter().filter_map(|tool| match tool {
        Tool::AskPerson(tool) => tool.name.parse().ok(),
        Tool::Http(_) | Tool::Lambda(_) | Tool::Mcp(_) | Tool::RunAgent(_) | Tool::Documents(_) | Tool::Search(_) => {
            None
        }
    });
    let card = AgentCard {
        name: agent.name.clone(),
        version: agent.version,
        description: definition.description.clone(),
        // Whatever is JSON, where the author asks for nothing in particular.
        input_schema: definition.input_schema.clone().unwrap_or(Value::Bool(true)),
        signals: asks.collect(),
    };
    // A card is plain data with text keys: writing it down cannot fail.
    serde_json::to_string(&card).unwrap_or_default()
}

fn refused(findings: &[Finding]) -> Problem {
    let faults = findings.iter().map(|finding| Fault {
        line: u64::try_from(finding.line).unwrap_or(u64::MAX),
        field: finding.field.clone(),
        detail: finding.message.clone(),
        help: finding.help.clone(),
    });
    Problem::InvalidDefinition { faults: faults.collect() }
}
