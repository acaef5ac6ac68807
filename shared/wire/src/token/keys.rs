//! The issuer's keys, read when needed and kept.
//!
//! Two things must not happen: a withdrawn or new key that is noticed late, and an issuer that is asked again for each
//! odd token. So keys are read again when they are old or a key id is unknown, but never more often than
//! [`limits::KEYS_INTERVAL_SECONDS`], whatever comes in; and while the issuer does not answer, those that are known go
//! on being used for a while.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::TokenError;
use crate::limits;

/// Why the issuer's keys could not be read.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// No usable answer.
    #[error("GET of the key set failed")]
    Request(#[source] reqwest::Error),
    /// The answer is too large to be a key set.
    #[error("the key set has more than {bytes_max} bytes")]
    TooLarge {
        /// What is allowed.
        bytes_max: usize,
    },
    /// The answer is no key set.
    #[error("the answer is no key set")]
    NotKeys(#[source] serde_json::Error),
    /// There is no key in it that we can use.
    #[error("the key set has no key for RS256, ES256 or EdDSA")]
    NoKeys,
}

/// A key that tokens are checked with, and the one algorithm that it is for.
#[derive(Debug)]
pub(super) struct Key {
    id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) decoding: DecodingKey,
}

/// Keys as read at one time.
#[derive(Debug)]
struct Keys {
    keys: Vec<Arc<Key>>,
    read_at: Instant,
}

impl Keys {
    /// The key of this id. Without an id only an issuer's single key can be meant.
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Arc<Key>> {
        let key = match (id, self.keys.as_slice()) {
            (Some(id), keys) => keys.iter().find(|key| key.id.as_deref() == Some(id) && key.algorithm == algorithm),
            (None, [only]) => Some(only).filter(|key| key.algorithm == algorithm),
            (None, _) => None,
        };
        key.cloned()
    }

    fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.read_at)
    }
}

/// The keys of one issuer.
#[derive(Debug)]
pub(super) struct KeyRing {
    url: String,
    client: OnceLock<reqwest::Client>,
    known: RwLock<Option<Arc<Keys>>>,
    /// When the issuer was last asked. Whoever asks holds it, so that one request goes out for all who wait.
    asked_at: Mutex<Option<Instant>>,
}

impl KeyRing {
    pub(super) const fn new(url: String) -> Self {
        Self { url, client: OnceLock::new(), known: RwLock::new(None), asked_at: Mutex::const_new(None) }
    }

    /// The key for a token's key id and algorithm.
    pub(super) async fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Result<Arc<Key>, TokenError> {
        self.find_at(id, algorithm, Instant::now()).await
    }

    async fn find_at(&self, id: Option<&str>, algorithm: Algorithm, now: Instant) -> Result<Arc<Key>, TokenError> {
        // A token that names another algorithm cannot have a key of ours, whatever its id: nobody is asked for it.
        if !matches!(algorithm, Algorithm::RS256 | Algorithm::ES256 | Algorithm::EdDSA) {
            return Err(TokenError::UnknownKey);
        }
        if let Some(keys) = self.known()
            && keys.age(now) < Duration::from_secs(limits::KEYS_FRESH_SECONDS)
            && let Some(key) = keys.find(id, algorithm)
        {
            return Ok(key);
        }
        let failure = self.read_again(now).await.err();
        let Some(keys) = self.known() else { return Err(TokenError::KeysUnavailable(failure)) };
        if let Some(error) = failure {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the issuer's keys cannot be read; known ones are used"
            );
        }
        if keys.age(now) > Duration::from_secs(limits::KEYS_KEPT_SECONDS) {
            return Err(TokenError::KeysUnavailable(None));
        }
        keys.find(id, algorithm).ok_or(TokenError::UnknownKey)
    }

    fn known(&self) -> Option<Arc<Keys>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the issuer, unless that was done a moment ago.
    async fn read_again(&self, now: Instant) -> Result<(), KeysError> {
        let mut asked_at = self.asked_at.lock().await;
        let interval = match self.known() {
            Some(_) => limits::KEYS_INTERVAL_SECONDS,
            None => limits::KEYS_FIRST_INTERVAL_SECONDS,
        };
        let lately = asked_at.is_some_and(|at| now.saturating_duration_since(at) < Duration::from_secs(interval));
        if lately {
            return Ok(());
        }
        *asked_at = Some(now);
        let keys = self.read(now).await?;
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
        Ok(())
    }

    async fn read(&self, now: Instant) -> Result<Keys, KeysError> {
        let client = match self.client.get() {
            Some(client) => client,
            None => {
                // A redirect would let whoever can bend one address choose our keys.
                let client = reqwest::Client::builder()
                    .timeout(Duration::from_secs(limits::KEYS_TIMEOUT_SECONDS))
                    .redirect(reqwest::redirect::Policy::none())
                    .build()
                    .map_err(KeysError::Request)?;
                self.client.get_or_init(|| client)
            }
        };
        let mut answer = client
            .get(&self.url)
            .send()
            .await
            .and_then(reqwest::Response::error_for_status)
            .map_err(KeysError::Request)?;
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(KeysError::Request)? {
            body.extend_from_slice(&chunk);
            if body.len() > limits::KEYS_BYTES_MAX {
                return Err(KeysError::TooLarge { bytes_max: limits::KEYS_BYTES_MAX });
            }
        }
        let keys = usable(&body)?;
        if keys.is_empty() { Err(KeysError::NoKeys) } else { Ok(Keys { keys, read_at: now }) }
    }
}

/// A key set whose keys are read one by one, so that an odd one does not spoil the others.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<serde_json::Value>,
}

fn usable(body: &[u8]) -> Result<Vec<Arc<Key>>, KeysError> {
    let set: KeySet = serde_json::from_slice(body).map_err(KeysError::NotKeys)?;
    let read = set.keys.into_iter().take(limits::KEYS_MAX);
    Ok(read.filter_map(|value| serde_json::from_value(value).ok()).filter_map(|jwk| key(&jwk)).map(Arc::new).collect())
}

/// A key of the set, if it is for signatures by an algorithm that we take.
fn key(jwk: &Jwk) -> Option<Key> {
    let (algorithm, named) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(parameters) if parameters.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::OctetKeyPair(parameters) if parameters.curve == EllipticCurve::Ed25519 => {
            (Algorithm::EdDSA, KeyAlgorithm::EdDSA)
        }
        _ => return None,
    };
    let for_signatures = matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature));
    let for_algorithm = jwk.common.key_algorithm.is_none_or(|algorithm| algorithm == named);
    if !for_signatures || !for_algorithm {
        return None;
    }
    let decoding = DecodingKey::from_jwk(jwk).ok()?;
    Some(Key { id: jwk.common.key_id.clone(), algorithm, decoding })
}

#[cfg(test)]
#[path = "../../tests/issuer/mod.rs"]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code,
    reason = "test code, shared with the tests of the public interface"
)]
mod issuer;

#[cfg(test)]
mod tests {
    #![allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        reason = "a test fails by panicking"
    )]

    use super::issuer::{Issuer, SigningKey, key_set};
    use super::*;
    use serde_json::json;

    const ALGORITHM: Algorithm = Algorithm::EdDSA;

    /// The rest of E04: rotation, and an issuer that is down.
    #[tokio::test]
    async fn e04_keys_over_time() {
        let (old, new) = (SigningKey::new("k1", ALGORITHM), SigningKey::new("k2", ALGORITHM));
        let issuer = Issuer::start(key_set(std::slice::from_ref(&old))).await;
        let ring = KeyRing::new(issuer.url());
        let start = Instant::now();
        let find = async |id: &str, seconds: u64| {
            let found = ring.find_at(Some(id), ALGORITHM, start + Duration::from_secs(seconds)).await;
            match found {
                Ok(_) => "known",
                Err(TokenError::UnknownKey) => "unknown",
                Err(TokenError::KeysUnavailable(_)) => "unavailable",
                Err(error) => panic!("{error:?}"),
            }
        };
        // (seconds, key, what is found, reads of the issuer by then)
        let check = async |table: &[(u64, &str, &str, usize)]| {
            for (seconds, id, wanted, reads) in table {
                assert_eq!(find(id, *seconds).await, *wanted, "{id} at {seconds} s");
                assert_eq!(issuer.reads(), *reads, "reads at {seconds} s");
            }
        };
        check(&[(0, "k1", "known", 1), (1, "k2", "unknown", 1), (29, "k2", "unknown", 1), (30, "k2", "unknown", 2)])
            .await;
        issuer.answer(200, key_set(&[old.clone(), new]));
        check(&[(59, "k2", "unknown", 2), (60, "k2", "known", 3), (61, "k1", "known", 3)]).await;
        issuer.answer(500, json!({}));
        // Fresh keys are used without a question, old ones while the issuer is down, too old ones no more.
        check(&[(600, "k1", "known", 3), (660, "k1", "known", 4), (661, "k2", "known", 4), (662, "k3", "unknown", 4)])
            .await;
        check(&[(3_660, "k1", "known", 5), (3_661, "k1", "unavailable", 5)]).await;
        // A key that the issuer has withdrawn is gone once it answers again.
        issuer.answer(200, key_set(&[old]));
        check(&[(3_700, "k2", "unknown", 6), (3_701, "k1", "known", 6)]).await;
    }

    #[tokio::test]
    async fn without_any_key_the_issuer_is_asked_each_second() {
        let key = SigningKey::new("k1", ALGORITHM);
        let issuer = Issuer::start(json!({})).await;
        let ring = KeyRing::new(issuer.url());
        let start = Instant::now();
        for (ms, reads) in [(0, 1), (500, 1), (1_000, 2)] {
            assert!(ring.find_at(Some("k1"), ALGORITHM, start + Duration::from_millis(ms)).await.is_err());
            assert_eq!(issuer.reads(), reads);
        }
        issuer.answer(200, key_set(&[key]));
        assert!(ring.find_at(Some("k1"), ALGORITHM, start + Duration::from_millis(2_000)).await.is_ok());
    }

    #[tokio::test]
    async fn one_question_goes_out_for_all_who_wait() {
        let key = SigningKey::new("k1", ALGORITHM);
        let issuer = Issuer::start(key_set(&[key])).await;
        let ring = Arc::new(KeyRing::new(issuer.url()));
        let now = Instant::now();
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let ring = Arc::clone(&ring);
                tokio::spawn(async move { ring.find_at(Some("k1"), ALGORITHM, now).await.is_ok() })
            })
            .collect();
        for found in waiting {
            assert!(found.await.unwrap());
        }
        assert_eq!(issuer.reads(), 1);
    }

    #[tokio::test]
    async fn an_algorithm_that_is_not_ours_asks_nobody() {
        let issuer = Issuer::start(json!({})).await;
        let ring = KeyRing::new(issuer.url());
        for algorithm in [Algorithm::HS256, Algorithm::HS512, Algorithm::PS256, Algorithm::RS512, Algorithm::ES384] {
            let found = ring.find(Some("k1"), algorithm).await;
            assert!(matches!(found, Err(TokenError::UnknownKey)), "{algorithm:?}");
        }
        assert_eq!(issuer.reads(), 0);
    }
}
