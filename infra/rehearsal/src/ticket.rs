//! `ticket`: a finding in the form of a ticket.

use serde_json::{Value, json};

use super::prompt::{section, sections};
use super::words::{capitalised, collapse, shortened};

/// Longest title, in characters.
const TITLE_MAX_CHARS: usize = 80;

/// Words of a rule whose violation harms people or breaks a law, in lower case.
const GRAVE: [&str; 12] = [
    "personal data",
    "privacy",
    "encrypt",
    "breach",
    "safety",
    "password",
    "credential",
    "health",
    "payment",
    "consent",
    "unauthorized",
    "unauthorised",
];

pub(super) fn answer(message: &str) -> Value {
    let rules = sections(message, "rule");
    let rule = rules.first();
    let id = rule.map_or("", |rule| rule.attribute("id"));
    let name = rule.map_or("", |rule| rule.attribute("title"));
    let requirement = collapse(rule.map_or("", |rule| rule.body));
    let finding = section(message, "finding").unwrap_or(message);
    let finding: Value = serde_json::from_str(finding).unwrap_or_else(|_| json!({"explanation": collapse(finding)}));
    let text = |name: &str| finding.get(name).and_then(Value::as_str).map(collapse).unwrap_or_default();
    let verdict = text("verdict");
    let subject = [name, requirement.as_str(), "Finding"].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let state = match verdict.as_str() {
        "violated" => "violated",
        "met" => "met",
        _ => "not clearly met",
    };
    let label = collapse(&format!("{id} {state}: "));
    let room = TITLE_MAX_CHARS.saturating_sub(label.chars().count() + 1);
    let title = capitalised(&format!("{label} {}", shortened(subject, room)));
    json!({
        "title": title,
        "body": body(&requirement, &text("explanation"), &finding),
        "severity": severity(&verdict, &format!("{name} {requirement}")),
    })
}

fn body(requirement: &str, explanation: &str, finding: &Value) -> String {
    let mut parts = Vec::new();
    if !requirement.is_empty() {
        parts.push(format!("**What the rule asks**\n\n{requirement}"));
    }
    let mut found = format!("**What was found**\n\n{explanation}");
    for quote in finding.get("quotes").and_then(Value::as_array).into_iter().flatten() {
        let page = quote.get("page").map(Value::to_string).unwrap_or_default();
        let text = quote.get("text").and_then(Value::as_str).map(collapse).unwrap_or_default();
        found.push_str(&format!("\n\n> {text}\n> (page {page})"));
    }
    parts.push(found);
    parts.push("**What has to be done**\n\nBring the quoted passage in line with the rule, or state where the document meets it.".to_owned());
    parts.join("\n\n")
}

fn severity(verdict: &str, rule: &str) -> &'static str {
    let rule = rule.to_lowercase();
    let grave = GRAVE.iter().any(|word| rule.contains(word));
    let binding = ["must", "shall"].iter().any(|word| rule.contains(word));
    match (verdict, grave, binding) {
        ("violated", true, _) => "critical",
        ("violated", false, true) => "high",
        ("violated", false, false) => "medium",
        ("met", ..) => "low",
        (_, true, _) => "medium",
        (..) => "low",
    }
}
