//! `compliance_finding`: one rule held against the sentences of a document's pages.
//!
//! A rule of thumb, not a judgement: the sentences that share the most words with the rule decide. A sentence that
//! denies what the rule demands, asserts what it forbids, or names a worse number violates it; one that only plans or
//! recommends leaves it open.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::prompt::{section, sections};
use super::quantity::{Bound, bounds, quantities, without_limits};
use super::ranking::select_first;
use super::sentences::sentences;
use super::words::{collapse, stem, terms, words};

/// A sentence that holds less than this share of the rule's words does not speak about the rule.
const EVIDENCE_SHARE: f64 = 0.3;

/// Fewest words in common, however short the rule.
const EVIDENCE_WORDS_MIN: usize = 2;

/// Most quotes of a finding.
const QUOTES_MAX: usize = 3;

/// A quote must share at least this part of what the best one shares with the rule.
const QUOTE_SHARE: f64 = 0.7;

/// What a keyword weighs against another word of the rule.
const KEYWORD_WEIGHT: f64 = 2.0;

/// Words that deny, in lower case. Several of them lift each other.
const NEGATIONS: [&str; 15] = [
    "not", "no", "never", "none", "without", "nor", "neither", "cannot", "don't", "doesn't", "isn't", "aren't",
    "lacks", "lack", "waived",
];

/// Words by which a rule forbids.
const PROHIBITIONS: [&str; 12] = [
    "must not",
    "shall not",
    "may not",
    "should not",
    "is prohibited",
    "are prohibited",
    "never",
    "no ",
    "not be",
    "forbidden",
    "must avoid",
    "not permitted",
];

/// Words of an intention or advice, which bind nobody.
const WEAK: [&str; 17] = [
    "should",
    "may",
    "might",
    "could",
    "plan",
    "plans",
    "planned",
    "intend",
    "intends",
    "consider",
    "considered",
    "considering",
    "where possible",
    "optional",
    "optionally",
    "encouraged",
    "aims",
];

/// How a sentence stands to the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stand {
    Violates,
    Meets,
    Open,
}

struct Rule<'a> {
    id: &'a str,
    requirement: &'a str,
    terms: BTreeSet<String>,
    keywords: BTreeSet<String>,
    forbids: bool,
}

impl<'a> Rule<'a> {
    fn read(message: &'a str) -> Self {
        let rules = sections(message, "rule");
        let rule = rules.first();
        let requirement = rule.map_or(message, |rule| rule.body);
        let title = rule.map_or("", |rule| rule.attribute("title"));
        let keywords = terms(section(message, "keywords").unwrap_or_default());
        let mut all = terms(requirement);
        all.extend(terms(title));
        all.extend(keywords.iter().cloned());
        // Words of every rule tell none apart.
        for word in ["document", "policy", "ensure", "require", "requirement", "include"] {
            all.remove(&stem(word));
        }
        let lower = without_limits(requirement);
        let forbids = PROHIBITIONS.iter().any(|words| lower.contains(words));
        Self { id: rule.map_or("", |rule| rule.attribute("id")), requirement, terms: all, keywords, forbids }
    }

    fn weight(&self, terms: &BTreeSet<String>) -> f64 {
        terms.iter().map(|term| if self.keywords.contains(term) { KEYWORD_WEIGHT } else { 1.0 }).sum()
    }
}

/// A sentence that speaks about the rule.
struct Evidence<'a> {
    page: u64,
    text: &'a str,
    terms: BTreeSet<String>,
    stand: Stand,
    worth: f64,
}

pub(super) fn answer(message: &str) -> Value {
    let rule = Rule::read(message);
    let evidence = evidence(message, &rule);
    let verdict = evidence.first().map(|best| best.stand);
    let least = evidence.first().map_or(0.0, |best| best.worth * QUOTE_SHARE);
    let deciding = evidence.iter().filter(|one| Some(one.stand) == verdict && one.worth >= least);
    let quotes: Vec<&Evidence<'_>> = select_first(deciding, QUOTES_MAX, |one| &one.terms);
    let pages: BTreeSet<u64> = quotes.iter().map(|quote| quote.page).collect();
    let explanation = explanation(&rule, verdict, &pages);
    let quotes: Vec<Value> = quotes.iter().map(|quote| json!({"page": quote.page, "text": quote.text})).collect();
    let verdict = match verdict {
        Some(Stand::Meets) => "met",
        Some(Stand::Violates) => "violated",
        Some(Stand::Open) | None => "unclear",
    };
    json!({"verdict": verdict, "explanation": explanation, "quotes": quotes})
}

/// The sentences that speak about the rule, those that share the most with it first; among equals the violation.
fn evidence<'a>(message: &'a str, rule: &Rule<'_>) -> Vec<Evidence<'a>> {
    let whole = rule.weight(&rule.terms).max(1.0);
    let mut found = Vec::new();
    for page in sections(message, "page") {
        let number = page.attribute("number").parse().unwrap_or(1);
        for text in sentences(page.body) {
            let terms = terms(text);
            let shared: BTreeSet<String> = terms.intersection(&rule.terms).cloned().collect();
            let worth = rule.weight(&shared) / whole;
            if shared.len() >= EVIDENCE_WORDS_MIN && worth >= EVIDENCE_SHARE {
                found.push(Evidence { page: number, text, stand: stand(text, rule), terms, worth });
            }
        }
    }
    found.sort_by(|one, other| other.worth.total_cmp(&one.worth).then(one.stand.cmp(&other.stand)));
    found
}

fn stand(sentence: &str, rule: &Rule<'_>) -> Stand {
    if let Some(stand) = compared(sentence, rule.requirement) {
        return stand;
    }
    let plain = without_limits(sentence);
    let lower: Vec<String> = words(&plain).iter().map(|word| word.to_lowercase().replace('’', "'")).collect();
    let joined = format!(" {} ", lower.join(" "));
    let negations = lower.iter().filter(|word| NEGATIONS.contains(&word.as_str())).count();
    let denies = negations % 2 == 1;
    let weak = WEAK.iter().any(|words| joined.contains(&format!(" {words} ")));
    match (denies == rule.forbids, weak) {
        // "May not" is no intention, but "should not" is; a denial of the demanded thing counts even when it is weak.
        (true, false) => Stand::Meets,
        (true, true) => Stand::Open,
        (false, _) if denies || !weak => Stand::Violates,
        (false, _) => Stand::Open,
    }
}

/// Where rule and sentence name amounts of the same kind, they decide.
fn compared(sentence: &str, requirement: &str) -> Option<Stand> {
    let stated = quantities(sentence);
    let bounds = bounds(requirement);
    let mut verdict = None;
    for bound in &bounds {
        for amount in stated.iter().filter(|amount| amount.unit == bound.amount.unit) {
            let keeps = match bound.kind {
                Bound::AtLeast => amount.value >= bound.amount.value,
                Bound::AtMost => amount.value <= bound.amount.value,
            };
            if !keeps {
                return Some(Stand::Violates);
            }
            verdict = Some(Stand::Meets);
        }
    }
    verdict
}

fn explanation(rule: &Rule<'_>, verdict: Option<Stand>, pages: &BTreeSet<u64>) -> String {
    let name = if rule.id.is_empty() { "The rule".to_owned() } else { format!("Rule {}", rule.id) };
    let numbers: Vec<String> = pages.iter().map(u64::to_string).collect();
    let place = match numbers.as_slice() {
        [only] => format!("page {only}"),
        _ => format!("pages {}", numbers.join(", ")),
    };
    let asks = collapse(rule.requirement);
    let asks = asks.trim_end_matches('.');
    match verdict {
        Some(Stand::Meets) => format!("{name} asks: {asks}. The words quoted from {place} say so."),
        Some(Stand::Violates) => format!("{name} asks: {asks}. The words quoted from {place} say otherwise."),
        Some(Stand::Open) => {
            format!("{name} asks: {asks}. The words quoted from {place} recommend or announce it, but bind nobody.")
        }
        None => format!("{name} asks: {asks}. None of the given pages speaks about it."),
    }
}
