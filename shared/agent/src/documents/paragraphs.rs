//! Where text may be cut: between paragraphs, then between sentences, then between words, and only then anywhere.

use unicode_segmentation::UnicodeSegmentation;

/// The paragraphs of a text, trimmed. A fenced block of code counts as one, blank lines and all; a Markdown heading
/// is one of its own.
pub(super) fn paragraphs(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut current: Vec<&str> = Vec::new();
    let mut fenced = false;
    let mut close = |current: &mut Vec<&str>| {
        let paragraph = current.join("\n").trim().to_owned();
        if !paragraph.is_empty() {
            found.push(paragraph);
        }
        current.clear();
    };
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        if fenced {
            current.push(line);
        } else if line.trim().is_empty() {
            close(&mut current);
        } else if heading(line).is_some() {
            close(&mut current);
            current.push(line);
            close(&mut current);
        } else {
            current.push(line);
        }
        fenced ^= fence;
    }
    close(&mut current);
    found
}

/// The words of a Markdown heading line; `None` for any other line.
pub(super) fn heading(line: &str) -> Option<&str> {
    let marks = line.chars().take_while(|c| *c == '#').count();
    if !(1..=6).contains(&marks) {
        return None;
    }
    let words = line.get(marks..)?.strip_prefix(' ')?.trim().trim_end_matches('#').trim_end();
    (!words.is_empty()).then_some(words)
}

/// The text in pieces of at most `max_chars` characters, cut at the latest sentence that fits, else at a word,
/// else in mid-word. Joined again the pieces are the text but for the spaces at the cuts.
pub(super) fn pieces(text: &str, max_chars: usize) -> Vec<String> {
    if text.chars().count() <= max_chars {
        return vec![text.to_owned()];
    }
    let sentences = text.split_sentence_bounds().flat_map(|sentence| {
        if sentence.chars().count() <= max_chars { vec![sentence] } else { words_within(sentence, max_chars) }
    });
    let mut pieces: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut current_chars = 0;
    for part in sentences {
        let chars = part.chars().count();
        if current_chars + chars > max_chars {
            pieces.push(std::mem::take(&mut current));
            current_chars = 0;
        }
        current.push_str(part);
        current_chars += chars;
    }
    pieces.push(current);
    pieces.into_iter().map(|piece| piece.trim().to_owned()).filter(|piece| !piece.is_empty()).collect()
}

/// A sentence in words that fit; a word that does not is cut into its characters.
fn words_within(sentence: &str, max_chars: usize) -> Vec<&str> {
    sentence
        .split_word_bounds()
        .flat_map(
            |word| {
                if word.chars().count() <= max_chars { vec![word] } else { word.graphemes(true).collect::<Vec<_>>() }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)] // A wrong count must fail the test.

    use super::*;

    #[test]
    fn text_falls_into_paragraphs_headings_and_fences() {
        let text = "# Title\nFirst\nline.\n\n\nSecond.\n```rust\nlet a = 1;\n\n# not a heading\n```\n## Sub ##\nEnd";
        let found = paragraphs(text);
        assert_eq!(found.len(), 5, "{found:#?}");
        assert_eq!(found[1], "First\nline.");
        assert!(found[2].ends_with("# not a heading\n```"));
        assert_eq!(found.iter().filter_map(|paragraph| heading(paragraph)).collect::<Vec<_>>(), ["Title", "Sub"]);
        for line in ["#nospace", "####### seven", "#", "# ", "text # x", ""] {
            assert_eq!(heading(line), None, "{line:?}");
        }
    }

    #[test]
    fn long_text_is_cut_at_the_best_place_that_fits() {
        let table: &[(&str, usize, &[&str])] = &[
            ("Short.", 10, &["Short."]),
            ("One one. Two two. Three.", 18, &["One one. Two two.", "Three."]),
            ("one two three four", 9, &["one two", "three", "four"]),
            ("abcdefghij", 4, &["abcd", "efgh", "ij"]),
            ("\u{e4}\u{f6}\u{fc} \u{df}\u{df}", 3, &["\u{e4}\u{f6}\u{fc}", "\u{df}\u{df}"]),
        ];
        for (text, max, expected) in table {
            assert_eq!(&pieces(text, *max), expected, "{text:?} by {max}");
        }
    }
}
