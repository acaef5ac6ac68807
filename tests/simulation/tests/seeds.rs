//! Seeds: everything goes wrong at once, and the promises hold.
//!
//! A failure names its seed and the commit, and the command that runs it again. `LONGHAUL_SEEDS=a..b` runs a range and
//! tells how far it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use longhaul_simulation::picked::{Worlds, seeds};
use longhaul_simulation::seeds::{Clean, Met, verdict, world};

const WORLDS: Worlds = Worlds { what: "simulation", test: "seeds", seeds_default: 160 };
/// Seeds that are run twice, to compare their traces.
const TWICE: usize = 8;

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
    for seed in seeds(WORLDS.seeds_default).take(TWICE) {
        let (first, second) = (world(seed, true), world(seed, true));
        assert!(first.trace.len() > 100, "seed {seed}: a trace tells what happened");
        let differs = first.trace.iter().zip(&second.trace).position(|(one, other)| one != other);
        if let Some(at) = differs {
            let (one, other) = (&first.trace[at], &second.trace[at]);
            panic!("{}", WORLDS.failure(seed, &format!("two runs differ at line {at}:\n{one}\n{other}")));
        }
        assert_eq!(first.trace.len(), second.trace.len(), "{}", WORLDS.failure(seed, "one trace is longer"));
        assert_eq!(first.asked, second.asked, "{}", WORLDS.failure(seed, "the far end was asked differently"));
    }
}
