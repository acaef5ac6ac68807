//! Jobs, submitted over the real API until each is accepted, whatever happens to the process that was asked.

use std::time::Duration;

use longhaul_engine::{JobId, TenantId};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;

/// How long a submission is repeated before the API counts as gone.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long one try may take.
const TRY_TIMEOUT: Duration = Duration::from_secs(35);
/// Wait before the first repetition and the longest one.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_LONGEST: Duration = Duration::from_secs(1);

/// Why a job was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The API refused it; another try would not help.
    #[error("the submission of {key} was refused with {status}: {body}")]
    Refused {
        /// Its idempotency key.
        key: String,
        /// The status.
        status: StatusCode,
        /// What was said.
        body: String,
    },
    /// The API accepted another job than the key's own.
    #[error("the submission of {key} was answered with job {answered} and not {expected}")]
    OtherJob {
        /// Its idempotency key.
        key: String,
        /// The job of the answer.
        answered: String,
        /// The job that the key makes.
        expected: JobId,
    },
    /// Nobody accepted it in time.
    #[error("the submission of {key} was not accepted in {PATIENCE:?}; the last try came to: {last}")]
    NotAccepted {
        /// Its idempotency key.
        key: String,
        /// What the last try came to.
        last: String,
    },
}

/// A source of like jobs.
#[derive(Debug, Clone)]
pub struct Load {
    http: reqwest::Client,
    url: String,
    token: String,
    tenant: TenantId,
    body: Value,
}

impl Load {
    /// Jobs of an agent with this input, for the tenant of the token.
    #[must_use]
    pub fn new(api: &str, token: &str, tenant: TenantId, agent: &str, input: &Value) -> Self {
        Self {
            http: reqwest::Client::new(),
            url: format!("{api}/v1/jobs"),
            token: token.to_owned(),
            tenant,
            body: json!({"agent": agent, "input": input}),
        }
    }

    /// Submits one job under a key of its own, again and again until it is accepted.
    ///
    /// # Errors
    /// [`LoadError`].
    pub async fn submit(&self, key: &str) -> Result<JobId, LoadError> {
        let give_up_at = Instant::now() + PATIENCE;
        let expected = JobId::of_key(&self.tenant, key);
        let mut pause = PAUSE_FIRST;
        loop {
            let last = match self.attempt(key).await {
                Ok((status, body)) if status.is_success() => {
                    let answered = body.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                    if answered == expected.to_string() {
                        return Ok(expected);
                    }
                    return Err(LoadError::OtherJob { key: key.to_owned(), answered, expected });
                }
                Ok((status, body)) if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => {
                    return Err(LoadError::Refused { key: key.to_owned(), status, body: body.to_string() });
                }
                Ok((status, _)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            if Instant::now() >= give_up_at {
                return Err(LoadError::NotAccepted { key: key.to_owned(), last });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_LONGEST);
        }
    }

    async fn attempt(&self, key: &str) -> Result<(StatusCode, Value), reqwest::Error> {
        let call = self.http.post(&self.url).bearer_auth(&self.token).header("idempotency-key", key).json(&self.body);
        let answer = call.timeout(TRY_TIMEOUT).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        Ok((status, serde_json::from_str(&text).unwrap_or(Value::String(text))))
    }
}
