//! The command line from elsewhere: a deployment by its address, tokens by login or by the environment, help that helps.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use axum::extract::{Form, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use longhaul_tests::program::{Stack, longhaul};
use serde_json::{Value, json};
use tempfile::TempDir;

/// An identity provider: what it was asked for, and the token that it gives.
#[derive(Clone)]
struct Provider {
    url: String,
    token: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Provider {
    fn start(runtime: &tokio::runtime::Runtime, token: String) -> Self {
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let provider = Self { url, token, asked: Arc::default() };
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(Self::description))
            .route("/device", post(Self::device))
            .route("/token", post(Self::give))
            .with_state(provider.clone());
        runtime.spawn(async move { axum::serve(listener, routes).await });
        provider
    }

    async fn description(State(it): State<Self>) -> Json<Value> {
        let at = |path: &str| format!("{}{path}", it.url);
        Json(json!({
            "issuer": it.url, "token_endpoint": at("/token"), "device_authorization_endpoint": at("/device"),
        }))
    }

    async fn device(State(it): State<Self>, Form(form): Form<HashMap<String, String>>) -> Json<Value> {
        it.note(&format!("device {} {}", form["client_id"], form["audience"]));
        Json(json!({
            "device_code": "d-1", "user_code": "WDJB-MJHT", "verification_uri": format!("{}/confirm", it.url),
            "expires_in": 60, "interval": 1,
        }))
    }

    async fn give(
        State(it): State<Self>,
        Form(form): Form<HashMap<String, String>>,
    ) -> (axum::http::StatusCode, Json<Value>) {
        let grant = form["grant_type"].rsplit(':').next().unwrap().to_owned();
        it.note(&grant);
        // The person takes a moment to confirm.
        if grant == "device_code" && it.count("device_code") == 1 {
            return (axum::http::StatusCode::BAD_REQUEST, Json(json!({"error": "authorization_pending"})));
        }
        let lifetime = if grant == "device_code" { 1 } else { 3_600 };
        let given = json!({
            "access_token": it.token, "token_type": "Bearer", "expires_in": lifetime, "refresh_token": "r-1",
        });
        (axum::http::StatusCode::OK, Json(given))
    }

    fn note(&self, what: &str) {
        self.asked.lock().unwrap().push(what.to_owned());
    }

    fn count(&self, what: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| *asked == what).count()
    }
}

/// Somebody's machine that has no stack.
struct Elsewhere {
    home: TempDir,
    url: String,
}

impl Elsewhere {
    fn run(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(longhaul());
        for (name, _) in std::env::vars() {
            if name.starts_with("LONGHAUL_") {
                command.env_remove(name);
            }
        }
        command
            .args(arguments)
            .env("LONGHAUL_DATA", self.home.path().join("data"))
            .env("LONGHAUL_CONFIG", self.home.path().join("config"))
            .env("LONGHAUL_URL", &self.url)
            .envs(variables.iter().copied())
            .stdin(Stdio::null());
        command.output().unwrap()
    }

    fn json(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Value {
        let output = self.run(arguments, variables);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_deployment_is_worked_with_from_elsewhere() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let token = stack.token("local");
    let provider = Provider::start(&runtime, token.clone());
    let elsewhere = Elsewhere { home: TempDir::new().unwrap(), url: stack.address("api") };

    let refused = elsewhere.run(&["jobs", "ls"], &[]);
    assert!(!refused.status.success() && said(&refused).contains("next: longhaul login --url"), "{}", said(&refused));
    let input = ["run", "agent-10", "--input", r#"{"steps": 2}"#, "--label", "team=a", "--steps", "9", "--json"];
    let given = elsewhere.json(&input, &[("LONGHAUL_TOKEN", &token)]);
    assert_eq!(given["status"], "COMPLETED", "{given}");

    let login = ["login", "--client-id", "cli", "--issuer", &provider.url];
    let output = elsewhere.run(&login, &[]);
    assert!(output.status.success() && said(&output).contains("confirm the code WDJB-MJHT"), "{}", said(&output));
    let kept = elsewhere.home.path().join("config/credentials.json");
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!said(&output).contains(&token) && !String::from_utf8_lossy(&output.stdout).contains(&token));
    // The token that was given has expired by now: it is renewed, once, and the new one is kept.
    for _ in 0..2 {
        let jobs = elsewhere.json(&["jobs", "ls", "--label", "team=a", "--json"], &[]);
        assert_eq!(jobs["jobs"][0]["id"], given["id"], "{jobs}");
    }
    let watched = elsewhere.json(&["watch", given["id"].as_str().unwrap(), "--json"], &[]);
    assert_eq!(watched, given);
    assert_eq!(
        *provider.asked.lock().unwrap(),
        ["device cli longhaul", "device_code", "device_code", "refresh_token"],
        "the deployment has named the audience"
    );
    assert!(elsewhere.run(&["logout"], &[]).status.success());
    assert!(!elsewhere.run(&["jobs", "ls"], &[]).status.success());

    // A program has a secret of its own, which stands in no file.
    let secret = [("LONGHAUL_CLIENT_SECRET", "s3cr3t-of-the-client")];
    assert!(elsewhere.run(&login, &secret).status.success());
    assert_eq!(provider.count("client_credentials"), 1);
    assert!(!std::fs::read_to_string(&kept).unwrap().contains("s3cr3t"));
    assert!(elsewhere.run(&["agents", "ls"], &[]).status.success());

    // Where nothing can be kept, nobody is sent to a browser.
    std::fs::write(&kept, "{").unwrap();
    let asked = provider.asked.lock().unwrap().len();
    let refused = elsewhere.run(&login, &[]);
    assert!(!refused.status.success() && said(&refused).contains("cannot be read or written"), "{}", said(&refused));
    assert_eq!(provider.asked.lock().unwrap().len(), asked);
}

/// Where no WebSocket gets through, a watcher sees the same.
#[test]
fn a_job_is_watched_without_a_websocket() {
    let stack = Stack::up(&["--think-ms", "50"]);
    let elsewhere = Elsewhere { home: TempDir::new().unwrap(), url: stack.address("api") };
    let token = [("LONGHAUL_TOKEN", &*stack.token("local"))];
    let id = stack.submit("agent-10", &json!({"steps": 3}));
    let told = stack.run(&["jobs", "show", &id, "--faults", "{}", "--workers=3"]);
    assert!(said(&told).contains("--workers, --faults: without effect"), "{}", said(&told));
    // A port that nobody listens on any more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = format!("ws://{closed}/live");
    let asked = elsewhere.json(&["watch", &id, "--json", "--websocket", &closed], &token);
    assert_eq!((&asked["id"], &asked["status"]), (&json!(id), &json!("COMPLETED")), "{asked}");
    assert_eq!(elsewhere.json(&["watch", &id, "--json"], &token), asked);
}

/// Where a message is said, and what it must hold: what was attempted, with what, what next.
#[test]
fn errors_say_what_to_do_next() {
    let nowhere = Elsewhere { home: TempDir::new().unwrap(), url: "http://127.0.0.1:9".to_owned() };
    let token = [("LONGHAUL_TOKEN", "a.b.c")];
    let plan = r#"{"rules": [{"action": 7}]}"#;
    for (arguments, wanted) in [
        (&["jobs", "show", "x", "--json"][..], "GET http://127.0.0.1:9/"),
        (&["jobs", "ls"], "next: is it up"),
        (&["jobs", "ls", "--url", "http://longhaul.example"], "in the clear"),
        (&["run", "agent-10", "--input", "{"], "--input: is no JSON"),
        (&["jobs", "ls", "--url", "https://longhaul.example/?x=1"], "give https://longhaul.example"),
        (&["token"], "longhaul login --url"),
        (&["up", "--faults", plan, "--url", ""], "--faults: is no plan of faults: at "),
        (&["up", "--url", "https://longhaul.example"], "`longhaul up` starts a stack of its own"),
        (&["soak", "--url", "https://longhaul.example"], "`longhaul soak` starts a stack of its own"),
        (&["bench", "--url", "https://longhaul.example"], "`longhaul bench` starts a stack of its own"),
        (&["jobs", "ls", "--workers", "3"], "--workers: without effect, since http://127.0.0.1:9 runs already"),
    ] {
        let output = nowhere.run(arguments, &token);
        assert!(!output.status.success() && said(&output).contains(wanted), "{arguments:?}: {}", said(&output));
        assert!(!said(&output).contains("output cannot be written"), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn a_port_that_is_taken_is_said_with_the_way_out() {
    let nobody = Elsewhere { home: TempDir::new().unwrap(), url: String::new() };
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (data, free, taken) = (nobody.home.path().join("data"), "0", held.local_addr().unwrap().port().to_string());
    for (api, websocket) in [(&*taken, free), (free, &*taken)] {
        let ports = ["up", "--port", api, "--websocket-port", websocket, "--data", data.to_str().unwrap()];
        let output = nobody.run(&ports, &[]);
        assert!(!output.status.success() && said(&output).contains("--websocket-port"), "{}", said(&output));
    }
}

#[test]
fn shells_complete_the_commands() {
    let nobody = Elsewhere { home: TempDir::new().unwrap(), url: String::new() };
    for shell in ["bash", "zsh", "fish"] {
        let output = nobody.run(&["completion", shell], &[]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && text.contains("dead-letters") && text.contains("replay-all"), "{shell}");
    }
}

#[test]
fn dead_letters_that_match_are_replayed_together() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let ids: Vec<String> =
        [2, 3].map(|steps| stack.submit("agent-10", &json!({"steps": steps, "fail_at": 2}))).into_iter().collect();
    for id in &ids {
        assert_eq!(stack.ended(id)["job"]["status"], "FAILED");
    }
    let all = |arguments: &[&str]| {
        let whole = [&["dead-letters", "replay-all", "--json"], arguments].concat();
        stack.json(&whole)["opened"].as_array().unwrap().len()
    };
    assert_eq!(all(&["--class", "timeout"]), 0);
    assert_eq!(all(&["--agent", "agent-10", "--text", "was told to fail", "--dry-run"]), 2);
    assert_eq!(
        stack.json(&["dead-letters", "ls", "--class", "invalid", "--json"])["dead_letters"].as_array().unwrap().len(),
        2
    );
    assert_eq!(all(&["--agent", "agent-10@1"]), 2);
    for id in &ids {
        let job = stack.ended(id);
        assert_eq!(longhaul_tests::program::entries(&job, "replayed").len(), 1, "{job}");
    }
    // The folder is its owner's alone, also one that was there before.
    let mode = std::fs::metadata(stack.data()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}
