//! Erasing everything that a tenant has: asking for it, and seeing how far it is. The sweeper does the work.

use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use http::header::LOCATION;
use longhaul::engine::{Erasure, ErasureId};
use longhaul_wire::erasures::{EraseRequest, ErasureList, ErasureView};
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::requests::parse;
use longhaul_wire::{Problem, Scope};
use uuid::Uuid;

use crate::answer::{Refused, json, with_header};
use crate::extract::{Called, JsonBody};
use crate::service::{Service, now};

/// Erases everything that the token's tenant has: jobs with their journals, payloads and deliveries, agents, settings,
/// connections, dead letters. There is no way back.
///
/// Open jobs are cancelled first. Until it is done nothing new is taken from the tenant. One that is under way already is
/// answered with. A record stays: who asked for it, when, and how much was removed.
#[utoipa::path(
    post, path = "/v1/tenant/erasures", tag = "tenant", operation_id = "eraseTenant",
    request_body = EraseRequest,
    responses(
        (status = 202, description = "It is under way; `Location` is its address.", body = ErasureView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn erase(
    State(service): State<Service>,
    called: Called,
    JsonBody(body): JsonBody,
) -> Result<Response, Refused> {
    called.0.require(Scope::Erase)?;
    let tenant = &called.0.tenant;
    parse::<EraseRequest>(&body)?.check(tenant)?;
    let id = ErasureId::from_uuid(Uuid::now_v7());
    let asked = Erasure::asked(id, tenant.clone(), called.0.subject.clone(), now());
    let erasure = service.store().begin_erasure(&asked).await?;
    service.fence().forget(tenant);
    tracing::warn!(%tenant, erasure = %erasure.id, by = called.0.subject, "all data of a tenant is to be erased");
    let address = format!("/v1/tenant/erasures/{}", erasure.id);
    Ok(with_header(json(StatusCode::ACCEPTED, &ErasureView::of(&erasure)), LOCATION, &address))
}

/// Lists the tenant's erasures: the one under way, and the records of earlier ones.
#[utoipa::path(
    get, path = "/v1/tenant/erasures", tag = "tenant", operation_id = "listErasures",
    responses(
        (status = 200, description = "The erasures.", body = ErasureList),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(service): State<Service>, called: Called) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let erasures = service.store().erasures(&called.0.tenant).await?;
    Ok(json(StatusCode::OK, &ErasureList { erasures: erasures.iter().map(ErasureView::of).collect() }))
}

/// Shows how far an erasure is, or what it came to.
#[utoipa::path(
    get, path = "/v1/tenant/erasures/{id}", tag = "tenant", operation_id = "getErasure",
    params(("id" = uuid::Uuid, Path, description = "The erasure's id")),
    responses(
        (status = 200, description = "The erasure.", body = ErasureView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn get(
    State(service): State<Service>,
    called: Called,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let found = match id.parse() {
        Ok(id) => service.store().erasure(&called.0.tenant, id).await?,
        Err(_) => None,
    };
    let erasure = found.ok_or(Problem::NoSuchErasure { erasure: id })?;
    Ok(json(StatusCode::OK, &ErasureView::of(&erasure)))
}
