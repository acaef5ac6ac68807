//! Requests made from templates: what an argument can and cannot become.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_definition::HttpTool;
use serde_json::{Map, Value, json};

use super::*;

fn tool(fields: Value) -> HttpTool {
    let mut tool = json!({
        "name": "call", "description": "Calls.", "input_schema": {"type": "object"},
        "url": "https://api.example.test/v2/items/{item_id}/notes?q={q}",
    });
    for (name, value) in fields.as_object().unwrap() {
        tool[name] = value.clone();
    }
    serde_json::from_value(tool).unwrap()
}

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn addresses_are_made_of_arguments() {
    let rows = [
        (json!({"item_id": "a b", "q": "x&y=z"}), "https://api.example.test/v2/items/a%20b/notes?q=x%26y%3Dz"),
        (json!({"item_id": 7, "q": "../.."}), "https://api.example.test/v2/items/7/notes?q=..%2F.."),
        (json!({"item_id": "ä", "q": true}), "https://api.example.test/v2/items/%C3%A4/notes?q=true"),
        (json!({"item_id": "a.b"}), "https://api.example.test/v2/items/a.b/notes?q="),
    ];
    for (given, expected) in rows {
        let made = ask(&tool(json!({})), &arguments(given.clone())).unwrap();
        assert_eq!(made.url.as_str(), expected, "{given}");
    }
}

/// E05 (b): what the model writes stays one segment below the prefix, or is refused.
#[test]
fn e05_ids_of_the_model_lead_nowhere_else() {
    let ids: Vec<String> = serde_json::from_str(include_str!("../../../tests/faults/E05/ids.json")).unwrap();
    let mut refused = 0;
    for id in &ids {
        match ask(&tool(json!({})), &arguments(json!({"item_id": id}))) {
            Err(told) => {
                refused += 1;
                assert!(told.contains("item_id"), "{told}");
            }
            Ok(made) => {
                let path = made.url.path().to_owned();
                assert!(path.starts_with("/v2/items/") && path.ends_with("/notes"), "{id:?}: {path}");
                assert_eq!(path.split('/').count(), 5, "{id:?}: {path}");
                assert_eq!(made.url.host_str(), Some("api.example.test"));
            }
        }
    }
    for dots in [".", "..", "...", " .. ", "%2e%2e", "a/..", "..\\a", ""] {
        assert!(ask(&tool(json!({})), &arguments(json!({"item_id": dots}))).is_err(), "{dots:?}");
    }
    assert!(refused >= 7, "{refused} of {} were refused", ids.len());
}

/// E08: an argument never becomes a header of its own, and no error repeats a key.
#[test]
fn e08_arguments_do_not_inject_headers() {
    let case: Value =
        serde_json::from_str(include_str!("../../../../definition/tests/faults/E08/tool_headers.json")).unwrap();
    let traced = tool(json!({"headers": {"X-Trace": "{trace}"}}));
    for arg in case["args"].as_array().unwrap() {
        let made = ask(&traced, &arguments(json!({"item_id": "1", "trace": arg})));
        let harmless = arg == "ok\\r\\nHost: other.test";
        assert_eq!(made.is_ok(), harmless, "{arg:.40}");
        if let Ok(made) = made {
            assert_eq!(made.headers.len(), 1, "{:?}", made.headers);
        }
    }
    let error = header_value("the secret ssm:/k", "Bearer sk-very\nsecret").unwrap_err();
    assert!(!format!("{error:?}").contains("sk-very"), "{error:?}");
}

#[test]
fn bodies_are_made_of_arguments() {
    let given = json!({"item_id": "1", "title": "T", "count": 3, "tags": ["a"], "q": "x"});
    let rows = [
        (json!({"method": "POST"}), json!({"title": "T", "count": 3, "tags": ["a"]})),
        (
            json!({"method": "POST", "body": {"name": "[{count}] {title}", "n": "{count}", "t": "{tags}", "none": "{missing}"}}),
            json!({"name": "[3] T", "n": 3, "t": ["a"], "none": null}),
        ),
        (json!({"method": "PUT", "body": "{title}"}), json!("T")),
        (json!({"method": "POST", "body": {"brace": "{{title}}"}}), json!({"brace": "{title}"})),
    ];
    for (fields, expected) in rows {
        let made = ask(&tool(fields.clone()), &arguments(given.clone())).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&made.body.unwrap()).unwrap(), expected, "{fields}");
    }
    assert!(ask(&tool(json!({})), &arguments(given)).unwrap().body.is_none(), "a GET has none");
}
