//! Keys of tools, by the names that definitions give.

use std::fmt;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::TenantId;
use longhaul::{ErrorClass, StepError};
use longhaul_definition::SecretRef;

/// A key. It shows itself to nothing but the request that carries it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(String);

impl SecretText {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretText([key])")
    }
}

/// Where keys come from.
///
/// A definition is a tenant's own text, so whoever looks a name up must see to it that the tenant may use what the name
/// stands for, by a prefix of its own, say.
pub trait Secrets {
    /// The key that this tenant's definition names.
    ///
    /// # Errors
    /// [`ErrorClass::Auth`] when there is none for this tenant; a class that is tried again when it cannot be looked up now.
    fn secret<'a>(
        &'a self,
        tenant: &'a TenantId,
        name: &'a SecretRef,
    ) -> LocalBoxFuture<'a, Result<SecretText, StepError>>;
}

/// No keys at all: for deployments that have no place for them.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSecrets;

impl Secrets for NoSecrets {
    fn secret<'a>(
        &'a self,
        _tenant: &'a TenantId,
        name: &'a SecretRef,
    ) -> LocalBoxFuture<'a, Result<SecretText, StepError>> {
        let message = format!("there is no secret {name}: this deployment keeps none");
        async move { Err(StepError::new(ErrorClass::Auth, message)) }.boxed_local()
    }
}
