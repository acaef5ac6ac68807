//! What is done to a job from outside: cancel, signal, replay.

use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use longhaul::engine::JobId;
use longhaul::engine::job::Origin;
use longhaul::outside::{self, OutsideError};
use longhaul_wire::jobs::TakenIn;
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::requests::{CancelRequest, ReplayRequest, SignalRequest, parse_or_default};
use longhaul_wire::{Problem, Scope};

use super::jobs::status_of;
use crate::answer::{NO_POSITION, Refused, json};
use crate::definitions;
use crate::extract::{Called, JobPath, JsonBody, SignalPath, signal_key};
use crate::service::{Service, now};
use crate::watch;

/// Asks a job to end. It ends at its next look, within two seconds even in mid-step.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", tag = "jobs", operation_id = "cancelJob",
    request_body(content = Option<CancelRequest>),
    params(
        ("id" = uuid::Uuid, Path, description = "The job"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same again counts once; another is refused"),
    ),
    responses(
        (status = 202, description = "The request stands in the journal.", body = TakenIn),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn cancel(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refused> {
    called.0.require(Scope::Write)?;
    let key = signal_key(&headers)?;
    let request: CancelRequest = parse_or_default(&body)?;
    request.check()?;
    let by = called.0.subject.clone();
    let taken = outside::cancel(service.store(), &called.job(job), key, by, request.reason, now()).await;
    answer(&service, &called, job, taken).await
}

/// Sends a signal to a job, which may wait for it now or later.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/signals/{name}", tag = "jobs", operation_id = "signalJob",
    request_body(content = Option<SignalRequest>),
    params(
        ("id" = uuid::Uuid, Path, description = "The job"),
        ("name" = String, Path, description = "The signal, such as `approval`"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same again counts once; another is refused"),
    ),
    responses(
        (status = 202, description = "The signal stands in the journal.", body = TakenIn),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn signal(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    SignalPath(name): SignalPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refused> {
    called.0.require(Scope::Write)?;
    let key = signal_key(&headers)?;
    let request: SignalRequest = parse_or_default(&body)?;
    request.check()?;
    let by = called.0.subject.clone();
    let taken = outside::signal(service.store(), &called.job(job), name, key, request.payload, by, now()).await;
    answer(&service, &called, job, taken).await
}

/// Opens a failed or cancelled job again, with changes.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/replay", tag = "jobs", operation_id = "replayJob",
    request_body(content = Option<ReplayRequest>),
    params(
        ("id" = uuid::Uuid, Path, description = "The job"),
        ("Idempotency-Key" = Option<String>, Header, description = "The same again counts once; another is refused"),
    ),
    responses(
        (status = 202, description = "The job goes on.", body = TakenIn),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn replay(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    headers: HeaderMap,
    JsonBody(body): JsonBody,
) -> Result<Response, Refused> {
    called.0.require(Scope::Operate)?;
    let key = signal_key(&headers)?;
    let request: ReplayRequest = parse_or_default(&body)?;
    request.check()?;
    service.refuse_while_erasing(&called.0.tenant).await?;
    let reference = called.job(job);
    let order = watch::item(service.store(), &reference).await?.order;
    if matches!(order.origin, Origin::Imported(_)) && !request.by_hand {
        return Err(Refused(Problem::Imported));
    }
    if let Some(input) = &request.edit.input {
        let card = definitions::of_job(&service, &reference.tenant, &order.agent).await?;
        service.agents().check_input(&card, input, "/edit/input")?;
    }
    let by = called.0.subject.clone();
    let from = request.from_seq();
    let taken = outside::replay(service.store(), &reference, key, by, from, request.into_edit(), now()).await;
    answer(&service, &called, job, taken).await
}

/// The answer to all three.
async fn answer(
    service: &Service,
    called: &Called,
    job: JobId,
    taken: Result<outside::TakenIn, OutsideError>,
) -> Result<Response, Refused> {
    match taken {
        Ok(taken) => {
            let body = TakenIn { job, seq: taken.seq.map(|seq| seq.0) };
            Ok(json(StatusCode::ACCEPTED, &body))
        }
        Err(OutsideError::Ended) => {
            Err(Refused(Problem::JobEnded { status: status_of(service.store(), called, job).await }))
        }
        Err(OutsideError::NotReplayable) => {
            Err(Refused(Problem::NotReplayable { status: status_of(service.store(), called, job).await }))
        }
        Err(OutsideError::NoPosition) => Err(Refused(Problem::field("/from", NO_POSITION))),
        Err(error) => Err(Refused::outside(error, &job.to_string())),
    }
}
