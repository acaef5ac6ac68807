//! From a text to a definition, or to everything that is wrong with it.

mod faults;

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use faults::faults_of;

use crate::address::Policy;
use crate::definition::{Definition, ModelChoice};
use crate::digest::digest;
use crate::document::{Document, Fault, below};
use crate::limits;
use crate::rules;
use crate::tools::Tool;

/// How a definition is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML 1.2, without anchors, aliases and tags.
    Yaml,
}

impl Format {
    /// The format that a file's name announces.
    #[must_use]
    pub fn of_file(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        match extension.to_ascii_lowercase().as_str() {
            "json" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            _ => None,
        }
    }
}

/// One thing that is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The line where it stands, from 1.
    pub line: usize,
    /// The field, as a JSON pointer (`/tools/1/url`); empty for the whole.
    pub field: String,
    /// What is wrong, to be read behind the field.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = if self.field.is_empty() { "the definition" } else { &self.field };
        write!(f, "line {}: {field} {} ({})", self.line, self.message, self.help)
    }
}

/// A definition with nothing wrong in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The definition.
    pub definition: Definition,
    /// Its text as JSON, as it was written: what is stored.
    pub source: Value,
    /// The digest of the source: the same text, however spaced and ordered, is the same version.
    pub digest: String,
}

/// Everything that is wrong with a definition, in the order of its lines; empty when nothing is.
#[must_use]
pub fn check(text: &str, format: Format) -> Vec<Finding> {
    read(text, format).err().unwrap_or_default()
}

/// Reads a definition for a deployment that reaches the public internet alone.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read(text: &str, format: Format) -> Result<Checked, Vec<Finding>> {
    read_within(text, format, &Policy::default())
}

/// Reads a definition for a deployment with a policy of its own.
///
/// # Errors
/// Everything that is wrong with it.
pub fn read_within(text: &str, format: Format, policy: &Policy) -> Result<Checked, Vec<Finding>> {
    let document = Document::read(text, format).map_err(|Fault { line, field, message, help }| {
        vec![Finding { line, field, message, help: help.to_owned() }]
    })?;
    let mut findings = Findings { document: &document, found: Vec::new() };
    let readable = findings.readable();
    if let Some(readable) = &readable {
        rules::apply(readable, policy, &mut findings);
    }
    let mut found = findings.found;
    found.sort_by_key(|finding| finding.line);
    found.truncate(limits::FINDINGS_MAX);
    match readable {
        Some(Readable { definition, .. }) if found.is_empty() => {
            Ok(Checked { definition, digest: digest(&document.value), source: document.value })
        }
        Some(_) | None => Err(found),
    }
}

/// What can be read of a definition, so that one wrong part does not hide what is wrong with the others.
pub(crate) struct Readable {
    /// The definition; in place of what cannot be read stands something harmless.
    pub(crate) definition: Definition,
    /// The tools that can be read, with their places.
    pub(crate) tools: Vec<(usize, Tool)>,
    /// Whether these are all.
    pub(crate) tools_whole: bool,
    /// The models that can be read, with their places.
    pub(crate) models: Vec<(usize, ModelChoice)>,
    /// Whether these are all.
    pub(crate) models_whole: bool,
}

/// What was found so far.
pub(crate) struct Findings<'a> {
    document: &'a Document,
    found: Vec<Finding>,
}

/// The fields of a definition, those that must be there first.
pub(crate) const FIELDS: [(&str, bool); 15] = [
    ("name", true),
    ("description", true),
    ("instructions", true),
    ("models", true),
    ("tools", false),
    ("approval", false),
    ("approval_wait_seconds", false),
    ("input_schema", false),
    ("output_schema", false),
    ("budget", false),
    ("retry", false),
    ("context", false),
    ("limits", false),
    ("on_interrupted", false),
    // An editor's own mark.
    ("$schema", false),
];

impl Findings<'_> {
    pub(crate) fn add(&mut self, field: impl Into<String>, message: impl Into<String>, help: impl Into<String>) {
        let field = field.into();
        let line = self.document.line(&field);
        self.found.push(Finding { line, field, message: message.into(), help: help.into() });
    }

    /// The definition, part by part.
    fn readable(&mut self) -> Option<Readable> {
        let Value::Object(fields) = &self.document.value else {
            self.add("", "is no object with fields", "begin with `name: my-agent`");
            return None;
        };
        for (name, required) in FIELDS {
            if required && !fields.contains_key(name) {
                self.add("", format!("has no `{name}`"), "it must be there");
            }
        }
        for name in fields.keys().filter(|name| FIELDS.iter().all(|(known, _)| known != name)) {
            self.add(below("", name), "is no field of a definition", nearest(name));
        }
        self.parts(fields);
        let (tools, tools_whole) = self.sound::<Tool>("tools");
        let (models, models_whole) = self.sound::<ModelChoice>("models");
        let mut whole: Map<String, Value> = fields
            .iter()
            .filter(|(name, _)| *name != "$schema" && self.is_sound(&below("", name)))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for name in ["name", "description", "instructions"] {
            whole.entry(name).or_insert_with(|| Value::String("x".to_owned()));
        }
        whole.entry("models").or_insert_with(|| Value::Array(Vec::new()));
        match serde_json::from_value(Value::Object(whole)) {
            Ok(definition) => Some(Readable { definition, tools, tools_whole, models, models_whole }),
            Err(error) => {
                self.add("", format!("cannot be read: {error}"), "compare it with the published JSON Schema");
                None
            }
        }
    }

    /// Whether nothing is wrong with a field and what is in it.
    fn is_sound(&self, at: &str) -> bool {
        self.found.iter().all(|finding| match finding.field.strip_prefix(at) {
            Some(rest) => !(rest.is_empty() || rest.starts_with('/')),
            None => true,
        })
    }

    /// The items of a list with which nothing is wrong so far, and whether these are all.
    fn sound<T: DeserializeOwned>(&self, name: &str) -> (Vec<(usize, T)>, bool) {
        let items = self.document.value.get(name).and_then(Value::as_array);
        let all = items.map_or(0, Vec::len);
        let sound: Vec<(usize, T)> = items
            .into_iter()
            .flatten()
            .enumerate()
            .filter(|(index, _)| self.is_sound(&format!("/{name}/{index}")))
            .filter_map(|(index, item)| Some((index, T::deserialize(item).ok()?)))
            .collect();
        let whole = sound.len() == all && self.is_sound(&below("", name));
        (sound, whole)
    }

    fn parts(&mut self, fields: &Map<String, Value>) {
        for (name, value) in fields {
            let at = below("", name);
            match name.as_str() {
                "name" | "description" | "instructions" => self.part::<String>(&at, value),
                "models" => self.items(&at, value, Self::part::<ModelChoice>),
                "tools" => self.items(&at, value, Self::tool),
                "approval" => self.items(&at, value, Self::part::<String>),
                "approval_wait_seconds" => self.part::<u64>(&at, value),
                "budget" => self.part::<crate::definition::Budget>(&at, value),
                "retry" => self.part::<crate::definition::Retry>(&at, value),
                "context" => self.part::<crate::definition::Context>(&at, value),
                "limits" => self.part::<crate::definition::Limits>(&at, value),
                "on_interrupted" => self.part::<crate::definition::OnInterrupted>(&at, value),
                _ => {}
            }
        }
    }

    fn items(&mut self, at: &str, value: &Value, item: fn(&mut Self, &str, &Value)) {
        match value {
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    item(self, &format!("{at}/{index}"), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
                self.add(at, "is no list", "begin each item with `- `");
            }
        }
    }

    /// A tool by its kind. The kind is taken off first, so that errors say where in the tool they are.
    fn tool(&mut self, at: &str, value: &Value) {
        use crate::tools::{AskPersonTool, DocumentsTool, HttpTool, LambdaTool, McpTool, RunAgentTool, SearchTool};
        let kinds = || format!("one of {}", Tool::KINDS.join(", "));
        let Value::Object(fields) = value else {
            self.add(at, "is no tool", "write `- kind: http` and the tool's fields below it");
            return;
        };
        let mut fields = fields.clone();
        let Some(kind) = fields.remove("kind") else {
            self.add(at, "has no `kind`", kinds());
            return;
        };
        let fields = Value::Object(fields);
        match kind.as_str() {
            Some("http") => self.part::<HttpTool>(at, &fields),
            Some("lambda") => self.part::<LambdaTool>(at, &fields),
            Some("mcp") => self.part::<McpTool>(at, &fields),
            Some("ask_person") => self.part::<AskPersonTool>(at, &fields),
            Some("run_agent") => self.part::<RunAgentTool>(at, &fields),
            Some("documents") => self.part::<DocumentsTool>(at, &fields),
            Some("search") => self.part::<SearchTool>(at, &fields),
            Some(_) | None => self.add(below(at, "kind"), format!("{kind} is no kind of tool"), kinds()),
        }
    }

    fn part<T: DeserializeOwned>(&mut self, at: &str, value: &Value) {
        for (field, message) in faults_of::<T>(value) {
            self.add(format!("{at}{field}"), message, "the published JSON Schema lists the fields and their types");
        }
    }
}

/// The field that an unknown one may have been meant to be.
fn nearest(name: &str) -> String {
    let known = FIELDS.iter().map(|(known, _)| *known).filter(|known| *known != "$schema");
    match known.clone().min_by_key(|known| distance(name, known)).filter(|known| distance(name, known) <= 3) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the fields are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

/// How many characters must be changed, added or taken away (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut last = i;
        let mut next = vec![i + 1];
        for ((b, above), left_above) in other.chars().zip(row.iter().skip(1)).zip(row.iter()) {
            last = (left_above + usize::from(a != b)).min(above + 1).min(next.last().copied().unwrap_or(last) + 1);
            next.push(last);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
