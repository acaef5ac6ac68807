//! What calls cost, by a table of prices that is data.
//!
//! The table that comes with this crate says when and where each price was read. Whoever knows better (a discount, a
//! region, a model of one's own) lays a table of the same form over it. A model without a price is reported as such:
//! a budget that took it for free would never end.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

use crate::money::Money;
use crate::reply::{ModelReply, Usage};

/// The table that comes with this crate.
const BUILT_IN: &str = include_str!("../prices.json");

/// Prices are for so many tokens.
const PER_TOKENS: u128 = 1_000_000;

/// Where a price comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceSource {
    /// The page.
    pub address: String,
    /// How far it can be trusted.
    #[serde(default)]
    pub note: String,
}

/// Prices of a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Of the prompt.
    #[serde(deserialize_with = "amount")]
    pub input: Money,
    /// Of the answer, thoughts included.
    #[serde(deserialize_with = "amount")]
    pub output: Money,
    /// Of the part of the prompt that was read from the cache; the price of `input` when absent.
    #[serde(default, deserialize_with = "optional_amount")]
    pub cached: Option<Money>,
    /// Of the part of the prompt that was written to the cache; the price of `input` when absent.
    #[serde(default, deserialize_with = "optional_amount")]
    pub cache_write: Option<Money>,
}

/// Other prices for the whole call where the prompt is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongPrompt {
    /// The longest prompt that the common prices hold for, in tokens.
    pub above_tokens: u64,
    /// The prices above it.
    pub rates: Rates,
}

/// What a model costs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// The model's names. A date behind a name (`-20251001`, `-2025-10-01`) is not needed here.
    pub names: Vec<String>,
    /// Which of the table's sources it is from.
    #[serde(default)]
    pub source: String,
    /// The prices.
    pub rates: Rates,
    /// Those for long prompts, where they differ.
    #[serde(default)]
    pub long_prompt: Option<LongPrompt>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "about")]
    _about: String,
    read_on: String,
    #[serde(default)]
    sources: BTreeMap<String, PriceSource>,
    models: Vec<ModelPrice>,
}

/// Why a call has no price.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpriced {
    /// The table does not know the model.
    #[error("there is no price for the model {model:?}: give one in a table of prices")]
    UnknownModel {
        /// The model's name.
        model: String,
    },
    /// The server did not say how many tokens it took.
    #[error("the server of the model {model:?} reported no usage, so the call has no price")]
    NoUsage {
        /// The model's name.
        model: String,
    },
}

/// A table of prices that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BadPrices {
    /// It is no JSON of the form of `prices.json`.
    #[error("the table of prices is not of its form")]
    Form(#[from] serde_json::Error),
    /// A price names a source that the table does not list.
    #[error("the price of {model:?} is from the source {name:?}, which the table does not list")]
    Source {
        /// The model.
        model: String,
        /// The missing source.
        name: String,
    },
}

/// One table with its date.
#[derive(Debug, Clone)]
struct Sheet {
    read_on: String,
    sources: BTreeMap<String, PriceSource>,
    by_name: BTreeMap<String, ModelPrice>,
}

/// Prices by model: tables laid one over the other.
#[derive(Debug, Clone)]
pub struct Prices {
    /// The one that counts first comes first.
    sheets: Vec<Sheet>,
}

impl Prices {
    /// The table that comes with this crate.
    ///
    /// # Errors
    /// None in practice: a test reads it.
    pub fn built_in() -> Result<Self, BadPrices> {
        Ok(Self { sheets: vec![sheet(BUILT_IN)?] })
    }

    /// No price for any model, to lay tables over.
    pub fn none() -> Self {
        Self { sheets: Vec::new() }
    }

    /// Lays a table (JSON of the form of `prices.json`) over this one.
    ///
    /// # Errors
    /// [`BadPrices`] that says what is wrong with it.
    pub fn overlaid(mut self, table: &str) -> Result<Self, BadPrices> {
        self.sheets.insert(0, sheet(table)?);
        Ok(self)
    }

    /// What a model costs, with the date on which the price was read and where.
    pub fn of_model(&self, model: &str) -> Option<(&ModelPrice, &str, Option<&PriceSource>)> {
        let undated = without_date(model);
        self.sheets.iter().find_map(|sheet| {
            let price = sheet.by_name.get(model).or_else(|| sheet.by_name.get(undated))?;
            Some((price, sheet.read_on.as_str(), sheet.sources.get(&price.source)))
        })
    }

    /// What a call cost, rounded up to a billionth of a dollar.
    ///
    /// # Errors
    /// [`Unpriced`], which is never the same as nothing.
    pub fn price(&self, model: &str, usage: &Usage) -> Result<Money, Unpriced> {
        let (price, _, _) = self.of_model(model).ok_or_else(|| Unpriced::UnknownModel { model: model.to_owned() })?;
        if *usage == Usage::default() {
            return Err(Unpriced::NoUsage { model: model.to_owned() });
        }
        let rates = match &price.long_prompt {
            Some(long) if usage.input_tokens > long.above_tokens => &long.rates,
            Some(_) | None => &price.rates,
        };
        Ok(cost(rates, usage))
    }

    /// What an answer cost, with the models before it that failed and were paid nevertheless. Each is looked up by its
    /// configured name, then by the name that the server gave.
    ///
    /// # Errors
    /// [`Unpriced`] for the first part of it that has no price.
    pub fn price_of_reply(&self, reply: &ModelReply) -> Result<Money, Unpriced> {
        let configured = reply.answered_by.as_deref().filter(|name| self.of_model(name).is_some());
        let mut total = self.price(configured.unwrap_or(&reply.model), &reply.usage)?;
        for failed in &reply.failed_attempts {
            if let Some(usage) = &failed.usage {
                total = total.plus(self.price(&failed.model, usage)?);
            }
        }
        Ok(total)
    }

    /// What a call costs at most that sends and receives so many tokens: for holding back from a budget.
    ///
    /// # Errors
    /// [`Unpriced::UnknownModel`].
    pub fn at_most(&self, model: &str, input_tokens: u64, output_tokens: u64) -> Result<Money, Unpriced> {
        let plain = Usage { input_tokens, output_tokens, ..Usage::default() };
        // Writing to the cache is the most expensive way to read a prompt.
        let written = Usage { cache_write_tokens: input_tokens, ..plain };
        let nothing = input_tokens == 0 && output_tokens == 0;
        match (self.of_model(model), nothing) {
            (Some(_), true) => Ok(Money::ZERO),
            (_, _) => Ok(self.price(model, &plain)?.max(self.price(model, &written)?)),
        }
    }
}

fn sheet(table: &str) -> Result<Sheet, BadPrices> {
    let Document { read_on, sources, models, .. } = serde_json::from_str(table)?;
    let mut by_name = BTreeMap::new();
    for price in models {
        if !price.source.is_empty() && !sources.contains_key(&price.source) {
            let model = price.names.first().cloned().unwrap_or_default();
            return Err(BadPrices::Source { model, name: price.source });
        }
        for name in &price.names {
            by_name.insert(name.clone(), price.clone());
        }
    }
    Ok(Sheet { read_on, sources, by_name })
}

/// A name without the date that snapshots of a model carry.
fn without_date(name: &str) -> &str {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((head, last)) = name.rsplit_once('-') else {
        return name;
    };
    if digits(last, 8) {
        return head;
    }
    let mut parts = head.rsplitn(3, '-');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(month), Some(year), Some(head)) if digits(last, 2) && digits(month, 2) && digits(year, 4) => head,
        (_, _, _) => name,
    }
}

fn cost(rates: &Rates, usage: &Usage) -> Money {
    // What was read or written is part of the prompt; a server that says otherwise is not charged for twice.
    let cached = usage.cached_tokens.min(usage.input_tokens);
    let written = usage.cache_write_tokens.min(usage.input_tokens.saturating_sub(cached));
    let fresh = usage.input_tokens.saturating_sub(cached).saturating_sub(written);
    let parts = [
        (fresh, rates.input),
        (cached, rates.cached.unwrap_or(rates.input)),
        (written, rates.cache_write.unwrap_or(rates.input)),
        (usage.output_tokens, rates.output),
    ];
    let nano: u128 = parts.iter().map(|(tokens, rate)| u128::from(*tokens) * u128::from(rate.nano_usd())).sum();
    Money::from_nano_usd(u64::try_from(nano.div_ceil(PER_TOKENS)).unwrap_or(u64::MAX))
}

fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Money, D::Error> {
    let text = String::deserialize(deserializer)?;
    Money::from_str(&text).map_err(serde::de::Error::custom)
}

fn optional_amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Money>, D::Error> {
    amount(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    fn usage(input_tokens: u64, cached_tokens: u64, cache_write_tokens: u64, output_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, cached_tokens, reasoning_tokens: 0, cache_write_tokens }
    }

    #[test]
    fn calls_cost_what_the_table_says_to_the_billionth() {
        let prices = Prices::built_in().unwrap();
        let rows = [
            ("claude-haiku-4-5", usage(1_000_000, 0, 0, 0), "1"),
            ("claude-haiku-4-5-20251001", usage(1_000, 0, 0, 100), "0.0015"),
            // 500 fresh, 300 read, 200 written.
            ("claude-sonnet-4-6", usage(1_000, 300, 200, 10), "0.00249"),
            ("gpt-5-mini-2026-04-01", usage(1, 1, 0, 0), "0.000000025"),
            ("gpt-5.2", usage(3, 1, 0, 1), "0.000017675"),
            // No price of its own for writing: that of the prompt.
            ("gpt-4.1", usage(10, 0, 10, 0), "0.00002"),
            ("claude-haiku-5-5", usage(100_000, 0, 0, 0), "0.01"),
            ("claude-haiku-5-5", usage(100_001, 0, 0, 1), "0.050003"),
            // More cached than there was: counted once.
            ("gpt-5-mini", usage(10, 20, 20, 0), "0.00000025"),
            ("claude-opus-4-1", usage(u64::MAX, 0, 0, u64::MAX), "18446744073.709551615"),
        ];
        for (model, usage, dollars) in rows {
            assert_eq!(prices.price(model, &usage).unwrap().to_string(), dollars, "{model} {usage:?}");
        }
    }

    #[test]
    fn no_price_is_said() {
        let prices = Prices::built_in().unwrap();
        let unknown = Err(Unpriced::UnknownModel { model: "llama-9".to_owned() });
        assert_eq!(prices.price("llama-9", &usage(1, 0, 0, 1)), unknown);
        assert_eq!(prices.at_most("llama-9", 0, 0), unknown);
        let silent = Err(Unpriced::NoUsage { model: "gpt-4.1".to_owned() });
        assert_eq!(prices.price("gpt-4.1", &Usage::default()), silent);
        // A name that only begins like a known one is another model.
        assert!(prices.price("gpt-4.1-nano", &usage(1, 0, 0, 1)).is_err());
        assert!(Prices::none().price("gpt-4.1", &usage(1, 0, 0, 1)).is_err());
    }

    #[test]
    fn a_table_of_ones_own_comes_first() {
        let own = r#"{"read_on": "2026-12-01", "models": [
            {"names": ["llama-9"], "rates": {"input": "0", "output": "0"}},
            {"names": ["gpt-4.1"], "rates": {"input": "1.000000001", "output": "4"}}]}"#;
        let prices = Prices::built_in().unwrap().overlaid(own).unwrap();
        assert_eq!(prices.price("llama-9", &usage(1, 0, 0, 1)), Ok(Money::ZERO));
        assert_eq!(prices.price("gpt-4.1", &usage(1_000_000, 0, 0, 0)).unwrap().to_string(), "1.000000001");
        assert_eq!(prices.at_most("claude-haiku-4-5", 1_000_000, 1_000_000).unwrap().to_string(), "6.25");
        for bad in [
            r#"{"read_on": "x", "models": [{"names": ["a"], "rates": {"input": "-1", "output": "4"}}]}"#,
            r#"{"read_on": "x", "models": [{"names": ["a"], "rates": {"input": "1e3", "output": "4"}}]}"#,
            r#"{"read_on": "x", "models": [{"names": ["a"], "rates": {"input": 1.5, "output": "4"}}]}"#,
            r#"{"read_on": "x", "models": [{"names": ["a"], "rates": {"output": "4"}}]}"#,
            r#"{"read_on": "x", "models": [{"names": ["a"], "source": "b", "rates": {"input": "1", "output": "4"}}]}"#,
        ] {
            assert!(Prices::none().overlaid(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_price_has_a_source_and_no_name_two_prices() {
        let document: Document = serde_json::from_str(BUILT_IN).unwrap();
        let names: Vec<&String> = document.models.iter().flat_map(|price| &price.names).collect();
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(names.len(), distinct.len());
        let used: std::collections::BTreeSet<_> = document.models.iter().map(|price| &price.source).collect();
        assert_eq!(used, document.sources.keys().collect());
    }

    #[test]
    fn money_is_read_and_shown_exactly() {
        for text in ["0", "1", "0.5", "18.75", "0.000000001", "18446744073.709551615"] {
            assert_eq!(text.parse::<Money>().unwrap().to_string(), text);
        }
        for text in ["", ".", "1.", ".5", "-1", "+1", "1,5", "0.0000000001", "18446744073.709551616", "1e3", "x"] {
            assert!(text.parse::<Money>().is_err(), "{text}");
        }
    }
}
