//! Checks the large instances and prints what was explored.
#![allow(clippy::print_stdout, reason = "a program whose purpose is its output")]

use std::time::{Duration, Instant};

use longhaul_model::instances::LARGE;
use longhaul_model::{forks, threads, trace};

/// What the instance of forks is called.
const FORK: &str = "fork: two crashes, wrongly judged dead, a signal";

/// What was explored so far.
#[derive(Default)]
struct Sum {
    instances: usize,
    states: usize,
    cut: usize,
    broken: usize,
}

impl Sum {
    fn add(&mut self, name: &str, states: usize, depth: usize, took: Duration, exhausted: bool) {
        self.instances += 1;
        self.states += states;
        self.cut += usize::from(!exhausted);
        let seconds = took.as_secs_f64();
        let whole = if exhausted { "all of them" } else { "cut off there" };
        println!("{name:<66} {states:>11} states, depth {depth:>3}, {seconds:>6.1} s, {whole}");
    }
}

fn main() {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| name.contains(only));
    let mut sum = Sum::default();
    for instance in LARGE.iter().filter(|it| wanted(it.name)) {
        let verdict = instance.check(None, false, 2);
        sum.add(instance.name, verdict.states, verdict.depth, verdict.took, verdict.exhausted);
        if let Some((promise, run)) = &verdict.broken {
            sum.broken += 1;
            println!("BROKEN: {}\n{}", promise.promise(), trace::lines(run).join("\n"));
        }
    }
    for instance in threads::instances::LARGE.iter().filter(|it| wanted(it.name)) {
        let verdict = instance.check(None, false, 2);
        sum.add(instance.name, verdict.states, verdict.depth, verdict.took, verdict.exhausted);
        if let Some((promise, run)) = &verdict.broken {
            sum.broken += 1;
            println!("BROKEN: {}\n{}", promise.promise(), run.join("\n"));
        }
    }
    if wanted(FORK) {
        let begun = Instant::now();
        let (states, depth, broken) = forks::LARGE.check(2);
        sum.add(FORK, states, depth, begun.elapsed(), broken.is_none());
        if let Some((promise, run)) = &broken {
            sum.broken += 1;
            println!("BROKEN: {}\n{run:?}", promise.promise());
        }
    }
    let Sum { instances, states, cut, broken } = sum;
    // A name that matches nothing has checked nothing.
    if instances == 0 {
        let jobs = LARGE.iter().map(|it| it.name);
        let names: Vec<&str> = jobs.chain(threads::instances::LARGE.iter().map(|it| it.name)).chain([FORK]).collect();
        println!("no instance has {:?} in its name; there are:\n  {}", only.unwrap_or_default(), names.join("\n  "));
        std::process::exit(1);
    }
    println!(
        "verified: model check: {states} states in {instances} instances, {} of them gone through to their ends and {cut} \
         cut off at the number of states in tests/model/src; violations: {broken}",
        instances - cut
    );
    std::process::exit(i32::from(broken > 0));
}
