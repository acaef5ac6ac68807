//! References to secrets: where a key lies, never the key.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where secrets lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretStore {
    /// AWS Secrets Manager.
    SecretsManager,
    /// AWS Systems Manager Parameter Store.
    Ssm,
}

/// The name of a secret, such as `secretsmanager:tickets/key` or `ssm:/agents/tickets-key`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String", extend("pattern" = "^(secretsmanager|ssm):[A-Za-z0-9/_+=.@-]{1,512}$"))]
pub struct SecretRef {
    store: SecretStore,
    name: String,
}

/// A text that names no secret. The text is not repeated: it may be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "names no secret; write `secretsmanager:NAME` or `ssm:NAME` (letters, digits and / _ + = . @ -), never the key itself"
)]
pub struct SecretError;

impl SecretRef {
    /// Where it lies.
    #[must_use]
    pub const fn store(&self) -> SecretStore {
        self.store
    }

    /// Its name there.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl FromStr for SecretRef {
    type Err = SecretError;
    fn from_str(text: &str) -> Result<Self, SecretError> {
        let (store, name) = match text.split_once(':') {
            Some(("secretsmanager", name)) => (SecretStore::SecretsManager, name),
            Some(("ssm", name)) => (SecretStore::Ssm, name),
            Some(_) | None => return Err(SecretError),
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "/_+=.@-".contains(c);
        if name.is_empty() || name.len() > 512 || !name.chars().all(allowed) {
            return Err(SecretError);
        }
        Ok(Self { store, name: name.to_owned() })
    }
}

impl TryFrom<String> for SecretRef {
    type Error = SecretError;
    fn try_from(text: String) -> Result<Self, SecretError> {
        text.parse()
    }
}

impl From<SecretRef> for String {
    fn from(reference: SecretRef) -> Self {
        reference.to_string()
    }
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let store = match self.store {
            SecretStore::SecretsManager => "secretsmanager",
            SecretStore::Ssm => "ssm",
        };
        write!(f, "{store}:{}", self.name)
    }
}
