//! What stands around every request: its id, who calls, the body of a problem, and one line in the log.

use longhaul_aws::telemetry::chain;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue};
use lambda_http::request::RequestContext;
use longhaul::engine::TenantId;
use longhaul_wire::Problem;
use longhaul_wire::problem::CONTENT_TYPE as PROBLEM;
use tracing::Instrument;
use uuid::Uuid;

use crate::answer::{Refused, with_header};
use crate::service::Service;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Around everything. The id is API Gateway's own where it has given one, never the caller's: it goes into the log.
pub(crate) async fn around(request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = gateway_id(&request).unwrap_or_else(|| Uuid::now_v7().to_string());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map_or("-", MatchedPath::as_str).to_owned();
    let span = tracing::info_span!("request", request_id = id);
    let response = next.run(request).instrument(span.clone()).await;
    let response = complete(response, &path, &id);
    let tenant = response.extensions().get::<TenantId>().map_or("-", TenantId::as_str);
    let problem = response.extensions().get::<Problem>().map_or("-", Problem::name);
    // The path is left out: whatever a caller typed there would be in the log.
    tracing::info!(
        parent: &span, %method, route, tenant, status = response.status().as_u16(), problem,
        ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX), "answered"
    );
    response
}

fn gateway_id(request: &Request) -> Option<String> {
    match request.extensions().get::<RequestContext>() {
        Some(RequestContext::ApiGatewayV2(context)) => context.request_id.clone(),
        Some(_) | None => None,
    }
}

/// Writes a problem's body and the headers that every answer has.
fn complete(response: Response, path: &str, id: &str) -> Response {
    let response = match response.extensions().get::<Problem>().cloned() {
        Some(problem) => write_problem(response, &problem, path, id),
        None => response,
    };
    let mut response = with_header(response, REQUEST_ID, id);
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn write_problem(response: Response, problem: &Problem, path: &str, id: &str) -> Response {
    let (mut parts, _) = response.into_parts();
    // A problem is plain data with text keys: writing it down cannot fail.
    let body = serde_json::to_string(&problem.body(Some(path), Some(id))).unwrap_or_default();
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
    parts.headers.remove(http::header::CONTENT_LENGTH);
    if let Some(seconds) = problem.retry_after_seconds() {
        parts.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if matches!(problem, Problem::NotAuthenticated) {
        parts.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    Response::from_parts(parts, body.into())
}

/// Around every call of the interface: who calls.
pub(crate) async fn authenticate(State(service): State<Service>, mut request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    match service.tokens().check_header(header).await {
        Ok(caller) => {
            let tenant = caller.tenant.clone();
            request.extensions_mut().insert(caller);
            let mut response = next.run(request).await;
            response.extensions_mut().insert(tenant);
            response
        }
        Err(error) => {
            tracing::info!(error = %chain(&error), "a token was not taken");
            Refused(error.problem()).into_response()
        }
    }
}
