//! The servers as processes of the test, and models behind them.

use std::net::TcpListener;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use longhaul_llm::{
    Access, AwsCredentials, Delta, Endpoint, ModelError, ModelReply, ModelRequest, Provider, Secret, Wire,
};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::tools::{installed, node};

/// Time for a server to come up. Python needs seconds on a busy machine.
const START_SECONDS: u64 = 60;

/// A server that ends with the test.
pub(crate) struct Server {
    pub(crate) url: String,
    _child: Child,
    /// Held, so that the server can write on.
    _output: BufReader<ChildStdout>,
}

/// Starts a server, and waits for the line with which it says that it listens.
async fn started(mut command: Command, listening: &str) -> (Child, BufReader<ChildStdout>, String) {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    let wait = async {
        loop {
            let begun = said.len();
            let length = output.read_line(&mut said).await.unwrap();
            assert!(length > 0, "{command:?} ended before it listened:\n{said}");
            if said[begun..].contains(listening) {
                return said[begun..].to_owned();
            }
        }
    };
    let line = tokio::time::timeout(Duration::from_secs(START_SECONDS), wait).await.expect("the server listens");
    (child, output, line)
}

impl Server {
    /// aimock with this crate's script.
    pub(crate) async fn aimock() -> Self {
        let program = installed("target/tools/npm/node_modules/@copilotkit/aimock/dist/cli.js");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/models/aimock.json");
        let mut command = Command::new(node());
        command.arg(program).args([
            "--host",
            "127.0.0.1",
            "--port",
            "0",
            "--strict",
            "--validate-on-load",
            "-f",
            script,
        ]);
        let (child, output, line) = started(command, "listening on http").await;
        let url = line.split_whitespace().last().unwrap().to_owned();
        Self { url, _child: child, _output: output }
    }

    /// llmock, which plays what it is told and judges what it sees.
    pub(crate) async fn llmock() -> Self {
        let program = installed("target/tools/bin/llmock");
        // It cannot say which port it was given, so it gets one that was free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(program);
        command.args(["serve", "--host", "127.0.0.1", "--port", &port.to_string(), "--log-level", "warning"]);
        command.env("COLUMNS", "120");
        let (child, output, _) = started(command, "Listening").await;
        let server = Self { url: format!("http://127.0.0.1:{port}"), _child: child, _output: output };
        server.wait_until_healthy().await;
        server
    }

    /// It writes that it listens a little before it does.
    async fn wait_until_healthy(&self) {
        let healthy = async {
            while reqwest::get(format!("{}/health", self.url)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(START_SECONDS), healthy).await.expect("the server answers");
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let text = reqwest::get(format!("{}{path}", self.url)).await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {text}"))
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) {
        let post = reqwest::Client::new().post(format!("{}{path}", self.url)).body(body.to_string());
        let response = post.header("content-type", "application/json").send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.text().await.unwrap());
    }
}

/// A model at a server, at the path that this server has for the format.
pub(crate) fn provider(wire: Wire, base_url: String, model: &str, streaming: bool) -> Provider {
    let mut endpoint = Endpoint { base_url: Some(base_url), ..Endpoint::new(wire, model) };
    endpoint.features.streaming = streaming;
    endpoint.region = (wire == Wire::Converse).then(|| "us-east-1".to_owned());
    let access = match wire {
        Wire::Chat | Wire::Responses | Wire::Messages => Access::Key(Secret::new("made-up-key")),
        Wire::Converse => Access::Aws(Arc::new(AwsCredentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: Secret::new("made-up-key"),
            session_token: None,
        })),
    };
    endpoint.open(access).unwrap()
}

/// One call, with what watchers saw of it.
pub(crate) async fn ask(model: &Provider, request: &ModelRequest) -> (Result<ModelReply, ModelError>, Vec<Delta>) {
    let mut deltas = Vec::new();
    let result = model.complete_with(request, &mut |delta| deltas.push(delta)).await;
    (result, deltas)
}
