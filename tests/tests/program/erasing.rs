//! A tenant's data goes for good: only by its name and with a yes, and until it has gone nothing new comes in.

use futures::StreamExt;
use longhaul_tests::program::{PATIENCE, Stack};
use serde_json::json;
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
