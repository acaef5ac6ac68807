//! What the agents need to know of the place they run in, read once from the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use longhaul::RetryPolicy;
use longhaul_definition::Policy;
use longhaul_llm::{Access, Endpoint, Prices, Secret, Wire};
use serde_json::{Map, Value};

use crate::defined::equipment::{Entry, Providers};
use crate::model::STAND_IN;
use crate::model_keys::KeySource;
use crate::paths::Paths;

/// How long a model call may take when nothing else is said: a long answer of a slow model, and well within the
/// 15 minutes of an invocation.
pub const MODEL_TIME_LIMIT_DEFAULT_SECONDS: u64 = 120;

/// The longest time limit of a model call: a step must fit into an invocation of 15 minutes with room to spare.
pub const MODEL_TIME_LIMIT_MAX_SECONDS: u64 = 600;

/// The agents' settings.
///
/// | variable | meaning |
/// |---|---|
/// | `LONGHAUL_MODEL_URL` | base address of a Chat Completions server, ending in `/v1` |
/// | `LONGHAUL_MODEL` | the model's name there |
/// | `LONGHAUL_MODEL_KEY` | its key; absent for servers that ask for none |
/// | `LONGHAUL_MODEL_KEY_SECRET` | instead: where its key is read when it is needed, `secretsmanager:NAME`, `ssm:NAME` or an ARN |
/// | `LONGHAUL_MODEL_TIME_LIMIT_SECONDS` | how long a call may take, up to 600; 120 by default |
/// | `LONGHAUL_PROVIDERS` | model providers that definitions may name besides `default`, the one above: a JSON object of endpoints by name, each with `key_variable`, the variable that holds its key, or `key_secret`, the place where it is read (docs/models.md) |
/// | `LONGHAUL_PRICES` | prices of models, laid over the ones that come with the program: JSON of the form of `shared/llm/prices.json` |
/// | `LONGHAUL_TOOL_HOSTS` | hosts beyond the public internet that tools of definitions may reach, separated by commas: names, `*.name`, addresses |
/// | `LONGHAUL_CORPUS` | the folder that `research` reads when its input names none |
/// | `LONGHAUL_DOCUMENTS` | folders (separated as in `PATH`) that inputs may name files and folders in; any, when absent. Set it wherever callers are not the owners of the machine |
/// | `LONGHAUL_RETRY_WAIT_FIRST_MS` | wait before a step's second attempt, for development; 10,000 by default |
#[derive(Debug, Clone)]
pub struct Settings {
    /// Base address of a Chat Completions server.
    pub model_url: String,
    /// The model's name on that server.
    pub model: String,
    /// The key; empty for servers that ask for none.
    pub model_key: Secret,
    /// Where the key is read when it is needed; none when it is known, or none is asked for.
    pub model_key_place: Option<String>,
    /// Where keys come from that are read when they are needed.
    pub keys: KeySource,
    /// How long a model call may take.
    pub model_time_limit: Duration,
    /// Where documents may be read.
    pub paths: Paths,
    /// How the agents' steps are tried again.
    pub retry: RetryPolicy,
    /// The models that definitions may name.
    pub providers: Providers,
    /// Where tools of definitions may go.
    pub policy: Policy,
    /// What models cost.
    pub prices: Prices,
}

/// The name by which definitions call the model that the settings name first.
pub const DEFAULT_PROVIDER: &str = "default";

const MALFORMED_PROVIDERS: SettingsError = SettingsError::Malformed {
    name: "LONGHAUL_PROVIDERS",
    expected: "a JSON object of endpoints by name (docs/models.md), each with at most one of `key_variable`, a variable that is set, and `key_secret`",
};

const MALFORMED_PRICES: SettingsError = SettingsError::Malformed {
    name: "LONGHAUL_PRICES",
    expected: "a table of prices of the form of shared/llm/prices.json (docs/models.md)",
};

/// Published prices, nothing for the stand-in, and the deployment's own table over both.
fn prices(own: Option<&str>) -> Result<Prices, SettingsError> {
    let nothing = serde_json::json!({ "read_on": "always", "models": [
        { "names": [STAND_IN], "rates": { "input": "0", "output": "0" } },
    ]});
    let prices = Prices::built_in().and_then(|prices| prices.overlaid(&nothing.to_string()));
    let prices = prices.map_err(|_| MALFORMED_PRICES)?;
    own.map_or(Ok(prices.clone()), |own| prices.overlaid(own)).map_err(|_| MALFORMED_PRICES)
}

const MALFORMED_HOSTS: SettingsError = SettingsError::Malformed {
    name: "LONGHAUL_TOOL_HOSTS",
    expected: "hosts with commas between: names, `*.name` or addresses, without scheme, port, path or blank (a host is \
               allowed on all its ports)",
};

/// Where tools may go besides the public internet.
fn policy(hosts: Option<&str>) -> Result<Policy, SettingsError> {
    let policy = Policy::allowing(hosts.unwrap_or_default());
    if policy.fault().is_some() { Err(MALFORMED_HOSTS) } else { Ok(policy) }
}

/// A provider besides the first.
struct Further {
    /// The variable that holds its key.
    key_variable: Option<String>,
    /// The place where its key is read; with neither, the server asks for none or knows the process's role.
    key_secret: Option<String>,
    /// Whether its models run in the background where a definition does not say.
    background: bool,
    endpoint: Endpoint,
}

fn further(text: Option<&str>) -> Result<BTreeMap<String, Further>, SettingsError> {
    let Some(text) = text else { return Ok(BTreeMap::new()) };
    let objects: BTreeMap<String, Map<String, Value>> = serde_json::from_str(text).map_err(|_| MALFORMED_PROVIDERS)?;
    let read = |mut fields: Map<String, Value>| {
        // An endpoint knows its own fields and refuses others.
        let mut text = |name: &str| match fields.remove(name) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text)),
            Some(_) => Err(MALFORMED_PROVIDERS),
        };
        let (key_variable, key_secret) = (text("key_variable")?, text("key_secret")?);
        let background = match fields.remove("background") {
            None => false,
            Some(said) => said.as_bool().ok_or(MALFORMED_PROVIDERS)?,
        };
        let endpoint: Endpoint = serde_json::from_value(Value::Object(fields)).map_err(|_| MALFORMED_PROVIDERS)?;
        if (key_variable.is_some() && key_secret.is_some()) || (background && endpoint.wire != Wire::Responses) {
            return Err(MALFORMED_PROVIDERS);
        }
        Ok(Further { key_variable, key_secret, background, endpoint })
    };
    objects.into_iter().map(|(name, fields)| Ok((name, read(fields)?))).collect()
}

/// Why there are no settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A variable that must be there is not, or is empty.
    #[error("{name} is not set: {meaning}")]
    Missing {
        /// The variable.
        name: &'static str,
        /// What belongs there.
        meaning: &'static str,
    },
    /// A variable does not hold what it should.
    #[error("{name} must be {expected}")]
    Malformed {
        /// The variable.
        name: &'static str,
        /// What belongs there.
        expected: &'static str,
    },
}

impl Settings {
    /// The places of all keys that are read when they are needed.
    pub fn key_places(&self) -> impl Iterator<Item = &str> {
        self.providers.key_places()
    }

    /// Reads the process's environment.
    ///
    /// # Errors
    /// [`SettingsError`] when a variable is missing or malformed.
    pub fn from_env() -> Result<Self, SettingsError> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads settings from wherever `variable` finds them. Blank ones count as absent.
    ///
    /// # Errors
    /// [`SettingsError`] when a variable is missing or malformed.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let found = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let required = |name, meaning| found(name).ok_or(SettingsError::Missing { name, meaning });
        let number = |name, expected, max: u64| match found(name) {
            None => Ok(None),
            Some(text) => match text.trim().parse::<u64>() {
                Ok(number) if (1..=max).contains(&number) => Ok(Some(number)),
                Ok(_) | Err(_) => Err(SettingsError::Malformed { name, expected }),
            },
        };
        let seconds = number(
            "LONGHAUL_MODEL_TIME_LIMIT_SECONDS",
            "a number of seconds from 1 to 600",
            MODEL_TIME_LIMIT_MAX_SECONDS,
        )?;
        let defaults = RetryPolicy::default();
        let wait_first_ms = number(
            "LONGHAUL_RETRY_WAIT_FIRST_MS",
            "a number of milliseconds, at least 1 and no longer than the longest wait",
            defaults.wait_max_ms,
        )?;
        let folders = found("LONGHAUL_DOCUMENTS");
        let model_url = required("LONGHAUL_MODEL_URL", "the base address of a Chat Completions server")?;
        let model = required("LONGHAUL_MODEL", "the name of a model on that server")?;
        let model_key = found("LONGHAUL_MODEL_KEY").map(Secret::new);
        let mut providers = Providers::default();
        let default = Endpoint { base_url: Some(model_url.clone()), ..Endpoint::new(Wire::Chat, model.clone()) };
        let model_key_place = found("LONGHAUL_MODEL_KEY_SECRET");
        if model_key_place.is_some() && model_key.is_some() {
            let expected = "absent where LONGHAUL_MODEL_KEY is set: a key has one place";
            return Err(SettingsError::Malformed { name: "LONGHAUL_MODEL_KEY_SECRET", expected });
        }
        let entry = match (&model_key, &model_key_place) {
            (_, Some(place)) => Entry::Kept { place: place.clone() },
            (Some(key), None) => Entry::Known(Access::Key(key.clone())),
            (None, None) => Entry::Known(Access::Open),
        };
        providers.add_entry(DEFAULT_PROVIDER, default, entry);
        for (name, further) in further(found("LONGHAUL_PROVIDERS").as_deref())? {
            let entry = match (further.key_variable, further.key_secret) {
                // The name of the variable is the author's own and cannot be said in the error; that of ours can.
                (Some(variable), _) => {
                    Entry::Known(Access::Key(Secret::new(found(&variable).ok_or(MALFORMED_PROVIDERS)?)))
                }
                (None, Some(place)) => Entry::Kept { place },
                (None, None) if further.endpoint.wire == Wire::Converse => Entry::Role,
                (None, None) => Entry::Known(Access::Open),
            };
            providers.add_entry(&name, further.endpoint, entry);
            if further.background {
                providers.run_in_background(&name);
            }
        }
        let policy = policy(found("LONGHAUL_TOOL_HOSTS").as_deref())?;
        Ok(Self {
            model_url,
            model,
            model_key: model_key.unwrap_or_else(|| Secret::new("")),
            model_key_place,
            keys: KeySource::default(),
            model_time_limit: Duration::from_secs(seconds.unwrap_or(MODEL_TIME_LIMIT_DEFAULT_SECONDS)),
            paths: Paths {
                corpus: found("LONGHAUL_CORPUS").map(PathBuf::from),
                within: folders.map(|folders| std::env::split_paths(&folders).collect()),
            },
            retry: RetryPolicy { wait_first_ms: wait_first_ms.unwrap_or(defaults.wait_first_ms), ..defaults },
            providers,
            policy,
            prices: prices(found("LONGHAUL_PRICES").as_deref())?,
        })
    }
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::read(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    const MODEL: [(&str, &str); 2] = [("LONGHAUL_MODEL_URL", "http://127.0.0.1:1/v1"), ("LONGHAUL_MODEL", "m")];

    #[test]
    fn what_is_not_said_has_defaults() {
        let settings = read(&MODEL).expect("settings");
        assert_eq!(settings.retry, RetryPolicy::default());
        assert_eq!(settings.model_time_limit, Duration::from_secs(120));
        assert_eq!(settings.paths, Paths::default());
    }

    #[test]
    fn variables_are_read_and_refused() {
        let ollama = r#"{"local": {"wire": "chat", "model": "m", "base_url": "http://127.0.0.1:11434/v1"}}"#;
        let keyless = r#"{"other": {"wire": "messages", "model": "m", "key_variable": "NOT_SET"}}"#;
        let keyed = r#"{"other": {"wire": "messages", "model": "m", "key_variable": "LONGHAUL_MODEL"}}"#;
        let priced =
            r#"{"read_on": "2026-11-29", "models": [{"names": ["m"], "rates": {"input": "1", "output": "2"}}]}"#;
        let kept = r#"{"other": {"wire": "messages", "model": "m", "key_secret": "ssm:/k"}}"#;
        let twice =
            r#"{"other": {"wire": "messages", "model": "m", "key_secret": "s", "key_variable": "LONGHAUL_MODEL"}}"#;
        let bedrock = r#"{"bedrock": {"wire": "converse", "model": "m", "region": "eu-west-1"}}"#;
        let away = r#"{"long": {"wire": "responses", "model": "m", "background": true}}"#;
        let no_background = r#"{"long": {"wire": "chat", "model": "m", "background": true}}"#;
        let cases: [(&str, &str, bool); 28] = [
            ("LONGHAUL_PRICES", priced, true),
            ("LONGHAUL_PRICES", r#"{"m": 1}"#, false),
            ("LONGHAUL_PROVIDERS", kept, true),
            ("LONGHAUL_PROVIDERS", twice, false),
            ("LONGHAUL_PROVIDERS", bedrock, true),
            ("LONGHAUL_PROVIDERS", away, true),
            ("LONGHAUL_PROVIDERS", no_background, false),
            ("LONGHAUL_TOOL_HOSTS", "tickets.internal:8080", false),
            ("LONGHAUL_TOOL_HOSTS", "http://tickets.internal", false),
            ("LONGHAUL_TOOL_HOSTS", "tickets.internal/x", false),
            ("LONGHAUL_TOOL_HOSTS", "[::1]:80", false),
            ("LONGHAUL_TOOL_HOSTS", "::1, [fd00::1], 10.0.0.1", true),
            ("LONGHAUL_MODEL_KEY_SECRET", "secretsmanager:longhaul/model", true),
            ("LONGHAUL_PROVIDERS", ollama, true),
            ("LONGHAUL_PROVIDERS", keyed, true),
            ("LONGHAUL_PROVIDERS", keyless, false),
            ("LONGHAUL_PROVIDERS", r#"{"other": {"wire": "fax", "model": "m"}}"#, false),
            ("LONGHAUL_PROVIDERS", "[]", false),
            ("LONGHAUL_TOOL_HOSTS", "127.0.0.1, *.corp.example", true),
            ("LONGHAUL_RETRY_WAIT_FIRST_MS", "50", true),
            ("LONGHAUL_RETRY_WAIT_FIRST_MS", " ", true),
            ("LONGHAUL_RETRY_WAIT_FIRST_MS", "0", false),
            ("LONGHAUL_RETRY_WAIT_FIRST_MS", "fast", false),
            ("LONGHAUL_MODEL_TIME_LIMIT_SECONDS", "601", false),
            ("LONGHAUL_MODEL_TIME_LIMIT_SECONDS", "600", true),
            ("LONGHAUL_MODEL", "", false),
            ("LONGHAUL_MODEL_URL", "", false),
            ("LONGHAUL_DOCUMENTS", "/a:/b", true),
        ];
        for (name, value, good) in cases {
            let variables: Vec<_> = std::iter::once((name, value)).chain(MODEL).collect();
            match read(&variables) {
                Ok(_) => assert!(good, "{name}={value}"),
                Err(error) => assert!(!good && error.to_string().starts_with(name), "{name}={value}: {error}"),
            }
        }
    }

    #[test]
    fn a_key_is_never_shown() {
        let variables: Vec<_> = MODEL.into_iter().chain([("LONGHAUL_MODEL_KEY", "sk-12345678")]).collect();
        let shown = format!("{:?}", read(&variables).expect("settings"));
        assert!(!shown.contains("12345678"), "{shown}");
    }
}
