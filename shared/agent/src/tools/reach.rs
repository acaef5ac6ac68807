//! The way to servers on the internet, and to none that stand further in.
//!
//! The address that is judged is the one that is connected to: names are resolved by a resolver of our own that refuses
//! them when one of their addresses is not public, numbers are judged before each request, and each redirect is a new
//! request. What a deployment lists is exempt ([`Policy`]). A proxy of the environment is not used, since it would
//! resolve names by itself.

use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use futures::future::BoxFuture;
use longhaul::{ErrorClass, StepError};
use longhaul_definition::{AddressError, Policy, is_public};
use longhaul_llm::{Carrier, CarrierError, retry_after};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};

/// A server that does not accept a connection within this time will not answer either.
const CONNECT_TIMEOUT_SECONDS: u64 = 10;

/// Redirects of one request: more are a loop or a trick.
const REDIRECTS_MAX: usize = 3;

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

/// A name with an address that must not be reached.
#[derive(Debug, thiserror::Error)]
#[error("{host} leads to an address that is not on the public internet")]
struct Inward {
    host: String,
}

/// Resolves names and refuses those that lead inward.
struct Guard {
    policy: Arc<Policy>,
    lookup: Arc<dyn Lookup>,
    #[cfg(test)]
    diverted: Option<SocketAddr>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let addresses = self.lookup.addresses(host.clone());
        let exempt = self.policy.allows(&host);
        #[cfg(test)]
        let diverted = self.diverted;
        Box::pin(async move {
            let found = addresses.await?;
            // One inward address among public ones is a trick: which of them is used would be chance.
            if !exempt && !found.iter().map(SocketAddr::ip).all(is_public) {
                return Err(Inward { host }.into());
            }
            #[cfg(test)]
            let found = diverted.map_or(found, |listener| vec![listener]);
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// A request to a server that somebody else named.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// Headers that go along everywhere.
    pub(crate) headers: HeaderMap,
    /// Headers that are for the named server alone: keys.
    pub(crate) own_headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) bytes_max: usize,
    pub(crate) time_limit: Duration,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Vec<u8>,
    /// Whether the body was longer than was asked for.
    pub(crate) cut: bool,
    pub(crate) retry_after: Option<Duration>,
}

/// The client and its rules. Made once per process: building a client costs about 10 ms, and all calls share its
/// connections.
#[derive(Clone)]
pub struct Reach {
    policy: Arc<Policy>,
    client: Client,
    /// None: HTTP.
    carrier: Option<Arc<dyn Carrier>>,
}

impl Reach {
    /// A way to what the policy allows.
    ///
    /// # Errors
    /// When no client can be built.
    pub fn new(policy: Policy, lookup: Arc<dyn Lookup>) -> Result<Self, reqwest::Error> {
        let policy = Arc::new(policy);
        let guard = Guard {
            policy: Arc::clone(&policy),
            lookup,
            #[cfg(test)]
            diverted: None,
        };
        Self::guarded(policy, guard)
    }

    fn guarded(policy: Arc<Policy>, guard: Guard) -> Result<Self, reqwest::Error> {
        let client = Client::builder()
            .dns_resolver(Arc::new(guard))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(Duration::from_secs(CONNECT_TIMEOUT_SECONDS))
            .user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { policy, client, carrier: None })
    }

    /// This way with requests carried by somebody else than HTTP, a recording say. Addresses are judged all the same.
    #[must_use]
    pub fn carried_by(mut self, carrier: Arc<dyn Carrier>) -> Self {
        self.carrier = Some(carrier);
        self
    }

    /// The client, for who sends requests of its own. The address must be judged first.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Judges an address as it is written.
    ///
    /// # Errors
    /// [`ErrorClass::Invalid`] for one that must not be reached.
    pub(crate) fn judge(&self, url: &Url) -> Result<(), StepError> {
        self.policy.judge_url(url).map_err(|error| refused(&error))
    }

    /// Sends a request and follows redirects where that is safe.
    ///
    /// # Errors
    /// When there is no answer, or the address must not be reached.
    pub(crate) async fn fetch(&self, ask: Ask) -> Result<Answer, StepError> {
        let limit = ask.time_limit;
        match tokio::time::timeout(limit, self.follow(ask)).await {
            Ok(answer) => answer,
            Err(_) => {
                let message = format!("the server did not answer within {} s", limit.as_secs());
                Err(StepError::new(ErrorClass::Timeout, message))
            }
        }
    }

    async fn follow(&self, mut ask: Ask) -> Result<Answer, StepError> {
        for _ in 0..=REDIRECTS_MAX {
            self.judge(&ask.url)?;
            let mut request = self
                .client
                .request(ask.method.clone(), ask.url.clone())
                .headers(ask.headers.clone())
                .headers(ask.own_headers.clone());
            if let Some(body) = &ask.body {
                request = request.body(body.clone());
            }
            let response = self.send(request).await?;
            match redirected(&ask, &response)? {
                Some(next) => ask = next,
                None => return read(response, ask.bytes_max).await,
            }
        }
        Err(StepError::new(ErrorClass::Invalid, format!("the server redirects more than {REDIRECTS_MAX} times")))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, StepError> {
        let Some(carrier) = &self.carrier else { return request.send().await.map_err(no_answer) };
        let (client, request) = request.build_split();
        carrier.carry(&client, request.map_err(no_answer)?).await.map_err(|error| match error {
            CarrierError::Http(error) => no_answer(error),
            CarrierError::Refused(why) => StepError::new(ErrorClass::Invalid, why),
        })
    }
}

/// The request that a redirect asks for; none when the response is no redirect.
fn redirected(ask: &Ask, response: &Response) -> Result<Option<Ask>, StepError> {
    let status = response.status();
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let invalid = |what: &str| StepError::new(ErrorClass::Invalid, format!("the server answered {status} {what}"));
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| invalid("without saying where to"))?;
    let url = ask.url.join(location).map_err(|_| invalid("to what is no address"))?;
    let safe = ask.method == Method::GET || ask.method == Method::HEAD;
    let same_server = url.origin() == ask.url.origin();
    // What acts is sent again only where it was meant to act, and only if the server says that it must be.
    let may_act_again = same_server && matches!(status.as_u16(), 307 | 308);
    if !safe && !may_act_again {
        return Err(invalid("to another address, which is not followed for a request that acts"));
    }
    let own_headers = if same_server { ask.own_headers.clone() } else { HeaderMap::new() };
    Ok(Some(Ask { url, own_headers, ..ask.clone() }))
}

/// Reads an answer up to its bound. One that breaks off is no answer.
async fn read(mut response: Response, bytes_max: usize) -> Result<Answer, StepError> {
    let status = response.status();
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    // A date in `Retry-After` is read against the clock; this is inside a step's body.
    #[expect(clippy::disallowed_methods, reason = "inside a step's body")]
    let wait = retry_after(response.headers(), SystemTime::now());
    let (mut body, mut cut) = (Vec::new(), false);
    while let Some(chunk) = response.chunk().await.map_err(no_answer)? {
        let room = bytes_max.saturating_sub(body.len());
        body.extend(chunk.iter().take(room));
        if chunk.len() > room {
            cut = true;
            break;
        }
    }
    Ok(Answer { status, content_type, body, cut, retry_after: wait })
}

fn refused(error: &AddressError) -> StepError {
    StepError::new(ErrorClass::Invalid, format!("the address is refused: it {error}"))
}

/// A failure below HTTP. The address is left out: it may hold what is nobody's business.
pub(crate) fn no_answer(error: reqwest::Error) -> StepError {
    let error = error.without_url();
    let mut cause: Option<&(dyn StdError + 'static)> = Some(&error);
    while let Some(found) = cause {
        if let Some(inward) = found.downcast_ref::<Inward>() {
            return StepError::new(ErrorClass::Invalid, format!("the address is refused: {inward}"));
        }
        cause = found.source();
    }
    let (class, message) = if error.is_timeout() {
        (ErrorClass::Timeout, "the server did not answer in time")
    } else if error.is_connect() {
        (ErrorClass::Transient, "no connection to the server")
    } else if error.is_builder() {
        (ErrorClass::Invalid, "the request cannot be sent")
    } else {
        (ErrorClass::Transient, "the connection broke")
    };
    StepError::because(class, message, &error)
}

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

#[cfg(test)]
mod tests;
