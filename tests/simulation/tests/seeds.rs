//! Seeds: everything goes wrong at once, and the promises hold.
//!
//! A failure names its seed and the commit, and the command that runs it again. `LONGHAUL_SEEDS=a..b` runs a range and
//! tells how far it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;

use longhaul_simulation::picked::Worlds;
use longhaul_simulation::seeds::{Clean, Met, verdict, world};

const WORLDS: Worlds = Worlds { what: "simulation", test: "seeds", seeds_default: 160 };

#[test]
fn whatever_goes_wrong_the_promises_hold() {
    let check = || {
        let clean = Clean::run();
        move |seed| {
            let ended = world(seed, false);
            verdict(&ended, &clean).map(|()| Met::in_world(&ended))
        }
    };
    let met = WORLDS.run(check, Met::plus);
    println!("{met:?}");
    assert!(!WORLDS.are_many() || met.is_everything(), "so many seeds must meet everything: {met:?}");
}

#[test]
fn one_seed_gives_one_trace() {
    let asked = RefCell::new(BTreeMap::new());
    WORLDS.compare_twice(|seed| {
        let world = world(seed, true);
        let before = asked.borrow_mut().insert(seed, world.asked.clone());
        assert!(before.is_none_or(|before| before == world.asked), "the far end was asked differently, seed {seed}");
        world.trace
    });
}
