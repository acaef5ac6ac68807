//! A job's events, read on from any position, waited for if asked.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{FromRequestParts, RawQuery, State};
use axum::response::Response;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use lambda_http::Context;
use longhaul::engine::{Batch, Job, JobId, Seq};
use longhaul_wire::events::EventList;
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::{Event, Problem, Scope, limits};
use tokio::time::Instant;

use super::event_stream;
use crate::answer::{Refused, json};
use crate::extract::{Called, JobPath};
use crate::parameters::Parameters;
use crate::service::{Service, now};
use crate::watch;

/// Time that a waiting request keeps back from its invocation's deadline for the answer.
pub(super) const ANSWER_RESERVE: Duration = Duration::from_millis(1_500);

/// The invocation that a request came in, where one did.
#[derive(Debug, Clone)]
pub(super) struct Invocation(pub(super) Option<Context>);

impl<S: Send + Sync> FromRequestParts<S> for Invocation {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<Context>().cloned()))
    }
}

/// Until when a request that asks for `seconds` may wait.
pub(super) fn deadline(seconds: u64, context: Option<&Context>) -> Instant {
    let asked = Duration::from_secs(seconds.min(limits::WAIT_SECONDS_MAX));
    let left = context.map(|context| Duration::from_millis(context.deadline.saturating_sub(now().as_millis())));
    Instant::now() + left.map_or(asked, |left| asked.min(left.saturating_sub(ANSWER_RESERVE)))
}

/// Gives the events behind a position, in order.
///
/// With `wait` and nothing there yet, the answer waits for the first. `next` is the `after` of the next request.
///
/// With `Accept: text/event-stream` they come as they happen, as server-sent events: `id` is the position to resume from
/// (`Last-Event-ID`, which stands above `after`), `data` the event. The stream ends with the job, with the token, and
/// otherwise after a while; who resumes misses nothing. Resumed behind the job's end, the answer is 204, at which an
/// `EventSource` stops. Where this address gives whole answers only, as an HTTP API of AWS does, the answer is 406, and
/// its `streams` is the address that streams, if the deployment has one.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/events", tag = "jobs", operation_id = "getEvents",
    params(
        ("id" = uuid::Uuid, Path, description = "The job"),
        ("after" = Option<u64>, Query, description = "Only events behind this position, by default all"),
        ("wait" = Option<u64>, Query, maximum = 25, description = "Seconds to wait for the first, by default 0"),
        ("Last-Event-ID" = Option<u64>, Header, description = "Of a stream: only events behind this position"),
    ),
    responses(
        (status = 200, description = "Events in order; none when none came in time.", content(
            (EventList = "application/json"), (String = "text/event-stream"))),
        (status = 204, description = "Of a stream: the job had ended at this position."),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn events(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    invocation: Invocation,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let mut parameters = Parameters::of(query.as_deref())?;
    let after = parameters.number("after", 0, u64::MAX)?.unwrap_or(0);
    let wait = parameters.number("wait", 0, limits::WAIT_SECONDS_MAX)?.unwrap_or(0);
    parameters.end()?;
    let store = service.store();
    let item = watch::item(store, &called.job(job)).await?;
    if event_stream::asked(&headers) {
        let config = store.config();
        if !config.response_stream {
            return Err(Refused(Problem::NoStreamHere { streams: config.stream_url.clone() }));
        }
        let after = event_stream::last_event_id(&headers)?.unwrap_or(after);
        return event_stream::open(&service, item, after, invocation.0.as_ref(), &headers).await;
    }
    // What the reader has seen last, a page, and one more that tells whether anything follows.
    let part = store.journal_part(job, Seq(after.max(Seq::FIRST.0)), limits::EVENTS_PAGE_MAX + 2).await?;
    let mut page = page(job, after, &part);
    if page.events.is_empty() {
        page.ended = has_seen_the_end(end_at(job, after, &part), &item);
    }
    if page.events.is_empty() && !page.ended && wait > 0 {
        let until = deadline(wait, invocation.0.as_ref());
        if let Some(batch) = watch::batch_at(store, job, Seq(after).plus(1), until).await? {
            page = self::page(job, after, &[batch]);
        }
    }
    Ok(json(StatusCode::OK, &page))
}

/// Whether what stands at a position is the job's end; none when nothing stands there.
pub(super) fn end_at(job: JobId, position: u64, batches: &[Batch]) -> Option<bool> {
    let mut events = batches.iter().flat_map(|batch| Event::of_batch(job, batch));
    events.find(|event| event.sequence.0 == position).map(|event| event.is_end())
}

/// Whether a reader behind whom nothing follows has seen the job's end. What stands at its position says so itself. The
/// item was read before, and the job may have been opened again since; it speaks for a reader who is ahead of the journal
/// alone.
pub(super) fn has_seen_the_end(end_at_position: Option<bool>, item: &Job) -> bool {
    end_at_position.unwrap_or_else(|| item.progress.state.is_terminal())
}

/// The events behind `after` of batches that may begin with the one that holds `after` itself.
fn page(job: JobId, after: u64, batches: &[Batch]) -> EventList {
    let mut events = Vec::new();
    let mut ended = false;
    for event in batches.iter().flat_map(|batch| Event::of_batch(job, batch)) {
        if event.sequence.0 < after {
            continue;
        }
        if events.len() == limits::EVENTS_PAGE_MAX {
            ended = false;
            break;
        }
        ended = event.is_end();
        if event.sequence.0 > after {
            events.push(event);
        }
    }
    let next = events.last().map_or(after, |event| event.sequence.0);
    EventList { events, next, ended }
}
