//! What is answered under each schema, as golden files, and under none.

use insta::assert_json_snapshot;
use longhaul_llm::{Arguments, Finish, Message, ModelRequest, ResponseFormat, ToolSpec};
use longhaul_local::rehearsal::Rehearsal;
use serde_json::{Value, json};

use crate::prompts::{SOURCES, Stand, TOPIC, report};

async fn stand() -> Stand {
    Stand::start(Rehearsal::default()).await
}

#[tokio::test]
async fn research_plans() {
    let stand = stand().await;
    let mut plans = Vec::new();
    for topic in [TOPIC, "Tides", "¿?", "  The Treaty of\nWestphalia and modern statehood. "] {
        plans.push(json!({"topic": topic, "plan": stand.ask("research_plan", &[("topic", topic)]).await}));
    }
    assert_json_snapshot!("research_plan", plans);
}

#[tokio::test]
async fn reading_notes() {
    let stand = stand().await;
    let mut notes = Vec::new();
    for (file, title, text) in SOURCES {
        let values = [("topic", TOPIC), ("file", file), ("title", title), ("text", text)];
        notes.push(json!({"file": file, "notes": stand.ask("reading_notes", &values).await}));
    }
    assert_json_snapshot!("reading_notes", notes);
}

#[tokio::test]
async fn reports() {
    let stand = stand().await;
    let both = report(&stand, TOPIC, &SOURCES).await;
    assert_json_snapshot!("report", both);
    assert_eq!(report(&stand, TOPIC, &SOURCES).await, both, "equal requests get equal answers");
    assert_ne!(report(&stand, TOPIC, &SOURCES[1..]).await, both, "another corpus is another report");
    assert_json_snapshot!("report_without_sources", report(&stand, TOPIC, &[]).await);
}

const PAGES: &str = "<page number=\"3\">\nPasswords must have at least 8 characters. Personal data is encrypted at rest with \
    keys of 256 bits.\n</page>\n<page number=\"17\">\nBackups of the database are not encrypted. Access logs are retained for 2 \
    years and reviewed quarterly.\nThe team plans to consider a penetration test of the platform where possible. Total liability is capped at 150 per cent of the charges.\n</page>";

#[tokio::test]
async fn compliance_findings_and_tickets() {
    let rules = [
        ("R1", "Passwords", "Passwords must have at least 12 characters.", "password", "violated"),
        ("R2", "Log retention", "Access logs must be retained for at least 12 months.", "logs, retention", "met"),
        ("R3", "Review", "Access logs must be reviewed at least annually.", "", "met"),
        ("R4", "Encryption at rest", "Personal data shall be encrypted at rest.", "encryption", "met"),
        ("R5", "Backups", "Backups of the database must be encrypted.", "backup", "violated"),
        ("R6", "Penetration test", "A penetration test of the platform must be made.", "penetration", "unclear"),
        ("R8", "Cap", "Total liability must be capped at no less than 100 per cent of the charges.", "", "met"),
        ("R9", "No cap", "Total liability must not be capped.", "", "violated"),
        ("R7", "Training", "All staff shall be trained in data protection every year.", "training, staff", "unclear"),
    ];
    let stand = stand().await;
    let mut findings = Vec::new();
    for (id, title, requirement, keywords, verdict) in rules {
        let rule = [("id", id), ("title", title), ("requirement", requirement)];
        let finding =
            stand.ask("compliance_finding", &[&rule[..], &[("keywords", keywords), ("pages", PAGES)]].concat()).await;
        assert_eq!(finding["verdict"], verdict, "{id}: {finding}");
        let ticket = stand.ask("ticket", &[&rule[..], &[("finding", finding.to_string().as_str())]].concat()).await;
        findings.push(json!({"rule": id, "finding": finding, "ticket": ticket}));
    }
    assert_json_snapshot!("compliance", findings);
}

/// Any schema is satisfied, with the input's words.
#[tokio::test]
async fn other_schemas() {
    let schemas = [
        json!({"type": "object", "properties": {"answer": {"type": "string"}, "more": {"type": "string"}}, "required": ["answer"]}),
        json!({"type": "object", "required": ["n", "x", "kind", "list", "ok", "at"], "properties": {
            "n": {"type": "integer", "minimum": 3}, "x": {"type": "number", "maximum": -1.5}, "kind": {"enum": ["a", "b"]},
            "list": {"type": "array", "minItems": 2, "uniqueItems": true, "items": {"type": "string", "minLength": 3, "maxLength": 400}},
            "ok": {"type": "boolean"}, "at": {"type": ["string", "null"], "format": "date-time"}}}),
        json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}}),
        json!({"allOf": [{"type": "object", "required": ["a"]}, {"required": ["b"], "properties": {"b": {"const": 7}}}]}),
        json!({"anyOf": [{"type": "null"}, {"type": "string"}]}),
        json!({}),
    ];
    let stand = stand().await;
    let mut instances = Vec::new();
    for schema in schemas {
        let request = ModelRequest {
            response_format: ResponseFormat::JsonSchema { name: "thing".to_owned(), schema: schema.clone() },
            ..ModelRequest::new("m", vec![Message::user("Ships need a harbour in every storm of the year.")])
        };
        let reply = stand.complete(&request).await.unwrap();
        instances.push(reply.structured(&schema).unwrap());
    }
    assert_json_snapshot!("other_schemas", instances);
}

#[tokio::test]
async fn a_search_tool_is_used_and_its_results_are_condensed() {
    let stand = stand().await;
    let parameters = json!({"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["query"]});
    let tool =
        |name: &str| ToolSpec { name: name.to_owned(), description: String::new(), parameters: parameters.clone() };
    let question = Message::user("How do harbours work?");
    let mut request =
        ModelRequest { tools: vec![tool("other"), tool("search")], ..ModelRequest::new("m", vec![question]) };
    let reply = stand.complete(&request).await.unwrap();
    assert_eq!(reply.finish, Finish::ToolCalls);
    let call = reply.message.tool_calls[0].clone();
    let Arguments::Object { object } = &call.arguments else { panic!("{call:?}") };
    assert_eq!(
        (call.name.as_str(), Value::Object(object.clone())),
        ("search", json!({"query": "How do harbours work?"}))
    );

    let found = json!([{"file": "a.md", "text": "Harbours shelter ships from the open sea. Bread is baked from flour and water."}]);
    request.messages.push(reply.message);
    request.messages.push(Message::tool(&call.id, found.to_string()));
    let reply = stand.complete(&request).await.unwrap();
    let text = reply.message.text();
    assert!(
        text.starts_with("[rehearsal, no model] ") && text.contains("Harbours shelter ships from the open sea."),
        "{text}"
    );
    assert_eq!(
        (reply.model.as_str(), &reply.extras["system_fingerprint"]),
        ("rehearsal", &json!("rehearsal-no-model"))
    );

    request.messages.truncate(1);
    request.tool_choice = longhaul_llm::ToolChoice::None;
    assert_eq!(stand.complete(&request).await.unwrap().finish, Finish::Stop);
}
