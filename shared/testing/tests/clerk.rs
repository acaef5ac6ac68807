//! The example of docs/testing-agents.md: everything that the page shows is in this file, and runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

// [uses]
use std::cell::Cell;
use std::rc::Rc;

use longhaul::{Agent, Ctx, StepError};
use longhaul_llm::{Access, Endpoint, Message, ModelRequest, Secret, Wire};
use longhaul_testing::{Script, Traffic, Trial};
use serde_json::{Value, json};
// [/uses]

const CLERK: &str = include_str!("clerk.yaml");

// [definition]
fn clerk() -> Trial {
    Trial::of_definition(CLERK)
        .secret("ssm:/clerk/files-key", "any key will do in a replay")
        .function("payments", |event| Ok(json!({ "paid": event["arguments"]["amount"] })))
}

#[test]
fn it_pays_what_a_person_has_approved() {
    let script = Rc::new(Script::new().calls(&[("pay", json!({"amount": 120}))]).says(r#"{"number": 0}"#));
    let ended = clerk()
        .script(Rc::clone(&script))
        .person("approval:pay", json!({"decision": "approved", "arguments": {"amount": 100}}))
        .run(json!({"letter": "Please pay 120."}))
        .unwrap();
    assert_eq!(ended.result().unwrap(), &json!({"number": 0}));
    assert_eq!(ended.took.as_secs(), 62, "a minute until the person answered, a second for each answer of the model");
    assert_eq!(ended.journal, include_str!("clerk.journal"));
    let asked = script.asked();
    let told = asked[1].messages.last().map(Message::text).unwrap();
    assert!(told.contains(r#"{"paid":100}"#), "{told}");
}
// [/definition]

// [crashes]
#[test]
fn it_pays_once_wherever_its_worker_dies() {
    for call in 1..20 {
        let paid = Rc::new(Cell::new(0));
        let counted = Rc::clone(&paid);
        let ended = clerk()
            .function("payments", move |event| {
                counted.set(counted.get() + 1);
                Ok(json!({ "paid": event["arguments"]["amount"] }))
            })
            .script(Rc::new(Script::new().calls(&[("pay", json!({"amount": 5}))]).says(r#"{"number": 0}"#)))
            .person("approval:pay", json!("approved"))
            .dies_at(call)
            .run(json!("Please pay 5."))
            .unwrap();
        assert!(ended.result().is_ok(), "call {call}:\n{}", ended.journal);
        assert!(paid.get() <= 1, "call {call}: paid {} times", paid.get());
    }
}
// [/crashes]

// [rust]
async fn greeter(ctx: &mut Ctx, model: &Script, name: String) -> longhaul::Result<String> {
    ctx.sleep("until morning", std::time::Duration::from_secs(8 * 3_600)).await?;
    ctx.effect("greet", async |key| {
        let mut request = ModelRequest::new("any", vec![Message::user(format!("Greet {name}."))]);
        request.idempotency_key = Some(key.to_string());
        let reply = longhaul_llm::Model::complete(model, &request, &mut |_| {}).await;
        reply
            .map(|reply| reply.message.text())
            .map_err(|error| StepError::because(longhaul::ErrorClass::Transient, "no greeting", &error))
    })
    .await
}

#[test]
fn an_agent_in_rust() {
    let script = Rc::new(Script::new().says("Good morning, Ada."));
    let model = Rc::clone(&script);
    let agent = Agent::new(async move |ctx: &mut Ctx, name: String| greeter(ctx, &model, name).await);
    let ended = Trial::of_agent("greeter", agent).script(script).run(json!("Ada")).unwrap();
    assert_eq!(ended.result().unwrap(), "Good morning, Ada.");
    assert_eq!(ended.took.as_secs() / 3_600, 8, "in no time");
}
// [/rust]

// [traffic]
#[test]
fn it_files_a_letter() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/clerk.json");
    let endpoint = Endpoint::new(Wire::Chat, "gpt-4.1");
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_else(|_| "any key will do in a replay".to_owned());
    let ended = clerk()
        .provider("main", endpoint, Access::Key(Secret::new(key)))
        .traffic(Traffic::at(recording).unwrap())
        .run(json!({"letter": "Dear Sir or Madam"}))
        .unwrap();
    assert_eq!(ended.result().unwrap(), &json!({"number": 4711}));
    assert!(ended.totals.usage.money_micros > 0, "what it would cost: {:?}", ended.totals.usage);
}
// [/traffic]

/// The page shows the code of this file, the definition and the journal as they are.
#[test]
fn the_page_shows_what_runs() {
    let page = include_str!("../../../docs/testing-agents.md");
    let this = include_str!("clerk.rs");
    for part in ["uses", "definition", "crashes", "rust", "traffic"] {
        let begin = format!("// [{part}]\n");
        let code = this.split_once(&begin).unwrap().1.split_once(&format!("// [/{part}]")).unwrap().0;
        assert!(page.contains(&format!("```rust\n{code}```")), "the page does not show [{part}] as it is");
    }
    assert!(page.contains(&format!("```yaml\n{CLERK}```")), "the page does not show the definition as it is");
    let journal = include_str!("clerk.journal");
    let shown: Vec<&str> = journal.lines().take(8).collect();
    assert!(page.contains(&shown.join("\n")), "the page does not show how the journal begins");
    let value: Value = serde_json::from_str(include_str!("fixtures/clerk.json")).unwrap();
    assert_eq!(value["exchanges"].as_array().unwrap().len(), 3);
}
