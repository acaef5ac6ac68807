//! From a corpus folder to the documents worth reading.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use longhaul::{Ctx, ErrorClass, StepError};
use serde::{Deserialize, Serialize};

use super::{Input, Omitted, Plan};
use crate::Tools;
use crate::documents::limits::{CORPUS_TIME_MAX_SECONDS, FILE_TIME_MAX_SECONDS};
use crate::documents::{Corpus, CorpusError, Hit, Index};
use crate::ranking::fused;

/// Time for the step: the corpus's own, one more file, and the index.
const TIME_LIMIT: Duration = Duration::from_secs(CORPUS_TIME_MAX_SECONDS + 2 * FILE_TIME_MAX_SECONDS);

/// Documents that one query may bring in.
const DOCUMENTS_PER_QUERY_MAX: usize = 20;

/// What is recorded of the passage that spoke for a source, in characters: a look at it, not the text.
const PASSAGE_SHOWN_CHARS: usize = 400;

/// Characters of a title in prompts and reports.
const TITLE_CHARS_MAX: usize = 100;

/// Skipped files that are named one by one.
const SKIPPED_NAMED_MAX: usize = 50;

/// What the search gives, small enough for a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Found {
    /// The folder that was read.
    pub(super) folder: String,
    /// Documents that could be read in it.
    pub(super) documents: usize,
    /// Those to read, the most promising first.
    pub(super) sources: Vec<Candidate>,
    /// What could not be read.
    pub(super) skipped: Vec<Omitted>,
}

/// A document that promises an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Candidate {
    /// Its path within the folder.
    pub(super) file: String,
    /// What a reader would call it.
    pub(super) title: String,
    /// Characters of its text.
    pub(super) chars: usize,
    /// Whether page numbers mean anything.
    pub(super) paged: bool,
    /// The page of the passage that spoke for it.
    pub(super) page: u32,
    /// That passage's beginning.
    pub(super) passage: String,
}

/// Reads the folder, indexes it and picks what answers the plan's queries best.
pub(super) async fn find(ctx: &mut Ctx, tools: &Tools, input: &Input, plan: &Plan) -> longhaul::Result<Found> {
    let queries: Vec<String> = std::iter::once(&input.topic).chain(&plan.queries).cloned().collect();
    let sources_max = usize::try_from(input.sources_max).unwrap_or(usize::MAX);
    ctx.step("search", async || {
        let folder = tools.paths.corpus(input.corpus.as_deref())?;
        let queries = queries.clone();
        tools.heavy.run(move || search(&folder, &queries, sources_max)).await?
    })
    .retry(tools.model.retry())
    .time_limit(TIME_LIMIT)
    .await
}

fn search(folder: &Path, queries: &[String], sources_max: usize) -> Result<Found, StepError> {
    let corpus = Corpus::read(folder).map_err(|error| unusable(&error))?;
    let index = Index::build(&corpus.documents);
    let mut best: BTreeMap<usize, Hit> = BTreeMap::new();
    let mut rankings = Vec::new();
    for query in queries {
        let hits = index.sources(query, DOCUMENTS_PER_QUERY_MAX);
        let mut ranking = Vec::new();
        for hit in hits {
            let Ok(at) = corpus.documents.binary_search_by(|document| document.id.cmp(&hit.document)) else { continue };
            ranking.push(at);
            best.entry(at).or_insert(hit);
        }
        rankings.push(ranking);
    }
    let sources = fused(rankings).into_iter().take(sources_max).filter_map(|at| {
        let (document, hit) = (corpus.documents.get(at)?, best.get(&at)?);
        Some(Candidate {
            file: document.id.as_str().to_owned(),
            title: short_title(&document.title),
            chars: document.chars(),
            paged: document.pages.len() > 1,
            page: hit.page,
            passage: hit.passage.text.chars().take(PASSAGE_SHOWN_CHARS).collect(),
        })
    });
    let sources = sources.collect();
    Ok(Found {
        folder: folder.to_string_lossy().into_owned(),
        documents: corpus.documents.len(),
        sources,
        skipped: skipped(&corpus),
    })
}

/// A title of one line, cut where it is none: some files' first line is a whole paragraph.
fn short_title(title: &str) -> String {
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    match title.char_indices().nth(TITLE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", title.get(..end).unwrap_or_default().trim_end()),
        None => title,
    }
}

fn skipped(corpus: &Corpus) -> Vec<Omitted> {
    let named = corpus.skipped.iter().take(SKIPPED_NAMED_MAX);
    let mut skipped: Vec<Omitted> =
        named.map(|one| Omitted { file: one.file.clone(), reason: one.reason.to_string() }).collect();
    let more = corpus.skipped.len().saturating_sub(SKIPPED_NAMED_MAX);
    if more > 0 {
        skipped.push(Omitted { file: format!("and {more} more"), reason: "not named one by one".to_owned() });
    }
    skipped
}

/// A folder that gives nothing to read gives nothing at the next attempt either.
fn unusable(error: &CorpusError) -> StepError {
    let mut failed = StepError::new(ErrorClass::Invalid, error.to_string());
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        failed.failure.causes.push(source.to_string());
        cause = source.source();
    }
    failed
}
