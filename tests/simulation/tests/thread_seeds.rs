//! Threads in worlds by seed: one job of a thread at a time, in the order of submission, and none for ever.
//!
//! `LONGHAUL_SEED=7` runs one seed (`LONGHAUL_TRACE=1` tells its story), `LONGHAUL_SEEDS=a..b` a range.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_simulation::picked::Worlds;
use longhaul_simulation::threads::{Met, check, world};

const WORLDS: Worlds = Worlds { what: "simulation of threads", test: "thread_seeds", seeds_default: 200 };

/// Seeds that have found something, by what that was.
const FOUND: [(u64, &str); 1] = [(6_361, "a cancel behind a replay that had died halfway was seen by nobody")];

#[test]
fn one_at_a_time_in_order_and_none_for_ever() {
    let met = WORLDS.run(|| check, Met::plus);
    println!("{met:?}");
    assert!(!WORLDS.are_many() || met.is_everything(), "not everything was met: {met:?}");
}

#[test]
fn one_seed_gives_one_trace() {
    WORLDS.compare_twice(|seed| world(seed, true).1);
}

#[test]
fn what_was_found_once_is_found_no_more() {
    for (seed, what) in FOUND {
        let checked = check(seed);
        assert!(checked.is_ok(), "{what}: {}", WORLDS.failure(seed, &checked.unwrap_err()));
    }
}
