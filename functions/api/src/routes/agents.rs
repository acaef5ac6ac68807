//! The agents.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use longhaul_wire::Scope;
use longhaul_wire::agents::AgentList;
use longhaul_wire::problem::ProblemBody;

use crate::answer::{Refused, json};
use crate::extract::Called;
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
    agents.sort_by(|a, b| (&a.name, a.version).cmp(&(&b.name, b.version)));
    Ok(json(StatusCode::OK, &AgentList { agents }))
}
