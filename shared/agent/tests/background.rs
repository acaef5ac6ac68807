//! A response in the background over real HTTP: made at the provider while no worker waits, and stopped there when its
//! job is cancelled.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the server of the test is no agent")]

use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::routing::{get, post};
use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::job::Status;
use longhaul::engine::journal::Ending;
use longhaul::engine::{AgentRef, Entry};
use longhaul::store::JobRef;
use longhaul::{Clock, Registry, outside};
use longhaul_agent::defined::equipment::{Entry as Way, Equipment, Providers};
use longhaul_agent::model_keys::{KeySource, ModelKeys};
use longhaul_agent::{Paths, Reach, SystemLookup, defined};
use longhaul_definition::{Format, Policy, read};
use longhaul_llm::{AwsCredentialSource, Endpoint, ModelError, Secret, Wire};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use serde_json::{Value, json};

/// Looks after which the answer is there.
const LOOKS: usize = 2;

#[derive(Default)]
struct Seen {
    created: Vec<(Value, HeaderMap)>,
    looked: usize,
    cancelled: usize,
    keys: Vec<String>,
}

type Shared = Arc<Mutex<Seen>>;

fn response(status: &str) -> Value {
    let output = match status {
        "completed" => json!([{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Thought through.", "annotations": []}]}]),
        _ => json!([]),
    };
    json!({"id": "resp_1", "object": "response", "model": "m-1", "status": status, "error": null, "output": output,
        "usage": {"input_tokens": 40, "output_tokens": 900}})
}

fn key(seen: &mut Seen, headers: &HeaderMap) {
    seen.keys.push(headers["authorization"].to_str().unwrap().to_owned());
}

async fn create(State(seen): State<Shared>, headers: HeaderMap, body: String) -> axum::Json<Value> {
    let mut seen = seen.lock().unwrap();
    key(&mut seen, &headers);
    seen.created.push((serde_json::from_str(&body).unwrap(), headers));
    axum::Json(response("queued"))
}

async fn look(State(seen): State<Shared>, Path(id): Path<String>, headers: HeaderMap) -> axum::Json<Value> {
    assert_eq!(id, "resp_1");
    let mut seen = seen.lock().unwrap();
    key(&mut seen, &headers);
    seen.looked += 1;
    axum::Json(response(if seen.looked >= LOOKS { "completed" } else { "in_progress" }))
}

async fn cancel(State(seen): State<Shared>, Path(id): Path<String>) -> axum::Json<Value> {
    assert_eq!(id, "resp_1");
    seen.lock().unwrap().cancelled += 1;
    axum::Json(response("cancelled"))
}

/// A key that changes while the job runs, as one does that is rotated.
struct Rotating(Shared);

impl ModelKeys for Rotating {
    fn key<'a>(&'a self, place: &'a str) -> LocalBoxFuture<'a, Result<Secret, ModelError>> {
        let number = self.0.lock().unwrap().keys.len();
        assert_eq!(place, "ssm:/provider-key");
        async move { Ok(Secret::new(format!("key-number-{number}"))) }.boxed_local()
    }

    fn role(&self) -> Option<Arc<dyn AwsCredentialSource>> {
        None
    }
}

async fn world() -> (Workshop, Shared) {
    let seen = Shared::default();
    let app = Router::new()
        .route("/v1/responses", post(create))
        .route("/v1/responses/{id}", get(look))
        .route("/v1/responses/{id}/cancel", post(cancel))
        .with_state(Arc::clone(&seen));
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", socket.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(socket, app).await });
    let mut providers = Providers::default();
    let endpoint = Endpoint { base_url: Some(base_url), ..Endpoint::new(Wire::Responses, "m") };
    providers.add_entry("slow", endpoint, Way::Kept { place: "ssm:/provider-key".to_owned() });
    providers.run_in_background("slow");
    providers.set_keys(KeySource::new(Rc::new(Rotating(Arc::clone(&seen)))));
    let definition = json!({
        "name": "agent", "description": "Thinks.", "instructions": "Think.", "models": [{"provider": "slow"}],
    });
    let checked = read(&definition.to_string(), Format::Json).unwrap();
    let reach = Reach::new(Policy::default(), Arc::new(SystemLookup)).unwrap();
    let equipment = Equipment::new(Rc::new(providers), reach, Paths::default());
    let mut registry = Registry::default();
    let reference = AgentRef { name: "agent".parse().unwrap(), version: 1 };
    registry.add_agent(reference, defined::agent(checked.definition, Rc::new(equipment)));
    let mut workshop = Workshop::new(Sim::faultless(), registry);
    // Real sockets need real time.
    workshop.clock = Clock::of_machine();
    (workshop, seen)
}

fn status(workshop: &Workshop, job: &JobRef) -> Option<Status> {
    workshop.sim.job(job.job).map(|job| job.progress.state.status())
}

async fn until(workshop: &Workshop, job: &JobRef, wanted: Status) {
    while status(workshop, job) != Some(wanted) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn made_at_the_provider_while_no_worker_waits() {
    let (workshop, seen) = world().await;
    let job = workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!("Think."))).await;
            until(&workshop, &job, Status::Waiting).await;
            assert_eq!(seen.lock().unwrap().created.len(), 1, "begun, and let go");
            until(&workshop, &job, Status::Completed).await;
            job
        })
        .await;
    let batches = workshop.sim.snapshot().journals.remove(&job.job).unwrap_or_default();
    let claims = batches.iter().flat_map(|batch| &batch.entries).filter(|entry| matches!(entry, Entry::Claimed { .. }));
    assert_eq!(claims.count(), 1 + LOOKS, "an invocation for the beginning and for each look");
    assert!(
        matches!(workshop.journal(&job).ending(), Some(Ending::Completed { output }) if output == "Thought through.")
    );
    let used = workshop.journal(&job).totals().usage;
    assert_eq!((used.input_tokens, used.output_tokens), (40, 900));
    let seen = seen.lock().unwrap();
    assert_eq!((seen.created.len(), seen.looked, seen.cancelled), (1, LOOKS, 0));
    let (body, headers) = &seen.created[0];
    assert_eq!((&body["background"], &body["store"]), (&json!(true), &json!(true)));
    assert_eq!(headers["idempotency-key"].to_str().unwrap(), format!("{}/0", job.job));
    let trace = headers["traceparent"].to_str().unwrap();
    assert_eq!((trace.len(), trace.get(3..35)), (55, Some(job.job.to_string().replace('-', "").as_str())));
    assert_eq!(
        seen.keys,
        ["Bearer key-number-0", "Bearer key-number-1", "Bearer key-number-2"],
        "the key of the moment"
    );
}

#[tokio::test]
async fn f08_stopped_at_the_provider_with_its_job() {
    let (workshop, seen) = world().await;
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!("Think."))).await;
            until(&workshop, &job, Status::Waiting).await;
            let now = workshop.clock.now();
            let store = workshop.sim.handle();
            outside::cancel(&store, &job, "c".parse().unwrap(), "ada".to_owned(), None, now).await.unwrap();
            until(&workshop, &job, Status::Cancelled).await;
        })
        .await;
    let seen = seen.lock().unwrap();
    assert_eq!((seen.created.len(), seen.cancelled), (1, 1));
}
