//! Development tokens: the embedded stack is its own issuer, with a key of its own that never leaves the data folder.
//!
//! There is no mode without authentication. What a deployment gets from an identity provider, the stack mints here, in
//! the same form and checked by the same code.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use axum::routing::get;
use axum::{Json, Router};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;

/// Who is named as issuer in development tokens.
pub const ISSUER: &str = "https://longhaul.localhost/dev";
/// For whom development tokens are.
pub const AUDIENCE: &str = "longhaul";
/// The tenant of a token that names none.
pub const TENANT_DEFAULT: &str = "local";
/// All rights: the person at this machine may do everything.
const SCOPES: &str = "jobs:read jobs:write jobs:operate agents:write tenant:admin tenant:erase";
/// The key's file in the data folder.
const KEY_FILE: &str = "signing-key.p8";
/// The file of the webhook secret in the data folder.
const WEBHOOK_SECRET_FILE: &str = "webhook-secret";
/// Bytes of that secret: as long as what HMAC-SHA256 makes of it.
const WEBHOOK_SECRET_BYTES: usize = 32;
/// The key's name in tokens; there is one.
const KEY_ID: &str = "dev-1";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum IssuerError {
    /// The file cannot be read or written.
    #[error("the signing key {path} cannot be read or written")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No key can be made.
    #[error("no signing key can be made")]
    Make,
    /// What the file holds is no key, or the token cannot be made with it.
    #[error("the signing key cannot be used; remove {KEY_FILE} from the data folder to have a new one made")]
    Use(#[from] jsonwebtoken::errors::Error),
}

/// The claims of a development token.
#[derive(Serialize)]
struct Claims<'a> {
    iss: &'static str,
    aud: &'static str,
    sub: &'a str,
    tenant: &'a str,
    scope: &'static str,
    iat: u64,
    exp: u64,
}

/// The issuer of development tokens.
pub struct Issuer {
    key: EncodingKey,
}

impl Issuer {
    /// Opens the issuer of a data folder, making its key at the first time.
    ///
    /// # Errors
    /// See [`IssuerError`].
    pub fn open(data: &Path) -> Result<Self, IssuerError> {
        let path = data.join(KEY_FILE);
        let document = match std::fs::read(&path) {
            Ok(document) => document,
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(&path)?,
            Err(source) => return Err(IssuerError::File { path, source }),
        };
        Ok(Self { key: EncodingKey::from_ec_der(&document) })
    }

    /// A token for `subject` of `tenant`, good for `lifetime`.
    ///
    /// # Errors
    /// [`IssuerError::Use`] when the key is none.
    pub fn mint(&self, tenant: &str, subject: &str, lifetime: Duration) -> Result<String, IssuerError> {
        let iat = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims = Claims {
            iss: ISSUER,
            aud: AUDIENCE,
            sub: subject,
            tenant,
            scope: SCOPES,
            iat,
            exp: iat.saturating_add(lifetime.as_secs()),
        };
        let header = Header { kid: Some(KEY_ID.to_owned()), ..Header::new(Algorithm::ES256) };
        Ok(jsonwebtoken::encode(&header, &claims, &self.key)?)
    }

    /// The route on which the public key is published.
    ///
    /// # Errors
    /// [`IssuerError::Use`] when the key is none.
    pub fn routes(&self) -> Result<Router, IssuerError> {
        let mut key = Jwk::from_encoding_key(&self.key, Algorithm::ES256)?;
        key.common.key_id = Some(KEY_ID.to_owned());
        let keys = JwkSet { keys: vec![key] };
        Ok(Router::new().route("/.well-known/jwks.json", get(async move || Json(keys))))
    }
}

/// What webhooks of the embedded stack's own tenant are signed with: a secret that is made at the first time and kept in
/// the data folder, in the file `webhook-secret`.
///
/// # Errors
/// See [`IssuerError`].
pub(super) fn webhook_secret(data: &Path) -> Result<String, IssuerError> {
    use base64::Engine as _;
    let path = data.join(WEBHOOK_SECRET_FILE);
    match std::fs::read_to_string(&path) {
        Ok(secret) => return Ok(secret.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(IssuerError::File { path, source }),
    }
    let mut bytes = [0; WEBHOOK_SECRET_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| IssuerError::Make)?;
    let secret = format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(bytes));
    write(&path, format!("{secret}\n").as_bytes())?;
    Ok(secret)
}

/// Makes a key.
fn make(path: &Path) -> Result<Vec<u8>, IssuerError> {
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map_err(|_| IssuerError::Make)?;
    write(path, document.as_ref())?;
    Ok(document.as_ref().to_vec())
}

/// Writes a file that only its owner may read. Written beside and renamed, so that a crash leaves no half of one.
fn write(path: &Path, content: &[u8]) -> Result<(), IssuerError> {
    let failed = |source| IssuerError::File { path: path.to_owned(), source };
    let beside = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&beside).map_err(failed)?;
    io::Write::write_all(&mut file, content).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    std::fs::rename(&beside, path).map_err(failed)
}
