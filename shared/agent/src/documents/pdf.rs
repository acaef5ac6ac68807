//! PDF to text, page by page, with two libraries that each do one half well.
//!
//! `lopdf` opens the file: it repairs damaged files, decrypts those without a user password, and bounds what streams
//! may inflate to. Its copy is then cleaned of what could lead a reader astray (see [`clean`]), and `pdf-extract`,
//! which keeps lines and paragraphs where a page shows them, reads the clean copy. Where it fails or panics on a
//! page, `lopdf`'s plainer text of that page stands in. Tried on some seventy PDFs of other projects' test suites.

mod clean;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lopdf::{DecompressError, Error, LoadOptions, decode_text_string};
use pdf_extract::{ConvertToFmt, PlainTextOutput, output_doc_page};

use super::limits::{DOCUMENT_TEXT_MAX_BYTES, PDF_PAGES_MAX, PDF_STREAM_INFLATED_MAX_BYTES};
use super::{Page, SkipReason, furniture, spacing};

/// What a PDF says of itself and on its pages.
#[derive(Debug)]
pub(super) struct Extracted {
    /// The title in its metadata, if any.
    pub(super) title: Option<String>,
    pub(super) pages: Vec<Page>,
    /// Pages that neither library could read.
    pub(super) unread: Vec<u32>,
}

/// The text of all pages. It may panic or take for ever on a malicious file: call it under guard.
pub(super) fn text_of(bytes: &[u8]) -> Result<Extracted, SkipReason> {
    let mut opened = open(bytes)?;
    let count = opened.get_pages().len();
    if count > PDF_PAGES_MAX {
        return Err(SkipReason::TooManyPages { pages: count, max_pages: PDF_PAGES_MAX });
    }
    if count == 0 {
        return Err(SkipReason::Damaged { detail: "it has no pages".to_owned() });
    }
    let title = title_of(&opened);
    clean::clean(&mut opened)?;
    let layout = reopen(&mut opened);
    let mut pages = Vec::new();
    let mut unread = Vec::new();
    let mut room_bytes = DOCUMENT_TEXT_MAX_BYTES;
    for number in (1..=count).filter_map(|number| u32::try_from(number).ok()) {
        let text = match layout.as_ref().and_then(|layout| with_layout(layout, number, room_bytes)) {
            Some(text) => text,
            None => plainly(&opened, number).unwrap_or_else(|| {
                unread.push(number);
                String::new()
            }),
        };
        room_bytes = room_bytes.checked_sub(text.len()).ok_or(SkipReason::TooMuchText)?;
        pages.push(Page { number, text: tidy(&text) });
    }
    if unread.len() == count {
        return Err(SkipReason::Damaged { detail: "none of its pages can be read".to_owned() });
    }
    furniture::strip(&mut pages);
    for page in &mut pages {
        page.text = spacing::close_up(&page.text);
    }
    Ok(Extracted { title, pages, unread })
}

fn open(bytes: &[u8]) -> Result<lopdf::Document, SkipReason> {
    let options = LoadOptions::with_max_decompressed_size(PDF_STREAM_INFLATED_MAX_BYTES);
    let opened = lopdf::Document::load_mem_with_options(bytes, options).map_err(|error| match error {
        Error::InvalidPassword | Error::Decryption(_) => SkipReason::Encrypted,
        Error::Decompress(DecompressError::MemoryLimitExceeded { .. }) => SkipReason::Inflates,
        other => SkipReason::Damaged { detail: other.to_string() },
    })?;
    // A file that wants a password is loaded without its contents.
    if opened.is_encrypted() && opened.encryption_state.is_none() { Err(SkipReason::Encrypted) } else { Ok(opened) }
}

/// The same document in the library that knows about layout, by way of a clean, decrypted copy in memory.
fn reopen(opened: &mut lopdf::Document) -> Option<pdf_extract::Document> {
    opened.trailer.remove(b"Encrypt");
    opened.encryption_state = None;
    let mut copy = Vec::new();
    opened.save_to(&mut copy).ok()?;
    catch_unwind(|| pdf_extract::Document::load_mem(&copy)).ok()?.ok()
}

/// The page's text in lines and paragraphs; `None` if the library fails on it.
fn with_layout(document: &pdf_extract::Document, number: u32, room_bytes: usize) -> Option<String> {
    let mut page = Bounded { text: String::new(), room_bytes };
    // Nothing of a page that panicked is used, so nothing half-done is seen.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut output = PlainTextOutput::new(&mut page);
        output_doc_page(document, &mut output, number)
    }));
    matches!(outcome, Ok(Ok(()))).then_some(page.text)
}

/// The page's text as one run of words; `None` if this library fails, too.
fn plainly(document: &lopdf::Document, number: u32) -> Option<String> {
    let limit = PDF_STREAM_INFLATED_MAX_BYTES;
    catch_unwind(AssertUnwindSafe(|| document.extract_text_with_limit(&[number], limit))).ok()?.ok()
}

fn title_of(document: &lopdf::Document) -> Option<String> {
    let info = document.trailer.get(b"Info").ok()?;
    let (_, info) = document.dereference(info).ok()?;
    let (_, title) = document.dereference(info.as_dict().ok()?.get(b"Title").ok()?).ok()?;
    decode_text_string(title).ok()
}

/// Ligatures as letters (a model and a search would miss `ﬁeld`), line ends without trailing spaces, no NULs.
fn tidy(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    for line in text.lines() {
        for c in line.trim_end().chars() {
            match c {
                '\u{fb00}' => tidied.push_str("ff"),
                '\u{fb01}' => tidied.push_str("fi"),
                '\u{fb02}' => tidied.push_str("fl"),
                '\u{fb03}' => tidied.push_str("ffi"),
                '\u{fb04}' => tidied.push_str("ffl"),
                '\u{fb05}' | '\u{fb06}' => tidied.push_str("st"),
                '\0' => {}
                other => tidied.push(other),
            }
        }
        tidied.push('\n');
    }
    tidied.trim().to_owned()
}

/// A page's text that refuses to grow without end.
struct Bounded {
    text: String,
    room_bytes: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if self.text.len() + more.len() > self.room_bytes {
            return Err(fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

impl<'a> ConvertToFmt for &'a mut Bounded {
    type Writer = &'a mut Bounded;
    fn convert(self) -> Self::Writer {
        self
    }
}
