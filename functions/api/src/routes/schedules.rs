//! Schedules: jobs that are submitted by the clock.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use longhaul::engine::ids::ScheduleName;
use longhaul::engine::limits::{SCHEDULE_BYTES_MAX, SCHEDULES_MAX};
use longhaul::engine::{TenantId, Timestamp};
use longhaul::outside::fresh_nonce;
use longhaul::store::StoreError;
use longhaul_aws::dynamo::{Schedule, UnreadableSchedule};
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::requests::parse;
use longhaul_wire::schedules::{self, FiringView, ScheduleList, ScheduleRequest, ScheduleView};
use longhaul_wire::text::rfc3339;
use longhaul_wire::{Caller, Problem, Scope};

use crate::answer::{Refused, json};
use crate::definitions;
use crate::extract::{Called, JsonBody};
use crate::service::{Service, now};

/// How often a schedule is written when others, or its own firing, write it at the same time.
const WRITES_MAX: usize = 8;

/// Lists the tenant's schedules.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", operation_id = "listSchedules",
    responses(
        (status = 200, description = "All schedules, by name; those that cannot be read beside the others.", body = ScheduleList),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(State(service): State<Service>, called: Called) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let tenant = &called.0.tenant;
    let mut list = ScheduleList::default();
    for schedule in service.store().schedules(tenant).await? {
        match schedule.and_then(|schedule| view(&schedule)) {
            Ok(view) => list.schedules.push(view),
            Err(unreadable) => list.unreadable.push(named_alone(tenant, unreadable)),
        }
    }
    Ok(json(StatusCode::OK, &list))
}

/// Shows a schedule with its last firing and its next.
#[utoipa::path(
    get, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "getSchedule",
    params(("name" = String, Path, description = "The schedule")),
    responses(
        (status = 200, description = "The schedule.", body = ScheduleView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn get(
    State(service): State<Service>,
    called: Called,
    Path(name): Path<String>,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let schedule = service.store().schedule(&called.0.tenant, &named(&name)?).await?;
    let schedule = schedule.ok_or(Problem::NoSuchSchedule { schedule: name })?;
    Ok(json(StatusCode::OK, &view(&schedule).map_err(|unreadable| unreadable.why)?))
}

/// Saves a schedule: a new one, or in the place of the one that has its name.
///
/// Firings are looked for once a minute. Each submits its job once, whatever crashes, under the limits that hold for all
/// submissions; times that nobody looked at fire together, once.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "putSchedule",
    request_body = ScheduleRequest,
    params(("name" = String, Path, description = "1 to 64 letters, digits, `-`, `_`, `.` and `:`")),
    responses(
        (status = 200, description = "The schedule was changed.", body = ScheduleView),
        (status = 201, description = "The schedule is new.", body = ScheduleView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put(
    State(service): State<Service>,
    called: Called,
    Path(name): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Response, Refused> {
    called.0.require(Scope::Write)?;
    service.refuse_while_erasing(&called.0.tenant).await?;
    let (tenant, name) = (&called.0.tenant, named(&name)?);
    let bytes_max = service.store().config().tenant_limits.of(tenant).body_bytes.min(SCHEDULE_BYTES_MAX);
    if body.len() > bytes_max {
        return Err(Problem::BodyTooLarge { bytes_max }.into());
    }
    let mut request: ScheduleRequest = parse(&body)?;
    let next = request.check(now())?;
    let card = definitions::find(&service, tenant, &request.job.agent).await.map_err(below_job)?;
    service.agents().check_input(&card, &request.job.input, "/job/input")?;
    request.job.agent = card.reference().to_string();
    let (schedule, is_new) = save(&service, &called.0, &name, &request, next).await?;
    tracing::info!(%tenant, schedule = %name, is_new, "a schedule was saved");
    let view = view(&schedule).map_err(|unreadable| unreadable.why)?;
    Ok(json(if is_new { StatusCode::CREATED } else { StatusCode::OK }, &view))
}

/// Writes a schedule in the place of what stands there; whether that was nothing.
async fn save(
    service: &Service,
    caller: &Caller,
    name: &ScheduleName,
    request: &ScheduleRequest,
    next: Timestamp,
) -> Result<(Schedule, bool), Refused> {
    let unavailable = |action, source| StoreError::Unavailable { action, source };
    let text =
        serde_json::to_string(request).map_err(|error| unavailable("writing a schedule as JSON", error.into()))?;
    let (store, tenant) = (service.store(), &caller.tenant);
    for _ in 0..WRITES_MAX {
        let found = store.schedule(tenant, name).await?;
        if found.is_none() && store.schedules(tenant).await?.len() >= SCHEDULES_MAX {
            let detail = format!("would be one more than the {SCHEDULES_MAX} schedules of a tenant; remove one");
            return Err(Problem::parameter("name", detail).into());
        }
        // A time that has come and was not looked at yet is not lost by a change of the job.
        let kept = found.as_ref().filter(|found| comes_at_the_same_times(found, request));
        let schedule = Schedule {
            tenant: tenant.clone(),
            name: name.clone(),
            request: text.clone(),
            next: kept.and_then(|kept| kept.next).or(Some(next)).filter(|_| !request.paused),
            again: kept.and_then(|kept| kept.again),
            last: found.as_ref().and_then(|found| found.last.clone()).filter(|last| is_firing(last)),
            changed_at: now(),
            changed_by: caller.subject.clone(),
            mark: fresh_nonce(),
        };
        if store.write_schedule(&schedule, found.as_ref().map(|found| found.mark)).await? {
            return Ok((schedule, found.is_none()));
        }
    }
    Err(unavailable("writing a schedule", format!("{WRITES_MAX} writes in a row met others").into()).into())
}

/// Whether what stands there fires, at the times that are asked for now.
fn comes_at_the_same_times(found: &Schedule, request: &ScheduleRequest) -> bool {
    ScheduleRequest::stored(&found.request)
        .is_ok_and(|stands| !stands.paused && (&stands.cron, &stands.time_zone) == (&request.cron, &request.time_zone))
}

/// Whether a firing can be read: one that nobody can goes when its schedule is saved anew.
fn is_firing(last: &str) -> bool {
    serde_json::from_str::<FiringView>(last).is_ok()
}

/// Removes a schedule. The jobs that it has submitted stay. The token needs `jobs:read` as well, since the answer shows it.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", tag = "schedules", operation_id = "deleteSchedule",
    params(("name" = String, Path, description = "The schedule")),
    responses(
        (status = 200, description = "The schedule as it was.", body = ScheduleView),
        (status = 204, description = "It is removed, and could not be read."),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete(
    State(service): State<Service>,
    called: Called,
    Path(name): Path<String>,
) -> Result<Response, Refused> {
    called.0.require(Scope::Write)?;
    called.0.require(Scope::Read)?;
    let tenant = &called.0.tenant;
    let removed = service.store().remove_schedule(tenant, &named(&name)?).await?;
    let removed = removed.ok_or_else(|| Problem::NoSuchSchedule { schedule: name.clone() })?;
    tracing::info!(%tenant, schedule = name, "a schedule was removed");
    match removed.and_then(|schedule| view(&schedule)) {
        Ok(view) => Ok(json(StatusCode::OK, &view)),
        Err(unreadable) => {
            named_alone(tenant, unreadable);
            Ok(StatusCode::NO_CONTENT.into_response())
        }
    }
}

fn named(name: &str) -> Result<ScheduleName, Problem> {
    name.parse().map_err(|error| Problem::parameter("name", format!("{error}")))
}

/// An agent that is unknown stands in the job of the schedule.
fn below_job(Refused(problem): Refused) -> Refused {
    Refused(problem.below("/job"))
}

fn view(schedule: &Schedule) -> Result<ScheduleView, UnreadableSchedule> {
    let unreadable = |error: serde_json::Error| UnreadableSchedule {
        name: schedule.name.to_string(),
        why: StoreError::Corrupt { what: "what it asks for".to_owned(), detail: error.to_string() },
    };
    Ok(ScheduleView {
        name: schedule.name.to_string(),
        schedule: ScheduleRequest::stored(&schedule.request).map_err(unreadable)?,
        next_at: schedule.next.map(rfc3339),
        last: schedule.last.as_deref().map(serde_json::from_str).transpose().map_err(unreadable)?,
        changed_at: rfc3339(schedule.changed_at),
        changed_by: schedule.changed_by.clone(),
    })
}

/// What its owner is told of a schedule that cannot be read. Whoever runs the deployment finds it in the log.
fn named_alone(tenant: &TenantId, unreadable: UnreadableSchedule) -> schedules::UnreadableSchedule {
    let UnreadableSchedule { name, why } = unreadable;
    tracing::error!(%tenant, schedule = name, error = %why, "a schedule cannot be read by this version");
    schedules::UnreadableSchedule { name, detail: why.to_string() }
}
