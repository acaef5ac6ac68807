//! A deployment somewhere else: its address, and the token that it is asked with.

use std::sync::Arc;

use clap::Args;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::CliError;
use super::credentials::{Credentials, Kept};
use super::login;
use crate::stack::Addresses;

/// Seconds before its expiry at which a token is renewed: a request with it must arrive while it is good.
const RENEW_BEFORE_SECONDS: u64 = 60;

/// Which deployment.
#[derive(Debug, Args, Clone)]
pub(super) struct Target {
    /// The deployment to work with, such as `https://longhaul.example.com`; by default the stack on this machine.
    #[arg(long, global = true, env = "LONGHAUL_URL", value_name = "URL")]
    pub(super) url: Option<String>,
    /// Its WebSocket, where the deployment does not say it itself.
    #[arg(long, global = true, env = "LONGHAUL_WEBSOCKET", value_name = "URL")]
    websocket: Option<String>,
    /// The token for it; without one that of `longhaul login`. Given by LONGHAUL_TOKEN, since what is typed is kept by
    /// shells and shown by `ps`.
    #[arg(long, global = true, env = "LONGHAUL_TOKEN", value_name = "TOKEN", hide = true, hide_env_values = true)]
    token: Option<String>,
}

/// What a deployment tells everybody about itself.
#[derive(Debug, Deserialize)]
pub(super) struct Settings {
    #[serde(default)]
    pub(super) websocket: Option<String>,
    #[serde(default)]
    pub(super) issuer: Option<String>,
    #[serde(default)]
    pub(super) audience: Option<String>,
}

/// An address without a slash at its end. Tokens go to it, so it is encrypted, or on this machine.
///
/// # Errors
/// [`CliError::Argument`].
pub(super) fn address(argument: &'static str, text: &str) -> Result<String, CliError> {
    let wrong = |what: String| CliError::Argument { argument, what };
    // What may hold a password or a token is not repeated.
    let shown = if text.contains(['@', '?', '#']) { "what was given" } else { text };
    let url = url::Url::parse(text).map_err(|error| wrong(format!("{shown:?} is no address: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        let what = "must not carry a name or password; a token says who asks (`longhaul login`, or LONGHAUL_TOKEN)";
        return Err(wrong(what.to_owned()));
    }
    let loopback = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" | "wss" => Ok(text.trim_end_matches('/').to_owned()),
        "http" | "ws" if loopback => Ok(text.trim_end_matches('/').to_owned()),
        "http" | "ws" => Err(wrong(format!("{shown} would send your token in the clear; use its https:// address"))),
        other => Err(wrong(format!("{other}:// is no way to a deployment; give its https:// address"))),
    }
}

/// The same of an address behind which paths and parameters are put.
///
/// # Errors
/// [`CliError::Argument`].
pub(super) fn base(argument: &'static str, text: &str) -> Result<String, CliError> {
    let given = address(argument, text)?;
    // The console's own address has a token behind the #.
    let plain = given.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
    let base = plain.strip_suffix("/console").unwrap_or(plain);
    if base == given {
        return Ok(given);
    }
    let what = format!("must be the address of the API alone, without ?, # or /console; give {base}");
    Err(CliError::Argument { argument, what })
}

impl Target {
    /// The deployment that was named; none for the stack on this machine.
    ///
    /// # Errors
    /// [`CliError::Argument`].
    pub(super) fn named(&self) -> Result<Option<String>, CliError> {
        self.url.as_deref().filter(|url| !url.is_empty()).map(|url| base("--url", url)).transpose()
    }

    /// Where it listens, as far as that was said. A deployment names its WebSocket itself to who asks: see [`websocket`].
    ///
    /// # Errors
    /// [`CliError::Argument`].
    pub(super) fn addresses(&self, api: &str) -> Result<Addresses, CliError> {
        let given = self.websocket.as_deref().filter(|given| !given.is_empty());
        let websocket = given.map(|given| base("--websocket", given)).transpose()?.unwrap_or_default();
        Ok(Addresses { api: api.to_owned(), websocket, ..Addresses::default() })
    }

    /// Its tokens: the one that was given, or what `longhaul login` has kept.
    ///
    /// # Errors
    /// [`CliError::NotLoggedIn`].
    pub(super) fn tokens(&self, api: &str) -> Result<Tokens, CliError> {
        if let Some(token) = self.token.as_deref().filter(|token| !token.is_empty()) {
            return Ok(Tokens::Given(token.to_owned()));
        }
        let kept = Credentials::open()?.get(api)?;
        let kept = kept.ok_or_else(|| CliError::NotLoggedIn { url: api.to_owned() })?;
        Ok(Tokens::Kept(Arc::new(Mutex::new((api.to_owned(), kept)))))
    }

    /// Whether a token was given for it.
    pub(super) fn has_token(&self) -> bool {
        self.token.as_deref().is_some_and(|token| !token.is_empty())
    }
}

/// The WebSocket of a deployment; none where it names none.
///
/// # Errors
/// [`CliError::Unreachable`] and its kin, and [`CliError::Argument`] when it names one that is none.
pub(super) async fn websocket(addresses: &Addresses) -> Result<Option<String>, CliError> {
    if !addresses.websocket.is_empty() {
        return Ok(Some(addresses.websocket.clone()));
    }
    let said = settings(&addresses.api).await?.websocket;
    said.map(|said| base("--websocket", &said)).transpose()
}

/// What a deployment tells everybody about itself.
///
/// # Errors
/// [`CliError::Unreachable`], [`CliError::Strange`].
pub(super) async fn settings(api: &str) -> Result<Settings, CliError> {
    let url = format!("{api}/console/settings.json");
    let unreachable = |source| CliError::Unreachable { method: "GET", url: url.clone(), source };
    let answer = reqwest::Client::new().get(&url).timeout(login::TIMEOUT).send().await.map_err(unreachable)?;
    let status = answer.status().as_u16();
    answer.json().await.map_err(|_| CliError::Strange { method: "GET", url, status })
}

/// Where a command's tokens come from.
#[derive(Debug, Clone)]
pub(super) enum Tokens {
    /// One that was given or made, for as long as it is good.
    Given(String),
    /// Those of `longhaul login`, renewed in time.
    Kept(Arc<Mutex<(String, Kept)>>),
}

impl Tokens {
    /// A token that is good for a while.
    ///
    /// # Errors
    /// [`CliError::Login`] when it cannot be renewed.
    pub(super) async fn get(&self) -> Result<String, CliError> {
        match self {
            Self::Given(token) => Ok(token.clone()),
            Self::Kept(kept) => {
                let mut kept = kept.lock().await;
                if kept.1.expires_within(RENEW_BEFORE_SECONDS) {
                    renew(Credentials::open()?, &mut kept).await?;
                }
                Ok(kept.1.access_token.clone())
            }
        }
    }

    /// Another token than `refused`; none when there is no other.
    ///
    /// # Errors
    /// [`CliError::Login`].
    pub(super) async fn other_than(&self, refused: &str) -> Result<Option<String>, CliError> {
        match self {
            Self::Given(_) => Ok(None),
            Self::Kept(kept) => {
                let mut kept = kept.lock().await;
                if kept.1.access_token == refused {
                    renew(Credentials::open()?, &mut kept).await?;
                }
                Ok(Some(kept.1.access_token.clone()).filter(|token| token != refused))
            }
        }
    }
}

/// Another token in the place of the one that is kept. Commands that run at the same time do it one after the other: a
/// provider takes a refresh token once, and some take its second use for theft and end the login.
///
/// # Errors
/// [`CliError::NotLoggedIn`] when somebody has logged out meanwhile, and [`CliError::Login`].
async fn renew(credentials: Credentials, (url, kept): &mut (String, Kept)) -> Result<(), CliError> {
    let locked = credentials.locked().await?;
    let latest = locked.get(url)?.ok_or_else(|| CliError::NotLoggedIn { url: url.clone() })?;
    let is_other = latest.access_token != kept.access_token;
    // Also where its token is no good any more: its refresh token is the one that nobody has used.
    *kept = latest;
    if is_other && !kept.expires_within(RENEW_BEFORE_SECONDS) {
        return Ok(());
    }
    *kept = login::renewed(url, kept).await?;
    locked.put(url, Some(kept.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::sync::Mutex as StdMutex;

    use axum::routing::{get, post};
    use axum::{Json, Router};
    use serde_json::json;

    use super::super::credentials::{Grant, now};
    use super::*;

    /// The address of an identity provider, and what it is asked for tokens.
    async fn provider() -> (String, Arc<StdMutex<Vec<String>>>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let description = json!({ "issuer": url, "token_endpoint": format!("{url}/token") });
        let asked = Arc::<StdMutex<Vec<String>>>::default();
        let notes = Arc::clone(&asked);
        let give = async move |form: String| {
            notes.lock().unwrap().push(form);
            Json(json!({ "access_token": "a-3", "expires_in": 3_600, "refresh_token": "r-3" }))
        };
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(async move || Json(description)))
            .route("/token", post(give));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (url, asked)
    }

    #[tokio::test]
    async fn a_refresh_token_is_used_once_and_a_logout_stays() {
        const URL: &str = "https://x.example";
        let (issuer, asked) = provider().await;
        let folder = tempfile::TempDir::new().unwrap();
        let file = || Credentials::at(folder.path());
        let kept = |number: u32, expires_in: u64| Kept {
            grant: Grant::Device,
            issuer: issuer.clone(),
            client_id: "cli".to_owned(),
            audience: None,
            scopes: Vec::new(),
            access_token: format!("a-{number}"),
            refresh_token: Some(format!("r-{number}")),
            expires_at: Some(now() + expires_in),
        };
        let put = async |kept| file().locked().await.unwrap().put(URL, kept).unwrap();

        // Another command has renewed it.
        put(Some(kept(2, 3_600))).await;
        let mut mine = (URL.to_owned(), kept(1, 0));
        renew(file(), &mut mine).await.unwrap();
        assert_eq!(mine.1.access_token, "a-2");
        assert!(asked.lock().unwrap().is_empty());

        // It has, and that token has run out, too.
        put(Some(kept(2, 0))).await;
        mine.1 = kept(1, 0);
        renew(file(), &mut mine).await.unwrap();
        let forms = asked.lock().unwrap().clone();
        assert!(matches!(&forms[..], [form] if form.contains("refresh_token=r-2")), "{forms:?}");
        assert_eq!(mine.1.access_token, "a-3");
        assert_eq!(file().get(URL).unwrap().as_ref(), Some(&mine.1));

        // Somebody has logged out.
        put(None).await;
        let refused = renew(file(), &mut mine).await;
        assert!(matches!(refused, Err(CliError::NotLoggedIn { .. })), "{refused:?}");
        assert_eq!(file().get(URL).unwrap(), None);
        assert_eq!(asked.lock().unwrap().len(), 1);
    }

    #[test]
    fn tokens_go_nowhere_in_the_clear() {
        for (text, wanted) in [
            ("https://x.example/stage/", Some("https://x.example/stage")),
            ("http://127.0.0.1:4780", Some("http://127.0.0.1:4780")),
            ("http://localhost:4780/", Some("http://localhost:4780")),
            ("http://[::1]:1", Some("http://[::1]:1")),
            ("http://x.example", None),
            ("http://127.0.0.1.x.example", None),
            ("ftp://x.example", None),
            ("x.example", None),
            ("", None),
        ] {
            assert_eq!(address("--url", text).ok().as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn an_address_is_the_deployments_own_and_repeats_no_password() {
        for (text, says) in [
            ("https://x.example/prod", None),
            ("https://x.example/prod?x=1", Some("give https://x.example/prod")),
            ("https://x.example?", Some("give https://x.example")),
            ("http://127.0.0.1:4780/console/#s3cret", Some("give http://127.0.0.1:4780")),
            ("http://x.example/console/#s3cret", Some("in the clear")),
            ("http://127.0.0.1:4780/console/", Some("give http://127.0.0.1:4780")),
            ("https://ada:s3cret@x.example", Some("must not carry a name or password")),
            ("https://ada@x.example", Some("must not carry a name or password")),
            ("http://ada:s3cret@x.example", Some("must not carry a name or password")),
            ("https://ada:s3cret@x.example:99999", Some("is no address")),
        ] {
            let refused = base("--url", text).err().map(|error| error.to_string());
            assert_eq!(refused.is_some(), says.is_some(), "{text}: {refused:?}");
            let refused = refused.unwrap_or_default();
            assert!(refused.contains(says.unwrap_or_default()) && !refused.contains("s3cret"), "{text}: {refused}");
        }
    }
}
