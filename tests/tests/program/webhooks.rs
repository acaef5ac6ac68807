//! A webhook's receiver whose libraries others wrote: it verifies as docs/webhooks.md shows, and it attacks that code.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use longhaul_tests::program::Stack;
use longhaul_tests::tools;
use serde_json::{Value, json};

/// The receiver's process, and what it says.
struct Receiver {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
    port: u16,
}

impl Receiver {
    /// Starts it. It answers with these statuses, one after the other, and then with 204.
    fn start(secret: &str, statuses: &[&str]) -> Self {
        let python = tools::python(&["standardwebhooks", "cloudevents"]);
        let script = tools::root().join("tests/webhooks/receiver.py");
        let mut process =
            Command::new(python).arg(script).arg(secret).args(statuses).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut port = String::new();
        lines.read_line(&mut port).unwrap();
        Self { process, lines, port: port.trim().parse().expect("a port") }
    }

    /// What it says of the next request.
    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("the receiver ended: {line:?}"))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _ended = self.process.wait();
    }
}

/// One call of the stack's API.
fn call(stack: &Stack, method: reqwest::Method, path: &str, body: &Value) -> (u16, Value) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let url = format!("{}{path}", stack.address("api"));
        let request = reqwest::Client::new().request(method, url).bearer_auth(stack.token("local")).json(body);
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    })
}

#[test]
fn e12_a_receiver_takes_what_is_ours_once_and_nothing_else() {
    let stack = Stack::up(&[]);
    let secret = std::fs::read_to_string(stack.data().join("webhook-secret")).unwrap();
    let mut receiver = Receiver::start(secret.trim(), &["500"]);
    let hook = format!("http://127.0.0.1:{}/hooks", receiver.port);
    let order = json!({ "agent": "agent-10", "input": { "steps": 2 }, "webhook": hook });
    let (status, job) = call(&stack, reqwest::Method::POST, "/v1/jobs", &order);
    assert_eq!(status, 202, "{job}");
    let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());

    // The first try fails. The second comes from the queue, five seconds later, in another invocation.
    let first = receiver.next();
    assert_eq!(first["status"], 500);
    let second = receiver.next();
    assert_eq!((&second["status"], &second["id"]), (&json!(204), &first["id"]));
    assert_ne!(second["signature"], first["signature"], "each try is signed anew");
    let event = &second["event"];
    assert_eq!((&event["specversion"], &event["type"]), (&json!("1.0"), &json!("longhaul.AgentJobCompleted")));
    assert_eq!(event["source"], json!(path));
    assert_eq!(second["taken"], json!(format!("taken: {}", event["id"].as_str().unwrap())));
    for (attack, said) in second["refused"].as_object().unwrap() {
        let said = said.as_str().unwrap();
        let right = if attack == "replayed" { said == "known" } else { said.starts_with("refused: ") };
        assert!(right, "{attack}: {said}");
    }
    assert_eq!(second["refused"].as_object().unwrap().len(), 12);

    // Both tries are in the log; ordered again, the same event comes under the same id, which the receiver knows.
    let delivery = longhaul_tests::program::wait_for_some("the delivery to be settled", || {
        let (_, list) = call(&stack, reqwest::Method::GET, &format!("{path}/deliveries"), &Value::Null);
        let delivery = list["deliveries"][0].clone();
        (delivery["status"] == "DELIVERED").then_some(delivery)
    });
    let statuses: Vec<&Value> = delivery["attempts"].as_array().unwrap().iter().map(|made| &made["status"]).collect();
    assert_eq!((statuses, &delivery["id"]), (vec![&json!(500), &json!(204)], &first["id"]));
    let resend = format!("{path}/deliveries/{}/resend", delivery["id"].as_str().unwrap());
    let (status, again) = call(&stack, reqwest::Method::POST, &resend, &json!({}));
    assert_eq!((status, &again["status"]), (202, &json!("PENDING")), "{again}");
    let third = receiver.next();
    assert_eq!((&third["id"], &third["taken"]), (&first["id"], &json!("known")));

    // The same by the command line.
    let (id, sent) = (job["id"].as_str().unwrap(), first["id"].as_str().unwrap());
    let listed = stack.run(&["jobs", "deliveries", id]);
    let table = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.status.success() && table.contains(sent) && table.contains("longhaul.AgentJobCompleted"), "{table}");
    let again = stack.json(&["jobs", "resend", id, sent, "--json"]);
    assert_eq!((&again["id"], &again["status"]), (&first["id"], &json!("PENDING")), "{again}");
    let fourth = receiver.next();
    assert_eq!((&fourth["id"], &fourth["taken"]), (&first["id"], &json!("known")));
    let list = longhaul_tests::program::wait_for_some("the delivery to be settled again", || {
        let list = stack.json(&["jobs", "deliveries", id, "--json"]);
        (list["deliveries"][0]["status"] == "DELIVERED").then_some(list)
    });
    assert_eq!(list["deliveries"].as_array().unwrap().len(), 1, "{list}");
    let unknown = stack.run(&["jobs", "resend", id, "evt_7", "--json"]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && said.contains("longhaul jobs deliveries ID"), "{said}");
}
