//! A document in passages: pieces long enough to answer a question and short enough to be quoted.

use serde::{Deserialize, Serialize};

use super::limits::{PASSAGE_MAX_CHARS, PASSAGE_MIN_CHARS};
use super::paragraphs::{heading, paragraphs, pieces};
use super::{Document, Media};

/// One or more paragraphs of one page under one heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The page it stands on.
    pub page: u32,
    /// The heading it stands under, where the format has headings.
    pub heading: Option<String>,
    /// Its text, at most [`PASSAGE_MAX_CHARS`] characters, paragraphs separated by a blank line.
    pub text: String,
}

/// All passages of a document in reading order. No passage crosses a page or a heading, so that it can be cited.
pub fn passages(document: &Document) -> Vec<Passage> {
    let marked = matches!(document.media, Media::Markdown | Media::Html);
    let mut found: Vec<Passage> = Vec::new();
    let mut under: Option<String> = None;
    for page in &document.pages {
        let mut section = Section::new(page.number);
        for paragraph in paragraphs(&page.text) {
            match heading(&paragraph).filter(|_| marked) {
                Some(words) => {
                    section.finish(&under, &mut found);
                    under = Some(words.to_owned());
                }
                None => section.add(&paragraph, &under, &mut found),
            }
        }
        section.finish(&under, &mut found);
    }
    found
}

/// The passage being put together on one page under one heading.
struct Section {
    page: u32,
    text: String,
    /// Whether the last passage in the list is of this section, so that a short rest may join it.
    has_passage: bool,
}

impl Section {
    fn new(page: u32) -> Self {
        Self { page, text: String::new(), has_passage: false }
    }

    fn add(&mut self, paragraph: &str, under: &Option<String>, found: &mut Vec<Passage>) {
        for piece in pieces(paragraph, PASSAGE_MAX_CHARS) {
            if !self.text.is_empty() && joined_chars(&self.text, &piece) > PASSAGE_MAX_CHARS {
                self.flush(under, found);
            }
            join(&mut self.text, &piece);
            if self.text.chars().count() >= PASSAGE_MIN_CHARS {
                self.flush(under, found);
            }
        }
    }

    fn flush(&mut self, under: &Option<String>, found: &mut Vec<Passage>) {
        self.has_passage = true;
        let text = std::mem::take(&mut self.text);
        found.push(Passage { page: self.page, heading: under.clone(), text });
    }

    /// Ends the section: a short rest joins the passage before it, if that is of this section and has room.
    fn finish(&mut self, under: &Option<String>, found: &mut Vec<Passage>) {
        let has_passage = std::mem::take(&mut self.has_passage);
        if self.text.is_empty() {
            return;
        }
        match found.last_mut().filter(|_| has_passage) {
            Some(passage) if joined_chars(&passage.text, &self.text) <= PASSAGE_MAX_CHARS => {
                join(&mut passage.text, &self.text);
                self.text.clear();
            }
            // Page numbers and rules alone are no passage.
            _ if !self.text.chars().any(char::is_alphabetic) => self.text.clear(),
            _ => {
                self.flush(under, found);
                self.has_passage = false;
            }
        }
    }
}

const BETWEEN: &str = "\n\n";

fn joined_chars(text: &str, more: &str) -> usize {
    text.chars().count() + BETWEEN.len() + more.chars().count()
}

fn join(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push_str(BETWEEN);
    }
    text.push_str(more);
}
