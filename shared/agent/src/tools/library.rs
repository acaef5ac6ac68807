//! Reading documents and finding passages, within the folders that the deployment opens.

use std::path::{Path, PathBuf};

use longhaul::{ErrorClass, StepError};
use serde_json::{Map, Value, json};

use super::outcome::Outcome;
use crate::blocking::HeavyWork;
use crate::documents::{Corpus, Index};
use crate::paths::Paths;
use crate::shelf::Shelf;

/// Passages that a search gives.
const HITS_MAX: usize = 8;

/// Documents, where they lie and how they are read.
#[derive(Clone)]
pub(crate) struct Library {
    pub(crate) paths: Paths,
    pub(crate) shelf: Shelf,
    pub(crate) heavy: HeavyWork,
}

impl Library {
    fn folder(&self, named: Option<&str>) -> Result<PathBuf, StepError> {
        self.paths.corpus(named)
    }

    /// Reads a document, or one page of it.
    pub(crate) async fn read(
        &self,
        folder: Option<&str>,
        arguments: &Map<String, Value>,
    ) -> Result<Outcome, StepError> {
        let file = arguments.get("file").and_then(Value::as_str).unwrap_or_default().to_owned();
        let page = arguments.get("page").and_then(Value::as_u64);
        let folder = self.folder(folder)?;
        let Some(path) = inside(&folder, &file) else {
            return Ok(Outcome::bad(format!("{file:?} is no file of this folder; name it as a search gave it")));
        };
        let shelf = self.shelf.clone();
        let read = self.heavy.run(move || shelf.read(&path.to_string_lossy())).await?;
        let document = match read {
            Ok(document) => document,
            Err(reason) => return Ok(Outcome::bad(format!("{file} cannot be read: {reason}"))),
        };
        let pages = document.pages.iter().filter(|it| page.is_none_or(|page| u64::from(it.number) == page));
        let text: Vec<String> = pages.map(|page| format!("[page {}]\n{}", page.number, page.text.trim())).collect();
        if text.is_empty() {
            return Ok(Outcome::bad(format!("{file} has {} pages", document.pages.len())));
        }
        Ok(Outcome::good(format!("{} ({file})\n{}", document.title, text.join("\n\n"))))
    }

    /// Finds passages.
    pub(crate) async fn search(
        &self,
        folder: Option<&str>,
        arguments: &Map<String, Value>,
    ) -> Result<Outcome, StepError> {
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default().to_owned();
        let folder = self.folder(folder)?;
        self.heavy.run(move || found(&folder, &query)).await?
    }
}

fn found(folder: &Path, query: &str) -> Result<Outcome, StepError> {
    let corpus = Corpus::read(folder)
        .map_err(|error| StepError::because(ErrorClass::Invalid, "the folder cannot be searched", &error))?;
    let hits = Index::build(&corpus.documents).search(query, HITS_MAX);
    if hits.is_empty() {
        return Ok(Outcome::good("Nothing was found. Other words may find more."));
    }
    let lines: Vec<String> = hits
        .iter()
        .map(|hit| format!("{}, page {} ({}):\n{}", hit.document, hit.page, hit.title, hit.passage.text.trim()))
        .collect();
    Ok(Outcome::good(lines.join("\n\n")))
}

/// The path of a file in a folder, if it leads nowhere else: the model names it.
fn inside(folder: &Path, file: &str) -> Option<PathBuf> {
    let real = folder.join(file).canonicalize().ok()?;
    let root = folder.canonicalize().ok()?;
    (real.starts_with(&root) && real.is_file()).then_some(real)
}

/// The schema of a reading's arguments.
pub(crate) fn read_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "file": {"type": "string", "description": "The file, as a search or the job names it."},
            "page": {"type": "integer", "minimum": 1, "description": "One page alone; all when absent."}
        },
        "required": ["file"],
        "additionalProperties": false
    })
}

/// The schema of a search's arguments.
pub(crate) fn search_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the passages should speak of, in a few words."}
        },
        "required": ["query"],
        "additionalProperties": false
    })
}
