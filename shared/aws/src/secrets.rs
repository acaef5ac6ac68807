//! Keys that are read when they are needed: from AWS Secrets Manager and from Systems Manager Parameter Store.
//!
//! What a tenant's definition names lies below a place of the tenant's own, `<prefix>/<tenant>/`, and nothing else can
//! be named: a name is put behind that place and never taken as it is. Keys of the deployment itself, such as a model
//! server's, are named whole by its settings.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::TenantId;
use serde_json::{Value, json};

use crate::clients::Clients;
use crate::config::Secret;
use crate::kept::Kept;
use crate::signed::{Answer, Call, CallError};

/// How long a key is kept. A key that was changed is taken up within this time; a shorter one would soon meet the forty
/// reads a second that Parameter Store gives an account.
pub const SECRET_KEPT_SECONDS: u64 = 300;
/// Keys that are kept at once.
const SECRETS_KEPT_MAX: usize = 1_000;
/// Tries of one read, the first included.
const TRIES_MAX: u32 = 3;
/// Wait before the second try; it doubles.
const RETRY_WAIT_FIRST: Duration = Duration::from_millis(100);
/// Time for one try.
const TRY_TIME: Duration = Duration::from_secs(3);
/// Bytes of an answer: a secret has 64 KiB at most, and JSON may escape each of them.
const ANSWER_BYTES_MAX: usize = 512 * 1024;

/// Where a key lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretPlace {
    /// A secret of Secrets Manager, by name or ARN; its whole text is the key.
    SecretsManager {
        /// Its name or ARN.
        name: String,
    },
    /// A parameter of Parameter Store, by name or ARN, encrypted or not.
    Parameter {
        /// Its name or ARN.
        name: String,
    },
}

/// A text that names no place of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`secretsmanager:NAME`, `ssm:NAME`, or the ARN of a secret or a parameter")]
pub struct NoPlace;

impl FromStr for SecretPlace {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let secret = |name: &str| Self::SecretsManager { name: name.to_owned() };
        let parameter = |name: &str| Self::Parameter { name: name.to_owned() };
        let place = match text.split_once(':') {
            Some(("secretsmanager", name)) => secret(name),
            Some(("ssm", name)) => parameter(name),
            Some(("arn", rest)) => match rest.split(':').nth(1) {
                Some("secretsmanager") => secret(text),
                Some("ssm") => parameter(text),
                Some(_) | None => return Err(NoPlace),
            },
            Some(_) | None => return Err(NoPlace),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "/_+=.@-:".contains(c);
        let name = place.name();
        if name.is_empty() || name.len() > 2_048 || !name.chars().all(plain) { Err(NoPlace) } else { Ok(place) }
    }
}

impl fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecretsManager { name } => write!(f, "secretsmanager:{name}"),
            Self::Parameter { name } => write!(f, "ssm:{name}"),
        }
    }
}

impl SecretPlace {
    fn name(&self) -> &str {
        match self {
            Self::SecretsManager { name } | Self::Parameter { name } => name,
        }
    }

    /// The place that a tenant's definition names by this one: the same name below the tenant's own place.
    ///
    /// # Errors
    /// [`SecretError::Name`] for a name that could be taken for a path out of there, or a tenant whose name cannot stand
    /// in one.
    pub fn of_tenant(&self, prefix: &str, tenant: &TenantId) -> Result<Self, SecretError> {
        let refused = |why: &'static str| Err(SecretError::Name { asked: self.to_string(), why });
        let name = self.name().trim_start_matches('/');
        if name.split('/').any(|part| part.is_empty() || part.chars().all(|c| c == '.')) {
            return refused("has a part that is empty or made of dots");
        }
        // The engine lets tenants have letters, digits and `-_.:`; neither store takes a colon.
        if name.contains(':') || tenant.as_str().contains(':') {
            return refused("has a colon, or the tenant's name has one");
        }
        if tenant.as_str().chars().all(|c| c == '.') {
            return refused("belongs to a tenant whose name is made of dots");
        }
        let below = format!("{}/{}/{name}", prefix.trim_matches('/'), tenant.as_str());
        Ok(match self {
            Self::SecretsManager { .. } => Self::SecretsManager { name: below },
            // Parameters with more than one part begin with a stroke.
            Self::Parameter { .. } => Self::Parameter { name: format!("/{below}") },
        })
    }
}

/// Why there is no key. Each says what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The deployment has no place for tenants' keys.
    #[error("there is no secret {asked}: this deployment keeps none (LONGHAUL_SECRETS_PREFIX is not set)")]
    NoShelf {
        /// What was asked.
        asked: String,
    },
    /// The name is none.
    #[error("{asked} names no secret: it {why}")]
    Name {
        /// What was asked.
        asked: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is none.
    #[error("there is no secret {asked}")]
    Missing {
        /// What was asked.
        asked: String,
    },
    /// It may not be read.
    #[error("the secret {asked} may not be read: {said}")]
    Denied {
        /// What was asked.
        asked: String,
        /// What AWS says of it.
        said: String,
    },
    /// It is no text, or no request that AWS takes.
    #[error("the secret {asked} cannot be read: {said}")]
    Unfit {
        /// What was asked.
        asked: String,
        /// What is wrong.
        said: String,
    },
    /// It cannot be looked up now.
    #[error("the secret {asked} cannot be looked up now: {said}")]
    Unavailable {
        /// What was asked.
        asked: String,
        /// What came back.
        said: String,
        /// Whether AWS asks for patience.
        throttled: bool,
    },
}

/// Both stores.
#[derive(Debug)]
pub struct AwsSecrets {
    clients: Arc<Clients>,
    prefix: Option<String>,
    kept: Kept<SecretPlace, Secret, SecretError>,
}

impl AwsSecrets {
    /// Keys of tenants below `prefix`; without one there are only those of the deployment.
    #[must_use]
    pub fn new(clients: &Arc<Clients>, prefix: Option<String>) -> Self {
        let kept = Kept::new(Duration::from_secs(SECRET_KEPT_SECONDS), SECRETS_KEPT_MAX);
        Self { clients: Arc::clone(clients), prefix, kept }
    }

    /// The key that a tenant's definition names.
    ///
    /// # Errors
    /// [`SecretError`].
    pub async fn of_tenant(&self, tenant: &TenantId, place: &SecretPlace) -> Result<Secret, SecretError> {
        match &self.prefix {
            Some(prefix) => self.read(&place.of_tenant(prefix, tenant)?).await,
            None => Err(SecretError::NoShelf { asked: place.to_string() }),
        }
    }

    /// The key at a place that the deployment names.
    ///
    /// # Errors
    /// [`SecretError`].
    pub async fn read(&self, place: &SecretPlace) -> Result<Secret, SecretError> {
        Box::pin(self.kept.get(place, async || self.fetch(place).await)).await
    }

    async fn fetch(&self, place: &SecretPlace) -> Result<Secret, SecretError> {
        let mut wait = RETRY_WAIT_FIRST;
        for _ in 1..TRIES_MAX {
            match self.fetch_once(place).await {
                Err(SecretError::Unavailable { said, .. }) => {
                    tracing::warn!(secret = %place, said, "a secret was not read; it is tried again");
                    tokio::time::sleep(wait).await;
                    wait = wait.saturating_mul(2);
                }
                other => return other,
            }
        }
        self.fetch_once(place).await
    }

    async fn fetch_once(&self, place: &SecretPlace) -> Result<Secret, SecretError> {
        let asked = || place.to_string();
        let unavailable = |said: String| SecretError::Unavailable { asked: asked(), said, throttled: false };
        let (service, target, body) = match place {
            SecretPlace::SecretsManager { name } => {
                ("secretsmanager", "secretsmanager.GetSecretValue", json!({ "SecretId": name }))
            }
            SecretPlace::Parameter { name } => {
                ("ssm", "AmazonSSM.GetParameter", json!({ "Name": name, "WithDecryption": true }))
            }
        };
        let call = Call {
            service,
            url: format!("{}/", self.clients.endpoint(service).map_err(|error| unavailable(error.to_string()))?),
            headers: vec![
                ("content-type", "application/x-amz-json-1.1".to_owned()),
                ("x-amz-target", target.to_owned()),
            ],
            body: body.to_string().into_bytes(),
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        let operation = target.split('.').next_back().unwrap_or(target);
        let answer = match self.clients.send_signed(operation, call, TRY_TIME).await {
            Ok(answer) => answer,
            Err(CallError::TooLong { bytes_max }) => {
                let said = format!("it is longer than {bytes_max} bytes");
                return Err(SecretError::Unfit { asked: asked(), said });
            }
            Err(error) => return Err(unavailable(crate::telemetry::chain(&error))),
        };
        match answer.status {
            200 => text_of(place, &answer),
            _ => Err(refused(place, &answer)),
        }
    }
}

fn text_of(place: &SecretPlace, answer: &Answer) -> Result<Secret, SecretError> {
    let unfit = |said: &str| SecretError::Unfit { asked: place.to_string(), said: said.to_owned() };
    // What cannot be read is not repeated: it may hold the key.
    let body: Value = serde_json::from_slice(&answer.body).map_err(|_| unfit("the answer is no JSON"))?;
    let text = match place {
        SecretPlace::SecretsManager { .. } => body.get("SecretString"),
        SecretPlace::Parameter { .. } => body.get("Parameter").and_then(|parameter| parameter.get("Value")),
    };
    match text.and_then(Value::as_str) {
        Some("") => Err(unfit("it is empty")),
        Some(text) => Ok(Secret::new(text.to_owned())),
        None => Err(unfit("it is no text")),
    }
}

/// What a refusal means.
fn refused(place: &SecretPlace, answer: &Answer) -> SecretError {
    let asked = place.to_string();
    let (name, said) = answer.fault();
    let said = if said.is_empty() { format!("{} {name}", answer.status) } else { format!("{name}: {said}") };
    match (name.as_str(), answer.status) {
        ("ResourceNotFoundException" | "ParameterNotFound" | "ParameterVersionNotFound", _) => {
            SecretError::Missing { asked }
        }
        ("ThrottlingException" | "TooManyUpdates" | "RequestLimitExceeded", _) | (_, 429) => {
            SecretError::Unavailable { asked, said, throttled: true }
        }
        (
            "AccessDeniedException"
            | "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "IncompleteSignature"
            | "MissingAuthenticationToken"
            | "DecryptionFailure"
            | "InvalidKeyId",
            _,
        )
        | (_, 401 | 403) => SecretError::Denied { asked, said },
        // A token that has just run out is renewed before the next try.
        ("ExpiredTokenException", _) | (_, 500..) => SecretError::Unavailable { asked, said, throttled: false },
        (_, _) => SecretError::Unfit { asked, said },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use super::*;

    fn below(place: &str, tenant: &str) -> Result<String, SecretError> {
        let place: SecretPlace = place.parse().unwrap();
        place.of_tenant("longhaul", &tenant.parse().unwrap()).map(|place| place.to_string())
    }

    #[test]
    fn names_stay_below_the_tenants_own_place() {
        let rows = [
            ("secretsmanager:tickets/key", "acme", Some("secretsmanager:longhaul/acme/tickets/key")),
            ("ssm:/tickets-key", "acme", Some("ssm:/longhaul/acme/tickets-key")),
            ("ssm:tickets-key", "a.b", Some("ssm:/longhaul/a.b/tickets-key")),
            // What reads like another tenant's, whole, is a name like any other.
            ("secretsmanager:longhaul/other/key", "acme", Some("secretsmanager:longhaul/acme/longhaul/other/key")),
            ("secretsmanager:../other/key", "acme", None),
            ("secretsmanager:a/../../other/key", "acme", None),
            ("ssm://other/key", "acme", Some("ssm:/longhaul/acme/other/key")),
            ("ssm:a//b", "acme", None),
            ("ssm:key:3", "acme", None),
            ("ssm:key/", "acme", None),
            ("secretsmanager:arn:aws:secretsmanager:eu-west-1:1:secret:longhaul/other/key", "acme", None),
            ("arn:aws:ssm:eu-west-1:1:parameter/longhaul/other/key", "acme", None),
            ("ssm:key", "with:colon", None),
            ("ssm:key", "..", None),
        ];
        for (place, tenant, expected) in rows {
            assert_eq!(below(place, tenant).ok().as_deref(), expected, "{place} of {tenant}");
        }
    }

    #[test]
    fn places_are_read() {
        for good in [
            "secretsmanager:longhaul/model-key",
            "ssm:/longhaul/model-key",
            "arn:aws:secretsmanager:eu-west-1:111122223333:secret:longhaul/model-key-AbCdEf",
            "arn:aws-us-gov:ssm:us-gov-west-1:111122223333:parameter/longhaul/model-key",
        ] {
            good.parse::<SecretPlace>().unwrap();
        }
        for bad in ["", "sk-123", "vault:x", "ssm:", "ssm:a b", "arn:aws:s3:::bucket", "arn:aws"] {
            assert!(bad.parse::<SecretPlace>().is_err(), "{bad}");
        }
    }
}
