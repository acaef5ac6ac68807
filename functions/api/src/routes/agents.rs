//! The agents: those that ship, and those that a tenant has defined.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use http::header::LOCATION;
use longhaul_wire::agents::{AgentList, AgentView};
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::{Scope, limits};

use crate::answer::{Refused, json, with_header};
use crate::definitions;
use crate::extract::{Called, DefinitionBody};
use crate::service::Service;

/// Lists the agents with the schemas of their inputs.
#[utoipa::path(
    get, path = "/v1/agents", tag = "agents", operation_id = "listAgents",
    responses(
        (status = 200, description = "All agents, by name and version.", body = AgentList),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(service): State<Service>, called: Called) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let mut agents = service.agents().cards().to_vec();
    let (defined, all) = definitions::cards(service.store(), &called.0.tenant, limits::AGENTS_LISTED_MAX).await?;
    agents.extend(defined);
    agents.sort_by(|a, b| (&a.name, a.version).cmp(&(&b.name, b.version)));
    Ok(json(StatusCode::OK, &AgentList { agents, truncated: !all }))
}

/// Gives an agent, with its definition where it has one.
#[utoipa::path(
    get, path = "/v1/agents/{name}", tag = "agents", operation_id = "getAgent",
    params(("name" = String, Path, description = "`name` for the newest version, or `name@version`")),
    responses(
        (status = 200, description = "The agent.", body = AgentView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn get(
    State(service): State<Service>,
    called: Called,
    Path(name): Path<String>,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    Ok(json(StatusCode::OK, &definitions::view(&service, &called.0.tenant, &name).await?))
}

/// Saves an agent's definition as its next version. A version is never changed: jobs stay on the one that they began
/// with. The same definition again is no new version.
#[utoipa::path(
    put, path = "/v1/agents/{name}", tag = "agents", operation_id = "putAgent",
    params(("name" = String, Path, description = "The agent's name, as in the definition")),
    request_body(
        description = "The definition, as JSON or YAML; `longhaul agents schema` prints its JSON Schema.",
        content((serde_json::Value = "application/json"), (String = "application/yaml"))
    ),
    responses(
        (status = 200, description = "The newest version says the same already.", body = AgentView),
        (status = 201, description = "A new version; `Location` is its address.", body = AgentView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(service): State<Service>,
    called: Called,
    Path(name): Path<String>,
    DefinitionBody { text, format }: DefinitionBody,
) -> Result<Response, Refused> {
    called.0.require(Scope::Define)?;
    service.refuse_while_erasing(&called.0.tenant).await?;
    let (view, created) = definitions::save(&service, &called.0, &name, &text, format).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let address = format!("/v1/agents/{}", view.card.reference());
    Ok(with_header(json(status, &view), LOCATION, &address))
}
