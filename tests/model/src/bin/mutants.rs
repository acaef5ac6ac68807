//! Looks for each mutant and prints the shortest run in which it breaks a promise.
#![allow(clippy::print_stdout, reason = "a program whose purpose is its output")]

use longhaul_model::{forks, mutants, threads, trace};

fn main() {
    let only = std::env::args().nth(1);
    let (mut tried, mut survived) = (0, 0);
    for row in mutants::CAUGHT.iter().filter(|row| only.as_deref().is_none_or(|only| row.name == only)) {
        tried += 1;
        let verdict = row.instance.check(Some(row.mutant), true, 1);
        println!("\n{}: {}", row.name, row.weaker);
        match &verdict.broken {
            Some((broken, run)) => {
                println!("  breaks: {} ({} steps, {} states)", broken.promise(), run.len() - 1, verdict.states);
                println!("{}", trace::lines(run).join("\n"));
            }
            None => {
                survived += 1;
                println!("  SURVIVED: {} states", verdict.states);
            }
        }
    }
    for row in threads::instances::CAUGHT.iter().filter(|row| only.as_deref().is_none_or(|only| row.name == only)) {
        tried += 1;
        let verdict = row.instance.check(Some(row.mutant), true, 1);
        println!("\nthreads, {}: {}", row.name, row.weaker);
        match &verdict.broken {
            Some((broken, run)) => {
                println!("  breaks: {} ({} steps, {} states)", broken.promise(), run.len(), verdict.states);
                for (step, line) in (1..).zip(run) {
                    println!("{step:>3}. {line}");
                }
            }
            None => {
                survived += 1;
                println!("  SURVIVED: {} states", verdict.states);
            }
        }
    }
    for (mutant, weaker) in forks::CAUGHT {
        let name = format!("{mutant:?}");
        if only.as_deref().is_some_and(|only| name != only) {
            continue;
        }
        tried += 1;
        let (states, _, broken) = forks::Forking { mutant: Some(mutant), ..forks::SMALL }.check(1);
        println!("\nforks, {name}: {weaker}");
        match broken {
            Some((broken, run)) => {
                println!("  breaks: {} ({} steps, {states} states)", broken.promise(), run.len());
                println!("  {run:?}");
            }
            None => {
                survived += 1;
                println!("  SURVIVED: {states} states");
            }
        }
    }
    println!("\nNot to be told from the production rules within these bounds:");
    for row in mutants::UNSEEN.iter().filter(|_| only.is_none()) {
        let verdict = row.instance.check(Some(row.mutant), true, 1);
        let seen = if verdict.broken.is_some() { "CAUGHT" } else { "not caught" };
        println!("  {}: {} ({seen}, {} states)", row.name, row.weaker, verdict.states);
    }
    println!("\nmutants: {tried}, survived: {survived}");
    // A name that matches nothing has tried nothing.
    if let (0, Some(only)) = (tried, &only) {
        println!("no mutant is called {only:?}; without a name all are tried, and named");
    }
    std::process::exit(i32::from(survived > 0 || tried == 0));
}
