//! Results of the agreed form, and what a definition refuses before anything is spent.

use longhaul::ErrorClass;
use longhaul_definition::{Format, read};
use serde_json::{Value, json};

use crate::room::{Hall, Script, calls, definition, echo, failure, finish, result, run, says, turn_of, workshop};

fn with_schema() -> Value {
    let schema = json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false,
    });
    definition(&["look"], json!({ "output_schema": schema }))
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_the_form_is_repaired_within_bounds() {
    let good: [(&[&str], Value); 3] = [
        (&[r#"{"n": 1}"#], json!({"n": 1})),
        (&["about one", r#"{"n": 1}"#], json!({"n": 1})),
        (&[r#"{"n": "1"}"#, "one", "```json\n{\"n\": 2}\n```"], json!({"n": 2})),
    ];
    for (answers, expected) in good {
        let said: Vec<String> = answers.iter().map(|text| (*text).to_owned()).collect();
        let script = Script::new(move |number, _| says(&said[number]));
        let (workshop, job) = run(&with_schema(), &script, &Hall::new(echo)).await;
        assert_eq!(result(&workshop, &job), expected);
        assert_eq!(script.calls(), answers.len());
    }
    let script = Script::new(|_, _| says("never"));
    let (workshop, job) = run(&with_schema(), &script, &Hall::new(echo)).await;
    let failure = failure(&workshop, &job);
    assert_eq!((failure.class, script.calls()), (ErrorClass::Schema, 3), "two repairs and no more");
    assert_eq!(failure.partial.unwrap()["said"], json!("never"), "what it had come to is kept");
}

#[tokio::test(start_paused = true)]
async fn an_input_without_the_form_costs_nothing() {
    let mut definition = with_schema();
    definition["input_schema"] = json!({"type": "object", "required": ["question"]});
    let script = Script::new(|_, _| says("{\"n\": 1}"));
    let (workshop, job) = run(&definition, &script, &Hall::new(echo)).await;
    assert_eq!(failure(&workshop, &job).class, ErrorClass::Invalid);
    assert_eq!(script.calls(), 0);
}

/// Another agent as a tool: a job of its own, whose result comes back and whose use counts here.
#[tokio::test(start_paused = true)]
async fn another_agent_is_run() {
    let mut parent = definition(&[], json!({"budget": {"tokens": 100_000}}));
    parent["tools"] = json!([{
        "kind": "run_agent", "name": "delegate", "description": "Delegates.", "agent": "helper", "version": 1,
        "input_schema": {"type": "object"},
    }]);
    let boss = Script::new(|_, request| match turn_of(request) {
        0 => calls(&[("delegate", json!({"part": 1})), ("delegate", json!({"part": 2}))]),
        _ => says("both done"),
    });
    let helper = Script::new(|_, _| says("part done"));
    let hall = Hall::new(echo);
    let mut registry = longhaul::Registry::default();
    crate::room::add(&mut registry, "agent", &parent, &boss, &hall);
    crate::room::add(&mut registry, "helper", &definition(&[], json!({})), &helper, &hall);
    let workshop = longhaul_sim::workshop::Workshop::new(longhaul_sim::Sim::faultless(), registry);
    let job = finish(&workshop, 2).await;
    assert_eq!(result(&workshop, &job), json!("both done"));
    assert_eq!(helper.calls(), 2);
    let totals = *workshop.journal(&job).totals();
    assert_eq!(totals.usage.tokens(), 4 * 120, "two turns of its own and one of each child");
}

/// The examples run as they are written, with models and tools of the test.
#[tokio::test(start_paused = true)]
async fn the_examples_run() {
    let research = include_str!("../../../../examples/agents/research-assistant.yaml");
    let checked = read(research, Format::Yaml).unwrap();
    let source = checked.source;
    let script = Script::new(|_, request| match turn_of(request) {
        0 => calls(&[("search", json!({"query": "what is done twice"}))]),
        _ => says(r#"{"answer": "Nothing [1].", "sources": [{"file": "a.md", "quote": "nothing twice"}]}"#),
    });
    let folder = std::env::temp_dir().join(format!("longhaul-loops-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.md"), "# Steps\n\nA step with a key is done once and nothing twice.\n").unwrap();
    let hall = Hall::new(echo);
    let paths = longhaul_agent::Paths { corpus: Some(folder.clone()), within: None };
    let equipment = crate::room::equipment_with(&script, &hall, paths);
    let mut registry = longhaul::Registry::default();
    crate::room::add_with(&mut registry, "agent", &source, equipment);
    let workshop = longhaul_sim::workshop::Workshop::new(longhaul_sim::Sim::faultless(), registry);
    let job = workshop
        .run(1, async {
            let order = workshop.order("agent", json!({"question": "What is done twice?"}));
            let job = workshop.submit(order).await;
            workshop.ended(&job).await;
            job
        })
        .await;
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(result(&workshop, &job)["answer"], json!("Nothing [1]."));
    let told = crate::room::told(script.asked.borrow().last().unwrap());
    assert!(told[0].1.contains("nothing twice") && told[0].1.contains("a.md"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn pinned_texts_and_instructions_stand_first() {
    let definition = definition(&[], json!({"context": {"pinned": ["Never shout."]}}));
    let script = Script::new(|_, _| says("done"));
    let workshop = workshop(&definition, &script, &Hall::new(echo));
    finish(&workshop, 1).await;
    let asked = script.asked.borrow();
    let texts: Vec<String> = asked[0].messages.iter().map(longhaul_llm::Message::text).collect();
    assert_eq!(texts[..2], ["Do it.", "Never shout."]);
    assert!(texts[2].contains("the task"));
}
