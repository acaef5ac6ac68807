//! Where requests get to, over real sockets: a listener that counts, and names that lead where the case says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the listener of the test is no agent")]

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Redirect};
use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolving};
use reqwest::header::HeaderValue;
use serde_json::{Value, json};

use super::*;

/// What the listener saw.
#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    authorized: Mutex<Vec<(String, bool)>>,
}

async fn answer(State(seen): State<Arc<Seen>>, request: Request) -> axum::response::Response {
    seen.requests.fetch_add(1, Ordering::SeqCst);
    let host = request.headers().get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default().to_owned();
    let authorized = request.headers().contains_key("authorization");
    seen.authorized.lock().unwrap().push((host, authorized));
    match request.uri().path() {
        "/r302" => Redirect::temporary("http://169.254.169.254/").into_response(),
        "/r307" => Redirect::temporary("http://public2.example.test/ok").into_response(),
        "/around" => Redirect::temporary("/around").into_response(),
        "/post" => (StatusCode::FOUND, [("location", "/ok")]).into_response(),
        "/slow" => {
            tokio::time::sleep(Duration::from_secs(30)).await;
            "late".into_response()
        }
        "/large" => "x".repeat(100_000).into_response(),
        _ => "the body".into_response(),
    }
}

async fn listener() -> (SocketAddr, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let app = axum::Router::new().fallback(answer).with_state(Arc::clone(&seen));
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(socket, app).await });
    (address, seen)
}

/// Gives a name's answers one after the other, as a server does that wants to be checked at one and used at the other.
struct Changing(Mutex<Vec<IpAddr>>);

impl Lookup for Changing {
    fn addresses(&self, _host: String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> {
        let mut answers = self.0.lock().unwrap();
        let next = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
        async move { Ok(vec![SocketAddr::new(next, 0)]) }.boxed()
    }
}

/// What the guard lets through gets to the test's own listener.
struct Diverted {
    guard: Guard,
    listener: SocketAddr,
}

impl Resolve for Diverted {
    fn resolve(&self, name: Name) -> Resolving {
        let (judged, listener) = (self.guard.resolve(name), self.listener);
        Box::pin(async move { judged.await.map(|_| Box::new(std::iter::once(listener)) as Addrs) })
    }
}

fn reach(policy: Policy, lookup: Arc<dyn Lookup>, diverted: SocketAddr) -> Reach {
    let policy = Arc::new(policy);
    let guard = Guard::new(Arc::clone(&policy), lookup);
    Reach::resolved_by(policy, Diverted { guard, listener: diverted }).unwrap()
}

fn ask(url: &str, method: Method) -> Ask {
    let mut own_headers = HeaderMap::new();
    own_headers.insert("authorization", HeaderValue::from_static("Bearer k"));
    Ask {
        method,
        url: Url::parse(url).unwrap(),
        headers: HeaderMap::new(),
        own_headers,
        body: None,
        bytes_max: 50_000,
        time_limit: Duration::from_millis(1_500),
    }
}

fn addresses(row: &Value, field: &str) -> Vec<IpAddr> {
    let listed = row.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    listed.iter().map(|address| address.as_str().unwrap().parse().unwrap()).collect()
}

/// E09: each row over real sockets. The names' public addresses lead to the listener; TLS is left aside, since the rows
/// are about where a connection goes.
#[tokio::test]
async fn e09_no_request_gets_to_an_inward_address() {
    let rows: Vec<Value> =
        serde_json::from_str(include_str!("../../../../definition/tests/faults/E09/urls.json")).unwrap();
    for row in rows {
        let url = row["url"].as_str().unwrap().replace("https://", "http://");
        let (address, seen) = listener().await;
        let public: IpAddr = "93.184.216.34".parse().unwrap();
        let mut answers = addresses(&row, "dns");
        let lookup: Arc<dyn Lookup> = if answers.is_empty() {
            let all = addresses(&row, "dns_all");
            let all = if all.is_empty() { vec![public] } else { all };
            let names = [
                "public.example.test",
                "public2.example.test",
                "mixed.example.test",
                "dynamodb.eu-west-1.amazonaws.com",
            ];
            Arc::new(names.map(|name| (name.to_owned(), all.clone())).to_vec())
        } else {
            // The first answer is for the check of a program that resolves twice. Ours resolves once, when it connects.
            answers.remove(0);
            Arc::new(Changing(Mutex::new(answers)))
        };
        let policy = Policy { refused_hosts: vec!["*.amazonaws.com".to_owned()], ..Policy::default() };
        let refused = row["block"] != json!(false);
        let answer = match Url::parse(&url) {
            Ok(_) => reach(policy, lookup, address).fetch(ask(&url, Method::GET)).await,
            Err(_) => panic!("{url} is no address at all"),
        };
        match answer {
            Ok(answer) => {
                assert!(!refused, "{url} was answered {}", answer.status);
                assert_eq!(answer.body, b"the body", "{url}");
            }
            Err(error) => {
                assert!(refused, "{url}: {error:?}");
                assert_eq!(error.failure.class, ErrorClass::Invalid, "{url}: {error:?}");
                assert!(!format!("{error:?}").contains("the body"), "{url}: {error:?}");
            }
        }
        let requests = seen.requests.load(Ordering::SeqCst);
        let expected = match (refused, row.get("redirect_to").is_some()) {
            (true, false) => 0,
            (true, true) | (false, false) => 1,
            (false, true) => 2,
        };
        assert_eq!(requests, expected, "{url}");
        for (host, authorized) in seen.authorized.lock().unwrap().iter() {
            assert_eq!(*authorized, host != "public2.example.test", "the key went to {host}");
        }
    }
}

/// A name whose first answer is public and whose second is not: whichever is used is judged.
#[tokio::test]
async fn e09_a_name_that_changes_its_mind() {
    let (address, seen) = listener().await;
    let answers = vec!["93.184.216.34".parse().unwrap(), "10.0.0.5".parse().unwrap()];
    let reach = reach(Policy::default(), Arc::new(Changing(Mutex::new(answers))), address);
    let mut outcomes = Vec::new();
    for _ in 0..3 {
        outcomes.push(reach.fetch(ask("http://rebind.example.test/", Method::GET)).await.is_ok());
        // A connection that is kept was judged when it was made; a new one is judged anew.
    }
    assert!(outcomes[0], "the public answer is used");
    assert!(seen.requests.load(Ordering::SeqCst) <= 3);
    let fresh =
        self::reach(Policy::default(), Arc::new(Changing(Mutex::new(vec!["10.0.0.5".parse().unwrap()]))), address);
    assert!(fresh.fetch(ask("http://rebind.example.test/", Method::GET)).await.is_err());
}

#[tokio::test]
async fn what_the_deployment_lists_is_reached() {
    let (address, seen) = listener().await;
    let policy = Policy { allowed_hosts: vec!["127.0.0.1".to_owned(), "inside.test".to_owned()], ..Policy::default() };
    let lookup = vec![("inside.test".to_owned(), vec!["10.0.0.5".parse().unwrap()])];
    let reach = reach(policy, Arc::new(lookup), address);
    for url in [format!("http://127.0.0.1:{}/", address.port()), "http://inside.test/".to_owned()] {
        assert!(reach.fetch(ask(&url, Method::GET)).await.is_ok(), "{url}");
    }
    assert_eq!(seen.requests.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn bounds_hold() {
    let (address, _) = listener().await;
    let lookup = vec![("public.example.test".to_owned(), vec!["93.184.216.34".parse().unwrap()])];
    let reach = reach(Policy::default(), Arc::new(lookup), address);
    let fetch = async |path: &str, method| reach.fetch(ask(&format!("http://public.example.test{path}"), method)).await;
    let large = fetch("/large", Method::GET).await.unwrap();
    assert!(large.cut && large.body.len() == 50_000);
    assert_eq!(fetch("/slow", Method::GET).await.unwrap_err().failure.class, ErrorClass::Timeout);
    assert_eq!(fetch("/around", Method::GET).await.unwrap_err().failure.class, ErrorClass::Invalid);
    let acted = fetch("/post", Method::POST).await.unwrap_err();
    assert_eq!(acted.failure.class, ErrorClass::Invalid, "a request that acts is not sent on");
}
