//! A server in front of the table or the queues that answers as AWS does on a bad day, and remembers what it was asked.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// What becomes of a call; none of these: it is handed on and its answer given back.
pub(crate) enum Fate {
    /// It is answered so, and nothing is done.
    Instead(StatusCode, Value),
    /// It is done, and then answered so.
    DoneThen(StatusCode, Value),
    /// This is asked in its place.
    Asked(Value),
    /// The last of its writes or keys is left out and named as unprocessed.
    InPart,
}

impl Fate {
    /// An error of this name.
    pub(crate) fn error(status: StatusCode, name: &str) -> Self {
        Self::Instead(status, error_body(name))
    }
}

/// The body of an error of this name.
pub(crate) fn error_body(name: &str) -> Value {
    json!({ "__type": name, "message": "a test's fault" })
}

type Plan = Box<dyn FnMut(&str, &Value) -> Option<Fate> + Send>;

/// The server.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) endpoint: String,
    shared: Arc<Shared>,
}

struct Shared {
    behind: String,
    client: reqwest::Client,
    plan: Mutex<Plan>,
    calls: Mutex<Vec<(String, Value)>>,
    /// How long each call takes besides.
    delay_ms: AtomicU64,
    in_flight: AtomicU64,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Front").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Front {
    /// A server in front of the one at `behind`, which hands everything on.
    pub(crate) async fn before(behind: &str) -> Self {
        let shared = Arc::new(Shared {
            behind: behind.to_owned(),
            client: reqwest::Client::new(),
            plan: Mutex::new(Box::new(|_, _| None)),
            calls: Mutex::default(),
            delay_ms: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
        });
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let serving = Arc::clone(&shared);
        let routes = Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
            let shared = Arc::clone(&serving);
            async move {
                let _under_way = UnderWay::begin(&shared);
                shared.answer(headers, body).await
            }
        });
        let routes = routes.layer(axum::extract::DefaultBodyLimit::disable());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { endpoint, shared }
    }

    /// Decides about each call from now on, by its operation and body.
    pub(crate) fn plan(&self, plan: impl FnMut(&str, &Value) -> Option<Fate> + Send + 'static) {
        *self.shared.plan.lock().unwrap() = Box::new(plan);
    }

    /// The next `times` calls of an operation meet this.
    pub(crate) fn fail(&self, operation: &'static str, times: usize, fate: impl Fn() -> Fate + Send + 'static) {
        let mut left = times;
        self.plan(move |called, _| {
            (called == operation && left > 0).then(|| {
                left -= 1;
                fate()
            })
        });
    }

    pub(crate) fn delay(&self, delay: Duration) {
        self.shared.delay_ms.store(u64::try_from(delay.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Takes the calls so far, each try of one.
    pub(crate) fn take(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut *self.shared.calls.lock().unwrap())
    }

    /// How often an operation was called since the last look, each try counted; looks.
    pub(crate) fn tries(&self, operation: &str) -> usize {
        self.take().iter().filter(|(called, _)| called == operation).count()
    }

    /// Calls that have come, and those that have no answer yet.
    pub(crate) fn traffic(&self) -> (usize, u64) {
        (self.shared.calls.lock().unwrap().len(), self.shared.in_flight.load(Ordering::SeqCst))
    }
}

/// A call that has no answer yet; also one whose caller hangs up ends.
struct UnderWay<'a>(&'a Shared);

impl<'a> UnderWay<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.in_flight.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The operations among calls.
pub(crate) fn operations(calls: &[(String, Value)]) -> BTreeSet<&str> {
    calls.iter().map(|(operation, _)| operation.as_str()).collect()
}

impl Shared {
    async fn answer(&self, headers: HeaderMap, body: Bytes) -> Response {
        let target = headers.get("x-amz-target").map_or("", |value| value.to_str().unwrap());
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
        self.calls.lock().unwrap().push((operation.clone(), asked.clone()));
        tokio::time::sleep(Duration::from_millis(self.delay_ms.load(Ordering::SeqCst))).await;
        let fate = (self.plan.lock().unwrap())(&operation, &asked);
        match fate {
            None => self.hand_on(headers, body).await,
            Some(Fate::Instead(status, answer)) => (status, answer.to_string()).into_response(),
            Some(Fate::DoneThen(status, answer)) => {
                self.hand_on(headers, body).await;
                (status, answer.to_string()).into_response()
            }
            Some(Fate::Asked(asked)) => self.hand_on(headers, Bytes::from(asked.to_string())).await,
            Some(Fate::InPart) => self.in_part(headers, asked).await,
        }
    }

    async fn hand_on(&self, headers: HeaderMap, body: Bytes) -> Response {
        let (status, answer) = self.call(headers, body).await;
        (status, answer).into_response()
    }

    async fn call(&self, mut headers: HeaderMap, body: Bytes) -> (StatusCode, Bytes) {
        headers.remove("content-length");
        let call = self.client.post(&self.behind).headers(headers).body(body).send().await.unwrap();
        (call.status(), call.bytes().await.unwrap())
    }

    /// Does a batch but for its last part.
    async fn in_part(&self, headers: HeaderMap, mut asked: Value) -> Response {
        let (table, of_table) = asked["RequestItems"].as_object_mut().unwrap().iter_mut().next().unwrap();
        let (table, mut left) = (table.clone(), of_table.clone());
        let (part, name) = match of_table {
            Value::Array(writes) => {
                let last = writes.pop().unwrap();
                left = json!([last]);
                (writes.len(), "UnprocessedItems")
            }
            reads => {
                let keys = reads["Keys"].as_array_mut().unwrap();
                left["Keys"] = json!([keys.pop().unwrap()]);
                (keys.len(), "UnprocessedKeys")
            }
        };
        let mut answer = json!({ "Responses": {} });
        if part > 0 {
            let (status, done) = self.call(headers, Bytes::from(asked.to_string())).await;
            assert!(status.is_success(), "{done:?}");
            answer = serde_json::from_slice(&done).unwrap();
        }
        answer[name] = json!({ table: left });
        (StatusCode::OK, answer.to_string()).into_response()
    }
}
