//! Amounts in sentences: "at least 12 months", "within 72 hours", "two years".

use super::words::words;

/// An amount in the base unit of its kind.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quantity {
    pub(super) value: f64,
    pub(super) unit: Unit,
}

/// Kinds of amounts that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Time, in hours.
    Hours,
    /// Length of a secret or text, in characters.
    Characters,
    /// Size of a key, in bits.
    Bits,
    /// Shares, in percent.
    Percent,
    /// Repetitions in a year.
    TimesAYear,
}

/// Which side of an amount is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    AtLeast,
    AtMost,
}

/// An amount that a rule sets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Limit {
    pub(super) kind: Bound,
    pub(super) amount: Quantity,
}

/// Units by name, with their size in the base unit.
const UNITS: [(&str, Unit, f64); 13] = [
    ("minute", Unit::Hours, 1.0 / 60.0),
    ("hour", Unit::Hours, 1.0),
    ("day", Unit::Hours, 24.0),
    ("week", Unit::Hours, 168.0),
    ("month", Unit::Hours, 730.0),
    ("quarter", Unit::Hours, 2_190.0),
    ("year", Unit::Hours, 8_760.0),
    ("character", Unit::Characters, 1.0),
    ("bit", Unit::Bits, 1.0),
    ("percent", Unit::Percent, 1.0),
    ("time", Unit::TimesAYear, 1.0),
    ("digit", Unit::Characters, 1.0),
    ("letter", Unit::Characters, 1.0),
];

/// Words for how often something happens, as repetitions in a year.
const FREQUENCIES: [(&str, f64); 9] = [
    ("hourly", 8_760.0),
    ("daily", 365.0),
    ("weekly", 52.0),
    ("monthly", 12.0),
    ("quarterly", 4.0),
    ("biannually", 2.0),
    ("annually", 1.0),
    ("annual", 1.0),
    ("yearly", 1.0),
];

const NUMBERS: [&str; 13] =
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];

/// Phrases before an amount that allow more of it.
const LEAST: [&str; 6] = ["at least", "no less than", "not less than", "minimum of", "a minimum", "no fewer than"];

/// Phrases before an amount that allow less of it.
const MOST: [&str; 9] = [
    "within",
    "at most",
    "no more than",
    "not more than",
    "no later than",
    "not exceed",
    "maximum of",
    "up to",
    "exceed",
];

/// Words that a phrase may stand before its amount.
const REACH_WORDS: usize = 4;

/// A text in lower case without the phrases of limitation: the "no" of "no later than" denies nothing.
pub(super) fn without_limits(text: &str) -> String {
    LEAST.iter().chain(&MOST).fold(text.to_lowercase(), |text, phrase| text.replace(phrase, " "))
}

/// All amounts of a sentence.
pub(super) fn quantities(sentence: &str) -> Vec<Quantity> {
    placed(&lower_words(sentence)).into_iter().map(|(_, quantity)| quantity).collect()
}

/// The amounts of a rule that stand behind a phrase of limitation; a frequency is always the least.
pub(super) fn bounds(requirement: &str) -> Vec<Limit> {
    let words = lower_words(requirement);
    placed(&words)
        .into_iter()
        .filter_map(|(at, amount)| {
            let begin = at.saturating_sub(REACH_WORDS);
            let before = format!(" {} ", words.get(begin..at).unwrap_or_default().join(" "));
            let holds = |phrases: &[&str]| phrases.iter().any(|phrase| before.contains(&format!(" {phrase} ")));
            let kind = if holds(&LEAST) || amount.unit == Unit::TimesAYear {
                Bound::AtLeast
            } else if holds(&MOST) {
                Bound::AtMost
            } else {
                return None;
            };
            Some(Limit { kind, amount })
        })
        .collect()
}

fn lower_words(text: &str) -> Vec<String> {
    // Numbers keep their group separators and the sign of percent becomes its word.
    let text = text.to_lowercase().replace('%', " percent").replace("per cent", "percent").replace('-', " ");
    words(&text).into_iter().map(str::to_owned).collect()
}

/// Amounts and the position of their number among the words.
fn placed(words: &[String]) -> Vec<(usize, Quantity)> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        if let Some((_, times)) = FREQUENCIES.iter().find(|(name, _)| name == word) {
            found.push((at, Quantity { value: *times, unit: Unit::TimesAYear }));
            continue;
        }
        let (Some(number), Some(next)) = (number(word), words.get(at + 1)) else {
            continue;
        };
        let singular = next.strip_suffix('s').unwrap_or(next);
        if let Some((_, unit, size)) = UNITS.iter().find(|(name, ..)| *name == singular) {
            found.push((at, Quantity { value: number * size, unit: *unit }));
        }
    }
    found
}

fn number(word: &str) -> Option<f64> {
    let spelled = NUMBERS.iter().position(|name| *name == word).map(|value| value as f64);
    spelled.or_else(|| word.parse::<u32>().ok().map(f64::from))
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn limits_and_amounts_are_read() {
        let limits =
            bounds("Logs are kept for at least twelve months and reported within 72 hours; keys have 256 bits.");
        assert_eq!(limits.len(), 2);
        assert_eq!((limits[0].kind, limits[0].amount.value), (Bound::AtLeast, 8_760.0));
        assert_eq!((limits[1].kind, limits[1].amount.value), (Bound::AtMost, 72.0));
        assert_eq!(
            quantities("kept for 2 years, reviewed quarterly, 95% done")
                .iter()
                .map(|amount| amount.value)
                .collect::<Vec<_>>(),
            [17_520.0, 4.0, 95.0]
        );
        assert!(quantities("chapter 7 of two books").is_empty());
    }
}
