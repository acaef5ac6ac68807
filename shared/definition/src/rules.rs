//! What must hold of a definition beyond the types of its fields.

mod tools;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::address::Policy;
use crate::check::{Findings, Readable};
use crate::definition::{Definition, ModelChoice};
use crate::limits;

/// A name that the loop itself uses.
pub(crate) const READ_MORE: &str = "read_more";

/// Adds what is wrong with a definition whose fields have the right types.
pub(crate) fn apply(readable: &Readable, policy: &Policy, findings: &mut Findings<'_>) {
    let definition = &readable.definition;
    texts(definition, findings);
    if readable.models_whole {
        models_number(readable.models.len(), findings);
    }
    models(&readable.models, findings);
    numbers(definition, findings);
    for (at, schema) in [("/input_schema", &definition.input_schema), ("/output_schema", &definition.output_schema)] {
        if let Some(schema) = schema {
            schema_rules(at, schema, findings);
        }
    }
    tools::apply(&readable.tools, policy, findings);
    if readable.tools_whole {
        approval(definition, findings);
    }
}

fn texts(definition: &Definition, findings: &mut Findings<'_>) {
    if !is_agent_name(&definition.name) {
        findings.add(
            "/name",
            format!("{:?} is no agent name", definition.name),
            "1 to 64 letters, digits, `-`, `_` and `.`, beginning with a letter or digit",
        );
    }
    for (at, text) in [("/description", &definition.description), ("/instructions", &definition.instructions)] {
        if text.trim().is_empty() {
            findings.add(at, "is empty", "say it in a sentence or two");
        }
    }
    let pinned = definition.context.pinned.iter().enumerate();
    let pinned = pinned.map(|(index, text)| (format!("/context/pinned/{index}"), text));
    for (at, text) in pinned.chain([("/instructions".to_owned(), &definition.instructions)]) {
        if text.len() > limits::INSTRUCTIONS_BYTES_MAX {
            let message = format!("has {} bytes; at most {} are taken", text.len(), limits::INSTRUCTIONS_BYTES_MAX);
            findings.add(at, message, "keep long material in documents that the agent reads");
        }
    }
    let fixed = definition.instructions.len() + definition.context.pinned.iter().map(String::len).sum::<usize>();
    // About three bytes a token: what always stands there may take half of the window, or nothing else fits.
    let fixed_tokens = u64::try_from(fixed / 3).unwrap_or(u64::MAX);
    if fixed_tokens.saturating_mul(2) > definition.context.window_tokens {
        let message = "is too small for instructions and pinned texts: they take more than half of it";
        findings.add("/context/window_tokens", message, "shorten them or name a larger window");
    }
}

fn models_number(number: usize, findings: &mut Findings<'_>) {
    if number == 0 || number > limits::MODELS_MAX {
        let message = format!("names {number} models; 1 to {} may be named", limits::MODELS_MAX);
        findings.add("/models", message, "the main model first, then those that are asked when it cannot answer");
    }
}

fn models(models: &[(usize, ModelChoice)], findings: &mut Findings<'_>) {
    for (index, choice) in models {
        let at = |field: &str| format!("/models/{index}/{field}");
        if choice.provider.trim().is_empty() {
            findings.add(at("provider"), "is empty", "the name of a provider in the deployment's settings");
        }
        if choice.model.as_ref().is_some_and(|model| model.trim().is_empty() || model.len() > 256) {
            findings.add(at("model"), "is no model's name", "leave it out for the provider's own default");
        }
        if *index > 0 && choice.background == Some(true) {
            let help = "only the first model answers in the background; those behind it are asked when it cannot";
            findings.add(at("background"), "is said of a further model", help);
        }
        if choice.output_tokens_max == Some(0) {
            findings.add(at("output_tokens_max"), "is 0", "leave it out for the model's own limit");
        }
        if choice.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            findings.add(at("temperature"), "is not between 0 and 2", "0 is the most even, 1 the usual");
        }
    }
}

/// Numbers and the bounds they must keep.
fn numbers(definition: &Definition, findings: &mut Findings<'_>) {
    let Definition { budget, retry, context, limits: bounds, approval_wait_seconds, .. } = definition;
    let tool_output = u64::try_from(context.tool_output_bytes_max).unwrap_or(u64::MAX);
    let tool_output_min = u64::try_from(limits::TOOL_OUTPUT_BYTES_MIN).unwrap_or(u64::MAX);
    let rows = [
        ("/budget/tokens", budget.tokens, 1, u64::MAX),
        ("/budget/money_micros", budget.money_micros, 1, u64::MAX),
        ("/budget/steps", budget.steps, 1, u64::MAX),
        ("/budget/wall_seconds", budget.wall_seconds, 1, u64::MAX),
        ("/retry/attempts", Some(retry.attempts.into()), 1, limits::ATTEMPTS_MAX.into()),
        ("/retry/wait_first_seconds", Some(retry.wait_first_seconds), 0, limits::RETRY_WAIT_SECONDS_MAX),
        ("/retry/wait_factor", Some(retry.wait_factor), 1, 10),
        ("/retry/wait_max_seconds", Some(retry.wait_max_seconds), 0, limits::RETRY_WAIT_SECONDS_MAX),
        ("/context/window_tokens", Some(context.window_tokens), limits::WINDOW_TOKENS_MIN, u64::MAX),
        // Two answers at once should still fit: half of the window, at three bytes a token.
        (
            "/context/tool_output_bytes_max",
            Some(tool_output),
            tool_output_min,
            context.window_tokens.saturating_mul(3) / 4,
        ),
        ("/limits/turns_max", Some(bounds.turns_max.into()), 1, limits::TURNS_MAX.into()),
        ("/limits/repeats_max", Some(bounds.repeats_max.into()), 1, u64::from(u32::MAX)),
        ("/approval_wait_seconds", Some(*approval_wait_seconds), 1, limits::PERSON_WAIT_SECONDS_MAX),
    ];
    for (at, number, least, most) in rows {
        within(at, number, least, most, findings);
    }
}

pub(crate) fn within(at: &str, number: Option<u64>, least: u64, most: u64, findings: &mut Findings<'_>) {
    let Some(number) = number else { return };
    if (least..=most).contains(&number) {
        return;
    }
    let help = match most {
        u64::MAX => format!("at least {least}"),
        most => format!("{least} to {most}"),
    };
    findings.add(at, format!("is {number}"), help);
}

fn approval(definition: &Definition, findings: &mut Findings<'_>) {
    let known: BTreeSet<String> = definition.tools.iter().flat_map(crate::tools::Tool::names).collect();
    for (index, name) in definition.approval.iter().enumerate() {
        if !known.contains(name) {
            let names = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            findings.add(
                format!("/approval/{index}"),
                format!("{name:?} is no tool here"),
                format!("the tools are: {names}"),
            );
        }
    }
}

/// A JSON Schema must be one, and lead nowhere outside of itself.
pub(crate) fn schema_rules(at: &str, schema: &Value, findings: &mut Findings<'_>) {
    if let Some(reference) = outward(schema) {
        let message = format!("refers to {reference:?}, outside of itself");
        findings.add(at, message, "put what it refers to under `$defs` and write `#/$defs/…`");
        return;
    }
    let mut unfolding = Unfolding { root: schema, known: BTreeMap::new(), lost: None };
    if unfolding.count(schema) > limits::SCHEMA_NODES_MAX {
        let most = limits::SCHEMA_NODES_MAX;
        let message = format!("unfolds to more than {most} parts when its references are followed");
        findings.add(at, message, "let parts refer to each other less often; checking a value takes as long as that");
        return;
    }
    if let Err(error) = jsonschema::validator_for(schema) {
        findings.add(at, format!("is no JSON Schema: {error}"), "draft 2020-12; see json-schema.org");
    } else if let Some(target) = unfolding.lost {
        findings.add(at, format!("refers to {target:?}, which is not followed"), "write `#/$defs/…`, without anchors");
    }
}

/// Counts the parts of a schema in which each reference stands for what it refers to. References can double at each
/// level, so a schema of a page may unfold to more than any machine can walk.
struct Unfolding<'a> {
    root: &'a Value,
    /// The parts behind each reference; none while they are being counted.
    known: BTreeMap<&'a str, Option<u64>>,
    /// A reference that was not found by its path.
    lost: Option<&'a str>,
}

impl<'a> Unfolding<'a> {
    fn count(&mut self, at: &'a Value) -> u64 {
        let children: u64 = match at {
            Value::Object(fields) => fields.iter().fold(0, |sum, (name, value)| {
                let parts = match (name.as_str(), value) {
                    ("$ref" | "$dynamicRef", Value::String(target)) => self.follow(target),
                    (_, value) => self.count(value),
                };
                sum.saturating_add(parts)
            }),
            Value::Array(items) => items.iter().fold(0, |sum, item| sum.saturating_add(self.count(item))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        };
        children.saturating_add(1)
    }

    fn follow(&mut self, target: &'a str) -> u64 {
        match self.known.get(target) {
            Some(Some(parts)) => return *parts,
            // It leads back to where it stands: then the value bounds the walk.
            Some(None) => return 1,
            None => {}
        }
        let Some(found) = target.strip_prefix('#').and_then(|path| self.root.pointer(path)) else {
            self.lost = Some(target);
            return 1;
        };
        self.known.insert(target, None);
        let parts = self.count(found);
        self.known.insert(target, Some(parts));
        parts
    }
}

/// The first reference that leads out of a schema.
fn outward(schema: &Value) -> Option<&str> {
    match schema {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| match (name.as_str(), value) {
            ("$ref" | "$dynamicRef", Value::String(target)) if !target.starts_with('#') => Some(target.as_str()),
            (_, value) => outward(value),
        }),
        Value::Array(items) => items.iter().find_map(outward),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

pub(crate) fn is_agent_name(name: &str) -> bool {
    name.len() <= limits::NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
