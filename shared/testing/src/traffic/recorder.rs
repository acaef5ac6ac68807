//! Makes a recording: real requests to real servers, remembered with their answers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use http::HeaderMap;
use longhaul_llm::{Carried, Carrier, CarrierError};
use reqwest::{Client, Request, Response, Url};

use super::exchange::{Answered, Asked, Body, Exchange, Recording};
use super::redaction::Redaction;

/// One exchange as it was, secrets and all. It is never written down like this.
#[derive(Debug, Clone)]
struct Heard {
    method: String,
    url: Url,
    asked_headers: HeaderMap,
    asked: Body,
    /// None while no answer has come, or when there was none.
    answer: Option<(u16, HeaderMap, Body)>,
}

#[derive(Default)]
struct Book {
    heard: Vec<Heard>,
    redaction: Redaction,
}

/// The recorder.
#[derive(Default)]
pub(crate) struct Recorder(Mutex<Book>);

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("exchanges", &self.book().heard.len()).finish()
    }
}

impl Recorder {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hide(&self, secret: &str) {
        self.book().redaction.learn(secret);
    }

    /// What was heard so far without its secrets: all that are known by now, also where they stood before.
    pub(crate) fn recording(&self) -> Recording {
        let book = self.book();
        let mut redaction = book.redaction.clone();
        for heard in &book.heard {
            redaction.learn_from(Some(&heard.url), &heard.asked_headers, &heard.asked);
            if let Some((_, headers, body)) = &heard.answer {
                redaction.learn_from(None, headers, body);
            }
        }
        let exchanges = book.heard.iter().filter_map(|heard| {
            let (status, headers, body) = heard.answer.as_ref()?;
            Some(Exchange {
                request: Asked {
                    method: heard.method.clone(),
                    url: redaction.url(&heard.url),
                    headers: redaction.headers(&heard.asked_headers),
                    body: redaction.body(&heard.asked),
                },
                response: Answered { status: *status, headers: redaction.headers(headers), body: redaction.body(body) },
            })
        });
        Recording { exchanges: exchanges.collect() }
    }

    fn begin(&self, request: &Request) -> usize {
        let heard = Heard {
            method: request.method().to_string(),
            url: request.url().clone(),
            asked_headers: request.headers().clone(),
            asked: Body::of(request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default()),
            answer: None,
        };
        let mut book = self.book();
        book.heard.push(heard);
        book.heard.len().saturating_sub(1)
    }
}

impl Carrier for Recorder {
    fn carry<'a>(&'a self, client: &'a Client, request: Request) -> Carried<'a> {
        async move {
            let place = self.begin(&request);
            let response = client.execute(request).await?;
            let (status, headers) = (response.status(), response.headers().clone());
            let bytes = response.bytes().await?;
            if let Some(heard) = self.book().heard.get_mut(place) {
                heard.answer = Some((status.as_u16(), headers.clone(), Body::of(&bytes)));
            }
            let mut again = http::Response::new(bytes);
            *again.status_mut() = status;
            *again.headers_mut() = headers;
            Ok::<_, CarrierError>(Response::from(again))
        }
        .boxed()
    }
}
