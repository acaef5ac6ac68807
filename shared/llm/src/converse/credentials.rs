//! Who signs: credentials that the caller supplies, asked for before every call since a role's are good for an hour.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::http::Secret;

/// AWS credentials of the moment.
#[derive(Debug, Clone)]
pub struct AwsCredentials {
    /// The access key's id.
    pub access_key_id: String,
    /// The access key itself.
    pub secret_access_key: Secret,
    /// What goes along with the key of a role.
    pub session_token: Option<Secret>,
}

/// Credentials on their way.
pub type Credentials<'a> =
    Pin<Box<dyn Future<Output = Result<AwsCredentials, Box<dyn std::error::Error + Send + Sync>>> + Send + 'a>>;

/// Where credentials come from. Implementations keep what they have until it expires.
pub trait AwsCredentialSource: fmt::Debug + Send + Sync {
    /// Credentials that are good for a while.
    ///
    /// # Errors
    /// Whatever kept them from being had; the call then fails as [`crate::ModelErrorKind::Transient`].
    fn credentials(&self) -> Credentials<'_>;
}

/// Credentials that never change are their own source.
impl AwsCredentialSource for AwsCredentials {
    fn credentials(&self) -> Credentials<'_> {
        Box::pin(async { Ok(self.clone()) })
    }
}
