//! A ticket for a breach: drafted by the model, opened by a call to any HTTP server.
//!
//! `POST` with `{title, body, severity, rule, quotes}` as JSON and an `Idempotency-Key` that is the same at every attempt
//! and after every crash. The server answers 2xx with the ticket's `id` and, if it likes, its `url`.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use longhaul::{Ctx, ErrorClass, StepError};
use longhaul_llm::retry_after;
use reqwest::header::LOCATION;
use reqwest::{Client, Response, Url};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rules::Rule;
use super::{Finding, Quote, SYSTEM, Ticket};
use crate::Tools;
use crate::model::{Form, Question};
use crate::prompt::{Slot, fill};

const TICKET: Form = Form { name: "ticket", schema: include_str!("schemas/ticket.json"), answer_tokens: 1_500 };

/// Time for opening one ticket.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Bytes read of a ticket server's answer.
const ANSWER_MAX_BYTES: usize = 64 * 1024;

/// Characters of an answer that an error repeats.
const SHOWN_CHARS_MAX: usize = 300;

/// Characters of a title: what ticket systems take.
const TITLE_CHARS_MAX: usize = 200;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// What the model writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    title: String,
    body: String,
    severity: Severity,
}

/// A ticket as it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Draft {
    pub(super) title: String,
    body: String,
    severity: Severity,
    rule: String,
    quotes: Vec<Quote>,
}

/// Has the ticket written.
pub(super) async fn draft(ctx: &mut Ctx, tools: &Tools, rule: &Rule, finding: &Finding) -> longhaul::Result<Draft> {
    let shown = serde_json::json!({
        "verdict": finding.verdict, "explanation": finding.explanation, "quotes": finding.quotes,
    });
    let user = fill(
        include_str!("prompts/ticket.txt"),
        &[
            ("id", Slot::Attribute(&rule.id)),
            ("title", Slot::Attribute(&rule.title)),
            ("requirement", Slot::Material(&rule.requirement)),
            ("finding", Slot::Material(&shown.to_string())),
        ],
    );
    let question = Question { form: TICKET, system: SYSTEM, user };
    let Written { title, body, severity } = tools.model.ask(ctx, "draft ticket", &question).await?.value;
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TITLE_CHARS_MAX).collect();
    Ok(Draft { title, body, severity, rule: rule.id.clone(), quotes: finding.quotes.clone() })
}

/// What is recorded of an opened ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Opened {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

/// What a ticket server answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TicketAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The header `Location`.
    pub location: Option<String>,
    /// How long to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// The body's beginning.
    pub body: String,
}

/// A request for a ticket under way.
pub type TicketRequest<'a> = Pin<Box<dyn Future<Output = Result<TicketAnswer, StepError>> + 'a>>;

/// The way to ticket servers.
pub trait TicketServer {
    /// Posts a draft to `url` with this `Idempotency-Key`. Any answer is one, whatever its status.
    ///
    /// # Errors
    /// Why there was no answer.
    fn post<'a>(&'a self, url: &'a Url, key: &'a str, draft: &'a Value) -> TicketRequest<'a>;
}

/// Opens a ticket.
pub(super) async fn open(ctx: &mut Ctx, tools: &Tools, url: &str, draft: &Draft) -> longhaul::Result<Ticket> {
    let Opened { id, url } = ctx
        .effect("open ticket", async |key| request(tools.tickets.as_ref(), url, draft, &key.to_string()).await)
        .retry(tools.model.retry())
        .time_limit(TIME_LIMIT)
        .await?;
    Ok(Ticket { rule: draft.rule.clone(), id, url, title: draft.title.clone() })
}

async fn request(server: &dyn TicketServer, url: &str, draft: &Draft, key: &str) -> Result<Opened, StepError> {
    let url = Url::parse(url)
        .map_err(|error| StepError::because(ErrorClass::Invalid, "tickets_url is no address", &error))?;
    let host = url.host_str().unwrap_or_default();
    let draft = serde_json::to_value(draft)
        .map_err(|error| StepError::because(ErrorClass::Schema, "the ticket is no JSON", &error))?;
    let TicketAnswer { status, location, retry_after, body } = server.post(&url, key, &draft).await?;
    if (200..300).contains(&status) {
        return opened(&body, location).ok_or_else(|| {
            let message =
                format!("the ticket server {host} answered {status} without the ticket's `id`: {}", shown(&body));
            StepError::new(ErrorClass::Schema, message)
        });
    }
    let message = format!("the ticket server {host} answered {status}: {}", shown(&body));
    Err(StepError::new(class_of(status), message).retry_after(retry_after))
}

/// Ticket servers over HTTP.
pub(crate) struct HttpTickets;

impl TicketServer for HttpTickets {
    fn post<'a>(&'a self, url: &'a Url, key: &'a str, draft: &'a Value) -> TicketRequest<'a> {
        Box::pin(async move {
            let request = client(url)?.post(url.clone()).header("idempotency-key", key).json(draft);
            let sent = request.send().await.map_err(|error| {
                // The address may hold a key.
                let error = error.without_url();
                let class = if error.is_timeout() { ErrorClass::Timeout } else { ErrorClass::Transient };
                let host = url.host_str().unwrap_or_default();
                StepError::because(class, format!("the ticket server {host} could not be reached"), &error)
            })?;
            // A date in `Retry-After` is read against the clock; this is inside the effect's body.
            #[expect(clippy::disallowed_methods, reason = "inside a step's body")]
            let retry_after = retry_after(sent.headers(), SystemTime::now());
            let location = sent.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
            Ok(TicketAnswer { status: sent.status().as_u16(), location, retry_after, body: body(sent).await })
        })
    }
}

fn class_of(status: u16) -> ErrorClass {
    match status {
        401 | 403 => ErrorClass::Auth,
        408 | 504 => ErrorClass::Timeout,
        // Conflict and "too early": an earlier request with this key may still be at work.
        409 | 425 => ErrorClass::Transient,
        429 => ErrorClass::RateLimited,
        501 | 505 => ErrorClass::Invalid,
        503 => ErrorClass::Overloaded,
        500.. => ErrorClass::Transient,
        _ => ErrorClass::Invalid,
    }
}

/// The ticket's id: a text or number named `id`, else the address that the server says it now has.
fn opened(body: &str, location: Option<String>) -> Option<Opened> {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    let url = answer.get("url").and_then(Value::as_str).map(str::to_owned).or_else(|| location.clone());
    let id = match answer.get("id") {
        Some(Value::String(id)) if !id.is_empty() => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        Some(_) | None => location?,
    };
    Some(Opened { id, url })
}

/// The beginning of the answer. One that breaks off is as good as what arrived of it.
async fn body(mut response: Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = ANSWER_MAX_BYTES.saturating_sub(body.len());
        body.extend(chunk.iter().take(room));
        if chunk.len() >= room {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

fn shown(body: &str) -> String {
    match body.trim() {
        "" => "no further word".to_owned(),
        text => text.chars().take(SHOWN_CHARS_MAX).collect(),
    }
}

/// The process's client for this address. Building one costs about 10 ms, and servers on this machine are reached without
/// the proxy of the environment.
fn client(url: &Url) -> Result<&'static Client, StepError> {
    static REMOTE: OnceLock<Client> = OnceLock::new();
    static LOCAL: OnceLock<Client> = OnceLock::new();
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let slot = if local { &LOCAL } else { &REMOTE };
    if let Some(client) = slot.get() {
        return Ok(client);
    }
    // A redirect would carry findings to another address than the one that was named.
    let mut builder = Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(TIME_LIMIT);
    if local {
        builder = builder.no_proxy();
    }
    let client = builder
        .build()
        .map_err(|error| StepError::because(ErrorClass::Transient, "no HTTP client could be built", &error))?;
    Ok(slot.get_or_init(|| client))
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    /// An answer's body and `Location`; the ticket's id and address.
    type Case = (&'static str, Option<&'static str>, Option<(&'static str, Option<&'static str>)>);

    #[test]
    fn ids_are_read_from_what_servers_answer() {
        let cases: [Case; 7] = [
            (r#"{"id": "T-1", "url": "http://x/T-1"}"#, None, Some(("T-1", Some("http://x/T-1")))),
            (r#"{"id": 17}"#, None, Some(("17", None))),
            (r#"{"id": 17}"#, Some("/t/17"), Some(("17", Some("/t/17")))),
            ("", Some("/t/17"), Some(("/t/17", Some("/t/17")))),
            (r#"{"id": ""}"#, None, None),
            (r#"{"key": "T-1"}"#, None, None),
            ("created", None, None),
        ];
        for (body, location, expected) in cases {
            let expected = expected.map(|(id, url)| Opened { id: id.to_owned(), url: url.map(str::to_owned) });
            assert_eq!(opened(body, location.map(str::to_owned)), expected, "{body}");
        }
    }

    #[test]
    fn statuses_say_whether_to_try_again() {
        let cases = [
            (301, false),
            (400, false),
            (401, false),
            (404, false),
            (409, true),
            (422, false),
            (429, true),
            (500, true),
            (501, false),
            (503, true),
        ];
        for (status, again) in cases {
            let class = class_of(status);
            assert_eq!(class.is_retryable(), again, "{status}");
        }
    }
}
