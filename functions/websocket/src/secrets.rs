//! What webhooks are signed with: a tenant's own secrets, so that no tenant can sign for another.

use std::collections::BTreeMap;
use std::fmt;

use futures::FutureExt;
use futures::future::BoxFuture;
use longhaul::engine::TenantId;
use longhaul_aws::config::{Secret, signing_secrets};
use longhaul_aws::secrets::{AwsSecrets, SecretPlace};

/// Secrets of one tenant, the one in use first. While it is rotated the one before stands behind it, and both sign.
pub type TenantSecrets = Vec<Secret>;

/// Why there is nothing to sign with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// The tenant has none.
    #[error("the tenant has no webhook secret; a delivery is never sent unsigned")]
    None,
    /// They cannot be looked up now.
    #[error("the tenant's webhook secrets could not be read: {0}")]
    Unavailable(String),
}

/// Where the secrets come from.
///
/// Whoever looks them up must see to it that a tenant gets its own and no other's.
pub trait SigningSecrets: fmt::Debug + Send + Sync {
    /// The secrets of a tenant; never an empty list.
    ///
    /// # Errors
    /// [`SecretsError`].
    fn of<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<TenantSecrets, SecretsError>>;
}

/// The secrets of the function's own settings (`LONGHAUL_WEBHOOK_SECRETS`).
#[derive(Debug, Clone, Default)]
pub struct SecretsOfSettings(BTreeMap<TenantId, TenantSecrets>);

impl SecretsOfSettings {
    /// These secrets.
    #[must_use]
    pub const fn new(secrets: BTreeMap<TenantId, TenantSecrets>) -> Self {
        Self(secrets)
    }
}

/// The secrets of all tenants as one secret of the deployment (`LONGHAUL_WEBHOOK_SECRETS_ARN`), read when they are needed and
/// kept for minutes, so that one that is rotated is taken up without a deployment.
#[derive(Debug)]
pub struct SecretsOfPlace {
    secrets: AwsSecrets,
    place: SecretPlace,
}

impl SecretsOfPlace {
    /// What lies there.
    #[must_use]
    pub const fn new(secrets: AwsSecrets, place: SecretPlace) -> Self {
        Self { secrets, place }
    }
}

impl SigningSecrets for SecretsOfPlace {
    fn of<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<TenantSecrets, SecretsError>> {
        async move {
            let read = self.secrets.read(&self.place).await;
            let text = read.map_err(|error| SecretsError::Unavailable(error.to_string()))?;
            // What is wrong with it is not said by showing it.
            let unfit = || SecretsError::Unavailable(format!("{} is no JSON object of tenants", self.place));
            signing_secrets(text.reveal()).ok_or_else(unfit)?.remove(tenant).ok_or(SecretsError::None)
        }
        .boxed()
    }
}

impl SigningSecrets for SecretsOfSettings {
    fn of<'a>(&'a self, tenant: &'a TenantId) -> BoxFuture<'a, Result<TenantSecrets, SecretsError>> {
        let found = self.0.get(tenant).filter(|secrets| !secrets.is_empty()).cloned();
        async move { found.ok_or(SecretsError::None) }.boxed()
    }
}
