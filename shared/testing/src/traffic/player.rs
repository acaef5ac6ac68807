//! Replays a recording: each request has the answer that was recorded for it, once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use http::header::{HeaderName, HeaderValue};
use longhaul_llm::{Carried, Carrier, CarrierError};
use reqwest::{Client, Request, Response};

use super::difference::{differences, told};
use super::exchange::{Answered, Asked, Body, Recording};
use super::redaction::Redaction;

/// How long an answer takes: not nothing, so that waits and limits mean something in virtual time.
const TAKES: Duration = Duration::from_millis(500);

struct Book {
    /// What was recorded, and whether it was given already.
    recorded: Vec<(bool, Asked, Answered)>,
    redaction: Redaction,
    misses: Vec<String>,
}

/// The player.
pub(crate) struct Player(Mutex<Book>);

impl std::fmt::Debug for Player {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Player").field("exchanges", &self.book().recorded.len()).finish()
    }
}

impl Player {
    pub(crate) fn new(recording: Recording) -> Self {
        let recorded = recording.exchanges.into_iter().map(|it| (false, it.request, it.response)).collect();
        Self(Mutex::new(Book { recorded, redaction: Redaction::default(), misses: Vec::new() }))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hide(&self, secret: &str) {
        self.book().redaction.learn(secret);
    }

    /// Requests that the recording does not have, in words.
    pub(crate) fn misses(&self) -> Vec<String> {
        self.book().misses.clone()
    }

    fn answer(&self, request: &Request) -> Result<Answered, String> {
        let mut book = self.book();
        let body = Body::of(request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default());
        book.redaction.learn_from(Some(request.url()), request.headers(), &body);
        let asked = Asked {
            method: request.method().to_string(),
            url: book.redaction.url(request.url()),
            headers: book.redaction.headers(request.headers()),
            body: book.redaction.body(&body),
        };
        let same = |recorded: &Asked| differences(recorded, &asked).is_empty();
        if let Some((given, _, answer)) = book.recorded.iter_mut().find(|(given, it, _)| !*given && same(it)) {
            *given = true;
            return Ok(answer.clone());
        }
        // A worker that died asks again under the same key: the server would have given the same answer.
        let keyed = asked.headers.contains_key("idempotency-key");
        if let Some((_, _, answer)) = book.recorded.iter().rev().find(|(_, it, _)| keyed && same(it)) {
            return Ok(answer.clone());
        }
        let left = book.recorded.iter().filter(|(given, ..)| !given).map(|(_, it, _)| it);
        let nearest =
            left.min_by_key(|it| (it.method != asked.method, it.url != asked.url, differences(it, &asked).len()));
        let miss = told(&asked, nearest);
        book.misses.push(miss.clone());
        Err(miss)
    }
}

impl Carrier for Player {
    fn carry<'a>(&'a self, _client: &'a Client, request: Request) -> Carried<'a> {
        async move {
            let answer = self.answer(&request).map_err(CarrierError::Refused)?;
            tokio::time::sleep(TAKES).await;
            let mut response = http::Response::new(answer.body.bytes());
            let unfit =
                |what: String| CarrierError::Refused(format!("the recording holds an answer that is none: {what}"));
            *response.status_mut() =
                http::StatusCode::from_u16(answer.status).map_err(|error| unfit(error.to_string()))?;
            for (name, value) in &answer.headers {
                let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| unfit(error.to_string()))?;
                let value = HeaderValue::from_str(value).map_err(|error| unfit(error.to_string()))?;
                response.headers_mut().insert(name, value);
            }
            Ok(Response::from(response))
        }
        .boxed()
    }
}
