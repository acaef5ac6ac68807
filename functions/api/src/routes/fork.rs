//! Forks: a new job out of any step of another one.

use axum::extract::State;
use axum::response::Response;
use http::header::LOCATION;
use http::{HeaderMap, StatusCode};
use longhaul::engine::{JobId, Seq, StepKey, StepKind};
use longhaul::forking::{self, ForkOrder, ForkPoint, Forked};
use longhaul::outside::OutsideError;
use longhaul::store::{JobRef, Store};
use longhaul_wire::jobs::{ForkView, RepeatedEffect, path_of};
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::requests::{ForkRequest, idempotency_key, parse_or_default, traceparent};
use longhaul_wire::{JobView, Problem, Scope};
use serde_json::Value;
use uuid::Uuid;

use crate::answer::{NO_POSITION, Refused, json, with_header};
use crate::definitions;
use crate::extract::{Called, JobPath, JsonBody, key_header};
use crate::service::{Service, now};
use crate::watch;

/// Makes a new job out of another one: it keeps that one's outcomes up to a step, with changes, and goes its own way from
/// there. The other job is left as it is, whatever it is doing.
///
/// Effects that the fork does again are its own, under keys of its own. Those that were declared to happen once at most
/// are done again only where `repeat_effects` says so.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/fork", tag = "jobs", operation_id = "forkJob",
    request_body(content = Option<ForkRequest>),
    params(
        ("id" = uuid::Uuid, Path, description = "The job that the fork is made of"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same again is the same fork; another is refused"),
        ("traceparent" = Option<String>, Header, description = "W3C trace context, carried through every step"),
    ),
    responses(
        (status = 202, description = "The fork is accepted; `Location` is its address.", body = ForkView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn fork(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refused> {
    called.0.require(Scope::Operate)?;
    let bytes_max = service.store().config().tenant_limits.of(&called.0.tenant).body_bytes;
    if body.len() > bytes_max {
        return Err(Refused(Problem::BodyTooLarge { bytes_max }));
    }
    let request: ForkRequest = parse_or_default(&body)?;
    request.check()?;
    service.refuse_while_erasing(&called.0.tenant).await?;
    let source = called.job(job);
    if let Some(input) = &request.edit.input {
        let agent = watch::item(service.store(), &source).await?.order.agent;
        let card = definitions::of_job(&service, &source.tenant, &agent).await?;
        service.agents().check_input(&card, input, "/edit/input")?;
    }
    let id = match key_header(&headers)? {
        Some(key) => JobId::of_key(&source.tenant, idempotency_key(key)?.as_str()),
        None => JobId::from_uuid(Uuid::now_v7()),
    };
    let trace = headers.get("traceparent").and_then(|value| value.to_str().ok()).and_then(traceparent);
    let asked = ForkOrder {
        id,
        from: place(&request)?,
        repeat_effects: request.repeat_effects,
        edit: request.edit.into_edit(),
        traceparent: trace.map(str::to_owned),
        now: now(),
        by: called.0.subject.clone(),
    };
    let forked = admit(&service, &source, asked).await?;
    let repeats = forked.repeats.into_iter().map(|step| RepeatedEffect {
        step: step.key.to_string(),
        name: step.name,
        at_most_once: step.kind == StepKind::EffectOnce,
    });
    let view = JobView::of_item(&forked.accepted.job);
    let body = ForkView { job: view, kept: forked.kept, repeats: repeats.collect() };
    Ok(with_header(json(StatusCode::ACCEPTED, &body), LOCATION, &path_of(id)))
}

/// Makes the fork of a tenant that may have one more job, as a submission does.
async fn admit(service: &Service, source: &JobRef, asked: ForkOrder) -> Result<Forked, Refused> {
    let store = service.store();
    let fork = JobRef { tenant: source.tenant.clone(), job: asked.id };
    let field = place_field(&asked.from);
    let forking = forking::fork(store, source, asked);
    let forked = match service.admission().admit(store, &source.tenant, now()).await {
        Ok(admitted) => futures::join!(forking, admitted.write(store, now())).0,
        // A request that is sent again finds its fork, however much its tenant uses.
        Err(problem) => match store.job(&fork).await? {
            Some(_) => forking.await,
            None => return Err(Refused(problem)),
        },
    };
    forked.map_err(|error| match error {
        OutsideError::NoPosition => Refused(Problem::field(field, NO_POSITION)),
        error => Refused::outside(error, &source.job.to_string()),
    })
}

/// The field that names the place; the body as a whole where none does.
const fn place_field(place: &ForkPoint) -> &'static str {
    match place {
        ForkPoint::Position(_) => "/from",
        ForkPoint::Step(_) => "/step",
        ForkPoint::LastGood => "",
    }
}

fn place(request: &ForkRequest) -> Result<ForkPoint, Problem> {
    match (request.from, &request.step) {
        (Some(from), _) => Ok(ForkPoint::Position(Seq(from))),
        (None, Some(step)) => {
            let key: Result<StepKey, _> = serde_json::from_value(Value::String(step.clone()));
            key.map(ForkPoint::Step).map_err(|error| Problem::field("/step", error.to_string()))
        }
        (None, None) => Ok(ForkPoint::LastGood),
    }
}
