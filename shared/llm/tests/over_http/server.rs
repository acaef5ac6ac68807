//! A local HTTP server that answers with exactly the bytes it is told to, piece by piece, so that the client's real
//! network path is what is tested.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::response::Response;
use futures::StreamExt;
use futures::stream;
use serde_json::Value;

/// What follows the pieces of an answer.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// The body ends as it should.
    Clean,
    /// The connection is torn down in mid-body.
    Abort,
    /// The body stays open for ever.
    Open,
}

/// One scripted answer.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) pieces: Vec<Vec<u8>>,
    pub(crate) end: End,
}

impl Answer {
    pub(crate) fn ok(bytes: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, headers: Vec::new(), pieces: vec![bytes.into()], end: End::Clean }
    }

    pub(crate) fn status(status: u16, bytes: impl Into<Vec<u8>>) -> Self {
        Self { status, ..Self::ok(bytes) }
    }

    pub(crate) fn pieces(pieces: Vec<Vec<u8>>, end: End) -> Self {
        Self { pieces, end, ..Self::ok("") }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: axum::http::HeaderMap,
    /// Whose connection it came over.
    pub(crate) peer: SocketAddr,
    pub(crate) body: Value,
}

#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Seen>>,
    /// Bodies that are still being sent; falls when a client hangs up.
    open_bodies: Mutex<usize>,
    changed: tokio::sync::Notify,
}

/// The running server. It lives as long as the test's runtime.
pub(crate) struct Server {
    pub(crate) base_url: String,
    script: Arc<Script>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let script = Arc::new(Script::default());
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        tokio::spawn(async move {
            axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await.unwrap()
        });
        Self { base_url, script }
    }

    pub(crate) fn will_answer(&self, answer: Answer) {
        self.script.answers.lock().unwrap().push_back(answer);
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.script.seen.lock().unwrap().clone()
    }

    /// Waits until this many bodies are on their way; fails when that takes longer than any test should.
    pub(crate) async fn wait_for_open_bodies(&self, count: usize) {
        let wait = async {
            loop {
                let changed = self.script.changed.notified();
                if *self.script.open_bodies.lock().unwrap() == count {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), wait).await.expect("open bodies");
    }
}

/// Counts a body as open until it is dropped.
struct OpenBody(Arc<Script>);

impl OpenBody {
    fn new(script: Arc<Script>) -> Self {
        *script.open_bodies.lock().unwrap() += 1;
        script.changed.notify_waiters();
        Self(script)
    }
}

impl Drop for OpenBody {
    fn drop(&mut self) {
        *self.0.open_bodies.lock().unwrap() -= 1;
        self.0.changed.notify_waiters();
    }
}

async fn answer(
    State(script): State<Arc<Script>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    script.seen.lock().unwrap().push(Seen {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        peer,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    });
    let Answer { status, headers, pieces, end } =
        script.answers.lock().unwrap().pop_front().expect("an unscripted request");
    let open = OpenBody::new(Arc::clone(&script));
    let pieces = stream::iter(pieces).map(Ok::<_, std::io::Error>);
    let tail = stream::once(async move {
        match end {
            End::Clean => Ok(Vec::new()),
            End::Abort => {
                // Lets the pieces reach the socket before the connection is torn down.
                tokio::time::sleep(Duration::from_millis(5)).await;
                Err(std::io::Error::other("aborted by the test"))
            }
            End::Open => match pending::<Infallible>().await {},
        }
    });
    let body = pieces.chain(tail).map(move |piece| {
        let _until_the_body_is_dropped = &open;
        piece
    });
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(name, value);
    }
    response.body(Body::from_stream(body)).unwrap()
}
