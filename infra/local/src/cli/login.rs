//! `longhaul login`: a token from the deployment's identity provider, by OAuth 2.0.
//!
//! A person confirms a code in a browser (the device grant, RFC 8628); a program shows its client's secret (the client
//! credentials grant). Where tokens are given is found by the provider's own description (RFC 8414, OpenID Connect
//! Discovery). Three requests of one form are all that is needed of OAuth here; a crate for it would change features that
//! every AWS client is built with.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::commands::print_json;
use super::credentials::{Credentials, Grant, Kept, now};
use super::deployment::{Target, address, settings};
use super::output::{plain, print, say};
use super::{CliError, Output};

/// How long one call of an identity provider may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);
/// The variable of the client's secret: it is on no command line, where others could read it.
const SECRET_VARIABLE: &str = "LONGHAUL_CLIENT_SECRET";
/// What a person wants to do with the deployment.
const SCOPES_DEFAULT: &str = "jobs:read jobs:write jobs:operate agents:write";

/// How to log in.
#[derive(Debug, Args)]
pub(super) struct LoginArguments {
    /// The client that the identity provider knows this program as.
    #[arg(long, env = "LONGHAUL_CLIENT_ID", value_name = "ID")]
    client_id: String,
    /// The identity provider, where the deployment does not name it itself.
    #[arg(long, env = "LONGHAUL_ISSUER", value_name = "URL")]
    issuer: Option<String>,
    /// The rights to ask for, with spaces between.
    #[arg(long, default_value = SCOPES_DEFAULT, value_name = "SCOPES")]
    scope: String,
    #[command(flatten)]
    output: Output,
}

/// The grants by their names on the wire.
const GRANT_DEVICE: &str = "urn:ietf:params:oauth:grant-type:device_code";
const GRANT_SECRET: &str = "client_credentials";
const GRANT_REFRESH: &str = "refresh_token";
/// Seconds between two questions whether the person has confirmed, where the provider names none (RFC 8628, 3.2), and by
/// which they grow when it asks for less haste (3.5).
const INTERVAL_SECONDS: u64 = 5;
/// Bytes of an answer: tokens have some thousand, a wrong address does not fill the memory.
const ANSWER_BYTES_MAX: usize = 256 * 1024;

/// A token that was given (RFC 6749, 5.1).
#[derive(Deserialize)]
struct Given {
    access_token: String,
    #[serde(default)]
    refresh_token: Option<String>,
    #[serde(default)]
    expires_in: Option<u64>,
}

/// A code for a person (RFC 8628, 3.2).
#[derive(Deserialize)]
struct Code {
    device_code: String,
    user_code: String,
    verification_uri: String,
    #[serde(default)]
    verification_uri_complete: Option<String>,
    expires_in: u64,
    #[serde(default)]
    interval: Option<u64>,
}

/// A refusal (RFC 6749, 5.2).
#[derive(Debug, Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

/// Why a call of the provider came to nothing.
enum Failed {
    /// The provider refuses.
    Refused(Refusal),
    /// It does not answer, or not as it should.
    Error(CliError),
}

/// What an identity provider says of itself, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Provider {
    issuer: String,
    token_endpoint: String,
    #[serde(default)]
    device_authorization_endpoint: Option<String>,
}

/// Logs in at the deployment that was named.
pub(super) async fn login(target: &Target, arguments: LoginArguments) -> Result<ExitCode, CliError> {
    let url = target.named()?.ok_or_else(|| CliError::Argument {
        argument: "--url",
        what: "name the deployment to log in at; the stack on this machine needs no login".to_owned(),
    })?;
    // Before anybody confirms anything: what cannot be kept must not be asked for.
    Credentials::open()?.locked().await?.get(&url)?;
    let of_deployment = settings(&url).await?;
    let issuer = arguments.issuer.or(of_deployment.issuer).ok_or_else(|| CliError::Argument {
        argument: "--issuer",
        what: format!("{url} does not name its identity provider; name it"),
    })?;
    let provider = Provider::find(&issuer).await?;
    let asked = Kept {
        grant: if secret().is_some() { Grant::ClientCredentials } else { Grant::Device },
        issuer,
        client_id: arguments.client_id,
        audience: of_deployment.audience,
        scopes: arguments.scope.split_whitespace().map(str::to_owned).collect(),
        access_token: String::new(),
        refresh_token: None,
        expires_at: None,
    };
    let answer = match asked.grant {
        Grant::ClientCredentials => by_secret(&provider, &asked, &url).await?,
        Grant::Device => by_device(&provider, &asked, &url).await?,
    };
    let kept = taken(asked, answer);
    let credentials = Credentials::open()?;
    let path = credentials.path().to_owned();
    credentials.locked().await?.put(&url, Some(kept.clone()))?;
    if arguments.output.json {
        print_json(&json!({ "url": url, "issuer": kept.issuer, "expires_at": kept.expires_at }))?;
    } else {
        print(&format!("logged in at {url}; the token is in {}", path.display()))?;
        say(&format!("try: longhaul jobs ls --url {url}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Forgets the token of a deployment.
pub(super) async fn logout(target: &Target) -> Result<ExitCode, CliError> {
    let url = target.named()?.ok_or_else(|| CliError::Argument {
        argument: "--url",
        what: "name the deployment whose token is to be forgotten".to_owned(),
    })?;
    Credentials::open()?.locked().await?.put(&url, None)?;
    print(&format!("the token of {url} is forgotten"))?;
    Ok(ExitCode::SUCCESS)
}

/// Another token in the place of one that is about to expire or was refused.
///
/// # Errors
/// [`CliError::Login`]: a person has to log in again.
pub(super) async fn renewed(url: &str, kept: &Kept) -> Result<Kept, CliError> {
    let provider = Provider::find(&kept.issuer).await?;
    let answer = match (&kept.refresh_token, kept.grant) {
        (Some(refresh), _) => {
            let asked = provider.token(kept, GRANT_REFRESH, &[("refresh_token", refresh)]).await;
            asked.map_err(|failed| failed.said(url, "the token was not renewed"))?
        }
        (None, Grant::ClientCredentials) if secret().is_some() => by_secret(&provider, kept, url).await?,
        (None, Grant::ClientCredentials) => {
            return Err(refused(url, format!("the token has expired and {SECRET_VARIABLE} is not set")));
        }
        (None, Grant::Device) => {
            return Err(refused(url, "the token has expired and cannot be renewed".to_owned()));
        }
    };
    Ok(taken(kept.clone(), answer))
}

fn secret() -> Option<String> {
    std::env::var(SECRET_VARIABLE).ok().filter(|secret| !secret.is_empty())
}

fn refused(url: &str, what: String) -> CliError {
    CliError::Login { url: url.to_owned(), what }
}

impl Failed {
    /// A provider's refusal in its words, which are shown and nothing else.
    fn said(self, url: &str, what: &str) -> CliError {
        match self {
            Self::Error(error) => error,
            Self::Refused(Refusal { error, error_description }) => {
                refused(url, plain(format!("{what}: {error} {error_description}").trim_end()))
            }
        }
    }
}

/// What was asked for, with the token that was given.
fn taken(asked: Kept, given: Given) -> Kept {
    Kept {
        access_token: given.access_token,
        // A provider that gives no new one means the old one to be used on.
        refresh_token: given.refresh_token.or(asked.refresh_token.clone()),
        expires_at: given.expires_in.map(|seconds| now().saturating_add(seconds)),
        ..asked
    }
}

impl Provider {
    /// Reads a provider's description.
    async fn find(issuer: &str) -> Result<Self, CliError> {
        let base = address("--issuer", issuer)?;
        let http = reqwest::Client::new();
        let mut last = None;
        for known in ["openid-configuration", "oauth-authorization-server"] {
            let url = format!("{base}/.well-known/{known}");
            let unreachable = |source| CliError::Unreachable { method: "GET", url: url.clone(), source };
            let answer = http.get(&url).timeout(TIMEOUT).send().await.map_err(unreachable)?;
            let status = answer.status();
            match answer.json::<Self>().await {
                // Tokens of another issuer would be refused, and what claims to be it may be somebody else.
                Ok(found) if found.issuer.trim_end_matches('/') == base => return Ok(found),
                Ok(found) => {
                    let what = format!("what stands at {url} says that it is {:?}", plain(&found.issuer));
                    return Err(CliError::Argument { argument: "--issuer", what });
                }
                Err(_) => last = Some(CliError::Strange { method: "GET", url, status: status.as_u16() }),
            }
        }
        Err(last.unwrap_or(CliError::Argument { argument: "--issuer", what: "has no description".to_owned() }))
    }

    /// Asks for a token.
    async fn token(&self, asked: &Kept, grant: &str, fields: &[(&str, &str)]) -> Result<Given, Failed> {
        let fields = [&[("grant_type", grant)], fields].concat();
        self.post(&self.token_endpoint, asked, &fields).await
    }

    /// One request of the provider, as its client. Nothing is followed elsewhere: a secret goes where it was sent to.
    async fn post<T: DeserializeOwned>(
        &self,
        endpoint: &str,
        asked: &Kept,
        fields: &[(&str, &str)],
    ) -> Result<T, Failed> {
        let url = address("--issuer", endpoint).map_err(Failed::Error)?;
        let unreachable = |source| Failed::Error(CliError::Unreachable { method: "POST", url: url.clone(), source });
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(TIMEOUT);
        let http = http.build().map_err(unreachable)?;
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields).append_pair("client_id", &asked.client_id);
        // It is the secret of one client at one provider, and of no other that somebody has logged in at by code.
        if let Some(secret) = secret().filter(|_| asked.grant == Grant::ClientCredentials) {
            form.append_pair("client_secret", &secret);
        }
        let call = http.post(&url).header("content-type", "application/x-www-form-urlencoded").body(form.finish());
        let answer = call.header("accept", "application/json").send().await.map_err(unreachable)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(unreachable)?;
        let strange = || Failed::Error(CliError::Strange { method: "POST", url: url.clone(), status: status.as_u16() });
        if body.len() > ANSWER_BYTES_MAX {
            return Err(strange());
        }
        if status.is_success() {
            return serde_json::from_slice(&body).map_err(|_| strange());
        }
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(refusal) if !refusal.error.is_empty() => Err(Failed::Refused(refusal)),
            Ok(_) | Err(_) => Err(strange()),
        }
    }
}

/// What is asked for beside who asks.
fn wanted(asked: &Kept) -> Vec<(&'static str, String)> {
    let scope = Some(asked.scopes.join(" ")).filter(|scope| !scope.is_empty()).map(|scope| ("scope", scope));
    let audience = asked.audience.clone().map(|audience| ("audience", audience));
    scope.into_iter().chain(audience).collect()
}

fn borrowed<'a>(fields: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

async fn by_secret(provider: &Provider, asked: &Kept, url: &str) -> Result<Given, CliError> {
    let given = provider.token(asked, GRANT_SECRET, &borrowed(&wanted(asked))).await;
    given.map_err(|failed| failed.said(url, "the client's secret was not taken"))
}

async fn by_device(provider: &Provider, asked: &Kept, url: &str) -> Result<Given, CliError> {
    let Some(endpoint) = &provider.device_authorization_endpoint else {
        let what = format!(
            "{} does not let people confirm a code in a browser; set {SECRET_VARIABLE} to log in as a program, or set \
             LONGHAUL_TOKEN to a token of your own",
            provider.issuer
        );
        return Err(refused(url, what));
    };
    let code = provider.post::<Code>(endpoint, asked, &borrowed(&wanted(asked))).await;
    let code = code.map_err(|failed| failed.said(url, "no code was given"))?;
    let page = code.verification_uri_complete.as_ref().unwrap_or(&code.verification_uri);
    say(&plain(&format!("open {page} in a browser and confirm the code {}", code.user_code)));
    say(&format!("waiting, for {} s at most; Ctrl-C gives up", code.expires_in));
    let give_up_at = Instant::now() + Duration::from_secs(code.expires_in.min(3_600));
    let mut interval = code.interval.unwrap_or(INTERVAL_SECONDS).clamp(1, 60);
    loop {
        tokio::time::sleep(Duration::from_secs(interval)).await;
        match provider.token(asked, GRANT_DEVICE, &[("device_code", &code.device_code)]).await {
            Ok(given) => return Ok(given),
            Err(Failed::Refused(refusal)) if refusal.error == "authorization_pending" => {}
            Err(Failed::Refused(refusal)) if refusal.error == "slow_down" => {
                interval = interval.saturating_add(INTERVAL_SECONDS);
            }
            // The network of a person who walks to another room.
            Err(Failed::Error(CliError::Unreachable { .. })) => {}
            Err(failed) => return Err(failed.said(url, "the code was not confirmed")),
        }
        if Instant::now() >= give_up_at {
            return Err(refused(url, "nobody has confirmed the code in time".to_owned()));
        }
    }
}
