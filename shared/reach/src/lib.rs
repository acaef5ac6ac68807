//! The way to servers on the internet that somebody else has named, and to none that stand further in.
//!
//! Tools and webhooks both send requests to addresses that come from outside, from machines that can reach what the
//! outside must not. So the address that is judged is the one that is connected to: names are resolved by a resolver of
//! our own that refuses them when one of their addresses is not public. Numbers never come to a resolver: whoever sends a
//! request judges its address first ([`Policy::judge_url`]), and so with the address of each redirect.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
pub use longhaul_definition::{AddressError, Policy, is_public};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{ClientBuilder, Response};

/// A server that does not accept a connection within this time will not answer either.
const CONNECT_TIMEOUT_SECONDS: u64 = 10;

/// Finds the addresses of a name.
pub trait Lookup: Send + Sync {
    /// All addresses of the name.
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        async move { Ok(tokio::net::lookup_host((host.as_str(), 0)).await?.collect()) }.boxed()
    }
}

/// A list of names is a resolver too.
impl Lookup for Vec<(String, Vec<IpAddr>)> {
    fn addresses(&self, host: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let found = self.iter().find(|(name, _)| *name == host).map(|(_, addresses)| addresses.clone());
        async move {
            let addresses =
                found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no such host: {host}")))?;
            Ok(addresses.into_iter().map(|address| SocketAddr::new(address, 0)).collect())
        }
        .boxed()
    }
}

/// A name with an address that must not be reached.
#[derive(Debug, thiserror::Error)]
#[error("{host} leads to an address that is not on the public internet")]
pub struct Inward {
    /// The name.
    pub host: String,
}

/// Resolves names and refuses those that lead inward.
pub struct Guard {
    policy: Arc<Policy>,
    lookup: Arc<dyn Lookup>,
}

impl Guard {
    /// A resolver that asks `lookup` and lets through what the policy allows.
    #[must_use]
    pub fn new(policy: Arc<Policy>, lookup: Arc<dyn Lookup>) -> Self {
        Self { policy, lookup }
    }
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let addresses = self.lookup.addresses(host.clone());
        let exempt = self.policy.allows(&host);
        Box::pin(async move {
            let found = addresses.await?;
            // One inward address among public ones is a trick: which of them is used would be chance.
            if !exempt && !found.iter().map(SocketAddr::ip).all(is_public) {
                return Err(Inward { host }.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// A client that resolves names by this resolver, follows no redirect by itself and asks no proxy of the environment,
/// which would resolve names by itself.
pub fn client(resolver: impl Resolve + 'static) -> ClientBuilder {
    reqwest::Client::builder()
        .dns_resolver(Arc::new(resolver))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(CONNECT_TIMEOUT_SECONDS))
        .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
}

/// The refusal of the resolver in a failed request, if that is why it failed.
#[must_use]
pub fn inward<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Inward> {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(inward) = found.downcast_ref::<Inward>() {
            return Some(inward);
        }
        cause = found.source();
    }
    None
}

/// Reads a body up to a bound, and says whether there was more. What is over the bound is not waited for.
///
/// # Errors
/// When the connection breaks.
pub async fn read_up_to(response: &mut Response, bytes_max: usize) -> Result<(Vec<u8>, bool), reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = bytes_max.saturating_sub(body.len());
        body.extend(chunk.iter().take(room));
        if chunk.len() > room {
            return Ok((body, true));
        }
    }
    Ok((body, false))
}
