//! A job's events as server-sent events (WHATWG HTML, 9.2), read from its journal as they are written.
//!
//! The stream looks at the journal itself and waits for nobody's push, so that what a push may lose it cannot lose. It is
//! bounded: by the job's end, by the reader's token, and by the invocation that it runs in. A reader that resumes by the
//! last position that it has goes on where it was.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream};
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use lambda_http::Context;
use longhaul::engine::{Job, Seq};
use longhaul::store::JobRef;
use longhaul_aws::AwsStore;
use longhaul_wire::token::expires_at;
use longhaul_wire::{Event, Problem, limits};
use tokio::time::Instant;

use super::events::{ANSWER_RESERVE, end_at, has_seen_the_end};
use crate::answer::Refused;
use crate::service::{Service, now};
use crate::watch;

/// Between them, comments keep proxies and readers from taking a quiet job for a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// When a reader comes back after its stream has ended.
const RETRY: Duration = Duration::from_secs(1);
/// The longest stream where no invocation bounds it.
const STREAM_SECONDS_MAX: u64 = 900;
/// How often a stream whose reader is ahead of the journal looks whether the job has ended: no event would say so.
const LOOK_AHEAD: Duration = Duration::from_secs(2);
/// Proxies that hold answers back until they are whole are told not to.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Whether a request asks for a stream. JSON is the answer to whoever takes both.
pub(super) fn asked(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepts.flat_map(|value| value.split(',')).map(|part| part.split(';').next().unwrap_or_default());
    let mut stream = false;
    let json = types.any(|kind| {
        let kind = kind.trim();
        stream |= kind.eq_ignore_ascii_case("text/event-stream");
        kind.eq_ignore_ascii_case("application/json")
    });
    stream && !json
}

/// The position that a reader resumes from.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let text = value.to_str().unwrap_or("?").trim();
    // A reader that has seen nothing yet may send it empty.
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Problem::parameter("Last-Event-ID", "must be the position of an event"))
}

/// Where a stream stands.
struct Reading {
    store: AwsStore,
    job: JobRef,
    /// It has given everything up to here.
    after: u64,
    /// Whether nothing stands there: its reader knows of more than there is.
    ahead: bool,
    ready: VecDeque<Event>,
    ended: bool,
    until: Instant,
}

/// Opens the stream behind a position.
pub(super) async fn open(
    service: &Service,
    item: Job,
    after: u64,
    invocation: Option<&Context>,
    headers: &HeaderMap,
) -> Result<Response, Refused> {
    let mut reading = Reading {
        store: service.store().clone(),
        job: JobRef { tenant: item.order.tenant.clone(), job: item.order.id },
        after,
        ahead: false,
        ready: VecDeque::new(),
        ended: false,
        until: Instant::now() + time_left(invocation, headers),
    };
    // What is there is read before the answer begins, so that a store that does not answer is a problem and no stream.
    let end_at_position = reading.fill().await?;
    reading.ended = end_at_position.unwrap_or_default();
    if reading.ready.is_empty() && has_seen_the_end(end_at_position, &item) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    reading.ahead = after > 0 && reading.ready.is_empty() && end_at_position.is_none();
    let opening = stream::iter([Ok(sse::Event::default().retry(RETRY).comment("events follow"))]);
    let events = futures::StreamExt::chain(opening, follow(reading));
    let mut response =
        Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT).text("still here")).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// How long a stream may be: as its invocation, and as the token with which it was opened.
fn time_left(invocation: Option<&Context>, headers: &HeaderMap) -> Duration {
    let now = now();
    let most = Duration::from_secs(STREAM_SECONDS_MAX);
    let invocation = invocation.map_or(most, |context| {
        Duration::from_millis(context.deadline.saturating_sub(now.as_millis())).saturating_sub(ANSWER_RESERVE)
    });
    // Its signature has been checked, and it comes in the form that the check takes.
    let token =
        headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| value.split_once(' '));
    let token = token.and_then(|(_, token)| expires_at(token.trim())).map_or(Duration::ZERO, |at| now.until(at));
    most.min(invocation).min(token)
}

/// The events, as they are written, to the end.
fn follow(reading: Reading) -> impl Stream<Item = Result<sse::Event, Infallible>> {
    stream::unfold(reading, async |mut reading| {
        loop {
            if let Some(event) = reading.ready.pop_front() {
                reading.after = event.sequence.0;
                reading.ended = event.is_end();
                match sse::Event::default().id(reading.after.to_string()).json_data(&event) {
                    Ok(written) => return Some((Ok(written), reading)),
                    Err(error) => {
                        tracing::error!(event = event.id, %error, "an event cannot be written as JSON");
                        continue;
                    }
                }
            }
            // A replay would open the job again; whoever wants to see that asks again.
            if reading.ended || Instant::now() >= reading.until {
                return None;
            }
            if let Err(Refused(problem)) = reading.wait().await {
                // The reader comes again, and is told then what it is.
                tracing::warn!(job = %reading.job.job, problem = problem.name(), "a stream of events broke off");
                return None;
            }
        }
    })
}

impl Reading {
    /// Reads what stands behind the position; whether what stands at it is the job's end, if anything does.
    async fn fill(&mut self) -> Result<Option<bool>, Refused> {
        let from = Seq(self.after.max(Seq::FIRST.0));
        let batches = self.store.journal_part(self.job.job, from, limits::EVENTS_PAGE_MAX).await?;
        let events = batches.iter().flat_map(|batch| Event::of_batch(self.job.job, batch));
        self.ready.extend(events.filter(|event| event.sequence.0 > self.after));
        Ok(end_at(self.job.job, self.after, &batches))
    }

    /// Waits for the next batch, and takes it; for a reader who is ahead of the journal, also for the job's end.
    async fn wait(&mut self) -> Result<(), Refused> {
        let next = Seq(self.after).plus(1);
        let until = if self.ahead { self.until.min(Instant::now() + LOOK_AHEAD) } else { self.until };
        if let Some(batch) = watch::batch_at(&self.store, self.job.job, next, until).await? {
            self.ready.extend(Event::of_batch(self.job.job, &batch));
            self.ahead = false;
        } else if self.ahead {
            let item = watch::item(&self.store, &self.job).await?;
            // Behind the item: one that has ended says that nothing can be missing here.
            let end_at_position = self.fill().await?;
            self.ahead = self.ready.is_empty() && end_at_position.is_none();
            self.ended = self.ready.is_empty() && has_seen_the_end(end_at_position, &item);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn who_asks_for_a_stream() {
        for (accept, stream) in [
            (&["text/event-stream"][..], true),
            (&["text/event-stream; charset=utf-8, */*;q=0.1"], true),
            (&["Text/Event-Stream"], true),
            (&["application/json, text/event-stream"], false),
            (&["application/json", "text/event-stream"], false),
            (&["*/*"], false),
            (&["text/event-streams"], false),
            (&[], false),
        ] {
            let headers = HeaderMap::from_iter(accept.iter().map(|value| (ACCEPT, HeaderValue::from_static(value))));
            assert_eq!(asked(&headers), stream, "{accept:?}");
        }
    }
}
