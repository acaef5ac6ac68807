//! Threads in worlds by seed: one job of a thread at a time, in the order of submission, and none for ever.
//!
//! `LONGHAUL_SEED=7` runs one seed (`LONGHAUL_TRACE=1` tells its story), `LONGHAUL_SEEDS=a..b` a range.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_simulation::picked;
use longhaul_simulation::threads::{Met, check};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 200;

#[test]
fn one_at_a_time_in_order_and_none_for_ever() {
    let seeds = picked::seeds(SEEDS);
    let mut met = Met::default();
    for seed in seeds.clone() {
        let checked = std::panic::catch_unwind(|| check(seed)).unwrap_or_else(|_| panic!("seed {seed}"));
        met = met.plus(checked.unwrap_or_else(|broken| panic!("seed {seed}: {broken}")));
    }
    println!("verified: simulation of threads: {} worlds by seed ({seeds:?}); violations: 0", seeds.end - seeds.start);
    println!("{met:?}");
    assert!(seeds.end - seeds.start < SEEDS || met.is_everything(), "not everything was met: {met:?}");
}
