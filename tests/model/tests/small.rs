//! The small instances, checked to their ends at every run of the tests.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use longhaul_model::instances::SMALL;
use longhaul_model::ledger::Mark;
use longhaul_model::{forks, threads, trace};

#[test]
fn nothing_is_broken_in_the_small_instances() {
    let mut reached = BTreeSet::new();
    for instance in SMALL {
        let verdict = instance.check(None, false, 2);
        if let Some((broken, run)) = &verdict.broken {
            panic!("{}: broken: {}\n{}", instance.name, broken.promise(), trace::lines(run).join("\n"));
        }
        assert!(verdict.exhausted, "{}", instance.name);
        println!("{}: {} states, {:.1} s", instance.name, verdict.states, verdict.took.as_secs_f64());
        reached.extend(verdict.reached);
    }
    // A check that comes to nothing proves nothing: every kind of entry is met.
    let missed: Vec<_> = Mark::KINDS.iter().filter(|kind| !reached.contains(**kind)).collect();
    assert!(missed.is_empty(), "never written in the small instances: {missed:?}");
}

#[test]
fn nothing_is_broken_in_the_small_threads() {
    for instance in threads::instances::SMALL {
        let verdict = instance.check(None, false, 2);
        if let Some((broken, run)) = &verdict.broken {
            panic!("{}: broken: {}\n{}", instance.name, broken.promise(), run.join("\n"));
        }
        assert!(verdict.exhausted, "{}", instance.name);
        println!("{}: {} states, {:.1} s", instance.name, verdict.states, verdict.took.as_secs_f64());
    }
}

#[test]
fn nothing_is_broken_in_the_small_fork() {
    let (states, depth, broken) = forks::SMALL.check(2);
    println!("fork: {states} states, depth {depth}");
    if let Some((broken, run)) = broken {
        panic!("broken: {}\n{run:?}", broken.promise());
    }
}

#[test]
fn two_checks_of_one_instance_meet_the_same_states() {
    let instance = SMALL.first().expect("an instance");
    let depth_first = instance.check(None, false, 1);
    let breadth_first = instance.check(None, true, 1);
    assert_eq!(depth_first.states, breadth_first.states);
}
