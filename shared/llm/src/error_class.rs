//! From a server's error, wherever it came (status, body of a 200, event in a stream), to a [`ModelErrorKind`].
//!
//! Gateways answer 200 before they know how the call ends, so the same error arrives in three places; it must get the
//! same class in each.

use std::time::Duration;

use serde_json::Value;

use crate::error::{Cut, ModelError, ModelErrorKind};
use crate::http::Secret;
use crate::lenient_json::lenient_json;
use crate::overflow::is_overflow;

/// An error as a server described it.
#[derive(Debug, Default)]
pub(crate) struct ErrorReport {
    /// The HTTP status, or the numeric code that a gateway put in its place.
    pub(crate) status: Option<u16>,
    /// All words that classify it (`code`, `type`, `status`), in lower case.
    codes: Vec<String>,
    message: String,
    /// From the headers.
    pub(crate) retry_after: Option<Duration>,
}

impl ErrorReport {
    /// Reads the body of an HTTP error. A body that is no JSON is itself the message.
    pub(crate) fn from_body(status: u16, body: &str) -> Self {
        let report = lenient_json(body).ok().map(|value| Self::from_json(&value));
        let mut report = report.unwrap_or_default();
        if report.message.is_empty() {
            report.message = body.trim().to_owned();
        }
        if report.message.is_empty() {
            report.message = "the server gave no reason".to_owned();
        }
        // The status line outranks what the body calls a code.
        report.status = Some(status);
        report
    }

    /// Reads `{"error": {…}}`, `{"error": "…"}`, a bare error object, or a list of one of them.
    pub(crate) fn from_json(value: &Value) -> Self {
        if let Some(first) = value.as_array().and_then(|list| list.first()) {
            return Self::from_json(first);
        }
        match value.get("error") {
            Some(Value::String(message)) => {
                let mut report = Self::from_object(value);
                report.message.clone_from(message);
                report
            }
            Some(inner @ Value::Object(_)) => Self::from_object(inner),
            Some(_) | None => Self::from_object(value),
        }
    }

    fn from_object(object: &Value) -> Self {
        let mut report = Self::default();
        for key in ["code", "type", "status"] {
            match object.get(key) {
                Some(Value::Number(number)) => {
                    report.status = number.as_u64().and_then(|code| u16::try_from(code).ok());
                }
                Some(Value::String(word)) => match word.parse() {
                    Ok(code) => report.status = Some(code),
                    Err(_) => report.codes.push(word.to_lowercase()),
                },
                Some(_) | None => {}
            }
        }
        if let Some(word) = object.get("__type").and_then(Value::as_str) {
            report.add_code(word);
        }
        for key in ["message", "detail", "Message"] {
            if let Some(text) = object.get(key).and_then(Value::as_str) {
                text.clone_into(&mut report.message);
                break;
            }
        }
        report
    }

    /// A further word that classifies it. AWS writes `ThrottlingException:http://…` or `com.amazon…#ThrottlingException`.
    pub(crate) fn add_code(&mut self, word: &str) {
        let word = word.rsplit('#').next().unwrap_or(word);
        let word = word.split(':').next().unwrap_or(word);
        self.codes.push(word.trim().to_lowercase());
    }

    /// The error itself, free of the key.
    pub(crate) fn into_error(self, secret: &Secret) -> ModelError {
        let mut message = secret.redact(&self.message);
        if message.is_empty() {
            message = "the server reported an error without a reason".to_owned();
        }
        let error = ModelError::new(self.kind(), message);
        match self.status {
            Some(status) => error.with_status(status),
            None => error,
        }
    }

    fn kind(&self) -> ModelErrorKind {
        let codes: Vec<&str> = self.codes.iter().map(String::as_str).collect();
        // Words that leave no doubt come before the status, which several meanings share.
        if let Some(kind) = by_code(&codes, &DECISIVE_CODES, self.retry_after) {
            return kind;
        }
        let message = self.message.to_lowercase();
        if BUDGET_PHRASES.iter().any(|phrase| message.contains(phrase)) {
            return ModelErrorKind::Budget;
        }
        // A rate limit may say "request too large": it passes, an overflow does not.
        let may_be_overflow = matches!(self.status, None | Some(200 | 400 | 413 | 422 | 500));
        if may_be_overflow && is_overflow(&codes, &self.message) {
            return ModelErrorKind::ContextOverflow;
        }
        match self.status {
            Some(status @ 300..) => by_status(status, self.retry_after),
            Some(_) | None => by_code(&codes, &GENERAL_CODES, self.retry_after).unwrap_or(ModelErrorKind::Transient),
        }
    }
}

/// Kinds that a code can name, before the wait is filled in.
#[derive(Clone, Copy)]
enum Named {
    Transient,
    RateLimited,
    Overloaded,
    Timeout,
    Refused,
    Auth,
    Invalid,
    Budget,
}

/// Words that leave no doubt, whatever the status. The long ones are AWS's names of exceptions.
const DECISIVE_CODES: [(&str, Named); 21] = [
    ("insufficient_quota", Named::Budget),
    ("billing_hard_limit_reached", Named::Budget),
    ("billing_error", Named::Budget),
    ("content_filter", Named::Refused),
    ("content_policy_violation", Named::Refused),
    ("image_content_policy_violation", Named::Refused),
    ("bio_policy", Named::Refused),
    ("invalid_prompt", Named::Refused),
    ("invalid_api_key", Named::Auth),
    ("authentication_error", Named::Auth),
    ("permission_error", Named::Auth),
    ("overloaded_error", Named::Overloaded),
    ("timeout_error", Named::Timeout),
    ("throttlingexception", Named::RateLimited),
    ("servicequotaexceededexception", Named::RateLimited),
    ("modelnotreadyexception", Named::Overloaded),
    ("modeltimeoutexception", Named::Timeout),
    ("modelerrorexception", Named::Transient),
    ("modelstreamerrorexception", Named::Transient),
    ("internalserverexception", Named::Transient),
    ("serviceunavailableexception", Named::Overloaded),
];

const GENERAL_CODES: [(&str, Named); 23] = [
    ("rate_limit_exceeded", Named::RateLimited),
    ("rate_limit_error", Named::RateLimited),
    ("too_many_requests", Named::RateLimited),
    ("resource_exhausted", Named::RateLimited),
    ("overloaded", Named::Overloaded),
    ("server_overloaded", Named::Overloaded),
    ("service_unavailable", Named::Overloaded),
    ("unavailable", Named::Overloaded),
    ("timeout", Named::Timeout),
    ("deadline_exceeded", Named::Timeout),
    ("server_error", Named::Transient),
    ("internal_error", Named::Transient),
    ("api_error", Named::Transient),
    ("unauthenticated", Named::Auth),
    ("permission_denied", Named::Auth),
    ("accessdeniedexception", Named::Auth),
    ("unrecognizedclientexception", Named::Auth),
    ("expiredtokenexception", Named::Auth),
    ("invalid_request_error", Named::Invalid),
    ("invalid_argument", Named::Invalid),
    ("not_found_error", Named::Invalid),
    ("validationexception", Named::Invalid),
    ("resourcenotfoundexception", Named::Invalid),
];

/// Phrases by which a server says that the account is empty where its code says only that the request is bad, in lower
/// case.
const BUDGET_PHRASES: [&str; 2] = ["credit balance is too low", "insufficient credits"];

fn by_code(codes: &[&str], table: &[(&str, Named)], retry_after: Option<Duration>) -> Option<ModelErrorKind> {
    let (_, named) = table.iter().find(|(word, _)| codes.contains(word))?;
    Some(match named {
        Named::Transient => ModelErrorKind::Transient,
        Named::RateLimited => ModelErrorKind::RateLimited { retry_after },
        Named::Overloaded => ModelErrorKind::Overloaded { retry_after },
        Named::Timeout => ModelErrorKind::Timeout,
        Named::Refused => ModelErrorKind::Refused,
        Named::Auth => ModelErrorKind::Auth,
        Named::Invalid => ModelErrorKind::Invalid,
        Named::Budget => ModelErrorKind::Budget,
    })
}

fn by_status(status: u16, retry_after: Option<Duration>) -> ModelErrorKind {
    match status {
        401 | 403 => ModelErrorKind::Auth,
        402 => ModelErrorKind::Budget,
        408 => ModelErrorKind::Timeout,
        // A body too big for the server is a prompt too big for the model.
        413 => ModelErrorKind::ContextOverflow,
        409 | 425 => ModelErrorKind::Transient,
        429 => ModelErrorKind::RateLimited { retry_after },
        503 | 529 => ModelErrorKind::Overloaded { retry_after },
        501 | 505 => ModelErrorKind::Invalid,
        500.. => ModelErrorKind::Transient,
        _ => ModelErrorKind::Invalid,
    }
}

/// The error for a stream or body that ended before the answer did.
pub(crate) fn cut_off(message: &str) -> ModelError {
    ModelError::new(ModelErrorKind::Truncated { cut: Cut::Connection }, message)
}
