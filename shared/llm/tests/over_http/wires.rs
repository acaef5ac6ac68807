//! The four wire formats as the tests of this file's neighbours use them.

use std::sync::Arc;

use longhaul_llm::{
    Access, AwsCredentials, Delta, Endpoint, Message, ModelError, ModelReply, ModelRequest, Provider, Secret, Wire,
};
use serde_json::Value;

use crate::server::{Answer, Server};

pub(crate) const KEY: &str = "sk-made-up-key-0123456789";

pub(crate) const WIRES: [Wire; 4] = [Wire::Chat, Wire::Responses, Wire::Messages, Wire::Converse];

/// An input file of a case.
pub(crate) fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/faults/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).expect(&path)
}

pub(crate) fn json_file(name: &str) -> Value {
    serde_json::from_slice(&file(name)).expect(name)
}

/// A model called `m` behind a wire format, at a server of the test.
pub(crate) fn endpoint(wire: Wire, server: &Server) -> Endpoint {
    Endpoint {
        base_url: Some(server.base_url.clone()),
        region: (wire == Wire::Converse).then(|| "eu-central-1".to_owned()),
        ..Endpoint::new(wire, "m")
    }
}

pub(crate) fn access(wire: Wire) -> Access {
    match wire {
        Wire::Chat | Wire::Responses | Wire::Messages => Access::Key(Secret::new(KEY)),
        Wire::Converse => Access::Aws(Arc::new(AwsCredentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: Secret::new(KEY),
            session_token: None,
        })),
    }
}

pub(crate) fn provider(wire: Wire, server: &Server) -> Provider {
    endpoint(wire, server).open(access(wire)).unwrap()
}

pub(crate) fn request() -> ModelRequest {
    ModelRequest { time_limit_ms: 10_000, ..ModelRequest::new("m", vec![Message::user("go")]) }
}

/// What a call came to.
pub(crate) struct Outcome {
    pub(crate) result: Result<ModelReply, ModelError>,
    pub(crate) deltas: Vec<Delta>,
    /// The text that watchers saw.
    pub(crate) shown: String,
}

pub(crate) async fn ask(provider: &Provider, request: &ModelRequest) -> Outcome {
    let mut deltas = Vec::new();
    let result = provider.complete_with(request, &mut |delta| deltas.push(delta)).await;
    if let Err(error) = &result {
        assert!(!format!("{error} {error:?}").contains(KEY), "the key shows: {error:?}");
    }
    let shown = deltas.iter().filter_map(|delta| match delta {
        Delta::Text { text } => Some(text.as_str()),
        Delta::Reasoning { .. } | Delta::ToolCall { .. } | Delta::Discard => None,
    });
    let shown = shown.collect();
    Outcome { result, deltas, shown }
}

/// One scripted answer to one request.
pub(crate) async fn answered(wire: Wire, answer: Answer) -> Outcome {
    let server = Server::start().await;
    server.will_answer(answer);
    let outcome = ask(&provider(wire, &server), &request()).await;
    assert_eq!(server.seen().len(), 1, "the client itself must not repeat a call");
    outcome
}

/// An answer in AWS's framing.
pub(crate) fn event_stream(bytes: impl Into<Vec<u8>>) -> Answer {
    Answer::ok(bytes).header("content-type", "application/vnd.amazon.eventstream")
}
