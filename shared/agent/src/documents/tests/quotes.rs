//! Quotes found, and quotes that only seem to be there.

use super::document;
use crate::documents::Media;
use crate::documents::quote::{Wording, locate};

const PAGES: [&str; 3] = [
    "A queue absorbs bursts, so that work-\ners can take their time.\n\nThe supplier\u{2019}s notice: 30 days.",
    "At-least-once delivery means du\u{ad}pli\u{ad}cates. It is \u{201c}the normal case\u{201d}\u{2014}not a fault. The lease continues on",
    "the next page. **Bold** words and [a link](https://example.org/x) in `code`, 5\u{2013}10 items. \u{fb01}eld smart \u{a0} end\n> quoted\n> twice",
];

#[test]
fn quotes_are_located_by_their_wording() {
    let table = [
        ("A queue absorbs bursts", Some(1)),
        ("a QUEUE   absorbs\nbursts,", Some(1)),
        ("so that workers can take their time.", Some(1)),
        ("so that work- ers can take", Some(1)),
        ("supplier's notice: 30 days", Some(1)),
        ("\u{201c}The supplier\u{2019}s notice\u{201d}", Some(1)),
        ("at-least-once delivery means duplicates.", Some(2)),
        ("atleastonce delivery", Some(2)),
        ("it is \"the normal case\" - not a fault", Some(2)),
        ("The lease continues on the next page", Some(2)),
        ("the next page", Some(3)),
        ("bold words and a link in code", Some(3)),
        ("**Bold** words and [a link](https://example.org/x)", Some(3)),
        ("5-10 items", Some(3)),
        ("field smart end", Some(3)),
        ("quoted twice", Some(3)),
        // Not there, or not as words.
        ("queue absorbs a burst", None),
        ("art end", None),
        ("A que", None),
        ("510 items", None),
        ("0 days", None),
        ("at least once delivery", None),
        ("delivery means", Some(2)),
        ("", None),
        (" \n ", None),
        ("...", None),
        ("***", None),
    ];
    let document = document("a.pdf", Media::Pdf, &PAGES);
    for (quote, page) in table {
        assert_eq!(locate(quote, &document), page, "{quote:?}");
    }
}

#[test]
fn a_word_hyphenated_over_two_pages_is_on_the_first() {
    let wording = Wording::of(&document("a.pdf", Media::Pdf, &["It is idem-", "potent by design."]));
    assert_eq!(wording.find("is idempotent by design"), Some(1));
    assert_eq!(wording.find("by design"), Some(2));
    // Passages keep to their page, and so may begin or end in mid-word.
    assert_eq!(wording.find("It is idem-"), Some(1));
    assert_eq!(wording.find("potent by design."), Some(2));
    assert_eq!(wording.find("It is idem"), None);
    assert_eq!(wording.find("otent by design"), None);
}

#[test]
fn every_passage_of_a_document_can_be_located() {
    let document = document("a.md", Media::Markdown, &PAGES);
    let passages = crate::documents::passages(&document);
    assert!(!passages.is_empty());
    for passage in passages {
        assert_eq!(locate(&passage.text, &document), Some(passage.page), "{}", passage.text);
    }
}
