//! The rules: from a file or from the input itself, in any of the forms that people keep them in.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use longhaul::{Ctx, ErrorClass, StepError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Tools;

/// Rules of one job, as in the agent's card: each is a model call.
const RULES_MAX: usize = 200;

/// Bytes of a file of rules: 200 rules of five pages each.
const FILE_MAX_BYTES: u64 = 2 * 1024 * 1024;

/// Characters of one rule's requirement.
const REQUIREMENT_CHARS_MAX: usize = 8_000;

/// Characters of a title that is made from a requirement.
const MADE_TITLE_CHARS_MAX: usize = 80;

/// Where the rules are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Rules {
    /// The path of a file: JSON (a list of rules, or an object with `rules`), or text with a rule a line (blank lines and
    /// lines that begin with `#` are none).
    File(String),
    /// The rules themselves: a text each, or an object with `requirement` and, if it likes, `id`, `title`, `keywords`.
    Inline(Vec<Value>),
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) requirement: String,
    pub(super) keywords: Vec<String>,
}

/// A rule as people write it.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Full(Full),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Full {
    #[serde(default)]
    id: Option<Name>,
    #[serde(default)]
    title: Option<String>,
    requirement: String,
    #[serde(default)]
    keywords: Vec<String>,
}

/// An id, which is often a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Number(u64),
}

/// Reads and checks the rules, in a step of its own wherever they come from: what a replay sees is what was judged.
pub(super) async fn read(ctx: &mut Ctx, tools: &Tools, rules: &Rules) -> longhaul::Result<Vec<Rule>> {
    ctx.step("read rules", async || match rules {
        Rules::Inline(rules) => checked(rules.clone()),
        Rules::File(named) => {
            let path = tools.paths.allowed(named)?;
            tools.heavy.run(move || of_file(&path)).await?
        }
    })
    .retry(tools.model.retry())
    .await
}

fn invalid(message: String) -> StepError {
    StepError::new(ErrorClass::Invalid, message)
}

fn of_file(path: &Path) -> Result<Vec<Rule>, StepError> {
    let name = path.display();
    let cannot = |error: &std::io::Error| invalid(format!("the rules file {name} cannot be read: {error}"));
    // Opening a pipe would wait for its other end.
    let metadata = std::fs::metadata(path).map_err(|error| cannot(&error))?;
    if !metadata.is_file() || metadata.len() > FILE_MAX_BYTES {
        return Err(invalid(format!("the rules file {name} is no file of at most {FILE_MAX_BYTES} bytes")));
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| cannot(&error))?;
    file.take(FILE_MAX_BYTES).read_to_string(&mut text).map_err(|error| cannot(&error))?;
    let text = text.trim_start_matches('\u{feff}');
    let rules = if text.trim_start().starts_with(['[', '{']) {
        match serde_json::from_str(text) {
            Ok(Value::Array(rules)) => rules,
            Ok(Value::Object(mut fields)) => match fields.remove("rules") {
                Some(Value::Array(rules)) => rules,
                Some(_) | None => return Err(invalid(format!("the rules file {name} holds no list named `rules`"))),
            },
            Ok(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => Vec::new(),
            Err(error) => return Err(invalid(format!("the rules file {name} is no JSON: {error}"))),
        }
    } else {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| Value::String(line.to_owned())).collect()
    };
    checked(rules).map_err(|mut error| {
        error.failure.message = format!("{name}: {}", error.failure.message);
        error
    })
}

fn checked(rules: Vec<Value>) -> Result<Vec<Rule>, StepError> {
    if rules.is_empty() || rules.len() > RULES_MAX {
        return Err(invalid(format!("there are {} rules; there must be 1 to {RULES_MAX}", rules.len())));
    }
    let mut ids = BTreeSet::new();
    let mut checked = Vec::new();
    for (number, value) in (1..).zip(rules) {
        let rule = rule(number, value).map_err(|what| invalid(format!("rule {number} {what}")))?;
        if !ids.insert(rule.id.clone()) {
            return Err(invalid(format!("rule {number} has the id \"{}\" of another rule", rule.id)));
        }
        checked.push(rule);
    }
    Ok(checked)
}

fn rule(number: u64, value: Value) -> Result<Rule, String> {
    let expected =
        "must be a text, or an object with `requirement` and no more than `id`, `title` and `keywords` beside it";
    let full = match serde_json::from_value(value).map_err(|_| expected.to_owned())? {
        Written::Text(requirement) => Full { id: None, title: None, requirement, keywords: Vec::new() },
        Written::Full(full) => full,
    };
    let requirement = full.requirement.trim().to_owned();
    let chars = requirement.chars().count();
    if chars == 0 || chars > REQUIREMENT_CHARS_MAX {
        return Err(format!("has {chars} characters; it must have 1 to {REQUIREMENT_CHARS_MAX}"));
    }
    let id = match full.id {
        Some(Name::Text(id)) => id.trim().to_owned(),
        Some(Name::Number(id)) => id.to_string(),
        None => format!("rule-{number}"),
    };
    if id.is_empty() || id.chars().count() > MADE_TITLE_CHARS_MAX {
        return Err(format!("has an id that is empty or longer than {MADE_TITLE_CHARS_MAX} characters"));
    }
    let title = full.title.filter(|title| !title.trim().is_empty()).unwrap_or_else(|| made_title(&requirement));
    Ok(Rule { id, title, requirement, keywords: full.keywords })
}

fn made_title(requirement: &str) -> String {
    let line = requirement.lines().next().unwrap_or_default();
    match line.char_indices().nth(MADE_TITLE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use serde_json::json;

    use super::*;

    /// A file's text; the ids and requirements in it, or a part of what is said against it.
    type Case = (&'static str, Result<&'static [(&'static str, &'static str)], &'static str>);

    #[test]
    fn rules_are_read_in_every_form() {
        let folder = tempfile::tempdir().expect("a folder");
        let cases: [Case; 10] = [
            (r#"["Keep logs."]"#, Ok(&[("rule-1", "Keep logs.")])),
            (
                r#"{"rules": [{"id": 7, "requirement": "A"}, {"id": "b", "requirement": "B", "keywords": ["x"]}]}"#,
                Ok(&[("7", "A"), ("b", "B")]),
            ),
            (
                "# Rules\n\nKeep logs.\n  Test restores.\n",
                Ok(&[("rule-1", "Keep logs."), ("rule-2", "Test restores.")]),
            ),
            ("\u{feff}One rule", Ok(&[("rule-1", "One rule")])),
            ("", Err("there are 0 rules")),
            ("[1]", Err("rule 1 must be a text")),
            (r#"[{"requirement": ""}]"#, Err("rule 1 has 0 characters")),
            (r#"[{"requirement": "A", "severity": 1}]"#, Err("rule 1 must be")),
            (r#"[{"id": "a", "requirement": "A"}, {"id": "a", "requirement": "B"}]"#, Err("rule 2 has the id \"a\"")),
            ("{", Err("is no JSON")),
        ];
        let path = folder.path().join("rules");
        for (text, expected) in cases {
            std::fs::write(&path, text).expect("a file");
            match (of_file(&path), expected) {
                (Ok(rules), Ok(expected)) => {
                    let read: Vec<(&str, &str)> =
                        rules.iter().map(|rule| (rule.id.as_str(), rule.requirement.as_str())).collect();
                    assert_eq!(read, expected, "{text}");
                }
                (Err(error), Err(expected)) => {
                    let message = error.to_string();
                    assert!(message.contains(expected) && message.contains("rules"), "{text}: {message}");
                }
                (outcome, _) => panic!("{text}: {outcome:?}"),
            }
        }
        assert!(of_file(&folder.path().join("missing")).expect_err("missing").to_string().contains("missing"));
        assert!(of_file(folder.path()).is_err(), "a folder");
    }

    #[test]
    fn titles_are_made_where_there_are_none() {
        let made = checked(vec![json!("x".repeat(100))]).expect("a rule");
        assert_eq!(made[0].title, format!("{}…", "x".repeat(80)));
    }
}
