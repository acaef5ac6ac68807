//! What is found in definitions, with line and field, in both formats.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_definition::{Finding, Format, Policy, check, digest, json_schema, read, read_within};
use serde_json::{Value, json};

const RESEARCH: &str = include_str!("../../../examples/agents/research-assistant.yaml");
const COMPLIANCE: &str = include_str!("../../../examples/agents/compliance-officer.yaml");

/// A small definition as lines: the first five are the same for every test.
const HEAD: &str = "name: small\ndescription: Does little.\ninstructions: Do it.\nmodels: [{provider: default}]\n";

fn head(rest: &str) -> String {
    format!("{HEAD}{rest}")
}

/// Line and field of each finding.
fn found(text: &str) -> Vec<(usize, String)> {
    check(text, Format::Yaml).into_iter().map(|finding| (finding.line, finding.field)).collect()
}

#[test]
fn the_examples_are_good_and_stay_so_as_json() {
    for (text, name) in [(RESEARCH, "research-assistant"), (COMPLIANCE, "compliance-officer")] {
        let yaml = read(text, Format::Yaml).unwrap_or_else(|found| panic!("{name}: {found:#?}"));
        assert_eq!(yaml.definition.name, name);
        let pretty = serde_json::to_string_pretty(&yaml.source).unwrap();
        let json = read(&pretty, Format::Json).unwrap_or_else(|found| panic!("{name}: {found:#?}"));
        assert_eq!(json, yaml, "{name}: both formats are one definition under one digest");
        // What a program writes of it is read again.
        let written = serde_json::to_string(&yaml.definition).unwrap();
        assert_eq!(read(&written, Format::Json).unwrap().definition, yaml.definition, "{name}");
        let validator = jsonschema::validator_for(&json_schema()).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&yaml.source).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{name} and the published schema: {wrong:?}");
    }
}

/// `agent.schema.json` at the root is what editors are pointed to. `LONGHAUL_WRITE=1` writes it anew.
#[test]
fn the_published_schema_is_the_types_own() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../agent.schema.json");
    let made = format!("{}\n", serde_json::to_string_pretty(&json_schema()).unwrap());
    if std::env::var_os("LONGHAUL_WRITE").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let published = std::fs::read_to_string(path).unwrap();
    assert!(published == made, "agent.schema.json is not what the types say; write it anew with LONGHAUL_WRITE=1");
}

#[test]
fn the_checked_fields_are_those_of_the_schema() {
    let schema = json_schema();
    let fields: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    for field in fields {
        let twice = head(&format!("{field}: 1\n"));
        let unknown = check(&twice, Format::Yaml).iter().any(|finding| finding.message.contains("is no field"));
        assert!(!unknown, "{field} is in the schema and unknown to the check");
    }
}

/// What its author reads.
#[test]
fn findings_in_words() {
    let bad = include_str!("bad.yaml");
    let said: Vec<String> = check(bad, Format::Yaml).iter().map(ToString::to_string).collect();
    insta::assert_snapshot!("findings", said.join("\n"));
}

#[test]
fn the_digest_names_what_is_said_and_not_how() {
    let one = json!({"b": [1, 2.5, "ä"], "a": {"y": null, "x": true}});
    let other: Value = serde_json::from_str("{\"a\":{\"x\":true,\"y\":null},\n \"b\":[1,2.5,\"\\u00e4\"]}").unwrap();
    assert_eq!(digest(&one), digest(&other));
    assert_eq!(digest(&one).len(), 64);
    assert_ne!(digest(&one), digest(&json!({"b": [2.5, 1, "ä"], "a": {"y": null, "x": true}})));
}

/// What is written, and where what is wrong with it stands.
#[test]
fn findings_have_line_and_field() {
    let rows: &[(&str, &[(usize, &str)])] = &[
        ("", &[]),
        ("tools: []\n", &[]),
        ("nmae: x\n", &[(5, "/nmae")]),
        ("tools: none\n", &[(5, "/tools")]),
        ("budget: {tokens: 0}\n", &[(5, "/budget/tokens")]),
        ("budget:\n  tokens: many\n", &[(6, "/budget/tokens")]),
        ("budget:\n  dollars: 5\n", &[(6, "/budget/dollars")]),
        ("retry: {attempts: 11}\n", &[(5, "/retry/attempts")]),
        ("limits:\n  turns_max: 0\n  repeats_max: 0\n", &[(6, "/limits/turns_max"), (7, "/limits/repeats_max")]),
        ("context: {window_tokens: 100}\n", &[(5, "/context/tool_output_bytes_max"), (5, "/context/window_tokens")]),
        ("approval: [pay]\n", &[(5, "/approval/0")]),
        ("on_interrupted: shrug\n", &[(5, "/on_interrupted")]),
        ("output_schema: {type: nonsense}\n", &[(5, "/output_schema")]),
        ("output_schema: {$ref: '#a', $defs: {a: {$anchor: a, type: string}}}\n", &[(5, "/output_schema")]),
        ("output_schema: {$ref: '#/%24defs/a', $defs: {a: {type: string}}}\n", &[(5, "/output_schema")]),
        ("output_schema: {type: array, items: {$ref: '#'}}\n", &[]),
        ("output_schema: {$ref: 'file:///etc/passwd'}\n", &[(5, "/output_schema")]),
        ("output_schema: {$ref: 'http://169.254.169.254/'}\n", &[(5, "/output_schema")]),
        ("tools:\n  - kind: htpp\n    name: x\n", &[(6, "/tools/0/kind")]),
        ("tools:\n  - name: x\n", &[(6, "/tools/0")]),
        ("tools:\n  - kind: search\n    name: x\n", &[(6, "/tools/0")]),
        ("tools:\n  - kind: search\n    name: x y\n    description: d\n", &[(7, "/tools/0/name")]),
        ("tools:\n  - kind: search\n    name: read_more\n    description: d\n", &[(7, "/tools/0/name")]),
        (
            "tools:\n  - {kind: search, name: a, description: d}\n  - {kind: documents, name: a, description: d}\n",
            &[(7, "/tools/1/name")],
        ),
        (
            "tools:\n  - {kind: mcp, name: m, url: 'http://localhost:1/mcp', tools: []}\n",
            &[(6, "/tools/0/url"), (6, "/tools/0/tools")],
        ),
        (
            "tools:\n  - {kind: lambda, name: l, description: d, input_schema: {type: object}, function: 'a b'}\n",
            &[(6, "/tools/0/function")],
        ),
        (
            "tools:\n  - {kind: run_agent, name: r, description: d, input_schema: {}, agent: 'x/y', version: 0}\n",
            &[(6, "/tools/0/input_schema"), (6, "/tools/0/agent"), (6, "/tools/0/version")],
        ),
    ];
    for (rest, expected) in rows {
        let mut found = found(&head(rest));
        let mut expected: Vec<(usize, String)> =
            expected.iter().map(|(line, field)| (*line, (*field).to_owned())).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{rest}");
    }
}

#[test]
fn texts_that_are_no_definition_say_where() {
    let rows = [
        (Format::Json, "{\n \"name\": \"x\",\n}", 3, ""),
        (Format::Json, "{\"name\": \"x\",\n \"name\": \"y\"}", 2, "/name"),
        (Format::Json, "[]", 1, ""),
        (Format::Json, "", 1, ""),
        (Format::Yaml, "name: x\n\tb: 1\n", 1, ""),
        (Format::Yaml, "name: x\nname: y\n", 2, "/name"),
        (Format::Yaml, "name: &n x\n", 1, "/name"),
        (Format::Yaml, "name: *n\n", 1, ""),
        (Format::Yaml, "name: !!str x\n", 1, "/name"),
        (Format::Yaml, "name: x\n---\nname: y\n", 2, ""),
        (Format::Yaml, "- name: x\n", 1, ""),
        (Format::Yaml, "budget: {tokens: .inf}\n", 1, "/budget/tokens"),
        (Format::Yaml, "? [a]\n: b\n", 1, ""),
    ];
    for (format, text, line, field) in rows {
        let first: &Finding = &check(text, format)[0];
        assert_eq!((first.line, first.field.as_str()), (line, field), "{text:?}: {first}");
    }
}

#[test]
fn e06_what_is_nested_too_deep_is_refused() {
    let deep = format!("{HEAD}output_schema: {}{}\n", "[".repeat(100), "]".repeat(100));
    assert_eq!(found(&deep)[0].0, 5);
    for levels in [100, 5_000, 100_000] {
        let json = format!("{{\"output_schema\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert!(!check(&json, Format::Json).is_empty());
    }
    assert!(!check(&"x".repeat(300_000), Format::Yaml).is_empty());
}

/// An HTTP tool as JSON, with one field set to something else.
fn http_tool(field: &str, value: Value) -> String {
    let mut tool = json!({
        "kind": "http", "name": "call", "description": "Calls.",
        "input_schema": {"type": "object", "properties": {"trace": {"type": "string"}, "id": {"type": "string"}}},
        "url": "https://api.example.test/v2/items/{id}/notes",
    });
    tool[field] = value;
    let whole = json!({
        "name": "small", "description": "Does little.", "instructions": "Do it.",
        "models": [{"provider": "default"}], "tools": [tool],
    });
    serde_json::to_string_pretty(&whole).unwrap()
}

fn http_finding(field: &str, value: Value) -> Vec<String> {
    check(&http_tool(field, value), Format::Json).into_iter().map(|finding| finding.field).collect()
}

#[test]
fn e08_headers_that_would_inject_are_refused() {
    let case: Value = serde_json::from_str(include_str!("faults/E08/tool_headers.json")).unwrap();
    let mut refused = 0;
    for arg in case["args"].as_array().unwrap() {
        let fields = http_finding("headers", json!({"X-Trace": arg}));
        let good = arg == "ok\\r\\nHost: other.test";
        assert_eq!(fields.is_empty(), good, "{arg:.40}: {fields:?}");
        refused += usize::from(!good);
    }
    assert!(refused >= 5, "only {refused} of the case's values were refused");
    let correlation = &case["caller_headers"]["X-Correlation-Id"];
    assert_eq!(
        http_finding("headers", json!({"X-Correlation-Id": correlation})),
        ["/tools/0/headers/X-Correlation-Id"]
    );
    let rows = [
        (json!({"X Y": "v"}), false),
        (json!({"Host": "other"}), false),
        (json!({"Idempotency-Key": "mine"}), false),
        (json!({"Authorization": "Bearer sk-123"}), false),
        (json!({"X-Trace": "{trace}"}), true),
        (json!({"X-Trace": "{nothing}"}), false),
        (json!({"X-Trace": "{trace"}), false),
    ];
    for (headers, good) in rows {
        assert_eq!(http_finding("headers", headers.clone()).is_empty(), good, "{headers}");
    }
    let auth = |header: &str, prefix: &str| json!({"secret": "ssm:/tools/key", "header": header, "prefix": prefix});
    assert!(http_finding("auth", auth("X-Api-Key", "")).is_empty());
    assert!(!http_finding("auth", auth("X-Api-Key", "a\r\nX-Evil: ")).is_empty());
    assert!(!http_finding("auth", json!({"secret": "sk-live-123456"})).is_empty(), "a key in place of a name");
}

#[test]
fn e09_addresses_that_lead_inward_are_refused() {
    let rows: Value = serde_json::from_str(include_str!("faults/E09/urls.json")).unwrap();
    for row in rows.as_array().unwrap() {
        let url = row["url"].as_str().unwrap();
        // What a name leads to, and where a redirect goes, is known when the tool runs.
        let known_later = ["redirect_to", "dns", "dns_all"].iter().any(|field| row.get(field).is_some());
        let refused = row["block"] == json!(true) && !known_later;
        let text = http_tool("url", json!(url));
        assert_eq!(!check(&text, Format::Json).is_empty(), refused, "{url}");
        let policy = Policy { refused_hosts: vec!["*.amazonaws.com".to_owned()], ..Policy::default() };
        let refused = refused || row["block"] == json!("policy");
        assert_eq!(read_within(&text, Format::Json, &policy).is_err(), refused, "{url} by policy");
    }
    let rows = [
        ("https://{id}/x", false),
        ("https://{id}.example.test/x", false),
        ("https://api.example.test{id}", false),
        ("https://api.example.test?q={id}", true),
        ("https://api.example.test/{id}?q={trace}", true),
        ("https://api.example.test/{id}#x", false),
        ("{id}", false),
    ];
    for (url, good) in rows {
        assert_eq!(http_finding("url", json!(url)).is_empty(), good, "{url}");
    }
    let local = Policy { allowed_hosts: vec!["127.0.0.1".to_owned()], ..Policy::default() };
    assert!(read_within(&http_tool("url", json!("http://127.0.0.1:8080/x")), Format::Json, &local).is_ok());
}

#[test]
fn a_key_is_never_repeated() {
    let text = http_tool("auth", json!({"secret": "sk-live-very-secret"}));
    for finding in check(&text, Format::Json) {
        assert!(!finding.to_string().contains("very-secret"), "{finding}");
    }
}

/// Found by a tester: a schema of a page whose references double at each level kept a worker busy for minutes.
#[test]
fn schemas_that_unfold_without_end_are_refused() {
    for (levels, good) in [(4, true), (9, true), (16, false), (28, false), (200, false)] {
        let mut defs = serde_json::Map::from_iter([("l0".to_owned(), json!({"type": "string"}))]);
        for level in 1..=levels {
            let below = json!({"$ref": format!("#/$defs/l{}", level - 1)});
            defs.insert(format!("l{level}"), json!({"allOf": [below.clone(), below]}));
        }
        let definition = json!({
            "name": "bomb", "description": "Unfolds.", "instructions": "Wait.", "models": [{"provider": "default"}],
            "input_schema": {"$ref": format!("#/$defs/l{levels}"), "$defs": defs},
        });
        let findings = check(&definition.to_string(), Format::Json);
        let said: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(said.is_empty(), good, "{levels} levels: {said:?}");
        assert!(good || said[0].contains("unfolds to more than"), "{said:?}");
    }
}
