//! `reading_notes`: the sentences of one source that say the most about the topic.

use serde_json::{Value, json};

use super::prompt::{Section, sections, topic};
use super::ranking::{Candidate, rank, select};
use super::words::{collapse, is_content, stem, terms, words};

/// Most quotes of a source.
const QUOTES_MAX: usize = 5;

/// Sentences of the summary, beside the quotes.
const SUMMARY_SENTENCES: usize = 5;

/// A source that holds less than this share of the topic's words, and only one of them, speaks about something else.
const RELEVANT_SHARE: f64 = 0.3;

pub(super) fn answer(message: &str) -> Value {
    let topic = topic(message);
    let sources = sections(message, "source");
    // Without the section, everything behind the topic is taken for the source.
    let text = sources.first().map_or(message, |source| source.body);
    let topic_terms = terms(topic);
    let ranked = rank(text, &topic_terms);
    let text_terms = terms(text);
    let shared = topic_terms.intersection(&text_terms).count();
    let off_topic = shared < 2 && (shared as f64) < RELEVANT_SHARE * topic_terms.len() as f64;
    let topical: Vec<Candidate<'_>> = ranked.iter().filter(|candidate| candidate.topical > 0).cloned().collect();
    if topical.is_empty() || off_topic {
        return irrelevant(topic, sources.first());
    }
    let quotes = select(&topical, QUOTES_MAX, &[]);
    let mut summary = select(&topical, SUMMARY_SENTENCES, &quotes);
    if summary.is_empty() {
        summary = select(&ranked, SUMMARY_SENTENCES, &quotes);
    }
    if summary.is_empty() {
        summary.extend(quotes.first().cloned());
    }
    let summary: Vec<String> = summary.iter().map(|sentence| collapse(sentence.text)).collect();
    let quotes: Vec<Value> =
        quotes.iter().map(|quote| json!({"text": quote.text, "why": why(quote.text, topic)})).collect();
    json!({"relevant": true, "summary": summary.join(" "), "quotes": quotes})
}

fn irrelevant(topic: &str, source: Option<&Section<'_>>) -> Value {
    let name = source.map_or("", |source| source.attribute("file"));
    let name = if name.is_empty() { "The source" } else { name };
    let summary = format!("{name} has no sentence that speaks about \"{}\".", collapse(topic));
    json!({"relevant": false, "summary": summary, "quotes": []})
}

/// Which of the topic's words a quote speaks of.
fn why(quote: &str, topic: &str) -> String {
    let quoted = terms(quote);
    let mut named: Vec<&str> = Vec::new();
    for word in words(topic).into_iter().filter(|word| is_content(word)) {
        if quoted.contains(&stem(word)) && !named.contains(&word) {
            named.push(word);
        }
    }
    format!("Speaks of {}.", enumerated(&named))
}

/// "a", "a and b", "a, b and c".
pub(super) fn enumerated(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
