//! Finding the passages that answer a question: BM25 over the passages of all documents.

use bm25::{Embedder, EmbedderBuilder, Language, Scorer};
use serde::{Deserialize, Serialize};

use super::{Document, DocumentId, Passage, passages};

/// A passage found, and how well it answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// The document it stands in.
    pub document: DocumentId,
    /// That document's title.
    pub title: String,
    /// The page it stands on.
    pub page: u32,
    /// The passage itself.
    pub passage: Passage,
    /// Higher is better; comparable only among hits of the same search.
    pub score: f32,
}

/// An index over a set of documents, in memory.
///
/// Words are compared by their English stem, without stop words; text in other languages is found by whole words.
/// The same documents and the same query always give the same hits in the same order.
pub struct Index {
    embedder: Embedder,
    scorer: Scorer<usize>,
    entries: Vec<(DocumentId, String, Passage)>,
}

impl Index {
    /// Indexes every passage, together with the title and heading it stands under: a section "Backoff" is about
    /// backoff also where its sentences say "it".
    pub fn build(documents: &[Document]) -> Self {
        let mut entries = Vec::new();
        for document in documents {
            let found = passages(document);
            entries.extend(found.into_iter().map(|passage| (document.id.clone(), document.title.clone(), passage)));
        }
        let searched: Vec<String> = entries
            .iter()
            .map(|(_, title, passage)| {
                format!("{title}\n{}\n{}", passage.heading.as_deref().unwrap_or_default(), passage.text)
            })
            .collect();
        let borrowed: Vec<&str> = searched.iter().map(String::as_str).collect();
        let embedder = EmbedderBuilder::with_fit_to_corpus(Language::English, &borrowed).build();
        let mut scorer = Scorer::new();
        for (position, text) in borrowed.iter().enumerate() {
            scorer.upsert(&position, embedder.embed(text));
        }
        Self { embedder, scorer, entries }
    }

    /// How many passages there are to find.
    pub fn passages(&self) -> usize {
        self.entries.len()
    }

    /// The `max` passages that answer the query best. Equal scores stand in the order of documents and passages.
    /// A query of stop words alone finds nothing.
    pub fn search(&self, query: &str, max: usize) -> Vec<Hit> {
        self.ranked(query).into_iter().filter_map(|(position, score)| self.hit(position, score)).take(max).collect()
    }

    /// The best passage of each of the `max` documents that answer best: what to read, rather than what to quote.
    pub fn sources(&self, query: &str, max: usize) -> Vec<Hit> {
        let mut sources: Vec<Hit> = Vec::new();
        for (position, score) in self.ranked(query) {
            if sources.len() == max {
                break;
            }
            let Some((document, ..)) = self.entries.get(position) else { continue };
            if sources.iter().all(|source| source.document != *document) {
                sources.extend(self.hit(position, score));
            }
        }
        sources
    }

    fn ranked(&self, query: &str) -> Vec<(usize, f32)> {
        let matches = self.scorer.matches(&self.embedder.embed(query));
        let mut ranked: Vec<(usize, f32)> = matches.into_iter().map(|found| (found.id, found.score)).collect();
        // The scorer walks a hash set: only this order is the same every time.
        ranked.sort_by(|(left, left_score), (right, right_score)| {
            right_score.total_cmp(left_score).then_with(|| left.cmp(right))
        });
        ranked
    }

    fn hit(&self, position: usize, score: f32) -> Option<Hit> {
        let (document, title, passage) = self.entries.get(position)?;
        Some(Hit {
            document: document.clone(),
            title: title.clone(),
            page: passage.page,
            passage: passage.clone(),
            score,
        })
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Index").field("passages", &self.entries.len()).finish_non_exhaustive()
    }
}
