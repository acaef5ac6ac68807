//! What a function is told by its environment, read once at its start.
//!
//! One reading for all functions, so that a variable has one name and one meaning; a value that only some of them
//! need is asked for by the method that needs it, and its absence names the variable.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use longhaul_engine::{TenantId, limits};
use longhaul_wire::token::TokenSettings;

use crate::functions::Allowed;
use crate::secrets::SecretPlace;
use crate::tenants::TenantLimitsTable;

/// Why the environment does not describe a working function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A variable that is needed here is not set, or is empty.
    #[error("the environment variable {name} is not set; it names {meaning}")]
    Missing {
        /// The variable.
        name: &'static str,
        /// What it stands for.
        meaning: &'static str,
    },
    /// A variable holds something else than it should.
    #[error("the environment variable {name} is not {wanted}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// What it should hold.
        wanted: &'static str,
    },
}

/// A text that must not be shown: its debug form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, for the one place that sends it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Fixed credentials from the environment, as Lambda hands them to a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// The key's id.
    pub id: String,
    /// The key's secret.
    pub secret: Secret,
    /// The session token of temporary credentials.
    pub session_token: Option<Secret>,
}

/// What stands between commas.
fn list(text: Option<&str>) -> Vec<String> {
    let parts = text.unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(str::to_owned).collect()
}

/// Where AWS is: the region, and addresses that stand in for its services.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Aws {
    /// The region; none leaves it to the SDK's own search.
    pub region: Option<String>,
    /// Credentials; none leaves them to the SDK's own search (a role, a profile).
    pub access_key: Option<AccessKey>,
    /// DynamoDB elsewhere than in the region.
    pub dynamodb_url: Option<String>,
    /// SQS elsewhere than in the region.
    pub sqs_url: Option<String>,
    /// S3 elsewhere than in the region.
    pub s3_url: Option<String>,
    /// Secrets Manager elsewhere than in the region.
    pub secrets_manager_url: Option<String>,
    /// Parameter Store elsewhere than in the region.
    pub ssm_url: Option<String>,
    /// Lambda elsewhere than in the region.
    pub lambda_url: Option<String>,
}

/// The environment of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The DynamoDB table.
    pub table: String,
    /// The queue of continuations.
    pub queue_url: String,
    /// The queue of dead letters.
    pub dead_letter_queue_url: String,
    /// The bucket of claim checks.
    pub bucket: String,
    /// Where AWS is.
    pub aws: Aws,
    push_endpoint: Option<String>,
    webhook_queue_url: Option<String>,
    /// What each tenant's webhooks are signed with.
    pub webhook_secrets: BTreeMap<TenantId, Vec<Secret>>,
    /// Where they lie, to be read when they are needed (`LONGHAUL_WEBHOOK_SECRETS_ARN`).
    pub webhook_secrets_place: Option<SecretPlace>,
    /// What tenants may use.
    pub tenant_limits: TenantLimitsTable,
    /// How long an erasure rests between its two looks (`LONGHAUL_ERASURE_REST_SECONDS`): longer than any invocation of a
    /// worker.
    pub erasure_rest: Duration,
    /// Whether the api hands its answers over as they are written (`LONGHAUL_RESPONSE_STREAM`), which only a function URL
    /// of that mode takes.
    pub response_stream: bool,
    /// Where events come as a stream, told to who asks for one elsewhere (`LONGHAUL_STREAM_URL`); none where this deployment
    /// streams none over HTTP.
    pub stream_url: Option<String>,
    /// Whether reports may go to this very machine: for development, and never on AWS.
    pub webhook_loopback: bool,
    /// Hosts beyond the public internet that tools of definitions may reach (`LONGHAUL_TOOL_HOSTS`).
    pub tool_hosts: Vec<String>,
    /// Where tenants' keys lie: below `<prefix>/<tenant>/` (`LONGHAUL_SECRETS_PREFIX`); none when the deployment keeps
    /// none.
    pub secrets_prefix: Option<String>,
    /// The functions that definitions may call (`LONGHAUL_TOOL_FUNCTIONS`): names or ARNs, `tenant=` before those that one
    /// tenant alone may call.
    pub tool_functions: Vec<Allowed>,
    /// The names of the model providers that definitions may name: `default`, and those of `LONGHAUL_PROVIDERS`.
    pub providers: Vec<String>,
    tokens: Result<TokenSettings, ConfigError>,
}

impl Config {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// [`ConfigError`] for what every function needs; the rest is checked when it is asked for.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    /// Reads variables through `lookup`.
    ///
    /// # Errors
    /// As [`Config::from_env`].
    pub fn from_lookup(lookup: impl Fn(&'static str) -> Option<String>) -> Result<Self, ConfigError> {
        let variables = Variables { lookup };
        Ok(Self {
            table: variables.needed("LONGHAUL_TABLE", "the DynamoDB table")?,
            queue_url: variables.address("LONGHAUL_QUEUE_URL", "the queue of continuations")?,
            dead_letter_queue_url: variables.address("LONGHAUL_DEAD_LETTER_QUEUE_URL", "the dead-letter queue")?,
            bucket: variables.needed("LONGHAUL_BUCKET", "the S3 bucket of large payloads")?,
            aws: variables.aws()?,
            push_endpoint: variables.optional_address("LONGHAUL_PUSH_ENDPOINT")?,
            webhook_queue_url: variables.optional_address("LONGHAUL_WEBHOOK_QUEUE_URL")?,
            webhook_secrets: variables.webhook_secrets()?,
            webhook_secrets_place: variables.webhook_secrets_place()?,
            tenant_limits: variables.tenant_limits()?,
            erasure_rest: variables.erasure_rest()?,
            tokens: variables.tokens(),
            response_stream: variables.optional("LONGHAUL_RESPONSE_STREAM").is_some(),
            // AWS gives the address with a stroke at its end.
            stream_url: variables
                .optional_address("LONGHAUL_STREAM_URL")?
                .map(|url| url.trim_end_matches('/').to_owned()),
            webhook_loopback: variables.optional("LONGHAUL_WEBHOOK_LOOPBACK").is_some(),
            tool_hosts: list(variables.optional("LONGHAUL_TOOL_HOSTS").as_deref()),
            secrets_prefix: variables.secrets_prefix()?,
            tool_functions: variables.tool_functions()?,
            providers: variables.providers()?,
        })
    }

    /// How long a process may take for true what it has read of a tenant's data: less than an erasure rests.
    #[must_use]
    pub fn tenant_data_kept(&self) -> Duration {
        Duration::from_secs(limits::TENANT_DATA_KEPT_SECONDS).min(self.erasure_rest)
    }

    /// The management endpoint of the WebSocket gateway.
    ///
    /// # Errors
    /// [`ConfigError::Missing`].
    pub fn push_endpoint(&self) -> Result<&str, ConfigError> {
        self.push_endpoint.as_deref().ok_or(ConfigError::Missing {
            name: "LONGHAUL_PUSH_ENDPOINT",
            meaning: "the WebSocket management endpoint",
        })
    }

    /// The queue of webhook deliveries.
    ///
    /// # Errors
    /// [`ConfigError::Missing`].
    pub fn webhook_queue_url(&self) -> Result<&str, ConfigError> {
        self.webhook_queue_url.as_deref().ok_or(ConfigError::Missing {
            name: "LONGHAUL_WEBHOOK_QUEUE_URL",
            meaning: "the queue of webhook deliveries",
        })
    }

    /// How tokens are checked.
    ///
    /// # Errors
    /// [`ConfigError`] naming the variable at fault.
    pub fn tokens(&self) -> Result<&TokenSettings, ConfigError> {
        self.tokens.as_ref().map_err(Clone::clone)
    }
}

/// What webhooks are signed with: a JSON object of tenants, each with its secrets in one text, separated by spaces. The
/// first is in use, and while it is rotated the one before stands behind it. None when the text is no such object.
#[must_use]
pub fn signing_secrets(text: &str) -> Option<BTreeMap<TenantId, Vec<Secret>>> {
    let tenants: BTreeMap<TenantId, String> = serde_json::from_str(text).ok()?;
    let secrets = tenants.into_iter().map(|(tenant, texts)| {
        let of_tenant: Vec<Secret> = texts.split_whitespace().map(|text| Secret::new(text.to_owned())).collect();
        (!of_tenant.is_empty()).then_some((tenant, of_tenant))
    });
    secrets.collect()
}

/// The reading of single variables. An empty one counts as unset, as templates write them.
struct Variables<L> {
    lookup: L,
}

impl<L: Fn(&'static str) -> Option<String>> Variables<L> {
    fn optional(&self, name: &'static str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    fn needed(&self, name: &'static str, meaning: &'static str) -> Result<String, ConfigError> {
        self.optional(name).ok_or(ConfigError::Missing { name, meaning })
    }

    fn optional_address(&self, name: &'static str) -> Result<Option<String>, ConfigError> {
        match self.optional(name) {
            Some(value) if value.starts_with("http://") || value.starts_with("https://") => Ok(Some(value)),
            Some(_) => Err(ConfigError::Invalid { name, wanted: "an address that begins with http:// or https://" }),
            None => Ok(None),
        }
    }

    fn address(&self, name: &'static str, meaning: &'static str) -> Result<String, ConfigError> {
        self.optional_address(name)?.ok_or(ConfigError::Missing { name, meaning })
    }

    fn aws(&self) -> Result<Aws, ConfigError> {
        let everywhere = self.optional_address("AWS_ENDPOINT_URL")?;
        let endpoint = |name| Ok(self.optional_address(name)?.or_else(|| everywhere.clone()));
        let access_key = match (self.optional("AWS_ACCESS_KEY_ID"), self.optional("AWS_SECRET_ACCESS_KEY")) {
            (Some(id), Some(secret)) => Some(AccessKey {
                id,
                secret: Secret::new(secret),
                session_token: self.optional("AWS_SESSION_TOKEN").map(Secret::new),
            }),
            (Some(_) | None, _) => None,
        };
        Ok(Aws {
            region: self.optional("AWS_REGION").or_else(|| self.optional("AWS_DEFAULT_REGION")),
            access_key,
            dynamodb_url: endpoint("AWS_ENDPOINT_URL_DYNAMODB")?,
            sqs_url: endpoint("AWS_ENDPOINT_URL_SQS")?,
            s3_url: endpoint("AWS_ENDPOINT_URL_S3")?,
            secrets_manager_url: endpoint("AWS_ENDPOINT_URL_SECRETS_MANAGER")?,
            ssm_url: endpoint("AWS_ENDPOINT_URL_SSM")?,
            lambda_url: endpoint("AWS_ENDPOINT_URL_LAMBDA")?,
        })
    }

    fn webhook_secrets_place(&self) -> Result<Option<SecretPlace>, ConfigError> {
        let name = "LONGHAUL_WEBHOOK_SECRETS_ARN";
        let place = self.optional(name).map(|text| text.parse());
        place.transpose().map_err(|_| ConfigError::Invalid { name, wanted: "the ARN of a secret or a parameter" })
    }

    fn webhook_secrets(&self) -> Result<BTreeMap<TenantId, Vec<Secret>>, ConfigError> {
        const NAME: &str = "LONGHAUL_WEBHOOK_SECRETS";
        const WANTED: &str =
            "a JSON object of tenants and their signing secrets (`whsec_` and Base64 of 24 to 64 bytes)";
        let invalid = || ConfigError::Invalid { name: NAME, wanted: WANTED };
        let Some(text) = self.optional(NAME) else { return Ok(BTreeMap::new()) };
        signing_secrets(&text).ok_or_else(invalid)
    }

    fn tenant_limits(&self) -> Result<TenantLimitsTable, ConfigError> {
        const NAME: &str = "LONGHAUL_TENANT_LIMITS";
        const WANTED: &str = "a JSON object of limits, with those of single tenants under `tenants`";
        let Some(text) = self.optional(NAME) else { return Ok(TenantLimitsTable::default()) };
        TenantLimitsTable::parse(&text).ok_or(ConfigError::Invalid { name: NAME, wanted: WANTED })
    }

    fn erasure_rest(&self) -> Result<Duration, ConfigError> {
        let name = "LONGHAUL_ERASURE_REST_SECONDS";
        let Some(text) = self.optional(name) else { return Ok(Duration::from_secs(limits::ERASURE_REST_SECONDS)) };
        text.parse().map(Duration::from_secs).map_err(|_| ConfigError::Invalid { name, wanted: "a number of seconds" })
    }

    fn providers(&self) -> Result<Vec<String>, ConfigError> {
        let name = "LONGHAUL_PROVIDERS";
        let mut names = vec!["default".to_owned()];
        if let Some(text) = self.optional(name).filter(|text| !text.trim().is_empty()) {
            let named: BTreeMap<String, serde::de::IgnoredAny> = serde_json::from_str(&text)
                .map_err(|_| ConfigError::Invalid { name, wanted: "a JSON object of endpoints by name" })?;
            names.extend(named.into_keys().filter(|name| name != "default"));
        }
        Ok(names)
    }

    fn secrets_prefix(&self) -> Result<Option<String>, ConfigError> {
        let name = "LONGHAUL_SECRETS_PREFIX";
        let Some(text) = self.optional(name) else { return Ok(None) };
        let prefix = text.trim().trim_matches('/');
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
        // Every part of it is a part of a name in both stores.
        let parts = prefix.split('/').all(|part| !part.is_empty() && !part.chars().all(|c| c == '.'));
        if !parts || !prefix.chars().all(plain) {
            let wanted = "the beginning of secrets' names: letters, digits, - _ . and /";
            return Err(ConfigError::Invalid { name, wanted });
        }
        Ok(Some(prefix.to_owned()))
    }

    fn tool_functions(&self) -> Result<Vec<Allowed>, ConfigError> {
        let name = "LONGHAUL_TOOL_FUNCTIONS";
        let wanted = "a list of functions' names or ARNs, with commas between and `tenant=` before those of one tenant";
        let listed = list(self.optional(name).as_deref());
        listed.iter().map(|text| text.parse().map_err(|_| ConfigError::Invalid { name, wanted })).collect()
    }

    fn tokens(&self) -> Result<TokenSettings, ConfigError> {
        Ok(TokenSettings {
            jwks_url: self.address("LONGHAUL_JWKS_URL", "the issuer's published keys")?,
            issuer: self.needed("LONGHAUL_JWT_ISSUER", "the issuer of tokens")?,
            audience: self.needed("LONGHAUL_JWT_AUDIENCE", "the audience of tokens")?,
            tenant_claim: self.optional("LONGHAUL_JWT_TENANT_CLAIM").unwrap_or_else(|| "tenant".to_owned()),
            scope_claim: self.optional("LONGHAUL_JWT_SCOPE_CLAIM").unwrap_or_else(|| "scope".to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        reason = "a test may panic: that is how it fails"
    )]

    use super::*;

    const WHOLE: &[(&str, &str)] = &[
        ("LONGHAUL_TABLE", "jobs"),
        ("LONGHAUL_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/longhaul-jobs"),
        ("LONGHAUL_DEAD_LETTER_QUEUE_URL", "https://sqs.eu-west-1.amazonaws.com/1/longhaul-dead-letters"),
        ("LONGHAUL_BUCKET", "payloads"),
        ("LONGHAUL_PUSH_ENDPOINT", "https://x.execute-api.eu-west-1.amazonaws.com/live"),
        ("LONGHAUL_JWKS_URL", "https://issuer.example/keys"),
        ("LONGHAUL_JWT_ISSUER", "https://issuer.example"),
        ("LONGHAUL_JWT_AUDIENCE", "longhaul"),
        ("LONGHAUL_MODEL_URL", "http://127.0.0.1:8080/v1"),
        ("LONGHAUL_MODEL", "rehearsal"),
        ("LONGHAUL_MODEL_KEY", "sesame"),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "opensesame"),
        ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000"),
    ];

    fn read(change: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let mut variables: BTreeMap<&str, &str> = WHOLE.iter().copied().collect();
        variables.extend(change.iter().copied());
        Config::from_lookup(|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn a_whole_environment_is_read() {
        let config = read(&[]).unwrap();
        assert_eq!(config.table, "jobs");
        assert_eq!(config.push_endpoint().unwrap(), "https://x.execute-api.eu-west-1.amazonaws.com/live");
        assert_eq!(config.tokens().unwrap().tenant_claim, "tenant");
        assert_eq!(config.aws.access_key.as_ref().unwrap().secret.reveal(), "opensesame");
        assert_eq!(config.aws.s3_url.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(config.aws.sqs_url, None);
    }

    #[test]
    fn secrets_do_not_show() {
        let shown = format!("{:?}", read(&[]).unwrap());
        assert!(!shown.contains("sesame"), "{shown}");
    }

    #[test]
    fn webhook_secrets_are_read_by_tenant_and_never_shown() {
        let text = r#"{"acme": "whsec_bmV3 whsec_b2xk", "other": "whsec_c2VzYW1l"}"#;
        let config = read(&[("LONGHAUL_WEBHOOK_SECRETS", text)]).unwrap();
        let acme: Vec<&str> = config.webhook_secrets[&"acme".parse().unwrap()].iter().map(Secret::reveal).collect();
        assert_eq!(acme, ["whsec_bmV3", "whsec_b2xk"]);
        assert!(!format!("{config:?}").contains("whsec_"));
        for wrong in ["whsec_bmV3", "[]", r#"{"acme": ""}"#, r#"{"": "whsec_bmV3"}"#, r#"{"acme": ["whsec_bmV3"]}"#] {
            let error = read(&[("LONGHAUL_WEBHOOK_SECRETS", wrong)]).unwrap_err();
            assert!(!error.to_string().contains("bmV3"), "{error}");
        }
    }

    #[test]
    fn one_endpoint_stands_for_all_services() {
        let config = read(&[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")]).unwrap();
        assert_eq!(config.aws.dynamodb_url.as_deref(), Some("http://127.0.0.1:1"));
        assert_eq!(config.aws.s3_url.as_deref(), Some("http://127.0.0.1:9000"));
    }

    #[test]
    fn what_every_function_needs_is_missed_at_once_by_name() {
        for name in ["LONGHAUL_TABLE", "LONGHAUL_QUEUE_URL", "LONGHAUL_DEAD_LETTER_QUEUE_URL", "LONGHAUL_BUCKET"] {
            let error = read(&[(name, "")]).unwrap_err();
            assert!(matches!(error, ConfigError::Missing { name: missing, .. } if missing == name), "{error}");
        }
        let error = read(&[("LONGHAUL_QUEUE_URL", "longhaul-jobs")]).unwrap_err();
        assert!(matches!(error, ConfigError::Invalid { name: "LONGHAUL_QUEUE_URL", .. }), "{error}");
    }

    #[test]
    fn what_definitions_may_use_is_read() {
        let config = read(&[("LONGHAUL_SECRETS_PREFIX", "/longhaul/"), ("LONGHAUL_TOOL_FUNCTIONS", "f, acme=g:live")]);
        let config = config.unwrap();
        assert_eq!(config.secrets_prefix.as_deref(), Some("longhaul"));
        assert_eq!(config.tool_functions.len(), 2);
        assert_eq!(read(&[]).unwrap().secrets_prefix, None);
        for (name, value) in [
            ("LONGHAUL_SECRETS_PREFIX", "/"),
            ("LONGHAUL_SECRETS_PREFIX", "a//b"),
            ("LONGHAUL_SECRETS_PREFIX", "../x"),
            ("LONGHAUL_SECRETS_PREFIX", "a b"),
            ("LONGHAUL_TOOL_FUNCTIONS", "f g"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }

    #[test]
    fn what_some_functions_need_is_missed_when_asked_for() {
        assert!(read(&[("LONGHAUL_PUSH_ENDPOINT", "")]).unwrap().push_endpoint().is_err());
        let config = read(&[("LONGHAUL_JWT_ISSUER", "")]).unwrap();
        assert!(config.tokens().unwrap_err().to_string().contains("LONGHAUL_JWT_ISSUER"));
    }
}
