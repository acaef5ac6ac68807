//! The cards by which the api checks inputs describe the agents that the worker drives.

use std::collections::BTreeSet;

use longhaul_agent::{Settings, compliance, research, shipped, synthetic};
use longhaul_wire::agents::{AgentCard, shipped as cards};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn card(name: &str) -> AgentCard {
    cards().expect("cards").into_iter().find(|card| card.name.as_str() == name).expect("a card")
}

#[test]
fn every_agent_has_its_card_and_every_card_its_agent() {
    let settings = Settings::read(|name| {
        matches!(name, "LONGHAUL_MODEL_URL" | "LONGHAUL_MODEL").then(|| "http://127.0.0.1:1/v1".to_owned())
    });
    let registry = shipped(&settings.expect("settings")).expect("the agents");
    let driven: BTreeSet<String> = registry.agents().map(ToString::to_string).collect();
    let described: BTreeSet<String> = cards().expect("cards").iter().map(|card| card.reference().to_string()).collect();
    assert_eq!(driven, described);
}

/// Inputs that card and agent must judge alike, by what they hold.
fn check<I: DeserializeOwned>(agent: &str, properties: &[&str], good: &[Value], bad: &[Value]) {
    let card = card(agent);
    let schema = jsonschema::validator_for(&card.input_schema).expect("a schema");
    let described: BTreeSet<&str> =
        card.input_schema["properties"].as_object().expect("properties").keys().map(String::as_str).collect();
    assert_eq!(described, properties.iter().copied().collect(), "{agent}: the card describes what the agent takes");
    for input in good {
        assert!(schema.is_valid(input), "{agent}: the card refuses {input}");
        assert!(serde_json::from_value::<I>(input.clone()).is_ok(), "{agent}: the agent refuses {input}");
    }
    for input in bad {
        assert!(!schema.is_valid(input), "{agent}: the card takes {input}");
    }
}

#[test]
fn cards_take_what_the_agents_take() {
    check::<research::Input>(
        "research",
        &["topic", "corpus", "sources_max"],
        &[json!({"topic": "bees"}), json!({"topic": "bees", "corpus": "/x", "sources_max": 1})],
        &[
            json!({}),
            json!({"topic": "ab"}),
            json!({"topic": "bees", "sources_max": 11}),
            json!({"topic": "bees", "x": 1}),
        ],
    );
    let one = |more: Value| {
        let mut input = json!({"document": "a.pdf", "rules": ["A", {"id": "b", "requirement": "B"}]});
        input.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        input
    };
    check::<compliance::Input>(
        "compliance",
        &["document", "rules", "tickets_url", "approve", "approval_seconds"],
        &[
            one(json!({})),
            one(json!({"rules": "rules.json"})),
            one(json!({"tickets_url": "https://x/y", "approve": true, "approval_seconds": 60})),
        ],
        &[
            json!({"document": "a.pdf"}),
            one(json!({"rules": []})),
            one(json!({"approve": "yes"})),
            one(json!({"approval_seconds": 0})),
            one(json!({"tickets_url": "file:///x"})),
        ],
    );
    assert_eq!(card("compliance").signals, [compliance::APPROVAL_SIGNAL.parse().expect("a name")]);
    check::<synthetic::Input>(
        "agent-10",
        &["steps", "bytes", "fail_at", "mended"],
        &[json!({}), json!({"steps": 1_000, "bytes": 0, "fail_at": 3, "mended": true})],
        &[json!({"steps": 0}), json!({"steps": 1_001}), json!({"bytes": -1}), json!({"fail_at": 0})],
    );
}

#[test]
fn defaults_of_the_cards_are_those_of_the_agents() {
    let default = |agent: &str, property: &str| card(agent).input_schema["properties"][property]["default"].clone();
    let research: research::Input = serde_json::from_value(json!({"topic": "bees"})).expect("an input");
    assert_eq!(default("research", "sources_max"), json!(research.sources_max));
    let compliance: compliance::Input =
        serde_json::from_value(json!({"document": "a", "rules": ["A"]})).expect("an input");
    assert_eq!(default("compliance", "approve"), json!(compliance.approve));
    assert_eq!(default("compliance", "approval_seconds"), json!(compliance.approval_seconds));
    let synthetic: synthetic::Input = serde_json::from_value(json!({})).expect("an input");
    assert_eq!(default("agent-10", "steps"), json!(synthetic.steps));
    assert_eq!(default("agent-10", "bytes"), json!(synthetic.bytes));
    assert_eq!(default("agent-10", "mended"), json!(synthetic.mended));
}
