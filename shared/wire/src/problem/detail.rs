//! What a problem tells a person: what was attempted, with what, and what to do next.

use std::time::Duration;

use longhaul_engine::ErasureId;
use longhaul_engine::JobId;
use longhaul_engine::admission::Limit;
use longhaul_engine::job::Status;
use longhaul_engine::limits::THREAD_PLACES_MAX;

use super::{Fault, Problem, Violation, whole_seconds};
use crate::limits;
use crate::text::shortened;

impl Problem {
    /// What was attempted, with what, and what to do next.
    #[must_use]
    pub fn detail(&self) -> String {
        let echo = |text: &str| shortened(text, limits::ECHO_LENGTH_MAX);
        match self {
            Self::NotAuthenticated => "Send `Authorization: Bearer <token>` with a token of the configured issuer and \
                                       audience that has not expired and names a tenant."
                .into(),
            Self::NotAllowed { scope } => {
                format!("This call needs the scope `{}`; ask for a token that has it.", scope.as_str())
            }
            Self::UnknownRoute { path } => {
                format!("`{}` is no address of this service; GET /openapi.json lists them all.", echo(path))
            }
            Self::MethodNotAllowed { method } => {
                format!("`{}` is not a method of this address; the header Allow lists those that are.", echo(method))
            }
            Self::NoStreamHere { streams } => stream_detail(streams.as_deref()),
            Self::NoSuchJob { job } => {
                format!("No job `{}` belongs to the tenant of this token; check the id and the token.", echo(job))
            }
            Self::NoSuchAgent { agent } => format!(
                "No agent `{}` ships with this service or was defined by the tenant of this token; GET /v1/agents lists \
                 those that are there.",
                echo(agent)
            ),
            Self::InvalidJson { line, column, detail } => {
                format!("The body cannot be read at line {line}, column {column}: {detail}.")
            }
            Self::InvalidField { field, detail } if field.is_empty() => format!("The body: {detail}."),
            Self::InvalidField { field, detail } => format!("`{field}`: {detail}."),
            Self::InvalidParameter { name, detail } => format!("`{name}`: {detail}."),
            Self::InvalidInput { agent, violations } => input_detail(agent, violations),
            Self::InvalidDefinition { faults } => definition_detail(faults),
            Self::UnknownAgent { agent, known } => {
                format!("No agent `{}` is registered; there are {}.", echo(agent), known.join(", "))
            }
            Self::UnsupportedMediaType { sent, taken } => {
                format!("It came as `{}`; send it uncompressed, with `Content-Type: {taken}`.", echo(sent))
            }
            Self::BodyTooLarge { bytes_max } => {
                format!("At most {bytes_max} bytes are taken; put larger inputs into object storage and name them.")
            }
            Self::KeyReused => "This Idempotency-Key was used for a request with a different body; take a new key, or \
                                send the first body again to get its answer."
                .into(),
            Self::JobEnded { status } => format!(
                "{} Only a replay (POST …/replay) of a job that FAILED or was CANCELLED opens it again.",
                stands(*status, "The job has ended and takes nothing in any more.")
            ),
            Self::JobFull => {
                "The job's journal has no room for further requests from outside. Submit another job.".into()
            }
            Self::RepeatsEffects { effects } => effects_detail(effects),
            Self::ThreadBusy { job } => thread_detail(Some(*job)),
            Self::ThreadFull => thread_detail(None),
            Self::NotReplayable { status } => format!(
                "{} Only a job that FAILED or was CANCELLED can be replayed.",
                stands(*status, "The job is not in a state to be replayed.")
            ),
            Self::Imported => imported_detail(),
            Self::NoSuchSchedule { schedule } => no_schedule_detail(&echo(schedule)),
            Self::NoSuchDelivery { delivery } => no_delivery_detail(&echo(delivery)),
            Self::NoSuchErasure { erasure } => no_erasure_detail(&echo(erasure)),
            Self::TenantErasing { erasure } => erasing_detail(*erasure),
            Self::LimitReached { limit, value, retry_after } => limit_detail(*limit, *value, *retry_after),
            Self::Unavailable { retry_after } => unavailable_detail(*retry_after),
            Self::Internal => "The request met a fault of the service, which has been logged under the request id; \
                               tell the operator the id."
                .into(),
        }
    }
}

/// What is said to who wants an imported job opened again.
fn imported_detail() -> String {
    "The job was imported from a file: nobody would go on with it. Go through it with `longhaul jobs step`, or fork it: workers \
     drive the fork."
        .to_owned()
}

/// What is said of a schedule that is not there.
fn no_schedule_detail(schedule: &str) -> String {
    format!("The tenant of this token has no schedule `{schedule}`; GET /v1/schedules lists those that are there.")
}

/// What is said of a delivery that is not there.
fn no_delivery_detail(delivery: &str) -> String {
    format!("The job has no delivery `{delivery}`, or none any more; GET …/deliveries lists them.")
}

/// What is said while something underneath does not answer.
fn unavailable_detail(retry_after: Duration) -> String {
    format!(
        "A service that this one stands on did not answer. Whether the request took effect is not known; send it again in \
         {} s, with the same Idempotency-Key.",
        retry_after.as_secs()
    )
}

/// What is said of a thread that takes no job: the one in the way, or that there are too many.
fn thread_detail(by: Option<JobId>) -> String {
    match by {
        Some(job) => format!(
            "Job {job} of the thread has not ended, and `on_busy` is `reject`. Wait for its end or cancel it; `enqueue` \
             waits for the turn, `interrupt` cancels what is in front."
        ),
        None => format!(
            "{THREAD_PLACES_MAX} jobs of the thread have not ended. Wait until some have, take another thread, or cancel them \
             all by `on_busy`: `interrupt`, for which there are some places more."
        ),
    }
}

/// What is said to who asks for a stream where none can be given.
fn stream_detail(streams: Option<&str>) -> String {
    match streams {
        Some(streams) => {
            format!(
                "Events come as a stream from `{streams}`, under the same path and token; here, ask for `application/json`."
            )
        }
        None => {
            "This deployment streams no events over HTTP. Ask for `application/json` with `wait`, or use the WebSocket."
                .to_owned()
        }
    }
}

fn no_erasure_detail(erasure: &str) -> String {
    format!("The tenant has no erasure `{erasure}`; GET /v1/tenant/erasures lists them.")
}

/// What is said to who wants something new of a tenant whose data goes.
fn erasing_detail(erasure: ErasureId) -> String {
    format!(
        "All data of the tenant is being erased, and nothing new is taken until that is done; \
         GET /v1/tenant/erasures/{erasure} tells how far it is. Send the request again then."
    )
}

/// What is said of a tenant's limit.
fn limit_detail(limit: Limit, value: u64, retry_after: Duration) -> String {
    let wait = whole_seconds(retry_after);
    match limit {
        Limit::JobsOpen => format!(
            "`jobs_open`: the tenant may have {value} jobs that have not ended. Wait until some have, or cancel those that \
             nobody needs, and send the request again in {wait} s."
        ),
        Limit::SubmissionsPerSecond => format!(
            "`submissions_per_second`: the tenant may submit {value} jobs a second over time. Send the request again in \
             {wait} s, with the same Idempotency-Key, and spread submissions out."
        ),
        Limit::Connections => format!(
            "`connections`: the tenant may have {value} WebSocket connections at a time. Close some, watch several jobs \
             over one, and connect again in {wait} s."
        ),
    }
}

fn stands(status: Option<Status>, otherwise: &str) -> String {
    match status {
        Some(status) => format!("The job is {}.", status.as_str()),
        None => otherwise.to_owned(),
    }
}

fn effects_detail(effects: &[String]) -> String {
    format!(
        "The job may have done these effects, each declared to happen once at most: {}. Fork from behind them, or set \
         `repeat_effects`.",
        shortened(&effects.join(", "), limits::REASON_LENGTH_MAX)
    )
}

/// What is said of an input that an agent does not take.
fn input_detail(agent: &str, violations: &[Violation]) -> String {
    match violations.first() {
        Some(first) => format!("`{}`: {}; GET /v1/agents has the schema of {agent}.", first.field, first.detail),
        None => format!("The input does not have the form that {agent} asks for; GET /v1/agents has its schema."),
    }
}

/// What is said of a definition with faults.
fn definition_detail(faults: &[Fault]) -> String {
    let Some(Fault { line, field, detail, help }) = faults.first() else {
        return "The definition has faults; nothing was saved.".to_owned();
    };
    let field = if field.is_empty() { "the definition" } else { field };
    let help = if help.is_empty() { String::new() } else { format!("; {help}") };
    let more = match faults.len() {
        1 => String::new(),
        all => format!(" There are {all} faults in all."),
    };
    format!("Line {line}: {field} {detail}{help}.{more} Nothing was saved.")
}
