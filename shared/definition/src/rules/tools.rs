//! What must hold of tools.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{READ_MORE, is_agent_name, schema_rules, within};
use crate::address::Policy;
use crate::check::Findings;
use crate::document::below;
use crate::headers;
use crate::limits;
use crate::template::{Piece, Template};
use crate::tools::{Auth, HttpTool, LambdaTool, McpTool, RunAgentTool, Tool};

/// Adds what is wrong with the tools.
pub(super) fn apply(tools: &[(usize, Tool)], policy: &Policy, findings: &mut Findings<'_>) {
    if tools.len() > limits::TOOLS_MAX {
        let message = format!("has {} tools; at most {} may be granted", tools.len(), limits::TOOLS_MAX);
        findings.add("/tools", message, "models choose badly among many; let other agents have some");
    }
    let mut names = BTreeSet::from([READ_MORE.to_owned()]);
    for (index, tool) in tools {
        let at = format!("/tools/{index}");
        for name in tool.names() {
            if !is_tool_name(&name) {
                let help = "1 to 64 letters, digits, `-` and `_`; an MCP server's own name counts";
                findings.add(below(&at, "name"), format!("{name:?} is no tool's name"), help);
            } else if !names.insert(name.clone()) {
                findings.add(below(&at, "name"), format!("{name:?} is taken"), "give each tool a name of its own");
            }
        }
        match tool {
            Tool::Http(tool) => http(&at, tool, policy, findings),
            Tool::Lambda(tool) => lambda(&at, tool, findings),
            Tool::Mcp(server) => mcp(&at, server, policy, findings),
            Tool::AskPerson(tool) => {
                described(&at, &tool.description, findings);
                let at = below(&at, "wait_seconds");
                within(&at, Some(tool.wait_seconds), 1, limits::PERSON_WAIT_SECONDS_MAX, findings);
            }
            Tool::RunAgent(tool) => run_agent(&at, tool, findings),
            Tool::Documents(tool) => described(&at, &tool.description, findings),
            Tool::Search(tool) => described(&at, &tool.description, findings),
        }
    }
}

fn is_tool_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= limits::TOOL_NAME_CHARS_MAX
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

fn described(at: &str, description: &str, findings: &mut Findings<'_>) {
    if description.trim().is_empty() {
        findings.add(
            below(at, "description"),
            "is empty",
            "say what it does and when to use it: the model chooses by it",
        );
    }
}

/// The names of a tool's arguments.
fn arguments<'a>(at: &str, schema: &'a Value, findings: &mut Findings<'_>) -> BTreeSet<&'a str> {
    let at = below(at, "input_schema");
    schema_rules(&at, schema, findings);
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        findings.add(&at, "does not say `type: object`", "arguments have names, so the schema is an object's");
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|fields| fields.keys().map(String::as_str)).collect()
}

fn bounds(at: &str, timeout_seconds: u64, size_max_bytes: Option<usize>, findings: &mut Findings<'_>) {
    let most = limits::TOOL_TIMEOUT_SECONDS_MAX;
    within(&below(at, "timeout_seconds"), Some(timeout_seconds), 1, most, findings);
    let bytes = size_max_bytes.map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
    let most = u64::try_from(limits::TOOL_SIZE_BYTES_MAX).unwrap_or(u64::MAX);
    within(&below(at, "size_max_bytes"), bytes, 1, most, findings);
}

fn http(at: &str, tool: &HttpTool, policy: &Policy, findings: &mut Findings<'_>) {
    described(at, &tool.description, findings);
    let known = arguments(at, &tool.input_schema, findings);
    bounds(at, tool.timeout_seconds, Some(tool.size_max_bytes), findings);
    address_template(&below(at, "url"), &tool.url, &known, policy, findings);
    header_rules(at, &tool.headers, Some(&known), findings);
    if let Some(auth) = &tool.auth {
        auth_rules(at, auth, &tool.headers, findings);
    }
    if let Some(body) = &tool.body {
        let at = below(at, "body");
        if tool.method.is_safe() {
            findings.add(&at, format!("stands at a {}, which has none", tool.method.as_str()), "use another method");
        }
        body_rules(&at, body, &known, findings);
    }
}

/// The template of a text, if it is one and all its holes are arguments.
fn template(at: &str, text: &str, known: &BTreeSet<&str>, findings: &mut Findings<'_>) -> Option<Template> {
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            findings.add(at, error.to_string(), "`{name}` is filled with the argument of that name");
            return None;
        }
    };
    for hole in template.holes().filter(|hole| !known.contains(hole)) {
        findings.add(at, format!("uses `{{{hole}}}`, which is no argument"), "name it under `input_schema.properties`");
    }
    Some(template)
}

/// An address whose scheme and host stand there as they are: a model must not choose the host.
fn address_template(at: &str, text: &str, known: &BTreeSet<&str>, policy: &Policy, findings: &mut Findings<'_>) {
    let Some(template) = template(at, text, known, findings) else { return };
    let fixed = match template.pieces().first() {
        Some(Piece::Text(text)) => text.as_str(),
        Some(Piece::Hole(_)) | None => "",
    };
    let behind_scheme = fixed.split_once("://").map(|(_, rest)| rest);
    let host_is_fixed =
        template.holes().next().is_none() || behind_scheme.is_some_and(|rest| rest.contains(['/', '?']));
    if !host_is_fixed {
        let help = "write scheme and host as they are; arguments may stand in the path and the query";
        findings.add(at, "lets an argument choose the server", help);
        return;
    }
    if text.contains('#') {
        findings.add(at, "has a fragment (`#`), which is never sent", "remove it");
    }
    let filled = template.filled(|_| Ok::<_, std::convert::Infallible>("x".to_owned())).unwrap_or_default();
    if let Err(error) = policy.judge(&filled) {
        findings.add(at, error.to_string(), "tools reach the public internet, and hosts that the deployment lists");
    }
}

fn header_rules(
    at: &str,
    headers: &BTreeMap<String, String>,
    known: Option<&BTreeSet<&str>>,
    findings: &mut Findings<'_>,
) {
    let at = below(at, "headers");
    for (name, value) in headers {
        let at = below(&at, name);
        if !headers::is_name(name) {
            findings.add(&at, "is no header's name", "letters, digits and `-`");
        } else if headers::is_reserved(name) {
            findings.add(&at, "is set by the tool itself", "remove it");
        } else if headers::is_secret(name) {
            findings.add(
                &at,
                "carries a key, which must not stand in a definition",
                "use `auth` with the name of a secret",
            );
        }
        let text = match known {
            // Holes are judged when they are filled.
            Some(known) => template(&at, value, known, findings)
                .and_then(|template| template.filled(|_| Ok::<_, std::convert::Infallible>("x".to_owned())).ok()),
            None => Some(value.clone()),
        };
        if let Some(fault) = text.as_deref().and_then(headers::value_fault) {
            findings.add(&at, fault, "visible ASCII characters and inner blanks only");
        }
    }
}

fn auth_rules(at: &str, auth: &Auth, headers: &BTreeMap<String, String>, findings: &mut Findings<'_>) {
    let at = below(at, "auth");
    if !headers::is_name(&auth.header) {
        findings.add(below(&at, "header"), "is no header's name", "letters, digits and `-`");
    } else if headers::is_reserved(&auth.header) {
        findings.add(below(&at, "header"), "is set by the tool itself", "name the header that carries the key");
    }
    if headers.keys().any(|name| name.eq_ignore_ascii_case(&auth.header)) {
        findings.add(below(&at, "header"), "stands among `headers` too", "remove it there");
    }
    if let Some(fault) = headers::value_fault(auth.prefix.trim_end_matches(' ')) {
        findings.add(below(&at, "prefix"), fault, "`Bearer ` with its blank, or empty");
    }
}

fn body_rules(at: &str, body: &Value, known: &BTreeSet<&str>, findings: &mut Findings<'_>) {
    match body {
        Value::String(text) => {
            template(at, text, known, findings);
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                body_rules(&format!("{at}/{index}"), item, known, findings);
            }
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                body_rules(&below(at, name), value, known, findings);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn lambda(at: &str, tool: &LambdaTool, findings: &mut Findings<'_>) {
    described(at, &tool.description, findings);
    arguments(at, &tool.input_schema, findings);
    bounds(at, tool.timeout_seconds, None, findings);
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_:$".contains(c);
    if tool.function.is_empty() || tool.function.len() > 200 || !tool.function.chars().all(allowed) {
        findings.add(below(at, "function"), "names no function", "a name or an ARN, with `:alias` if need be");
    }
}

fn mcp(at: &str, server: &McpTool, policy: &Policy, findings: &mut Findings<'_>) {
    bounds(at, server.timeout_seconds, Some(server.size_max_bytes), findings);
    if let Err(error) = policy.judge(&server.url) {
        let help = "tools reach the public internet, and hosts that the deployment lists";
        findings.add(below(at, "url"), error.to_string(), help);
    }
    if server.tools.is_empty() {
        findings.add(below(at, "tools"), "grants nothing", "name the server's tools that the model may use");
    }
    header_rules(at, &server.headers, None, findings);
    if let Some(auth) = &server.auth {
        auth_rules(at, auth, &server.headers, findings);
    }
}

fn run_agent(at: &str, tool: &RunAgentTool, findings: &mut Findings<'_>) {
    described(at, &tool.description, findings);
    arguments(at, &tool.input_schema, findings);
    if !is_agent_name(&tool.agent) {
        findings.add(
            below(at, "agent"),
            format!("{:?} is no agent name", tool.agent),
            "as `GET /v1/agents` lists them",
        );
    }
    if tool.version == 0 {
        findings.add(below(at, "version"), "is 0", "versions count from 1; a job stays on the one it names");
    }
    let parts = [
        ("tokens", tool.budget.tokens),
        ("money_micros", tool.budget.money_micros),
        ("steps", tool.budget.steps),
        ("wall_seconds", tool.budget.wall_seconds),
    ];
    for (name, part) in parts {
        within(&format!("{at}/budget/{name}"), part, 1, u64::MAX, findings);
    }
}
