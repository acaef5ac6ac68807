//! The front of the table: has the engine answer, counts calls by action, and tells stream readers when something was
//! written.
//!
//! The engine answers what a job's steps need in process ([`direct`]). The rest goes to its own server, which serves a
//! listener of its own and offers no place for a layer, so for that this is a proxy on loopback.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use dynoxide::Database;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::watch;

use super::appends::Appends;
use super::direct;
use crate::stores::calls::CallCounts;
use crate::stores::faults::{self, Faults, Service};

const TARGET: &str = "x-amz-target";

/// Most bytes of a request that is looked into: what DynamoDB takes of any.
const BODY_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Actions that can put something on the stream.
const WRITES: [&str; 8] = [
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "BatchWriteItem",
    "TransactWriteItems",
    "ExecuteStatement",
    "ExecuteTransaction",
    "BatchExecuteStatement",
];

/// Tells stream readers that there may be something new. The number only ever grows.
pub(super) type WriteSignal = watch::Sender<u64>;

/// Says that something was written.
pub(super) fn written(signal: &WriteSignal) {
    signal.send_modify(|writes| *writes = writes.wrapping_add(1));
}

/// What a request needs on its way.
#[derive(Clone)]
pub(super) struct Front {
    pub(super) engine: Authority,
    pub(super) database: Database,
    pub(super) appends: Appends,
    pub(super) counts: CallCounts,
    pub(super) writes: WriteSignal,
    pub(super) faults: Faults,
    client: Client<HttpConnector, Body>,
}

impl Front {
    pub(super) fn new(
        engine: Authority,
        database: Database,
        appends: Appends,
        counts: CallCounts,
        writes: WriteSignal,
        faults: Faults,
    ) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self {
            engine,
            database,
            appends,
            counts,
            writes,
            faults,
            client: Client::builder(TokioExecutor::new()).build(connector),
        }
    }

    pub(super) fn router(self) -> Router {
        Router::new().fallback(pass).with_state(self)
    }
}

async fn pass(State(front): State<Front>, request: Request) -> Response {
    let target = request.headers().get(TARGET).and_then(|value| value.to_str().ok());
    let action = target.and_then(|target| target.split_once('.')).map(|(_, action)| action);
    let writes = action.is_some_and(|action| WRITES.contains(&action));
    if let Some(action) = action {
        front.counts.add(action);
    }
    let action = action.map(str::to_owned);
    // What is unsigned is for the server to refuse.
    let signed = request.headers().contains_key(header::AUTHORIZATION);
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, BODY_MAX_BYTES).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let hit = action.as_deref().and_then(|action| front.faults.hit(Service::Dynamodb, action, &body));
    let answer = async {
        let action = action.as_deref().filter(|_| signed);
        if let Some(append) = action.filter(|action| *action == "PutItem").and_then(|_| front.appends.read(&body))
            && front.appends.make(append).await
        {
            return direct::done();
        }
        let direct = action.and_then(|action| {
            let _alone = writes.then(|| front.appends.writing());
            direct::answer(&front.database, action, &body)
        });
        let response = match direct {
            Some(response) => response,
            None => forward(&front, Request::from_parts(parts, Body::from(body))).await,
        };
        // The engine answers after its commit, so whoever is told now finds the record.
        if writes && response.status().is_success() {
            written(&front.writes);
        }
        response
    };
    faults::around(hit, Service::Dynamodb, answer).await
}

/// Has the engine's server answer.
async fn forward(front: &Front, mut request: Request) -> Response {
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = engine_uri(&front.engine, path);
    match front.client.request(request).await {
        Ok(response) => response.map(Body::new),
        Err(fault) => {
            tracing::error!(error = &fault as &dyn std::error::Error, "the table's engine did not answer");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

fn engine_uri(engine: &Authority, path: Option<PathAndQuery>) -> Uri {
    let mut parts = axum::http::uri::Parts::default();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(engine.clone());
    parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    // Scheme, authority and path are all there, so this always fits; the root would be refused by the engine.
    Uri::from_parts(parts).unwrap_or_default()
}
