//! Submission.

use axum::extract::State;
use axum::response::Response;
use http::header::{HeaderName, LOCATION};
use http::{HeaderMap, StatusCode};
use lambda_http::Context;
use longhaul::engine::job::Order;
use longhaul::engine::{JobId, Journal};
use longhaul::outside::{self, Accepted, OutsideError};
use longhaul::store::{JobRef, Store};
use longhaul_wire::jobs::path_of;
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::requests::{SubmitRequest, idempotency_key, parse, traceparent};
use longhaul_wire::{Caller, JobView, Problem, Scope};
use uuid::Uuid;

use super::events::{Invocation, deadline};
use crate::answer::{Refused, json, with_header};
use crate::definitions;
use crate::extract::{Called, JsonBody, key_header};
use crate::service::{Service, now};
use crate::watch::Seen;

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// Submits a job.
///
/// With an `Idempotency-Key` the same request again finds the same job; another body under the same key is refused.
/// With `Prefer: wait=N` the answer waits up to N seconds (at most 25) for the job's end.
#[utoipa::path(
    post, path = "/v1/jobs", tag = "jobs", operation_id = "submitJob",
    request_body = SubmitRequest,
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 letters, digits, `-`, `_`, `.` and `:`"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: seconds to wait for the end, 25 at most"),
        ("traceparent" = Option<String>, Header, description = "W3C trace context, carried through every step"),
    ),
    responses(
        (status = 200, description = "The job has ended.", body = JobView),
        (status = 202, description = "The job is accepted; `Location` is its address.", body = JobView),
        (status = 409, description = "All data of the tenant is being erased; `erasure` is by which erasure. Or another job \
            of the thread, `job`, has not ended and `on_busy` is `reject`, or too many have not.", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "The tenant uses as much as it may; `Retry-After` says when to come again, `limit` and \
            `value` which limit it is.", body = ProblemBody, content_type = "application/problem+json"),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn submit(
    State(service): State<Service>,
    called: Called,
    invocation: Invocation,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refused> {
    called.0.require(Scope::Write)?;
    let tenant = &called.0.tenant;
    let bytes_max = service.store().config().tenant_limits.of(tenant).body_bytes;
    if body.len() > bytes_max {
        return Err(Refused(Problem::BodyTooLarge { bytes_max }));
    }
    let request: SubmitRequest = parse(&body)?;
    request.check()?;
    let (order, ()) =
        futures::try_join!(order(&service, &called.0, &headers, &request), service.refuse_while_erasing(tenant))?;
    let job = called.job(order.id);
    let accepted = admit(&service, &job, order, !request.agent.contains('@')).await?;
    let wait = preferred_wait(&headers);
    let (view, ended) = watch(service.store(), &job, accepted, wait, invocation.0.as_ref()).await?;
    let status = if ended { StatusCode::OK } else { StatusCode::ACCEPTED };
    let response = with_header(json(status, &view), LOCATION, &path_of(job.job));
    Ok(match wait {
        Some(seconds) => with_header(response, PREFERENCE_APPLIED, &format!("wait={seconds}")),
        None => response,
    })
}

/// What the caller asks for, with an id.
async fn order(
    service: &Service,
    caller: &Caller,
    headers: &HeaderMap,
    request: &SubmitRequest,
) -> Result<Order, Refused> {
    let card = definitions::find(service, &caller.tenant, &request.agent).await?;
    service.agents().check_input(&card, &request.input, "/input")?;
    let agent = card.reference();
    let id = match key_header(headers)? {
        Some(key) => JobId::of_key(&caller.tenant, idempotency_key(key)?.as_str()),
        None => JobId::from_uuid(Uuid::now_v7()),
    };
    let trace = headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(traceparent);
    let order = request.order(caller.tenant.clone(), id, agent, caller.subject.clone(), now())?;
    Ok(Order { traceparent: trace.map(str::to_owned), ..order })
}

/// Stores the order of a tenant that may submit. Its book is written beside: nothing waits for it.
async fn admit(service: &Service, job: &JobRef, order: Order, any_version: bool) -> Result<Accepted, Refused> {
    let store = service.store();
    match service.admission().admit(store, &job.tenant, now()).await {
        Ok(admitted) => {
            let (accepted, ()) = futures::join!(accept(store, order, any_version), admitted.write(store, now()));
            accepted
        }
        Err(problem) => match store.job(job).await? {
            // A request that is sent again finds its job, however much its tenant uses.
            Some(_) => accept(store, order, any_version).await,
            None => Err(Refused(problem)),
        },
    }
}

/// Stores the order. One that named no version and meets its first submission, made before a newer version of the
/// agent came, is still the same request.
async fn accept(store: &impl Store, order: Order, any_version: bool) -> Result<Accepted, Refused> {
    let refused = |error| Refused::outside(error, &order.id.to_string());
    match outside::submit(store, order.clone()).await {
        Err(OutsideError::OtherRequest) if any_version => {
            let reference = JobRef { tenant: order.tenant.clone(), job: order.id };
            let first = store.job(&reference).await?.map(|job| job.order.agent);
            let agent = match first {
                Some(agent) if agent.name == order.agent.name => agent,
                Some(_) | None => return Err(refused(OutsideError::OtherRequest)),
            };
            outside::submit(store, Order { agent, ..order.clone() }).await.map_err(refused)
        }
        result => result.map_err(refused),
    }
}

/// The accepted job as it is answered, and whether it has ended.
async fn watch(
    store: &impl Store,
    job: &JobRef,
    accepted: Accepted,
    wait: Option<u64>,
    context: Option<&Context>,
) -> Result<(JobView, bool), Refused> {
    let mut seen = if accepted.existed {
        Seen::read(store, job).await?
    } else {
        Seen { job: accepted.job, journal: Journal::default() }
    };
    let ended = match wait {
        Some(seconds) => seen.until_end(store, job, deadline(seconds, context)).await?,
        None => seen.journal.ending().is_some(),
    };
    Ok((seen.view_in_line(store).await?, ended))
}

/// The seconds of `Prefer: wait=N` (RFC 7240), within what we can give. What cannot be read is no preference.
fn preferred_wait(headers: &HeaderMap) -> Option<u64> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split(','));
    let wait = preferences.find_map(|preference| {
        let (name, value) = preference.split(';').next()?.split_once('=')?;
        let value = value.trim().trim_matches('"');
        name.trim().eq_ignore_ascii_case("wait").then(|| value.parse::<u64>().ok()).flatten()
    })?;
    Some(wait.min(longhaul_wire::limits::WAIT_SECONDS_MAX)).filter(|seconds| *seconds > 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn preferences() {
        for (values, wanted) in [
            (&["wait=10"][..], Some(10)),
            (&["respond-async, Wait=5"], Some(5)),
            (&["respond-async", "wait=\"7\"; x=y"], Some(7)),
            (&["wait=3600"], Some(25)),
            (&["wait=0"], None),
            (&["wait=-1"], None),
            (&["wait"], None),
            (&["wait=soon"], None),
            (&["return=minimal"], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("prefer", value.parse().unwrap());
            }
            assert_eq!(preferred_wait(&headers), wanted, "{values:?}");
        }
    }
}
