//! A text read into JSON, with the line on which each part of it stands.
//!
//! Both formats become the same value, and whatever is found later can be shown where its author wrote it. What makes
//! readers disagree or grow without bound is refused: keys that stand twice, aliases, tags, several documents.

mod json;
mod yaml;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::check::Format;
use crate::limits;

/// A text as JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// What it says.
    pub(crate) value: Value,
    /// The line (from 1) of each part, by JSON pointer.
    lines: BTreeMap<String, usize>,
}

/// A text that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) field: String,
    pub(crate) message: String,
    pub(crate) help: &'static str,
}

impl Fault {
    fn new(line: usize, field: &str, message: impl Into<String>, help: &'static str) -> Self {
        Self { line, field: field.to_owned(), message: message.into(), help }
    }
}

impl Document {
    /// Reads a text.
    pub(crate) fn read(text: &str, format: Format) -> Result<Self, Fault> {
        if text.len() > limits::TEXT_BYTES_MAX {
            let message = format!("has {} bytes; at most {} are read", text.len(), limits::TEXT_BYTES_MAX);
            return Err(Fault::new(1, "", message, "keep long material in documents that the agent reads"));
        }
        match format {
            Format::Json => json::read(text),
            Format::Yaml => yaml::read(text),
        }
    }

    /// The line of a part; of the nearest part around it for one that is not there.
    pub(crate) fn line(&self, pointer: &str) -> usize {
        let mut at = pointer;
        loop {
            if let Some(line) = self.lines.get(at) {
                return *line;
            }
            match at.rsplit_once('/') {
                Some((parent, _)) => at = parent,
                None => return 1,
            }
        }
    }
}

/// The pointer of a field below another.
pub(crate) fn below(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn too_deep(line: usize, pointer: &str) -> Option<Fault> {
    let deep = pointer.matches('/').count() > limits::DEPTH_MAX;
    deep.then(|| {
        let message = format!("is nested more than {} deep", limits::DEPTH_MAX);
        Fault::new(line, "", message, "no definition needs that; look for brackets that were never closed")
    })
}

fn twice(line: usize, pointer: &str) -> Fault {
    Fault::new(
        line,
        pointer,
        "stands here a second time",
        "remove one of the two: readers would disagree on which counts",
    )
}
