//! Why a call failed, in classes that decide what happens next.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::reply::{FailedAttempt, Usage};

/// Longest server message kept in an error, in characters: enough to understand it, little enough for a journal entry.
pub const MESSAGE_MAX_CHARS: usize = 600;

/// How an answer was cut short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Cut {
    /// The stream ended without an end mark. The same request may well succeed.
    Connection,
    /// The output limit was reached. The same request will most likely reach it again.
    OutputLimit,
    /// The model stopped for a reason that is unknown here, so nobody can say that the answer is whole.
    UnknownFinish {
        /// The server's word for it.
        raw: String,
    },
}

/// The class of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// A passing failure of network or server, or an answer that makes no sense.
    Transient,
    /// Too many requests or tokens in a window of time.
    RateLimited {
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The server has no capacity now.
    Overloaded {
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// The time limit of the call ran out.
    Timeout,
    /// The answer is not whole.
    Truncated {
        /// What cut it.
        cut: Cut,
    },
    /// The model or a filter declined. Asking again changes nothing.
    Refused,
    /// The request does not fit the model's context. It must get smaller.
    ContextOverflow,
    /// The answer does not have the asked form.
    Schema,
    /// Key missing, wrong or without rights.
    Auth,
    /// The server cannot accept this request at all.
    Invalid,
    /// The account at the provider has no credit left.
    Budget,
}

impl ModelErrorKind {
    /// Whether the identical request may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Transient
            | Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::Timeout
            | Self::Truncated { cut: Cut::Connection } => true,
            Self::Truncated { cut: Cut::OutputLimit | Cut::UnknownFinish { .. } }
            | Self::Refused
            | Self::ContextOverflow
            | Self::Schema
            | Self::Auth
            | Self::Invalid
            | Self::Budget => false,
        }
    }

    /// How long the server asked to wait before the next attempt.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after } | Self::Overloaded { retry_after } => *retry_after,
            Self::Transient
            | Self::Timeout
            | Self::Truncated { .. }
            | Self::Refused
            | Self::ContextOverflow
            | Self::Schema
            | Self::Auth
            | Self::Invalid
            | Self::Budget => None,
        }
    }

    /// The class in one stable word, for events, metrics and journals.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::Timeout => "timeout",
            Self::Truncated { .. } => "truncated",
            Self::Refused => "refused",
            Self::ContextOverflow => "context_overflow",
            Self::Schema => "schema",
            Self::Auth => "auth",
            Self::Invalid => "invalid",
            Self::Budget => "budget",
        }
    }
}

/// What had arrived of an answer that is not whole: for a person who reads the story, never an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Partial {
    /// The visible text so far.
    pub text: String,
    /// Names of the tools whose calls had begun. None of them may be carried out.
    pub tools: Vec<String>,
}

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What few errors have. It stands apart so that the others stay small enough to be handed around.
#[derive(Debug, Default)]
struct Details {
    usage: Option<Usage>,
    partial: Option<Partial>,
    earlier: Vec<FailedAttempt>,
}

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[error("model call failed ({}): {message}", kind.name())]
pub struct ModelError {
    kind: ModelErrorKind,
    message: String,
    status: Option<u16>,
    details: Option<Box<Details>>,
    #[source]
    source: Option<Source>,
}

impl ModelError {
    /// An error of a class with a message, which is cut to a sane length.
    pub fn new(kind: ModelErrorKind, message: impl AsRef<str>) -> Self {
        Self { kind, message: bounded(message.as_ref()), status: None, details: None, source: None }
    }

    /// The class.
    pub fn kind(&self) -> &ModelErrorKind {
        &self.kind
    }

    /// Whether the identical request may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.kind.is_retryable()
    }

    /// What happened; the server's own words where it gave any.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The HTTP status, where one was received.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// What the failed call cost nevertheless, where the server said so.
    pub fn usage(&self) -> Option<Usage> {
        self.details.as_ref()?.usage
    }

    /// What had arrived of an answer that was cut.
    pub fn partial(&self) -> Option<&Partial> {
        self.details.as_ref()?.partial.as_ref()
    }

    /// Other models that had been asked before this one failed too, in order.
    pub fn failed_attempts(&self) -> &[FailedAttempt] {
        self.details.as_ref().map_or(&[], |details| &details.earlier)
    }

    fn details(&mut self) -> &mut Details {
        self.details.get_or_insert_default()
    }

    pub(crate) fn with_earlier(mut self, earlier: Vec<FailedAttempt>) -> Self {
        self.details().earlier = earlier;
        self
    }

    pub(crate) fn prefixed(mut self, prefix: &str) -> Self {
        self.message = bounded(&format!("{prefix}{}", self.message));
        self
    }

    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// The same error with what the failed call cost nevertheless.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.details().usage = Some(usage);
        self
    }

    pub(crate) fn with_partial(mut self, partial: Partial) -> Self {
        self.details().partial = Some(partial);
        self
    }

    pub(crate) fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// The first [`MESSAGE_MAX_CHARS`] characters.
fn bounded(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(MESSAGE_MAX_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => {
            let mut cut: String = text.get(..end).unwrap_or_default().to_owned();
            cut.push('…');
            cut
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The taxonomy, whole: names are kept in journals, and what is tried again costs money.
    #[test]
    fn classes_have_names_and_some_may_be_tried_again() {
        let wait = Some(Duration::from_secs(1));
        let cut = |cut| ModelErrorKind::Truncated { cut };
        let rows = [
            (ModelErrorKind::Transient, "transient", true, None),
            (ModelErrorKind::RateLimited { retry_after: wait }, "rate_limited", true, wait),
            (ModelErrorKind::Overloaded { retry_after: wait }, "overloaded", true, wait),
            (ModelErrorKind::Timeout, "timeout", true, None),
            (cut(Cut::Connection), "truncated", true, None),
            (cut(Cut::OutputLimit), "truncated", false, None),
            (cut(Cut::UnknownFinish { raw: String::new() }), "truncated", false, None),
            (ModelErrorKind::Refused, "refused", false, None),
            (ModelErrorKind::ContextOverflow, "context_overflow", false, None),
            (ModelErrorKind::Schema, "schema", false, None),
            (ModelErrorKind::Auth, "auth", false, None),
            (ModelErrorKind::Invalid, "invalid", false, None),
            (ModelErrorKind::Budget, "budget", false, None),
        ];
        for (kind, name, retryable, retry_after) in rows {
            assert_eq!((kind.name(), kind.is_retryable(), kind.retry_after()), (name, retryable, retry_after));
        }
    }
}
