//! Documents cut into passages and chunks: nothing lost, nothing too long, every page known.

use super::document;
use crate::documents::limits::{CHUNK_MIN_CHARS, PASSAGE_MAX_CHARS};
use crate::documents::{Document, Media, chunks, passages};

/// Pages of numbered sentences, in paragraphs of five.
fn book(pages: usize, sentences: usize) -> Document {
    let page = |number: usize| {
        let sentence = |at: usize| format!("Sentence {at} of page {number} says that a lease ends by itself.");
        let sentences: Vec<String> = (1..=sentences).map(sentence).collect();
        sentences.chunks(5).map(|paragraph| paragraph.join(" ")).collect::<Vec<_>>().join("\n\n")
    };
    let pages: Vec<String> = (1..=pages).map(page).collect();
    document("book.pdf", Media::Pdf, &pages.iter().map(String::as_str).collect::<Vec<_>>())
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[test]
fn chunks_hold_every_word_once_and_know_its_page() {
    let long_word = "x".repeat(3_000);
    let unbroken = document("u.txt", Media::Text, &[&long_word, "", "end"]);
    for (document, max) in [(book(52, 30), 6_000), (book(3, 7), 400), (book(1, 1), 100_000), (unbroken, 500)] {
        let chunks = chunks(&document, max);
        let mut pages: Vec<(u32, String)> = Vec::new();
        for (chunk, number) in chunks.iter().zip(1..) {
            assert_eq!(chunk.number, number);
            assert!(chunk.chars() <= max && chunk.chars() > 0, "{} of {max}", chunk.chars());
            assert!(chunk.first_page() <= chunk.last_page());
            for part in &chunk.parts {
                assert!(chunk.text().contains(&format!("[page {}]\n{}", part.number, part.text)));
                match pages.last_mut() {
                    Some((page, text)) if *page == part.number => *text = format!("{text} {}", part.text),
                    _ => pages.push((part.number, part.text.clone())),
                }
            }
        }
        let rejoined = pages.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" ").replace(' ', "");
        assert_eq!(words(&rejoined).concat(), words(&document.text()).concat(), "no word is lost or doubled");
        for (page, text) in pages {
            let of_page = &document.pages.iter().find(|candidate| candidate.number == page).unwrap().text;
            assert_eq!(words(&text).concat(), words(of_page).concat(), "page {page}");
        }
    }
}

#[test]
fn chunks_are_filled_and_have_a_smallest_size() {
    let book = book(52, 30);
    let full = chunks(&book, 6_000);
    let needed = book.chars().div_ceil(6_000);
    assert!((needed..=needed * 5 / 4 + 1).contains(&full.len()), "{} chunks where {needed} would do", full.len());
    assert_eq!(chunks(&book, 1), chunks(&book, CHUNK_MIN_CHARS));
}

#[test]
fn passages_stay_within_page_heading_and_length() {
    let sentence = "The epoch grows with each claim and is never reset. ";
    let text = format!(
        "# Leases\n\nShort intro.\n\n{}\n\n## Epochs\nTail.\n\n## Fences\n\n{}\n\nEnd.\n\n---\n",
        sentence.repeat(6),
        sentence.repeat(60)
    );
    let document = document("a.md", Media::Markdown, &[&text]);
    let found = passages(&document);
    let under = |heading: &str| found.iter().filter(|passage| passage.heading.as_deref() == Some(heading)).count();
    assert_eq!(under("Leases"), 1, "a short paragraph joins the next: {found:#?}");
    assert_eq!(under("Epochs"), 1);
    assert!(under("Fences") >= 2);
    for passage in &found {
        assert!(passage.text.chars().count() <= PASSAGE_MAX_CHARS);
        assert!(passage.text.chars().any(char::is_alphabetic));
    }
    assert!(found.last().unwrap().text.contains("End."), "a short rest joins what it follows");
}

#[test]
fn passages_of_a_pdf_keep_their_pages() {
    let book = book(4, 10);
    for passage in passages(&book) {
        assert!(passage.text.contains(&format!("of page {}", passage.page)), "{passage:?}");
    }
    let shell = document("a.txt", Media::Text, &["# a comment, not a heading\n\ntext"]);
    assert_eq!(passages(&shell)[0].heading, None);
}
