//! The way to servers on the internet, and to none that stand further in.
//!
//! The address that is judged is the one that is connected to: names are resolved by the guard of `longhaul-reach`,
//! numbers are judged before each request, and each redirect is a new request. What a deployment lists is exempt
//! ([`Policy`]).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longhaul::{ErrorClass, StepError};
use longhaul_llm::{Carrier, CarrierError, retry_after};
use longhaul_reach::{AddressError, Guard, Policy, inward};
pub use longhaul_reach::{Lookup, SystemLookup};
use reqwest::dns::Resolve;
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};

/// Redirects of one request: more are a loop or a trick.
const REDIRECTS_MAX: usize = 3;

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
        let guard = Guard::new(Arc::clone(&policy), lookup);
        Self::resolved_by(policy, guard)
    }

    fn resolved_by(policy: Arc<Policy>, resolver: impl Resolve + 'static) -> Result<Self, reqwest::Error> {
        Ok(Self { policy, client: longhaul_reach::client(resolver).build()?, carrier: None })
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
    let (body, cut) = longhaul_reach::read_up_to(&mut response, bytes_max).await.map_err(no_answer)?;
    Ok(Answer { status, content_type, body, cut, retry_after: wait })
}

fn refused(error: &AddressError) -> StepError {
    StepError::new(ErrorClass::Invalid, format!("the address is refused: it {error}"))
}

/// A failure below HTTP. The address is left out: it may hold what is nobody's business.
pub(crate) fn no_answer(error: reqwest::Error) -> StepError {
    let error = error.without_url();
    if let Some(inward) = inward(&error) {
        return StepError::new(ErrorClass::Invalid, format!("the address is refused: {inward}"));
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

#[cfg(test)]
mod tests;
