//! Which seeds a test runs: those that whoever runs it names, or the first ones.

use std::ops::Range;

/// The seeds that `LONGHAUL_SEED=7` or `LONGHAUL_SEEDS=a..b` names; else the first `seeds_default`.
///
/// # Panics
/// Where they name no seed: a test that ran nothing would pass.
#[must_use]
pub fn seeds(seeds_default: u64) -> Range<u64> {
    let named = |name: &str| std::env::var(name).ok();
    let seeds = named("LONGHAUL_SEED").map_or_else(
        || named("LONGHAUL_SEEDS").map_or(0..seeds_default, |range| range_of(&range)),
        |seed| range_of(&format!("{seed}..={seed}")),
    );
    assert!(!seeds.is_empty(), "no seed is named");
    seeds
}

fn range_of(text: &str) -> Range<u64> {
    let (from, to) = text.split_once("..").expect("LONGHAUL_SEEDS is a..b");
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|error| panic!("{text:?} is no seed: {error}"));
    match to.strip_prefix('=') {
        Some(last) => number(from)..number(last).checked_add(1).expect("there is a seed behind the last one"),
        None => number(from)..number(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_seeds() {
        assert_eq!(range_of("0..20"), 0..20);
        assert_eq!(range_of("7..=7"), 7..8);
        for none in ["", "7", "a..b", "1..", "-1..2"] {
            assert!(std::panic::catch_unwind(|| range_of(none)).is_err(), "{none}");
        }
    }
}
