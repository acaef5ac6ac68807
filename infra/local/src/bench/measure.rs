//! One measured thing: named, with its unit, its numbers and the bound that the project set itself.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::BenchOptions;

/// One measured thing. On the wire one JSON object a line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measure {
    /// What was measured.
    pub metric: &'static str,
    /// Of what, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The unit of all its numbers.
    pub unit: &'static str,
    /// The numbers, by what they are: `p50`, `median`, `runs`.
    #[serde(flatten)]
    pub numbers: Map<String, Value>,
    /// The most that the project allows itself, and whether it was kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<Bound>,
}

/// A bound that the project set itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bound {
    /// Which number is bounded.
    pub of: &'static str,
    /// By what.
    pub most: f64,
    /// Whether it was kept.
    pub met: bool,
    /// What is aimed at, where that is less.
    pub aim: f64,
    /// Whether that was reached.
    pub reached: bool,
}

impl Measure {
    /// With the median, the least and the greatest of several runs.
    pub(super) fn of_runs(metric: &'static str, unit: &'static str, runs: &[f64]) -> Self {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self::new(metric, unit)
            .with("median", at(&sorted, 50))
            .with("min", at(&sorted, 0))
            .with("max", at(&sorted, 100))
            .with("runs", sorted.len())
    }

    /// With p50 and p99 of many times, in milliseconds.
    pub(super) fn of_times(metric: &'static str, times: &[Duration]) -> Self {
        let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1_000.0).collect();
        sorted.sort_by(f64::total_cmp);
        Self::new(metric, "ms").with("p50", at(&sorted, 50)).with("p99", at(&sorted, 99)).with("times", sorted.len())
    }

    pub(super) fn new(metric: &'static str, unit: &'static str) -> Self {
        Self { metric, of: None, unit, numbers: Map::new(), bounds: Vec::new() }
    }

    pub(super) fn of(mut self, what: impl Into<String>) -> Self {
        self.of = Some(what.into());
        self
    }

    pub(super) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = json!(value);
        let value = match value.as_f64() {
            Some(number) if value.is_f64() => json!((number * 1_000.0).round() / 1_000.0),
            _ => value,
        };
        self.numbers.insert(name.to_owned(), value);
        self
    }

    /// Bounds one of its numbers: by the most that is allowed, and by what is aimed at.
    pub(super) fn at_most(mut self, of: &'static str, most: f64, aim: f64) -> Self {
        let within = |bound| self.numbers.get(of).and_then(Value::as_f64).is_some_and(|number| number <= bound);
        let bound = Bound { of, most, met: within(most), aim, reached: within(aim) };
        self.bounds.push(bound);
        self
    }
}

/// The number under which `percent` percent of the sorted numbers lie; 0 where there are none.
fn at(sorted: &[f64], percent: usize) -> f64 {
    let rank = sorted.len().saturating_mul(percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// On what everything was measured.
pub(super) fn machine(options: &BenchOptions) -> Measure {
    let model = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name));
    Measure::new("machine", "")
        .with("processor", model.map(str::trim))
        .with("cores", std::thread::available_parallelism().map_or(0, std::num::NonZero::get))
        .with("build", if cfg!(debug_assertions) { "debug" } else { "release" })
        .with("version", env!("CARGO_PKG_VERSION"))
        .with("workers", options.workers)
        .with("repeat", options.repeat)
        .with("durability", durability(options.durable))
}

/// What a stored thing survives, in words.
const fn durability(durable: bool) -> &'static str {
    if durable {
        "SQLite WAL, synchronous FULL: an answered write survives a power failure"
    } else {
        "SQLite WAL, synchronous NORMAL: an answered write survives the death of any process, and of the whole stack"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_that_of_the_nearest() {
        let numbers = [1.0, 2.0, 3.0, 4.0];
        for (percent, expected) in [(0, 1.0), (50, 2.0), (51, 3.0), (99, 4.0), (100, 4.0)] {
            assert!((at(&numbers, percent) - expected).abs() < f64::EPSILON, "{percent}");
        }
        assert!(at(&[], 50).abs() < f64::EPSILON);
    }

    #[test]
    fn a_bound_says_whether_it_was_kept() {
        let slow = Measure::new("x", "ms").with("p50", 2.5_f64).at_most("p50", 3.0, 2.0);
        assert_eq!(
            serde_json::to_value(slow).ok(),
            Some(json!({
                "metric": "x", "unit": "ms", "p50": 2.5,
                "bounds": [{"of": "p50", "most": 3.0, "met": true, "aim": 2.0, "reached": false}],
            }))
        );
    }
}
