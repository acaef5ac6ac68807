//! What the agents need to know of the place they run in, read once from the environment.

use std::path::PathBuf;
use std::time::Duration;

use longhaul::RetryPolicy;
use longhaul_llm::Secret;

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
/// | `LONGHAUL_MODEL_TIME_LIMIT_SECONDS` | how long a call may take, up to 600; 120 by default |
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
    /// How long a model call may take.
    pub model_time_limit: Duration,
    /// Where documents may be read.
    pub paths: Paths,
    /// How the agents' steps are tried again.
    pub retry: RetryPolicy,
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
        Ok(Self {
            model_url: required("LONGHAUL_MODEL_URL", "the base address of a Chat Completions server")?,
            model: required("LONGHAUL_MODEL", "the name of a model on that server")?,
            model_key: Secret::new(found("LONGHAUL_MODEL_KEY").unwrap_or_default()),
            model_time_limit: Duration::from_secs(seconds.unwrap_or(MODEL_TIME_LIMIT_DEFAULT_SECONDS)),
            paths: Paths {
                corpus: found("LONGHAUL_CORPUS").map(PathBuf::from),
                within: folders.map(|folders| std::env::split_paths(&folders).collect()),
            },
            retry: RetryPolicy { wait_first_ms: wait_first_ms.unwrap_or(defaults.wait_first_ms), ..defaults },
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
        let cases: [(&str, &str, bool); 9] = [
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
