//! A long document in pieces that each fit a model's window, every word still on its page.

use serde::{Deserialize, Serialize};

use super::limits::CHUNK_MIN_CHARS;
use super::paragraphs::{paragraphs, pieces};
use super::{Document, Page};

/// A run of consecutive paragraphs, possibly over several pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Counted from 1 through the document.
    pub number: u32,
    /// What it holds of each page, in order; never empty.
    pub parts: Vec<Page>,
}

impl Chunk {
    /// The page its first word stands on.
    pub fn first_page(&self) -> u32 {
        self.parts.first().map_or(1, |part| part.number)
    }

    /// The page its last word stands on.
    pub fn last_page(&self) -> u32 {
        self.parts.last().map_or(1, |part| part.number)
    }

    /// Its text for a model to read, each page's part under a line `[page N]`.
    pub fn text(&self) -> String {
        let parts: Vec<String> =
            self.parts.iter().map(|part| format!("[page {}]\n{}", part.number, part.text)).collect();
        parts.join("\n\n")
    }

    /// How many characters of the document it holds.
    pub fn chars(&self) -> usize {
        self.parts.iter().map(|part| part.text.chars().count()).sum()
    }
}

/// Cuts a document into chunks of at most `max_chars` characters of its text (not less than [`CHUNK_MIN_CHARS`]),
/// between paragraphs where possible, else between sentences. Every word is in exactly one chunk.
pub fn chunks(document: &Document, max_chars: usize) -> Vec<Chunk> {
    let max_chars = max_chars.max(CHUNK_MIN_CHARS);
    let mut filling = Filling { max_chars, done: Vec::new(), parts: Vec::new(), chars: 0 };
    for page in &document.pages {
        for paragraph in paragraphs(&page.text) {
            for piece in pieces(&paragraph, max_chars) {
                filling.add(page.number, &piece);
            }
        }
    }
    filling.close();
    filling.done
}

struct Filling {
    max_chars: usize,
    done: Vec<Chunk>,
    parts: Vec<Page>,
    chars: usize,
}

impl Filling {
    fn add(&mut self, page: u32, piece: &str) {
        // Two for the blank line that may precede it.
        let chars = piece.chars().count() + 2;
        if self.chars + chars > self.max_chars {
            self.close();
        }
        match self.parts.last_mut() {
            Some(part) if part.number == page => {
                part.text.push_str("\n\n");
                part.text.push_str(piece);
            }
            _ => self.parts.push(Page { number: page, text: piece.to_owned() }),
        }
        self.chars += chars;
    }

    fn close(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        let number = u32::try_from(self.done.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.done.push(Chunk { number, parts: std::mem::take(&mut self.parts) });
        self.chars = 0;
    }
}
