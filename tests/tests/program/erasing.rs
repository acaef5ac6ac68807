//! A tenant's data goes for good: only by its name and with a yes, and until it has gone nothing new comes in.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use futures::StreamExt;
use longhaul_tests::program::{PATIENCE, Stack, wait_for};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

#[test]
fn a_tenant_is_erased_by_its_name_and_with_a_yes() {
    let stack = Stack::up_with(&["--think-ms", "0"], &[("LONGHAUL_ERASURE_REST_SECONDS", "2")]);
    let id = stack.submit("agent-10", &json!({"steps": 2}));
    assert_eq!(stack.ended(&id)["job"]["status"], "COMPLETED");
    let file = stack.data().join("job.json");
    std::fs::write(&file, stack.run(&["jobs", "export", &id]).stdout).unwrap();
    for (refused, says) in
        [(&["tenant", "erase", "local"][..], "say --yes"), (&["tenant", "erase", "other", "--yes"], "--tenant other")]
    {
        let refused = stack.run(refused);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(says), "{said}");
    }
    assert_eq!(stack.json(&["jobs", "ls", "--json"])["jobs"].as_array().unwrap().len(), 1);

    let begun = stack.json(&["tenant", "erase", "local", "--yes", "--detach", "--json"]);
    let refused = stack.run(&["run", "agent-10", "--detach"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("(409)"), "{refused:?}");
    let refused = stack.run(&["jobs", "import", file.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is being erased"), "{refused:?}");
    let done = stack.run(&["tenant", "erase", "local", "--yes"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success() && said.contains(begun["id"].as_str().unwrap()), "{said}");
    assert!(said.contains("a second look"), "{said}");
    assert!(String::from_utf8_lossy(&done.stdout).starts_with("done: 1 jobs, "), "{done:?}");
    assert_eq!(stack.json(&["jobs", "ls", "--json"])["jobs"], json!([]));
    let erasures = stack.json(&["tenant", "erasures", "--json"]);
    assert_eq!((&erasures["erasures"][0]["id"], &erasures["erasures"][0]["status"]), (&begun["id"], &json!("DONE")));
    let again = stack.submit("agent-10", &json!({"steps": 1}));
    assert_eq!(stack.ended(&again)["job"]["status"], "COMPLETED", "the tenant may begin anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_is_sent_away() {
    let stack = Stack::up_with(&["--think-ms", "0"], &[("LONGHAUL_ERASURE_REST_SECONDS", "1")]);
    let url = stack.address("websocket");
    let open = async |tenant: &str| connect_async(format!("{url}?token={}", stack.token(tenant))).await.unwrap().0;
    let (mut leaving, mut staying) = (open("local").await, open("other").await);
    let begun = stack.json(&["tenant", "erase", "local", "--yes", "--detach", "--json"]);
    assert!(begun["id"].is_string(), "{begun}");
    let closed = async {
        loop {
            match leaving.next().await {
                None | Some(Err(_) | Ok(Message::Close(_))) => return,
                Some(Ok(_)) => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, closed).await.expect("the gateway closes the connection");
    futures::SinkExt::send(&mut staying, Message::text(json!({"action": "ping"}).to_string())).await.unwrap();
    let answer = tokio::time::timeout(PATIENCE, staying.next()).await.unwrap().unwrap().unwrap();
    assert!(answer.to_string().contains("pong"), "{answer}");
}

/// What was told to the model and to the webhook.
#[derive(Default)]
struct Told {
    instructions: Vec<String>,
    reports: Vec<Value>,
}

async fn chat(State(told): State<Arc<Mutex<Told>>>, Json(request): Json<Value>) -> Json<Value> {
    let system = request["messages"][0]["content"].as_str().unwrap().to_owned();
    told.lock().unwrap().instructions.push(system);
    Json(json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
    }))
}

async fn hook(State(told): State<Arc<Mutex<Told>>>, Json(event): Json<Value>) {
    told.lock().unwrap().reports.push(event);
}

/// Processes that have been at work before the erasure go on behind it: an agent of the same name and version is another
/// one, and a job under a key that is used again has its own webhook.
#[test]
fn what_begins_anew_is_not_taken_for_what_was_erased() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let told = Arc::new(Mutex::new(Told::default()));
    let routes = Router::new()
        .route("/v1/chat/completions", post(chat))
        .route("/hook", post(hook))
        .with_state(Arc::clone(&told));
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let server = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, routes).await });
    let providers = json!({"script": {
        "wire": "chat", "model": "scripted", "base_url": format!("http://{server}/v1"), "features": {"streaming": false},
    }});
    let stack = Stack::up_with(
        &["--think-ms", "0"],
        &[("LONGHAUL_PROVIDERS", &providers.to_string()), ("LONGHAUL_ERASURE_REST_SECONDS", "2")],
    );
    let file = stack.data().join("clerk.yaml");
    let (url, token) = (format!("{}/v1/jobs", stack.address("api")), stack.token("local"));
    let run = |instructions: &str, webhook: Option<String>| {
        let definition = format!(
            "name: clerk\ndescription: Answers.\ninstructions: {instructions}\nmodels: [{{ provider: script }}]\n"
        );
        std::fs::write(&file, definition).unwrap();
        let applied = stack.run(&["agents", "apply", file.to_str().unwrap()]);
        let said = String::from_utf8([applied.stdout, applied.stderr].concat()).unwrap();
        assert!(said.contains("saved as clerk@1"), "{said}");
        let mut order = json!({"agent": "clerk", "input": "a letter"});
        if let Some(webhook) = webhook {
            order["webhook"] = json!(webhook);
        }
        let request =
            reqwest::Client::new().post(&url).bearer_auth(&token).header("idempotency-key", "one").json(&order);
        let answer: Value = runtime.block_on(async { request.send().await.unwrap().json().await.unwrap() });
        let job = answer["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        assert_eq!(stack.ended(&job)["job"]["status"], "COMPLETED");
        let last = told.lock().unwrap().instructions.last().cloned().unwrap();
        assert!(last.starts_with(instructions), "{last}");
        job
    };
    let before = run("Of before.", None);
    let erased = stack.run(&["tenant", "erase", "local", "--yes"]);
    assert!(erased.status.success(), "{erased:?}");
    assert_eq!(run("Of behind.", Some(format!("http://{server}/hook"))), before, "the key is the same");
    wait_for("the report", || !told.lock().unwrap().reports.is_empty());
    assert_eq!(told.lock().unwrap().reports[0]["source"], format!("/v1/jobs/{before}"));
}
