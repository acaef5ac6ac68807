//! Checks the large instances and prints what was explored.
#![allow(clippy::print_stdout, reason = "a program whose purpose is its output")]

use longhaul_model::instances::LARGE;
use longhaul_model::trace;

fn main() {
    let only = std::env::args().nth(1);
    let (mut checked, mut broken) = (0, 0);
    for instance in LARGE.iter().filter(|it| only.as_deref().is_none_or(|only| it.name.contains(only))) {
        checked += 1;
        let verdict = instance.check(None, false, 2);
        println!(
            "{:<52} {:>11} states, depth {:>3}, {:>6.1} s, {}",
            instance.name,
            verdict.states,
            verdict.depth,
            verdict.took.as_secs_f64(),
            if verdict.exhausted { "all of them" } else { "cut off there" },
        );
        if let Some((promise, run)) = &verdict.broken {
            broken += 1;
            println!("BROKEN: {}\n{}", promise.promise(), trace::lines(run).join("\n"));
        }
    }
    println!("instances: {checked}, violations: {broken}");
    // A name that matches nothing has checked nothing.
    std::process::exit(i32::from(broken > 0 || checked == 0));
}
