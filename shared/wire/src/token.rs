//! Who calls: the check of the JSON Web Token that every request carries. There is no mode without it.
//!
//! The algorithm comes from the issuer's key and never from the token (RFC 8725): a token that names `none`, an HMAC or
//! another key's algorithm is refused, and so are keys that the token brings along (`jwk`, `jku`, `x5u`), which are not
//! looked at. Whatever is wrong, the caller gets the same answer; the reason goes to the log.
//!
//! Scopes: `jobs:read` (look at jobs, events, agents, dead letters), `jobs:write` (submit, signal, cancel) and
//! `jobs:operate` (replay), `agents:write` (define agents),
//! `tenant:admin` (settle what holds for all jobs of the tenant) and `tenant:erase` (erase all data of the tenant). A token without scopes proves who somebody is and allows nothing.

mod expiry;
mod keys;

use jsonwebtoken::{Validation, decode, decode_header};
use longhaul_engine::TenantId;
use serde_json::{Map, Value};

use crate::limits;
use crate::problem::Problem;
use keys::KeyRing;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Look at jobs.
    Read,
    /// Submit, signal and cancel jobs.
    Write,
    /// Replay jobs.
    Operate,
    /// Define agents: what a tenant's jobs may be told to do.
    Define,
    /// Settle what holds for all jobs of a tenant.
    Administer,
    /// Erase everything that a tenant has.
    Erase,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Read, Self::Write, Self::Operate, Self::Define, Self::Administer, Self::Erase];

    /// The scope as it stands in tokens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "jobs:read",
            Self::Write => "jobs:write",
            Self::Operate => "jobs:operate",
            Self::Define => "agents:write",
            Self::Administer => "tenant:admin",
            Self::Erase => "tenant:erase",
        }
    }
}

/// Whose tokens are taken, and where they say what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenSettings {
    /// Where the issuer publishes its keys (`LONGHAUL_JWKS_URL`).
    pub jwks_url: String,
    /// The claim `iss` (`LONGHAUL_JWT_ISSUER`).
    pub issuer: String,
    /// The claim `aud`, or one of it (`LONGHAUL_JWT_AUDIENCE`).
    pub audience: String,
    /// The claim that names the tenant (`LONGHAUL_JWT_TENANT_CLAIM`, by default `tenant`).
    pub tenant_claim: String,
    /// The claim that lists the scopes, as a list or as words (`LONGHAUL_JWT_SCOPE_CLAIM`, by default `scope`).
    pub scope_claim: String,
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// On whose behalf: the owner of everything that the caller can see.
    pub tenant: TenantId,
    /// Who, as the issuer names them.
    pub subject: String,
    /// What they may do.
    pub scopes: Vec<Scope>,
}

impl Caller {
    /// Refuses a caller that does not have a scope.
    ///
    /// # Errors
    /// [`Problem::NotAllowed`].
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) { Ok(()) } else { Err(Problem::NotAllowed { scope }) }
    }
}

/// Why a token was not taken: for the log, never for the caller.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// There is none.
    #[error("the request has no bearer token")]
    Missing,
    /// It is no token of the agreed form.
    #[error("the token is malformed: {0}")]
    Malformed(&'static str),
    /// Its signature, time, issuer or audience is wrong.
    #[error("the token is not valid")]
    Invalid(#[source] jsonwebtoken::errors::Error),
    /// The issuer has no such key.
    #[error("the issuer has no key of this id and algorithm")]
    UnknownKey,
    /// A claim that we need is missing or has another form.
    #[error("the claim `{claim}` is missing or has the wrong form")]
    Claim {
        /// The claim.
        claim: String,
    },
    /// No keys are known and the issuer does not answer: nobody can be told apart.
    #[error("the keys of the issuer cannot be read")]
    KeysUnavailable(#[source] Option<KeysError>),
}

pub use expiry::expires_at;
pub use keys::KeysError;

impl TokenError {
    /// What the caller is told.
    #[must_use]
    pub const fn problem(&self) -> Problem {
        match self {
            Self::Missing | Self::Malformed(_) | Self::Invalid(_) | Self::UnknownKey | Self::Claim { .. } => {
                Problem::NotAuthenticated
            }
            Self::KeysUnavailable(_) => Problem::Unavailable {
                retry_after: std::time::Duration::from_secs(limits::KEYS_FIRST_INTERVAL_SECONDS),
            },
        }
    }
}

/// Checks tokens against one issuer.
#[derive(Debug)]
pub struct TokenCheck {
    settings: TokenSettings,
    keys: KeyRing,
}

impl TokenCheck {
    /// A check with these settings. The issuer's keys are read when the first token comes.
    #[must_use]
    pub fn new(settings: TokenSettings) -> Self {
        let keys = KeyRing::new(settings.jwks_url.clone());
        Self { settings, keys }
    }

    /// What is checked.
    #[must_use]
    pub const fn settings(&self) -> &TokenSettings {
        &self.settings
    }

    /// Checks the value of an `Authorization` header.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn check_header(&self, header: Option<&str>) -> Result<Caller, TokenError> {
        let (scheme, token) = header.and_then(|value| value.split_once(' ')).ok_or(TokenError::Missing)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(TokenError::Missing);
        }
        self.check(token.trim_start()).await
    }

    /// Checks a token.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub async fn check(&self, token: &str) -> Result<Caller, TokenError> {
        if token.is_empty() {
            return Err(TokenError::Missing);
        }
        if token.len() > limits::TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed("it is longer than any token that we take"));
        }
        let header = decode_header(token).map_err(TokenError::Invalid)?;
        check_type(header.typ.as_deref())?;
        if header.crit.is_some() {
            return Err(TokenError::Malformed("it names extensions that must be understood"));
        }
        let key = self.keys.find(header.kid.as_deref(), header.alg).await?;
        let mut validation = Validation::new(key.algorithm);
        validation.leeway = limits::TOKEN_LEEWAY_SECONDS;
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.set_issuer(&[&self.settings.issuer]);
        validation.set_audience(&[&self.settings.audience]);
        let claims = decode::<Map<String, Value>>(token, &key.decoding, &validation).map_err(TokenError::Invalid)?;
        self.caller(&claims.claims)
    }

    fn caller(&self, claims: &Map<String, Value>) -> Result<Caller, TokenError> {
        let wrong = |claim: &str| TokenError::Claim { claim: claim.to_owned() };
        let tenant = claims
            .get(&self.settings.tenant_claim)
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| wrong(&self.settings.tenant_claim))?;
        let subject = claims
            .get("sub")
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty() && text.chars().count() <= limits::SUBJECT_LENGTH_MAX)
            .ok_or_else(|| wrong("sub"))?;
        let named: Vec<&str> = match claims.get(&self.settings.scope_claim) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(words)) => words.split(' ').collect(),
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            Some(Value::Bool(_) | Value::Number(_) | Value::Object(_)) => {
                return Err(wrong(&self.settings.scope_claim));
            }
        };
        // Scopes of other services are none of ours.
        let scopes = Scope::ALL.into_iter().filter(|scope| named.contains(&scope.as_str())).collect();
        Ok(Caller { tenant, subject: subject.to_owned(), scopes })
    }
}

/// Only access tokens are taken: an id token tells a client who its user is and was never meant for a service.
fn check_type(kind: Option<&str>) -> Result<(), TokenError> {
    let taken = ["jwt", "at+jwt", "application/at+jwt"];
    match kind {
        Some(kind) if !taken.iter().any(|taken| kind.eq_ignore_ascii_case(taken)) => {
            Err(TokenError::Malformed("it is not an access token"))
        }
        Some(_) | None => Ok(()),
    }
}
