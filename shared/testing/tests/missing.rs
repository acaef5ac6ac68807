//! A trial that misses something, or whose job goes otherwise than the test thought, says what it is and what to do: the
//! person who reads it has only these words.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use longhaul::{Agent, Ctx};
use longhaul_llm::{Access, Endpoint, Secret, Wire};
use longhaul_testing::{Script, Trial};
use serde_json::{Value, json};

/// A buyer who looks prices up, asks, orders, and has others search.
fn buyer(budget: Value) -> Trial {
    let any = json!({"type": "object"});
    let definition = json!({
        "name": "buyer", "description": "Buys.", "instructions": "Buy it.", "models": [{"provider": "main"}], "budget": budget,
        "tools": [
            {"kind": "http", "name": "order", "description": "Orders.", "method": "POST", "effect": "keyed",
             "url": "https://shop.example.com/orders/{item}?key=secret", "body": {"note": "{note}"},
             "input_schema": {"type": "object", "properties": {"item": {"type": "string"}, "note": {"type": "string"}},
                              "required": ["item"]}},
            {"kind": "ask_person", "name": "ask", "description": "Asks."},
            {"kind": "run_agent", "name": "search", "description": "Searches.", "agent": "seeker", "version": 1,
             "input_schema": any},
        ],
    });
    Trial::of_definition(&definition.to_string())
}

/// A script of one call, and the end.
fn one_call(tool: &str, arguments: Value) -> Rc<Script> {
    Rc::new(Script::new().calls(&[(tool, arguments)]).says("Done."))
}

/// An agent whose second run is not like its first.
fn fickle() -> Agent {
    let runs = Rc::new(Cell::new(0));
    Agent::new(async move |ctx: &mut Ctx, _input: Value| {
        runs.set(runs.get() + 1);
        let name = if runs.get() == 1 { "toss" } else { "draw" };
        ctx.step(name, async || Ok(json!(1))).await?;
        ctx.sleep("a while", Duration::from_secs(3_600)).await?;
        Ok(json!(1))
    })
}

#[test]
fn a_trial_says_what_it_misses() {
    let plenty = || json!({"tokens": 100_000});
    let endpoint = || Endpoint::new(Wire::Chat, "gpt-4.1");
    let key = || Access::Key(Secret::new("any"));
    for (trial, needles) in [
        // Nothing real is reached by a test that forgot its recording: neither by a tool nor by a model.
        (
            buyer(plenty()).script(one_call("order", json!({"item": "nut"}))),
            vec!["POST https://shop.example.com/orders/nut;", "`Traffic::at`"],
        ),
        (
            buyer(plenty()).provider("main", endpoint(), key()),
            vec!["POST https://api.openai.com/v1/chat/completions", "`Traffic::at`"],
        ),
        (buyer(plenty()).script(one_call("search", json!({}))), vec!["seeker@1", "`beside`"]),
        (Trial::of_agent("fickle", fickle()), vec!["fickle@1", "toss", "draw"]),
        (
            buyer(json!({"tokens": 1})).script(one_call("order", json!({"item": "nut"}))),
            vec!["2 lines of the script left", "(budget)"],
        ),
        (
            buyer(plenty()).script(one_call("ask", json!({"question": "Now?"}))).person("ask", json!("yes")),
            vec!["[\"ask\"]", "[\"answer:ask:"],
        ),
    ] {
        let said = trial.run(json!({"item": "nut"})).unwrap_err().to_string();
        for needle in needles {
            assert!(said.contains(needle), "{needle:?} is not in: {said}");
        }
        assert!(!said.contains("secret"), "{said}");
    }
}

#[test]
fn a_definition_without_a_provider_is_told_so() {
    let ended = buyer(json!({})).run(json!({"item": "nut"})).unwrap();
    let failure = ended.result().unwrap_err();
    assert_eq!(failure.message, "the deployment has no model provider \"main\"; it has none");
}
