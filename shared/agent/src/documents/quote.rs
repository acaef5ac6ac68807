//! Whether quoted words really stand in a document, and on which page.
//!
//! A quote that went through a PDF's line breaks, a model and a report never comes back byte for byte. Both sides are
//! therefore reduced to their wording first: case, white space and the shapes of quotation marks and dashes do not
//! count; soft hyphens, hyphens within words (also at a line's end), Markdown marks and link targets are left out.
//! Words, numbers and the other punctuation count, and a quote must begin and end where words do.

use unicode_normalization::UnicodeNormalization;

use super::Document;

/// Characters of a quote that an agent keeps: a longer one is a page rather than a quote.
pub(crate) const QUOTE_CHARS_MAX: usize = 1_500;

/// The page on which the quoted text begins, or `None` if the document does not contain it. For many quotes from one
/// document use [`Wording`].
pub fn locate(text: &str, document: &Document) -> Option<u32> {
    Wording::of(document).find(text)
}

/// A document reduced to its wording, to look up quotes in.
#[derive(Debug, Clone)]
pub struct Wording {
    words: String,
    /// Where in `words` each page begins, and its number.
    pages: Vec<(usize, u32)>,
}

impl Wording {
    /// The wording of all pages, as one text: a quote may go over the end of a page.
    pub fn of(document: &Document) -> Self {
        let mut reducer = Reducer::default();
        let mut pages = Vec::new();
        for page in &document.pages {
            pages.push((reducer.words.len(), page.number));
            reducer.take(&page.text);
            reducer.take("\n");
        }
        Self { words: reducer.finish(), pages }
    }

    /// The page on which the quoted text begins, or `None` if it is not there (or has no words at all).
    pub fn find(&self, quote: &str) -> Option<u32> {
        let mut reducer = Reducer::default();
        reducer.take(quote);
        let reduced = reducer.finish();
        // A quote often ends in a full stop where the sentence it is from goes on.
        let wanted = reduced.trim_matches(|c: char| c.is_whitespace() || ".,;:!?'-".contains(c));
        if !wanted.contains(char::is_alphanumeric) {
            return None;
        }
        // Cut off where a page ended in mid-word: what follows in the document is the rest of that word.
        let cut = wanted.len() < reduced.len() && reduced.ends_with('-');
        let (at, _) = self.words.match_indices(wanted).find(|(at, found)| self.whole(*at, found, cut))?;
        // A page that begins here or before; a hyphenated word may begin a little before its page does.
        let pages_before = self.pages.partition_point(|(start, _)| *start <= at);
        self.pages.get(pages_before.saturating_sub(1)).map(|(_, number)| *number)
    }

    /// Whether the match is not the inside of longer words, save for a word that goes over the end of a page.
    fn whole(&self, at: usize, found: &str, cut: bool) -> bool {
        let inside = |outer: Option<char>, inner: Option<char>| {
            outer.is_some_and(char::is_alphanumeric) && inner.is_some_and(char::is_alphanumeric)
        };
        let before = self.words.get(..at).and_then(|text| text.chars().next_back());
        let after = self.words.get(at + found.len()..).and_then(|text| text.chars().next());
        let begins_page = self.pages.iter().any(|(start, _)| *start == at);
        (begins_page || !inside(before, found.chars().next())) && (cut || !inside(after, found.chars().next_back()))
    }
}

/// Reduces text to its wording, piece by piece.
#[derive(Debug, Default)]
struct Reducer {
    words: String,
    /// A hyphen after a letter, kept back until it is known what follows, and whether a space followed it.
    hyphen: Option<bool>,
}

/// The longest link target that is skipped: beyond this the bracket was not a link.
const LINK_TARGET_MAX_CHARS: usize = 2_000;

impl Reducer {
    fn take(&mut self, text: &str) {
        for line in text.split_inclusive('\n') {
            // The marks of a quotation in Markdown and mail.
            let line: Vec<char> = line.trim_start_matches(['>', ' ']).nfkc().collect();
            let mut rest = line.as_slice();
            while let Some((c, after)) = rest.split_first() {
                rest = if *c == ']' { skip_link_target(after) } else { after };
                self.take_char(*c);
            }
            self.take_char(' ');
        }
    }

    fn take_char(&mut self, c: char) {
        match c {
            // Soft hyphens, joiners, zero-width spaces and byte order marks are not seen by a reader.
            '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' => {}
            '*' | '_' | '`' | '[' | ']' | '\\' => {}
            '-' | '\u{2010}'..='\u{2013}' | '\u{2212}' => self.take_hyphen(),
            '\u{2014}' | '\u{2015}' => [' ', '-', ' '].into_iter().for_each(|part| self.put(part)),
            '"' | '\u{2018}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{2039}' | '\u{203a}' | '\u{2032}' | '\u{2033}' => {
                self.put('\'');
            }
            c if c.is_whitespace() => self.take_space(),
            c => {
                for lower in c.to_lowercase() {
                    self.put(lower);
                }
            }
        }
    }

    fn take_hyphen(&mut self) {
        if self.hyphen.is_none() && self.words.ends_with(char::is_alphabetic) {
            self.hyphen = Some(false);
        } else {
            self.put('-');
        }
    }

    fn take_space(&mut self) {
        match &mut self.hyphen {
            Some(spaced) => *spaced = true,
            None if !self.words.is_empty() && !self.words.ends_with(' ') => self.words.push(' '),
            None => {}
        }
    }

    /// Puts a visible character, or an explicit space, after deciding about a hyphen before it.
    fn put(&mut self, c: char) {
        if let Some(spaced) = self.hyphen.take()
            && !c.is_alphabetic()
        {
            self.words.push('-');
            if spaced {
                self.words.push(' ');
            }
        }
        if c == ' ' { self.take_space() } else { self.words.push(c) }
    }

    fn finish(mut self) -> String {
        if self.hyphen.take().is_some() {
            self.words.push('-');
        }
        self.words
    }
}

/// What follows `](target)`; everything, if that is not what follows the bracket.
fn skip_link_target(after: &[char]) -> &[char] {
    if after.first() != Some(&'(') {
        return after;
    }
    let close = after.iter().take(LINK_TARGET_MAX_CHARS).position(|c| *c == ')' || c.is_whitespace());
    match close {
        Some(at) if after.get(at) == Some(&')') => after.get(at + 1..).unwrap_or_default(),
        _ => after,
    }
}
