//! The credentials of the function's role, kept until shortly before they expire.
//!
//! They are found as every AWS SDK finds them: in the environment, where Lambda puts them, or by the chain of profiles,
//! web identities and container and instance roles.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use tokio::sync::Mutex;

/// How long before their end credentials are renewed: longer than any call that they sign may take.
const RENEWED_BEFORE: Duration = Duration::from_secs(15 * 60);

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// Nothing in the environment says where they could come from.
    #[error("this process has no AWS credentials: neither a role nor a profile nor keys in the environment")]
    None,
    /// They could not be had.
    #[error("the AWS credentials of this process cannot be had")]
    Unavailable(#[source] aws_credential_types::provider::error::CredentialsError),
}

/// The credentials of the process's role.
#[derive(Debug)]
pub struct RoleCredentials {
    provider: Option<SharedCredentialsProvider>,
    kept: Mutex<Option<Credentials>>,
}

impl RoleCredentials {
    pub(crate) fn new(provider: Option<SharedCredentialsProvider>) -> Self {
        Self { provider, kept: Mutex::new(None) }
    }

    /// Credentials that are good for a while. Those who ask while they are being renewed wait for the same renewal.
    ///
    /// # Errors
    /// [`CredentialsError`]; while the old ones are still good, a failed renewal is none.
    pub async fn get(&self) -> Result<Credentials, CredentialsError> {
        let provider = self.provider.as_ref().ok_or(CredentialsError::None)?;
        let mut kept = self.kept.lock().await;
        let now = SystemTime::now();
        if let Some(known) = kept.as_ref().filter(|known| is_good(known, now + RENEWED_BEFORE)) {
            return Ok(known.clone());
        }
        match provider.provide_credentials().await {
            Ok(fresh) => {
                *kept = Some(fresh.clone());
                Ok(fresh)
            }
            Err(error) => match kept.as_ref().filter(|known| is_good(known, now)) {
                Some(known) => {
                    tracing::warn!(%error, "the role's credentials were not renewed; the old ones are still good");
                    Ok(known.clone())
                }
                None => Err(CredentialsError::Unavailable(error)),
            },
        }
    }
}

/// Whether credentials are good at a time. Those without an end are as good as the process.
fn is_good(credentials: &Credentials, at: SystemTime) -> bool {
    credentials.expiry().is_none_or(|end| at < end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use aws_credential_types::provider::{self, future};

    use super::*;

    /// Gives credentials that end after the given times, one after the other, then none.
    #[derive(Debug)]
    struct Ending(Arc<AtomicU32>, Vec<u64>);

    impl ProvideCredentials for Ending {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            let number = self.0.fetch_add(1, Ordering::SeqCst);
            future::ProvideCredentials::ready(match self.1.get(number as usize) {
                Some(seconds) => {
                    let end = SystemTime::now() + Duration::from_secs(*seconds);
                    Ok(Credentials::new(format!("id-{number}"), "s", None, Some(end), "test"))
                }
                None => Err(provider::error::CredentialsError::provider_error("away")),
            })
        }
    }

    #[tokio::test]
    async fn they_are_renewed_before_their_end() {
        let asked = Arc::new(AtomicU32::new(0));
        let provider = Ending(Arc::clone(&asked), vec![600, 3_600]);
        let role = RoleCredentials::new(Some(SharedCredentialsProvider::new(provider)));
        assert_eq!(role.get().await.unwrap().access_key_id(), "id-0");
        // Ten minutes are too little for what they may sign.
        assert_eq!(role.get().await.unwrap().access_key_id(), "id-1");
        let (a, b) = tokio::join!(role.get(), role.get());
        assert_eq!((a.unwrap().access_key_id(), b.unwrap().access_key_id()), ("id-1", "id-1"));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn old_ones_serve_to_their_end() {
        let asked = Arc::new(AtomicU32::new(0));
        let role = RoleCredentials::new(Some(SharedCredentialsProvider::new(Ending(Arc::clone(&asked), vec![600]))));
        for _ in 0..3 {
            assert_eq!(role.get().await.unwrap().access_key_id(), "id-0");
        }
        assert_eq!(asked.load(Ordering::SeqCst), 3, "each call tries to renew them");
        let over = RoleCredentials::new(Some(SharedCredentialsProvider::new(Ending(Arc::default(), vec![0]))));
        over.get().await.unwrap();
        assert!(matches!(over.get().await, Err(CredentialsError::Unavailable(_))));
        assert!(matches!(RoleCredentials::new(None).get().await, Err(CredentialsError::None)));
    }
}
