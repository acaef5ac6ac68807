//! What a tenant settles for all of its jobs.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use longhaul_aws::dynamo::TenantSettings as Settled;
use longhaul_wire::Scope;
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::requests::{TenantSettings, parse};

use crate::answer::{Refused, json};
use crate::extract::{Called, JsonBody};
use crate::service::{Service, now};

/// Shows the tenant's settings.
#[utoipa::path(
    get, path = "/v1/tenant/settings", tag = "tenant", operation_id = "getTenantSettings",
    responses(
        (status = 200, description = "The settings.", body = TenantSettings),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn get(State(service): State<Service>, called: Called) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let Settled { job_kept_days } = service.store().tenant_settings(&called.0.tenant).await?;
    Ok(json(StatusCode::OK, &TenantSettings { job_kept_days }))
}

/// Changes the tenant's settings, for jobs that end from then on (within a minute everywhere).
#[utoipa::path(
    put, path = "/v1/tenant/settings", tag = "tenant", operation_id = "putTenantSettings",
    request_body = TenantSettings,
    responses(
        (status = 200, description = "The settings as they are now.", body = TenantSettings),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(service): State<Service>,
    called: Called,
    JsonBody(body): JsonBody,
) -> Result<Response, Refused> {
    called.0.require(Scope::Administer)?;
    let settings: TenantSettings = parse(&body)?;
    settings.check()?;
    service.refuse_while_erasing(&called.0.tenant).await?;
    let settled = Settled { job_kept_days: settings.job_kept_days };
    service.store().put_tenant_settings(&called.0.tenant, settled, &called.0.subject, now()).await?;
    tracing::info!(tenant = %called.0.tenant, job_kept_days = settings.job_kept_days, "the tenant's settings were changed");
    Ok(json(StatusCode::OK, &settings))
}
