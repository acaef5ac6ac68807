//! Words and what two of them have in common.
//!
//! Everything the stand-in does rests on comparing words, so inflected forms must meet: "queues" and "queue",
//! "reliable" and "reliability". The stemmer is a few suffix rules for English; words of other languages pass through
//! nearly unchanged and are compared as they are.

use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Words that say nothing about a subject, in lower case.
const STOP_WORDS: &str = "a about above after again against all also although always am among an and another any are \
    around as at be became because become becomes been before behind being below between both but by came can cannot \
    come comes could did do does doing done down during each either else enough even ever every few first for from \
    further gave get gets give given gives go goes going gone got had has have having he hence her here hers him his \
    how however i if in indeed instead into is it its itself just keep keeps kept last least less let lets like made \
    make makes making many may me might mine more most much must my near neither never next no none nor not now of off \
    often on once one only onto or other others our ours out over own per perhaps put quite rather really said same say \
    says see seem seems seen several shall she should since so some still such take taken takes than that the their \
    theirs them then there therefore these they thing things this those though three through thus to together too took \
    toward towards two under unless until up upon us use used uses using very via was way ways we well went were what \
    whatever when where whether which while who whom whose why will with within without would yes yet you your yours";

/// The words of a text as written. A letter of a script without spaces counts as a word.
pub(super) fn words(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        let alone = is_spaceless(c);
        let inside = !alone && (c.is_alphanumeric() || (start.is_some() && matches!(c, '\'' | '’')));
        match (start, inside) {
            (None, true) => start = Some(at),
            (Some(begin), false) => {
                found.extend(text.get(begin..at));
                start = None;
            }
            (None, false) | (Some(_), true) => {}
        }
        if alone {
            found.extend(text.get(at..at + c.len_utf8()));
        }
    }
    if let Some(begin) = start {
        found.extend(text.get(begin..));
    }
    found
}

/// Letters of Chinese, Japanese and Korean.
fn is_spaceless(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}')
}

/// Whether a word says something about a subject.
pub(super) fn is_content(word: &str) -> bool {
    let lower = word.to_lowercase();
    let lower = lower.split(['\'', '’']).next().unwrap_or_default();
    let long_enough = lower.chars().count() > 1 || lower.chars().any(is_spaceless);
    static STOP: OnceLock<BTreeSet<&str>> = OnceLock::new();
    let stop = STOP.get_or_init(|| STOP_WORDS.split_ascii_whitespace().collect());
    long_enough && !stop.contains(lower)
}

/// The stems of a text's content words.
pub(super) fn terms(text: &str) -> BTreeSet<String> {
    words(text).into_iter().filter(|word| is_content(word)).map(stem).collect()
}

/// The stems of all words of a text, those that say nothing about a subject included.
pub(super) fn stems(text: &str) -> BTreeSet<String> {
    words(text).into_iter().map(stem).collect()
}

/// The part of a word that its inflected forms share.
pub(super) fn stem(word: &str) -> String {
    let lower = word.to_lowercase();
    let word = lower.split(['\'', '’']).next().unwrap_or_default();
    if !word.is_ascii() || word.chars().any(|c| c.is_ascii_digit()) {
        return word.to_owned();
    }
    let word = singular(word);
    for (suffix, kept) in SUFFIXES {
        if let Some(base) = word.strip_suffix(suffix)
            && base.len() >= STEM_MIN_CHARS
        {
            return undouble(&format!("{base}{kept}"));
        }
    }
    word
}

/// Shorter rests are other words: "string" is not "str".
const STEM_MIN_CHARS: usize = 4;

/// Endings and what stays of them, longest first.
const SUFFIXES: [(&str, &str); 12] = [
    ("ability", "ab"),
    ("ibility", "ib"),
    ("ation", "at"),
    ("ment", ""),
    ("ness", ""),
    ("able", "ab"),
    ("ible", "ib"),
    ("ably", "ab"),
    ("ing", ""),
    ("ed", ""),
    ("ly", ""),
    ("e", ""),
];

fn singular(word: &str) -> String {
    if let Some(base) = word.strip_suffix("ies")
        && base.len() >= 2
    {
        return format!("{base}y");
    }
    for ending in ["sses", "xes", "ches", "shes"] {
        if word.ends_with(ending) {
            return word.strip_suffix("es").unwrap_or(word).to_owned();
        }
    }
    let plural = word.len() > 3 && word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end));
    match word.strip_suffix('s') {
        Some(base) if plural => base.to_owned(),
        Some(_) | None => word.to_owned(),
    }
}

/// "stopp" to "stop".
fn undouble(word: &str) -> String {
    let mut backwards = word.chars().rev();
    match (backwards.next(), backwards.next()) {
        (Some(last), Some(before)) if last == before && !matches!(last, 'l' | 's' | 'e' | 'o') => {
            word.strip_suffix(last).unwrap_or(word).to_owned()
        }
        _ => word.to_owned(),
    }
}

/// How much of the smaller set the other one holds: 0 to 1.
pub(super) fn overlap(one: &BTreeSet<String>, other: &BTreeSet<String>) -> f64 {
    let smaller = one.len().min(other.len());
    if smaller == 0 {
        return 0.0;
    }
    one.intersection(other).count() as f64 / smaller as f64
}

/// The share of all words of both sets that they have in common: 0 to 1.
pub(super) fn similarity(one: &BTreeSet<String>, other: &BTreeSet<String>) -> f64 {
    one.intersection(other).count() as f64 / one.union(other).count().max(1) as f64
}

/// Runs of white space as one space each.
pub(super) fn collapse(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first letter in upper case.
pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The first words of a text, with an ellipsis where more follow.
pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    let text = collapse(text);
    if text.chars().count() <= chars_max {
        return text;
    }
    let mut short = String::new();
    for word in text.split(' ') {
        if short.chars().count() + word.chars().count() + 2 > chars_max {
            break;
        }
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    format!("{}…", short.trim_end_matches([',', ';', ':', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inflected_forms_meet() {
        for (one, other) in [
            ("queues", "queue"),
            ("reliable", "reliability"),
            ("Retries", "retry"),
            ("stopped", "stopping"),
            ("operation", "operate"),
            ("encrypted", "encrypting"),
            ("agent's", "agents"),
        ] {
            assert_eq!(stem(one), stem(other), "{one} {other}");
        }
        for (one, other) in [("bus", "bu"), ("process", "proce"), ("string", "str")] {
            assert_ne!(stem(one), other, "{one}");
        }
    }

    #[test]
    fn words_of_any_script_are_found() {
        assert_eq!(words("It's Zürich's 3rd tram-line."), ["It's", "Zürich's", "3rd", "tram", "line"]);
        assert_eq!(words("天气 ok"), ["天", "气", "ok"]);
        assert!(terms("The use of the and").is_empty());
    }
}
