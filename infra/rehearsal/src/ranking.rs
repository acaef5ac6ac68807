//! Which sentences of a text say the most about a topic.
//!
//! Plain extractive ranking: words of the topic count most, the more the rarer they are in the text; words that the text
//! itself keeps coming back to count too; a sentence that leans on the one before it ("This …") counts less. Chosen
//! sentences must differ from each other.

use std::collections::{BTreeMap, BTreeSet};

use super::sentences::sentences;
use super::words::{overlap, terms, words};

/// What a word of the topic weighs against a word that is merely frequent.
const TOPIC_WEIGHT: f64 = 3.0;

/// Sentences that share more of their words than this say the same.
const SAME_OVERLAP: f64 = 0.6;

/// Beginnings that point back to another sentence, in lower case.
const LEANING: [&str; 27] = [
    "this",
    "that",
    "these",
    "those",
    "it",
    "its",
    "they",
    "their",
    "he",
    "she",
    "his",
    "her",
    "such",
    "however",
    "but",
    "and",
    "or",
    "so",
    "thus",
    "therefore",
    "hence",
    "then",
    "also",
    "instead",
    "moreover",
    "furthermore",
    "otherwise",
];

/// Factor for a sentence that points back.
const LEANING_FACTOR: f64 = 0.55;

/// A sentence and what it is worth.
#[derive(Debug, Clone)]
pub(super) struct Candidate<'a> {
    pub(super) text: &'a str,
    /// Its place among the text's sentences.
    pub(super) order: usize,
    pub(super) terms: BTreeSet<String>,
    /// How many words of the topic it holds.
    pub(super) topical: usize,
    score: f64,
}

/// All quotable sentences of a text, the best first.
pub(super) fn rank<'a>(text: &'a str, topic: &BTreeSet<String>) -> Vec<Candidate<'a>> {
    let sentences: Vec<(&str, BTreeSet<String>)> =
        sentences(text).into_iter().map(|sentence| (sentence, terms(sentence))).collect();
    let mut frequency: BTreeMap<&str, f64> = BTreeMap::new();
    for (_, terms) in &sentences {
        for term in terms {
            *frequency.entry(term.as_str()).or_default() += 1.0;
        }
    }
    let count = sentences.len() as f64;
    let mut ranked: Vec<Candidate<'a>> = sentences
        .iter()
        .enumerate()
        .map(|(order, (text, terms))| {
            let weight = |term: &String| {
                let seen = frequency.get(term.as_str()).copied().unwrap_or(1.0);
                let central = (1.0 + seen).ln() / (1.0 + count).ln().max(1.0);
                let rare = 1.0 + (1.0 + count / seen).ln() * 0.3;
                if topic.contains(term) { TOPIC_WEIGHT * rare } else { central }
            };
            let sum: f64 = terms.iter().map(weight).sum();
            // Long sentences hold more words, but not more meaning for each.
            let mut score = sum / (terms.len() as f64 + 4.0).sqrt();
            if leans(text) {
                score *= LEANING_FACTOR;
            }
            Candidate { text, order, terms: terms.clone(), topical: terms.intersection(topic).count(), score }
        })
        .collect();
    ranked.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.order.cmp(&other.order)));
    ranked
}

fn leans(sentence: &str) -> bool {
    words(sentence).first().is_some_and(|first| LEANING.contains(&first.to_lowercase().as_str()))
}

/// The first `count` candidates that differ from each other and from `taken`, in reading order.
pub(super) fn select<'a>(ranked: &[Candidate<'a>], count: usize, taken: &[Candidate<'a>]) -> Vec<Candidate<'a>> {
    let mut chosen: Vec<Candidate<'a>> = Vec::new();
    for candidate in ranked {
        if chosen.len() == count {
            break;
        }
        let repeats = taken.iter().chain(&chosen).any(|other| overlap(&other.terms, &candidate.terms) > SAME_OVERLAP);
        if !repeats {
            chosen.push(candidate.clone());
        }
    }
    chosen.sort_by_key(|candidate| candidate.order);
    chosen
}

/// The first `count` items that differ from each other, in the order given.
pub(super) fn select_first<'a, T>(
    items: impl Iterator<Item = &'a T>,
    count: usize,
    terms: impl Fn(&T) -> &BTreeSet<String>,
) -> Vec<&'a T> {
    let mut chosen: Vec<&'a T> = Vec::new();
    for item in items {
        if chosen.len() == count {
            break;
        }
        if !chosen.iter().any(|other| overlap(terms(other), terms(item)) > SAME_OVERLAP) {
            chosen.push(item);
        }
    }
    chosen
}
