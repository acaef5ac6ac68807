//! Sentences of a document that can be quoted: exact slices of its text.
//!
//! Documents are prose between headings, lists, tables, code and page furniture. Blocks that are no prose are left out,
//! and a sentence must look like one: a beginning, an end, enough words, mostly letters.

use std::ops::Range;

use super::words::words;

/// Shorter sentences seldom say anything alone.
const WORDS_MIN: usize = 6;

/// Longer ones are lists or failed extractions.
const WORDS_MAX: usize = 48;

/// Abbreviations whose full stop ends no sentence, in lower case.
const ABBREVIATIONS: [&str; 33] = [
    "e.g", "i.e", "etc", "cf", "vs", "dr", "mr", "mrs", "ms", "prof", "st", "no", "nos", "fig", "figs", "eq", "sec",
    "ch", "vol", "ed", "eds", "al", "approx", "inc", "ltd", "co", "corp", "jr", "sr", "dept", "est", "art", "para",
];

/// Signs of links, code and page furniture.
const NOT_PROSE: [&str; 14] = [
    "http://",
    "https://",
    "www.",
    "](",
    "{{",
    "```",
    "|",
    "</",
    "/>",
    "=>",
    "©",
    "all rights reserved",
    "cookie",
    "sign up",
];

/// The sentences worth quoting, in reading order. Where strict rules find none, any sentence of three words will do,
/// and in the end any line.
pub(super) fn sentences(text: &str) -> Vec<&str> {
    let all: Vec<&str> = blocks(text).into_iter().filter_map(|block| text.get(block)).flat_map(split).collect();
    let strict: Vec<&str> = all.iter().copied().filter(|sentence| is_prose(sentence)).collect();
    if !strict.is_empty() {
        return strict;
    }
    let loose: Vec<&str> = all.into_iter().filter(|sentence| words(sentence).len() >= 3).collect();
    if !loose.is_empty() {
        return loose;
    }
    text.lines().map(str::trim).filter(|line| !words(line).is_empty()).collect()
}

/// What a line is for the block around it.
enum Line {
    /// Goes on with the block, or begins one.
    Prose,
    /// Begins a block of its own after so many bytes of list or quotation mark.
    Item(usize),
    /// Ends the block and is not part of any.
    Break,
    /// Says that the one line above was a heading.
    Underline,
    /// Begins or ends a block of code.
    Fence,
}

fn classify(line: &str) -> Line {
    let trimmed = line.trim();
    let indent = line.len() - line.trim_start().len();
    if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
        return Line::Fence;
    }
    if trimmed.len() >= 3 && trimmed.chars().all(|c| matches!(c, '-' | '=' | '*' | '_')) {
        return Line::Underline;
    }
    let is_table = trimmed.starts_with('|') || trimmed.matches('|').count() > 1;
    if trimmed.is_empty() || is_table || trimmed.starts_with(['#', '<']) || trimmed.starts_with("[page ") {
        return Line::Break;
    }
    for mark in ["- ", "* ", "+ ", "• ", "> "] {
        if trimmed.starts_with(mark) {
            return Line::Item(indent + mark.len());
        }
    }
    let digits = trimmed.chars().take_while(char::is_ascii_digit).count();
    let numbered = trimmed.get(digits..).is_some_and(|rest| rest.starts_with(". ") || rest.starts_with(") "));
    if (1..=2).contains(&digits) && numbered {
        return Line::Item(indent + digits + 2);
    }
    Line::Prose
}

/// The blocks of prose: paragraphs and list items.
fn blocks(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut block: Option<(Range<usize>, usize)> = None;
    let mut fenced = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        match classify(line) {
            Line::Fence => {
                fenced = !fenced;
                found.extend(block.take().map(|(range, _)| range));
            }
            _ if fenced => {}
            Line::Prose => match &mut block {
                Some((range, lines)) => {
                    range.end = end;
                    *lines += 1;
                }
                None => block = Some((start..end, 1)),
            },
            Line::Item(mark) => {
                found.extend(block.take().map(|(range, _)| range));
                block = Some((start + mark..end, 1));
            }
            Line::Break => found.extend(block.take().map(|(range, _)| range)),
            Line::Underline => found.extend(block.take().filter(|(_, lines)| *lines > 1).map(|(range, _)| range)),
        }
        start = end;
    }
    found.extend(block.map(|(range, _)| range));
    found
}

/// The sentences of one block.
fn split(block: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut chars = block.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let wide = matches!(c, '。' | '！' | '？');
        if !wide && !matches!(c, '.' | '!' | '?' | '…') {
            continue;
        }
        let mut end = at + c.len_utf8();
        // Quotation marks and brackets behind the stop belong to the sentence.
        while let Some((next, closer)) =
            chars.next_if(|(_, next)| matches!(next, '"' | '\'' | '”' | '’' | ')' | ']' | '*' | '_' | '.' | '!' | '?'))
        {
            end = next + closer.len_utf8();
        }
        let rest = block.get(end..).unwrap_or_default();
        let stops = wide
            || rest.is_empty()
            || (rest.starts_with(char::is_whitespace)
                && !rest.trim_start().starts_with(char::is_lowercase)
                && !(c == '.' && is_abbreviation(block.get(start..at).unwrap_or_default())));
        if stops {
            found.extend(block.get(start..end));
            start = end;
        }
    }
    found.extend(block.get(start..));
    found.into_iter().map(str::trim).filter(|sentence| !sentence.is_empty()).collect()
}

/// Whether the text before a full stop ends in an abbreviation, an initial, or the number of a list item.
fn is_abbreviation(before: &str) -> bool {
    let token = before.rsplit(|c: char| c.is_whitespace() || matches!(c, '(' | '[' | '"' | '“')).next();
    let token = token.unwrap_or_default().to_lowercase();
    let alone = token.len() == before.trim().len();
    ABBREVIATIONS.contains(&token.as_str())
        || (token.chars().count() == 1 && token.chars().all(char::is_alphabetic))
        || (alone && token.chars().all(|c| c.is_ascii_digit()))
}

/// Whether a slice reads as a sentence of running text.
fn is_prose(sentence: &str) -> bool {
    let count = words(sentence).len();
    if !(WORDS_MIN..=WORDS_MAX).contains(&count) {
        return false;
    }
    let lower = sentence.to_lowercase();
    if NOT_PROSE.iter().any(|sign| lower.contains(sign)) {
        return false;
    }
    let begins = sentence
        .trim_start_matches(['"', '“', '‘', '(', '*', '_', '\''])
        .starts_with(|c: char| c.is_alphanumeric() && !c.is_lowercase());
    let ends = sentence
        .trim_end_matches(['"', '”', '’', ')', ']', '*', '_', '\''])
        .ends_with(['.', '!', '?', '…', '。', '！', '？']);
    // Half a bracket or an open code mark comes from a sentence that was cut in the wrong place.
    let count_of = |mark: char| sentence.matches(mark).count();
    let balanced = count_of('(') == count_of(')')
        && count_of('[') == count_of(']')
        && count_of('“') == count_of('”')
        && ['"', '`'].into_iter().all(|mark| count_of(mark).is_multiple_of(2))
        && sentence.matches("**").count().is_multiple_of(2);
    let visible = sentence.chars().filter(|c| !c.is_whitespace()).count();
    let letters = sentence.chars().filter(|c| c.is_alphabetic()).count();
    let capitals = sentence.chars().filter(|c| c.is_uppercase()).count();
    begins && ends && balanced && letters * 10 >= visible * 7 && capitals * 2 <= letters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_told_from_the_rest() {
        let text = "# Queues and agents are a pair of things.\n\nQueues absorb bursts, e.g. Monday mornings, without any \
            loss. Dr. A. Smith measured 3.5 s of delay\nin each of the runs! \"Is it enough for us all?\" she asked.\n\
            \n- A list item is a sentence of its own here.\n- See [the docs](x) for more of what this is.\n\n```\nLet \
            code be code, whatever it may say.\n```\n\n| A table | is | no sentence of prose at all. |\n\nA heading in \
            the older style is here\n=====\n\nToo short.\n2. The second point stands after a number.\n";
        assert_eq!(
            sentences(text),
            [
                "Queues absorb bursts, e.g. Monday mornings, without any loss.",
                "Dr. A. Smith measured 3.5 s of delay\nin each of the runs!",
                "\"Is it enough for us all?\" she asked.",
                "A list item is a sentence of its own here.",
                "The second point stands after a number.",
            ]
        );
    }

    #[test]
    fn poor_documents_still_yield_something() {
        assert_eq!(sentences("queues are good"), ["queues are good"]);
        assert_eq!(sentences("queues\n\nagents\n"), ["queues", "agents"]);
        assert!(sentences(" \n\n").is_empty());
    }
}
