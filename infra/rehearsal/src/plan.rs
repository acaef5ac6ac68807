//! `research_plan`: queries and headings made of the topic's own words.

use serde_json::{Value, json};

use super::prompt::topic;
use super::words::{capitalised, collapse, is_content, shortened, stem, words};

/// Sides of a subject that each get a query. Documents use these words.
const SIDES: [&str; 3] = ["failure recovery", "limits problems", "practice"];

/// Fewest queries of a plan.
const QUERIES_MIN: usize = 4;

/// Longest topic that is repeated whole.
const TOPIC_MAX_CHARS: usize = 120;

pub(super) fn answer(message: &str) -> Value {
    let topic = shortened(topic(message), TOPIC_MAX_CHARS);
    let subjects = subjects(&topic);
    json!({"queries": queries(&topic, &subjects), "outline": outline(&subjects)})
}

/// The content words of a topic, each once, as written. A topic without any is its own subject.
pub(super) fn subjects(topic: &str) -> Vec<String> {
    let mut stems = Vec::new();
    let mut found = Vec::new();
    for word in words(topic).into_iter().filter(|word| is_content(word)) {
        let stem = stem(word);
        if !stems.contains(&stem) {
            stems.push(stem);
            found.push(word.to_owned());
        }
    }
    if found.is_empty() {
        let whole = collapse(topic);
        found.push(if whole.is_empty() { "the topic".to_owned() } else { whole });
    }
    found
}

fn queries(topic: &str, subjects: &[String]) -> Vec<String> {
    let plain = words(topic).join(" ");
    let mut queries = vec![if plain.is_empty() { topic.to_owned() } else { plain }, subjects.join(" ")];
    // Neighbours belong together more often than not.
    queries.extend(subjects.windows(2).take(2).map(|pair| pair.join(" ")));
    let first = subjects.first().map_or("", String::as_str);
    queries.extend(SIDES.iter().map(|side| format!("{first} {side}")));
    let mut distinct: Vec<String> = Vec::new();
    for query in queries {
        if !distinct.iter().any(|known| known.eq_ignore_ascii_case(&query)) {
            distinct.push(query);
        }
    }
    distinct.truncate(QUERIES_MIN + usize::from(subjects.len() > 2));
    distinct
}

fn outline(subjects: &[String]) -> Vec<String> {
    match subjects {
        [first, second, ..] => vec![
            format!("{} and {second}: what is meant", capitalised(first)),
            format!("How it works: {first}"),
            format!("From {first} to {second}"),
            "Failures and limits".to_owned(),
            "What follows in practice".to_owned(),
        ],
        [only] => vec![
            format!("{}: what is meant", capitalised(only)),
            format!("How it works: {only}"),
            "Failures and limits".to_owned(),
            "What follows in practice".to_owned(),
        ],
        [] => Vec::new(),
    }
}
