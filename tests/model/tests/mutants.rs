//! Each rule made weaker in one place: the check must notice.
#![allow(clippy::panic, reason = "tests")]

use longhaul_model::mutants::{CAUGHT, UNSEEN};
use longhaul_model::{forks, threads};

#[test]
fn every_mutant_breaks_a_promise() {
    for row in CAUGHT {
        let verdict = row.instance.check(Some(row.mutant), true, 1);
        let Some((broken, run)) = &verdict.broken else {
            panic!("{} survived {} states: {}", row.name, verdict.states, row.weaker);
        };
        println!("{}: {} ({} steps)", row.name, broken.promise(), run.len() - 1);
        // The same system by the production rules breaks nothing up to where the mutant did, and so the mutant is why.
        let mut same = row.instance;
        same.states_max = Some(verdict.states);
        assert!(same.check(None, true, 1).broken.is_none(), "{}: broken by the production rules, too", row.name);
    }
}

#[test]
fn every_mutant_of_threads_breaks_a_promise() {
    for row in threads::instances::CAUGHT {
        let verdict = row.instance.check(Some(row.mutant), true, 1);
        let Some((broken, run)) = &verdict.broken else {
            panic!("{} survived {} states: {}", row.name, verdict.states, row.weaker);
        };
        println!("{}: {} ({} steps)", row.name, broken.promise(), run.len());
        let mut same = row.instance;
        same.states_max = Some(verdict.states);
        assert!(same.check(None, true, 1).broken.is_none(), "{}: broken by the production rules, too", row.name);
    }
}

#[test]
fn every_mutant_of_forks_breaks_a_promise() {
    for (mutant, weaker) in forks::CAUGHT {
        let (states, _, broken) = forks::Forking { mutant: Some(mutant), ..forks::SMALL }.check(1);
        let Some((broken, run)) = broken else { panic!("{mutant:?} survived {states} states: {weaker}") };
        println!("{mutant:?}: {} ({} steps)", broken.promise(), run.len());
    }
}

/// Mutants that cannot be told from the production rules are named as such, with the reason, and stay so.
#[test]
fn what_cannot_be_told_apart_is_said() {
    for row in UNSEEN {
        let verdict = row.instance.check(Some(row.mutant), true, 1);
        assert!(verdict.broken.is_none(), "{} is caught now: move it to the others", row.name);
    }
}
