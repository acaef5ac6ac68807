//! What webhooks are signed with: a tenant's own secrets, so that no tenant can sign for another.

use std::collections::BTreeMap;

use longhaul::engine::TenantId;
use longhaul_aws::config::{Secret, signing_secrets};
use longhaul_aws::secrets::{AwsSecrets, SecretPlace};

/// Secrets of one tenant, the one in use first. While it is rotated the one before stands behind it, and both sign.
pub(crate) type TenantSecrets = Vec<Secret>;

/// Why there is nothing to sign with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretsError {
    /// The tenant has none.
    #[error("the tenant has no webhook secret; a delivery is never sent unsigned")]
    None,
    /// They cannot be looked up now.
    #[error("the tenant's webhook secrets could not be read: {0}")]
    Unavailable(String),
}

/// Where the secrets come from.
#[derive(Debug)]
pub(crate) enum SigningSecrets {
    /// The function's own settings (`LONGHAUL_WEBHOOK_SECRETS`).
    OfSettings(BTreeMap<TenantId, TenantSecrets>),
    /// One secret of the deployment with those of all tenants (`LONGHAUL_WEBHOOK_SECRETS_ARN`), read when they are needed
    /// and kept for minutes, so that one that is rotated is taken up without a deployment.
    OfPlace(AwsSecrets, SecretPlace),
}

impl SigningSecrets {
    /// The secrets of a tenant; never an empty list.
    ///
    /// # Errors
    /// [`SecretsError`].
    pub(crate) async fn of(&self, tenant: &TenantId) -> Result<TenantSecrets, SecretsError> {
        let found = match self {
            Self::OfSettings(secrets) => secrets.get(tenant).cloned(),
            Self::OfPlace(secrets, place) => {
                let read = secrets.read(place).await;
                let text = read.map_err(|error| SecretsError::Unavailable(error.to_string()))?;
                // What is wrong with it is not said by showing it.
                let unfit = || SecretsError::Unavailable(format!("{place} is no JSON object of tenants"));
                signing_secrets(text.reveal()).ok_or_else(unfit)?.remove(tenant)
            }
        };
        found.filter(|secrets| !secrets.is_empty()).ok_or(SecretsError::None)
    }
}
