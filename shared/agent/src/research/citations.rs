//! Citations and quotations in a report's prose: found, checked, numbered anew.
//!
//! A model may cite a number that is not there or change a word inside quotation marks. So prose is taken apart into
//! plain text, quotations and citations; what does not hold loses its brackets or its quotation marks, and says so by
//! being counted.

use std::collections::BTreeMap;

use crate::markdown::neutral;

/// Between a quotation and the citation that vouches for it may stand no more than this.
const BETWEEN: [char; 6] = ['.', ',', ';', ':', ' ', ')'];

/// A piece of prose.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    /// What stands between quotation marks, without them.
    Quoted(&'a str),
    /// The numbers of `[1]`, `[1, 2]`.
    Cited(Vec<u64>),
}

/// A quotation with the numbers of the sources that vouch for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Claim {
    /// The words as [`Writer`] asks about them.
    pub(super) words: String,
    pub(super) sources: Vec<u64>,
}

/// The quotations of a text that name a source.
pub(super) fn claims(text: &str) -> Vec<Claim> {
    let pieces = pieces(text);
    let claims = pieces.iter().enumerate().filter_map(|(at, piece)| match piece {
        Piece::Quoted(words) => {
            let sources = vouching(words, pieces.get(at + 1..).unwrap_or_default());
            (!sources.is_empty()).then(|| Claim { words: without_citations(words), sources })
        }
        Piece::Text(_) | Piece::Cited(_) => None,
    });
    claims.collect()
}

/// All numbers that a text cites.
pub(super) fn cited(text: &str) -> Vec<u64> {
    let numbers = pieces(text).into_iter().flat_map(|piece| match piece {
        Piece::Cited(numbers) => numbers,
        Piece::Quoted(words) => cited_inside(words),
        Piece::Text(_) => Vec::new(),
    });
    numbers.collect()
}

/// Writes prose out with what holds, and counts what does not.
pub(super) struct Writer<F> {
    /// How many sources there are; they are numbered from 1.
    sources: u64,
    /// Whether these words stand in this source.
    holds: F,
    /// New numbers by old ones, in the order of their first appearance.
    numbers: BTreeMap<u64, u64>,
    dropped: u64,
}

impl<F: Fn(&str, u64) -> bool> Writer<F> {
    pub(super) fn new(sources: u64, holds: F) -> Self {
        Self { sources, holds, numbers: BTreeMap::new(), dropped: 0 }
    }

    /// A paragraph as it goes into the report.
    pub(super) fn prose(&mut self, text: &str) -> String {
        let pieces = pieces(text);
        let mut written = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            match piece {
                Piece::Text(text) => written.push_str(&neutral(text)),
                Piece::Quoted(words) => {
                    let sources = vouching(words, pieces.get(at + 1..).unwrap_or_default());
                    let inside = cited_inside(words);
                    let bare = without_citations(words);
                    if sources.is_empty() || sources.iter().any(|source| (self.holds)(&bare, *source)) {
                        written.push_str(&format!("“{}”", neutral(&bare)));
                    } else {
                        self.dropped += 1;
                        written.push_str(&neutral(&bare));
                    }
                    if !inside.is_empty() {
                        written.push(' ');
                        self.cite(&inside, &mut written);
                    }
                }
                Piece::Cited(numbers) => self.cite(numbers, &mut written),
            }
        }
        written.trim().to_owned()
    }

    fn cite(&mut self, numbers: &[u64], written: &mut String) {
        let mut any = false;
        for number in numbers {
            if (1..=self.sources).contains(number) {
                any = true;
                let next = u64::try_from(self.numbers.len()).unwrap_or(u64::MAX).saturating_add(1);
                let new = *self.numbers.entry(*number).or_insert(next);
                written.push_str(&format!("[{new}]"));
            } else {
                self.dropped += 1;
            }
        }
        if !any {
            written.truncate(written.trim_end_matches(' ').len());
        }
    }

    /// Old numbers in the order of the new ones, and how much did not hold.
    pub(super) fn finish(self) -> (Vec<u64>, u64) {
        let mut order: Vec<(u64, u64)> = self.numbers.into_iter().map(|(old, new)| (new, old)).collect();
        order.sort_unstable();
        (order.into_iter().map(|(_, old)| old).collect(), self.dropped)
    }
}

/// The numbers that vouch for a quotation: those within its marks, and those that follow it.
fn vouching(words: &str, following: &[Piece<'_>]) -> Vec<u64> {
    let mut numbers = cited_inside(words);
    for piece in following {
        match piece {
            Piece::Cited(more) => numbers.extend(more),
            Piece::Text(text) if numbers.is_empty() && text.chars().all(|c| BETWEEN.contains(&c)) => {}
            // Between two citations of one quotation stands at most a space.
            Piece::Text(text) if text.trim().is_empty() => {}
            Piece::Text(_) | Piece::Quoted(_) => break,
        }
    }
    numbers
}

fn cited_inside(words: &str) -> Vec<u64> {
    let mut found = Vec::new();
    let mut rest = words;
    while let Some((_, numbers, after)) = next_citation(rest) {
        found.extend(numbers);
        rest = after;
    }
    found
}

fn without_citations(words: &str) -> String {
    let mut kept = String::new();
    let mut rest = words;
    while let Some((before, _, after)) = next_citation(rest) {
        kept.push_str(before.trim_end());
        rest = after;
    }
    kept.push_str(rest);
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Takes a text apart. A quotation mark without its partner in the same paragraph is plain text.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let quotation = next_quotation(rest);
        let citation = next_citation(rest);
        let quotation_first = match (&quotation, &citation) {
            (Some((before, ..)), Some((until, ..))) => before.len() < until.len(),
            (Some(_), None) => true,
            (None, _) => false,
        };
        let (before, piece, after) = match (quotation, citation) {
            (Some((before, words, after)), _) if quotation_first => (before, Piece::Quoted(words), after),
            (_, Some((before, numbers, after))) => (before, Piece::Cited(numbers), after),
            (Some(_) | None, None) => break,
        };
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// What stands before the next quotation, in it and after it. Straight marks open before a word and close behind one, so
/// that an inch is not taken for a quotation.
fn next_quotation(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let searched = text.get(from..)?;
        let (offset, mark) = searched.char_indices().find(|(_, c)| matches!(c, '“' | '"'))?;
        let open = from + offset;
        let inside = open + mark.len_utf8();
        from = inside;
        let before = text.get(..open)?;
        let behind_word = before.chars().next_back().is_some_and(char::is_alphanumeric);
        if mark == '"' && behind_word {
            continue;
        }
        let rest = text.get(inside..)?;
        let paragraph = rest.split("\n\n").next().unwrap_or(rest);
        if let Some(length) = closing(paragraph, mark) {
            let after = rest.get(length..)?.strip_prefix(['”', '"'])?;
            return Some((before, rest.get(..length)?, after));
        }
    }
}

/// How long a quotation is that was opened by `mark`; none when it is not closed, or empty.
fn closing(text: &str, mark: char) -> Option<usize> {
    let length = if mark == '“' {
        text.find('”')?
    } else {
        let closes = |at: &usize| {
            let (inside, after) = text.split_at_checked(*at).unwrap_or_default();
            let followed_by_word = after.chars().nth(1).is_some_and(char::is_alphanumeric);
            !inside.ends_with(char::is_whitespace) && !followed_by_word
        };
        text.match_indices('"').map(|(at, _)| at).find(closes)?
    };
    let opened_before_word = text.chars().next().is_some_and(|c| !c.is_whitespace());
    (length > 0 && opened_before_word).then_some(length)
}

/// What stands before the next citation, its numbers, and what stands after it. `[1](…)` is a link, not a citation.
fn next_citation(text: &str) -> Option<(&str, Vec<u64>, &str)> {
    let mut from = 0;
    loop {
        let open = from + text.get(from..)?.find('[')?;
        let inside = open + 1;
        let rest = text.get(inside..)?;
        let numbers = rest.split_once(']').filter(|(_, after)| !after.starts_with('(')).and_then(|(list, after)| {
            let numbers: Option<Vec<u64>> = list.split(',').map(|number| number.trim().parse().ok()).collect();
            Some((numbers?, after))
        });
        match numbers {
            Some((numbers, after)) => return Some((text.get(..open)?, numbers, after)),
            None => from = inside,
        }
    }
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    /// Writes with two sources: the first holds words with "one" in them, the second those with "two".
    fn check(text: &str) -> (String, Vec<u64>, u64) {
        let mut writer = Writer::new(2, |words: &str, source| words.contains(if source == 1 { "one" } else { "two" }));
        let written = writer.prose(text);
        let (order, dropped) = writer.finish();
        (written, order, dropped)
    }

    #[test]
    fn what_holds_stays_and_what_does_not_is_taken_out() {
        let cases: [(&str, &str, &[u64], u64); 17] = [
            ("Plain.", "Plain.", &[], 0),
            ("So it is [2]. And so [1].", "So it is [1]. And so [2].", &[2, 1], 0),
            ("Both [1, 2] and [2][1].", "Both [1][2] and [2][1].", &[1, 2], 0),
            ("Nobody says it [7].", "Nobody says it.", &[], 1),
            ("\"One and one\" [1].", "“One and one” [1].", &[1], 0),
            ("“Twelve two” [1].", "Twelve two [1].", &[1], 1),
            ("“It takes two”, [1][2].", "“It takes two”, [1][2].", &[1, 2], 0),
            ("“It takes two [2].”", "“It takes two.” [1]", &[2], 0),
            ("“made\nof one” [1]", "“made of one” [1]", &[1], 0),
            ("A “term” that [1] uses.", "A “term” that [1] uses.", &[1], 0),
            ("An inch is 1\" long [1].", "An inch is 1\" long [1].", &[1], 0),
            ("See [1](http://x) and [a].", "See [1](http://x) and [a].", &[], 0),
            ("\"\" [1] \"one\" [1]", "\"\" [1] “one” [1]", &[1], 0),
            ("“open [1]", "“open [1]", &[1], 0),
            ("A 3\" nail [1]. So \"one\" [1], \" one \".", "A 3\" nail [1]. So “one” [1], \" one \".", &[1], 0),
            ("[", "[", &[], 0),
            ("# Big\n<script>x</script> [1]", "\\# Big\n\\<script>x\\</script> [1]", &[1], 0),
        ];
        for (text, written, order, dropped) in cases {
            assert_eq!(check(text), (written.to_owned(), order.to_vec(), dropped), "{text}");
        }
    }

    #[test]
    fn claims_name_their_sources() {
        let found = claims("He says “one thing”. [1] [2] Then \"no source\" and (“two [2]”).");
        let found: Vec<_> = found.iter().map(|claim| (claim.words.as_str(), claim.sources.as_slice())).collect();
        assert_eq!(found, [("one thing", &[1, 2][..]), ("two", &[2][..])]);
        assert_eq!(cited("a [1] “b [3]” [2,9]"), [1, 3, 2, 9]);
    }
}
