//! What reading, searching, cutting and quoting promise, as tables of files and texts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]
// In tests a panic is how a broken promise is reported.

mod corpora;
mod cutting;
mod fuzz;
mod html;
mod pdfs;
mod quotes;
mod searching;

use super::{Document, DocumentId, Media, Page};

/// A document of these pages, as reading would give it.
fn document(id: &str, media: Media, pages: &[&str]) -> Document {
    let pages = pages.iter().zip(1..).map(|(text, number)| Page { number, text: (*text).to_owned() }).collect();
    Document { id: DocumentId::new(id), title: id.to_owned(), media, pages, unread_pages: Vec::new() }
}
