//! What an agent may read and quote: folders of Markdown, text, HTML and PDF files as pages of plain text.
//!
//! A report is worth something only when each citation leads to words that really stand in a file. So the same
//! rooms serve both ways: [`Corpus`] turns files into [`Document`]s (and says which files it could not read, and
//! why), [`Index`] finds the passages that answer a question, [`chunks()`] cuts a long document into pieces that fit
//! a model's window, and [`quote`] checks afterwards that the words a model put in quotation marks are in the
//! document, and on which page.
//!
//! Files come from anywhere, so reading one never panics, never hangs and never takes unbounded memory in the
//! caller: see [`limits`].

mod chunks;
mod corpus;
mod encoding;
mod furniture;
mod guard;
mod html;
pub mod limits;
mod paragraphs;
mod passages;
mod pdf;
pub mod quote;
mod reading;
mod search;
mod spacing;
mod title;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use chunks::{Chunk, chunks};
pub use corpus::{Corpus, CorpusError, Skipped};
pub use passages::{Passage, passages};
pub use reading::{SkipReason, read_bytes, read_file};
pub use search::{Hit, Index};

/// Names a document within its corpus: the file's path relative to the folder, with `/` between its parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DocumentId(String);

impl DocumentId {
    /// The id of the document at this relative path, for example `handbook/leases.md`.
    pub fn new(relative_path: impl Into<String>) -> Self {
        Self(relative_path.into())
    }

    /// The relative path itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The kinds of file that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Media {
    /// Markdown, kept as it is written: it is text that people read anyway.
    Markdown,
    /// Plain text; a form feed ends a page.
    Text,
    /// HTML, reduced to the text a reader would see.
    Html,
    /// PDF with a text layer.
    Pdf,
}

impl Media {
    /// The kind that a file name's extension announces, whatever its case; `None` for a kind that is not read.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "md" | "markdown" => Some(Self::Markdown),
            "txt" | "text" => Some(Self::Text),
            "html" | "htm" | "xhtml" => Some(Self::Html),
            "pdf" => Some(Self::Pdf),
            _ => None,
        }
    }
}

/// One page of a document. Files without pages of their own have exactly one, numbered 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// Counted from 1 as the file orders its pages, not as a printed page number may say.
    pub number: u32,
    /// The page's text, with `\n` line ends and blank lines between paragraphs. It may be empty.
    pub text: String,
}

/// One file as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Which file this is.
    pub id: DocumentId,
    /// What a reader would call it: its own title where it has one, else the file's name without extension.
    pub title: String,
    /// The kind of file.
    pub media: Media,
    /// All pages in order; at least one holds text.
    pub pages: Vec<Page>,
    /// Pages that are there but could not be read, as a damaged PDF may have; their text is empty. A report that
    /// rests on this document should say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread_pages: Vec<u32>,
}

impl Document {
    /// The whole text, a blank line between pages.
    pub fn text(&self) -> String {
        let pages: Vec<&str> = self.pages.iter().map(|page| page.text.trim()).collect();
        pages.join("\n\n")
    }

    /// How many characters (not bytes) all pages hold together.
    pub fn chars(&self) -> usize {
        self.pages.iter().map(|page| page.text.chars().count()).sum()
    }
}
