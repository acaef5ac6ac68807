//! F11: sessions of an MCP server that come and go, over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "the server of the test is no agent")]

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use longhaul::engine::AgentRef;
use longhaul::engine::journal::Ending;
use longhaul::{Clock, Registry};
use longhaul_agent::defined::equipment::{Equipment, Models, Opened};
use longhaul_agent::{Paths, Reach, SystemLookup, defined};
use longhaul_definition::{Format, ModelChoice, Policy, read_within};
use longhaul_llm::{Arguments, Completion, Delta, Message, Model, ModelReply, ModelRequest, Role, ToolCall};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use serde_json::{Value, json};

/// How the server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// As it should.
    Good,
    /// It has forgotten the first session when the tool is called.
    Reaps,
    /// It forgets every session at once.
    ForgetsAll,
    /// There is no MCP server at this address.
    NotThere,
    /// The tool reports an error.
    ToolFails,
    /// It answers as a stream, with a request of its own and a note on progress before the result.
    Streams,
}

#[derive(Default)]
struct Seen {
    sessions: BTreeSet<String>,
    made: usize,
    initialized: usize,
    called: Vec<(String, Option<String>)>,
    closed: Vec<String>,
}

/// The end of a session.
async fn closed(State(server): State<Server>, headers: HeaderMap) -> StatusCode {
    let mut seen = server.seen.lock().unwrap();
    let session = headers["mcp-session-id"].to_str().unwrap().to_owned();
    assert!(headers.contains_key("mcp-protocol-version") && seen.sessions.remove(&session), "{session}");
    seen.closed.push(session);
    StatusCode::OK
}

#[derive(Clone)]
struct Server {
    manner: Manner,
    seen: Arc<Mutex<Seen>>,
}

async fn exchange(State(server): State<Server>, headers: HeaderMap, body: Bytes) -> Response {
    if server.manner == Manner::NotThere {
        return (StatusCode::NOT_FOUND, [("content-type", "text/plain")], "no such page").into_response();
    }
    let message: Value = serde_json::from_slice(&body).unwrap();
    assert!(headers["traceparent"].to_str().unwrap().starts_with("00-"), "the trace goes along");
    let session = headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let id = message["id"].clone();
    let mut seen = server.seen.lock().unwrap();
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    match message["method"].as_str().unwrap() {
        "initialize" => {
            assert_eq!(session, None, "initialize carries no session");
            seen.made += 1;
            let name = format!("s-{}", seen.made);
            seen.sessions.insert(name.clone());
            let result = json!({
                "protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "test", "version": "1"},
            });
            ([("mcp-session-id", name)], axum::Json(answer(result))).into_response()
        }
        "notifications/initialized" => {
            seen.initialized += 1;
            StatusCode::ACCEPTED.into_response()
        }
        "tools/list" => axum::Json(answer(json!({"tools": [
            {"name": "act", "description": "Acts.", "inputSchema": {"type": "object"}},
            {"name": "not_granted", "description": "Other.", "inputSchema": {"type": "object"}},
        ]})))
        .into_response(),
        "tools/call" => {
            let session = session.unwrap();
            let reaped = server.manner == Manner::Reaps && session == "s-1" || server.manner == Manner::ForgetsAll;
            if reaped || !seen.sessions.contains(&session) {
                let error =
                    json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}});
                return (StatusCode::NOT_FOUND, axum::Json(error)).into_response();
            }
            let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
            seen.called.push((session, key));
            let failed = server.manner == Manner::ToolFails;
            let result = answer(json!({"content": [{"type": "text", "text": "acted"}], "isError": failed}));
            if server.manner == Manner::Streams {
                let ping = json!({"jsonrpc": "2.0", "id": 99, "method": "ping"});
                let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": 1, "progress": 0.5}});
                let events =
                    [ping, progress, result].map(|event| format!("event: message\ndata: {event}\n\n")).join("");
                return ([("content-type", "text/event-stream")], events).into_response();
            }
            axum::Json(result).into_response()
        }
        other => panic!("{other}"),
    }
}

/// Calls the tool once in each of two turns, then ends with what it was told.
struct Caller;

impl Model for Caller {
    fn complete<'a>(&'a self, request: &'a ModelRequest, _on_delta: &'a mut dyn FnMut(Delta)) -> Completion<'a> {
        let turns = request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        let told: Vec<Value> = request
            .messages
            .iter()
            .filter(|message| message.role == Role::Tool)
            .map(|message| json!([message.text(), message.is_error]))
            .collect();
        let offered: Vec<&str> = request.tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(offered, ["crm_act", "read_more"], "only what is granted is offered");
        let message = if turns < 2 {
            let arguments = json!({ "turn": turns });
            let call = ToolCall {
                id: format!("c{turns}"),
                name: "crm_act".to_owned(),
                arguments: Arguments::Object { object: arguments.as_object().unwrap().clone() },
            };
            Message { tool_calls: vec![call], content: vec![], ..Message::assistant("") }
        } else {
            Message::assistant(Value::from(told).to_string())
        };
        let finish = if turns < 2 { "tool_calls" } else { "stop" };
        let reply: ModelReply = serde_json::from_value(json!({
            "message": message, "finish": finish, "usage": {"input_tokens": 1, "output_tokens": 1}, "model": "m",
        }))
        .unwrap();
        Box::pin(async move { Ok(reply) })
    }
}

struct OneModel;

impl Models for OneModel {
    fn open(&self, _choices: &[ModelChoice]) -> Result<Opened, String> {
        Ok(Opened { model: Rc::new(Caller), names: vec!["m".to_owned()] })
    }
}

/// Runs a job for each tenant, one after the other in one process; what each came to, and what the server saw.
async fn run(manner: Manner, tenants: &[&str]) -> (Vec<Result<Value, String>>, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let app = axum::Router::new()
        .route("/mcp", axum::routing::post(exchange).delete(closed))
        .with_state(Server { manner, seen: Arc::clone(&seen) });
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", socket.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(socket, app).await });
    let definition = json!({
        "name": "caller", "description": "Calls.", "instructions": "Call.", "models": [{"provider": "default"}],
        "tools": [{"kind": "mcp", "name": "crm", "url": url, "tools": ["act"], "timeout_seconds": 5}],
        "retry": {"attempts": 1},
    });
    let policy = Policy { allowed_hosts: vec!["127.0.0.1".to_owned()], ..Policy::default() };
    let checked = read_within(&definition.to_string(), Format::Json, &policy).unwrap();
    let reach = Reach::new(policy, Arc::new(SystemLookup)).unwrap();
    let equipment = Rc::new(Equipment::new(Rc::new(OneModel), reach, Paths::default()));
    let mut registry = Registry::default();
    let reference = AgentRef { name: "caller".parse().unwrap(), version: 1 };
    registry.add_agent(reference, defined::agent(checked.definition, equipment));
    let mut workshop = Workshop::new(Sim::faultless(), registry);
    // Real sockets need real time.
    workshop.clock = Clock::of_machine();
    let mut ends = Vec::new();
    for tenant in tenants {
        let mut order = workshop.order("caller", json!({}));
        order.tenant = tenant.parse().unwrap();
        order.id = longhaul::engine::JobId::of_key(&order.tenant, "job");
        let end = workshop
            .run(1, async {
                let job = workshop.submit(order).await;
                loop {
                    if workshop.sim.job(job.job).is_some_and(|job| job.progress.state.is_terminal()) {
                        break;
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                match workshop.journal(&job).ending() {
                    Some(Ending::Completed { output }) => {
                        Ok(serde_json::from_str::<Value>(output.as_str().unwrap()).unwrap())
                    }
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        ends.push(end);
    }
    serving.abort();
    (ends, seen)
}

#[tokio::test]
async fn f11_a_session_that_is_gone_is_made_anew() {
    let case: Vec<Value> = serde_json::from_str(include_str!("faults/F11/mcp_exchange.json")).unwrap();
    assert_eq!(case.len(), 7, "the rows of the case are the manners below");
    let good = json!([["acted", false], ["acted", false]]);
    let told = |ends: &[Result<Value, String>]| ends[0].clone().unwrap();

    let (ends, seen) = run(Manner::Good, &["acme"]).await;
    assert_eq!(told(&ends), good);
    let (made, initialized) = {
        let seen = seen.lock().unwrap();
        (seen.made, seen.initialized)
    };
    assert_eq!((made, initialized), (1, 1), "one session for all steps");
    assert_eq!(seen.lock().unwrap().closed, ["s-1"], "and it is closed at the end");

    let (ends, seen) = run(Manner::Reaps, &["acme"]).await;
    assert_eq!(told(&ends), good, "the call went through in a new session");
    {
        let seen = seen.lock().unwrap();
        assert_eq!(seen.made, 2, "one session more, and no third");
        assert!(seen.called.iter().all(|(session, _)| session == "s-2"));
        assert_eq!(seen.called.len(), 2, "each call ran once");
        assert_ne!(seen.called[0].1, seen.called[1].1, "each under its own key");
    }

    let (ends, seen) = run(Manner::ForgetsAll, &["acme"]).await;
    let said = told(&ends);
    assert_eq!((&said[0][1], &said[1][1]), (&json!(true), &json!(true)), "the model is told: {said}");
    let made = seen.lock().unwrap().made;
    assert!(made <= 4, "no endless loop: {made}");

    let (ends, seen) = run(Manner::NotThere, &["acme"]).await;
    assert!(ends[0].as_ref().unwrap_err().contains("MCP"), "{ends:?}");
    assert_eq!(seen.lock().unwrap().made, 0);

    let (ends, seen) = run(Manner::ToolFails, &["acme"]).await;
    assert_eq!(
        told(&ends),
        json!([["acted", true], ["acted", true]]),
        "an error of the tool is told and not tried again"
    );
    assert_eq!(seen.lock().unwrap().called.len(), 2);

    let (ends, _) = run(Manner::Streams, &["acme"]).await;
    assert_eq!(told(&ends), good, "the result is the one with the request's id");

    let (ends, seen) = run(Manner::Good, &["acme", "other"]).await;
    assert!(ends.iter().all(Result::is_ok));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.made, 2, "a session is never shared between tenants");
    assert_eq!(seen.closed, ["s-1", "s-2"], "each is closed by its own tenant's job");
}
