//! The parts of a document that matter to a question, when the whole is too long for a model.

use std::collections::BTreeMap;

use crate::documents::{Document, Index, Page, Passage, passages};
use crate::ranking::fused;

/// Passages that one query may bring in: more would only be its weaker matches.
const HITS_PER_QUERY_MAX: usize = 40;

/// Between passages that do not follow each other in the document.
const GAP: &str = "[…]";

/// What may be left over for a passage that does not fit, before the excerpt counts as full, in characters.
const REST_MIN_CHARS: usize = 200;

/// The whole document if it has at most `chars_max` characters; else the passages that answer the queries best, in
/// reading order, each under its page's number. The beginning when nothing answers.
pub(crate) fn excerpt(document: &Document, queries: &[String], chars_max: usize) -> Vec<Page> {
    if document.chars() <= chars_max {
        return document.pages.iter().filter(|page| !page.text.trim().is_empty()).cloned().collect();
    }
    let all = passages(document);
    let mut chosen: Vec<usize> = Vec::new();
    let mut room = chars_max;
    let found = found(document, &all, queries);
    // Smaller passages may fill what a large one leaves, but a beginning has no holes.
    let holes = !found.is_empty();
    let order = if holes { found } else { (0..all.len()).collect() };
    for position in order {
        let chars = all.get(position).map_or(0, shown_chars);
        if chars <= room {
            room -= chars;
            chosen.push(position);
        } else if !holes || room < REST_MIN_CHARS {
            break;
        }
    }
    chosen.sort_unstable();
    as_pages(&all, &chosen)
}

/// Positions of the passages that the queries find, the best first.
fn found(document: &Document, all: &[Passage], queries: &[String]) -> Vec<usize> {
    let index = Index::build(std::slice::from_ref(document));
    let mut at: BTreeMap<(u32, &str), usize> = BTreeMap::new();
    for (position, passage) in all.iter().enumerate() {
        at.entry((passage.page, passage.text.as_str())).or_insert(position);
    }
    fused(queries.iter().map(|query| {
        let hits = index.search(query, HITS_PER_QUERY_MAX);
        hits.iter().filter_map(|hit| at.get(&(hit.page, hit.passage.text.as_str())).copied()).collect()
    }))
}

fn shown_chars(passage: &Passage) -> usize {
    let heading = passage.heading.as_deref().map_or(0, |heading| heading.chars().count());
    // The blank lines and the gap mark that may stand around it.
    passage.text.chars().count() + heading + 12
}

fn as_pages(all: &[Passage], chosen: &[usize]) -> Vec<Page> {
    let mut pages: Vec<Page> = Vec::new();
    let mut heading: Option<&str> = None;
    let mut expected = 0;
    for position in chosen {
        let Some(passage) = all.get(*position) else { continue };
        if pages.last().is_none_or(|page| page.number != passage.page) {
            pages.push(Page { number: passage.page, text: String::new() });
        }
        let Some(page) = pages.last_mut() else { continue };
        if *position != expected {
            add(&mut page.text, GAP);
        }
        if let Some(under) = passage.heading.as_deref()
            && heading != Some(under)
        {
            add(&mut page.text, under);
        }
        heading = passage.heading.as_deref();
        add(&mut page.text, &passage.text);
        expected = position + 1;
    }
    pages
}

fn add(text: &mut String, more: &str) {
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;
    use crate::documents::{DocumentId, Media};

    /// A document whose page 30 alone speaks about leases.
    fn long() -> Document {
        let pages = (1..=60)
            .map(|number| {
                let filler = format!("Page {number} speaks about budgets and invoices at some length. ").repeat(20);
                let text = match number {
                    30 => {
                        format!("{filler}\n\nA lease names its holder until it expires. {}", "Leases end. ".repeat(20))
                    }
                    _ => filler,
                };
                Page { number, text }
            })
            .collect();
        Document {
            id: DocumentId::new("long.pdf"),
            title: "Long".to_owned(),
            media: Media::Pdf,
            pages,
            unread_pages: Vec::new(),
        }
    }

    #[test]
    fn the_answering_passage_is_in_and_the_size_holds() {
        let document = long();
        for chars_max in [600, 2_000, 20_000] {
            let pages = excerpt(&document, &["the holder of a lease".to_owned()], chars_max);
            let text: Vec<&str> =
                pages.iter().filter(|page| page.number == 30).map(|page| page.text.as_str()).collect();
            assert!(text.concat().contains("A lease names its holder"), "{chars_max}: {pages:?}");
            let chars: usize = pages.iter().map(|page| page.text.chars().count()).sum();
            assert!(chars <= chars_max, "{chars} of {chars_max}");
        }
    }

    #[test]
    fn a_short_document_is_whole_and_an_unanswered_query_gives_the_beginning() {
        let mut document = long();
        let pages = excerpt(&document, &["zebra".to_owned()], 3_000);
        assert_eq!(pages.first().map(|page| page.number), Some(1));
        assert!(pages.iter().all(|page| page.number < 5));
        document.pages.truncate(2);
        assert_eq!(excerpt(&document, &[], 10_000), document.pages);
    }
}
