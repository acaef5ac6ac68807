//! Seeds: everything goes wrong at once, and the promises hold.
//!
//! A failure names its seed and the commit, and the command that runs it again. `LONGHAUL_SEEDS=a..b` runs a range and
//! tells how far it is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use longhaul_simulation::picked;
use longhaul_simulation::seeds::{Clean, Met, verdict, world};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 160;
/// Seeds that are run twice there, to compare their traces.
const TWICE: u64 = 8;
/// Seeds between two words about how far it is.
const PROGRESS: u64 = 250;

/// The commit that was tested, and whether it was tested as it is.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&["status", "--porcelain", "--untracked-files=no"])) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit} with changes"),
        (None, _) => "no commit".to_owned(),
    }
}

/// Runs one seed.
fn check(seed: u64, clean: &Clean) -> Result<Met, String> {
    let ended = std::panic::catch_unwind(|| world(seed, false)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    })?;
    verdict(&ended, clean).map(|()| Met::in_world(&ended))
}

fn failure(seed: u64, broken: &str) -> String {
    format!(
        "seed {seed} at {}: {broken}\nAgain: LONGHAUL_SEED={seed} cargo test -p longhaul-simulation --test seeds",
        commit()
    )
}

#[test]
fn whatever_goes_wrong_the_promises_hold() {
    let (seeds, began) = (picked::seeds(SEEDS), Instant::now());
    let (next, done, violations) = (AtomicU64::new(seeds.start), AtomicU64::new(0), Mutex::new(Vec::new()));
    let met = Mutex::new(Met::default());
    let tell = std::env::var("LONGHAUL_SEEDS").is_ok();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let clean = Clean::run();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    match check(seed, &clean) {
                        Ok(in_world) => {
                            let mut met = met.lock().unwrap();
                            *met = met.plus(in_world);
                        }
                        Err(broken) => {
                            println!("{}", failure(seed, &broken));
                            violations.lock().unwrap().push((seed, broken));
                        }
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if tell && done.is_multiple_of(PROGRESS) {
                        let violations = violations.lock().unwrap().len();
                        println!("{done} seeds, {violations} violations, {} s", began.elapsed().as_secs());
                    }
                }
            });
        }
    });
    let mut violations = violations.into_inner().unwrap();
    violations.sort();
    let ran = seeds.end - seeds.start;
    println!(
        "verified: simulation: {ran} worlds by seed ({}..{}) in {} s; violations: {}",
        seeds.start,
        seeds.end,
        began.elapsed().as_secs(),
        violations.len()
    );
    let met = met.into_inner().unwrap();
    println!("{met:?}");
    if let Some((seed, broken)) = violations.first() {
        let all: Vec<u64> = violations.iter().map(|(seed, _)| *seed).collect();
        panic!("{}\nAll that failed: {all:?}", failure(*seed, broken));
    }
    assert!(ran < SEEDS || met.is_everything(), "so many seeds must meet everything: {met:?}");
}

#[test]
fn one_seed_gives_one_trace() {
    for seed in picked::seeds(SEEDS).take(TWICE as usize) {
        let (first, second) = (world(seed, true), world(seed, true));
        assert!(first.trace.len() > 100, "seed {seed}: a trace tells what happened");
        let differs = first.trace.iter().zip(&second.trace).position(|(one, other)| one != other);
        if let Some(at) = differs {
            let (one, other) = (&first.trace[at], &second.trace[at]);
            panic!("{}", failure(seed, &format!("two runs differ at line {at}:\n{one}\n{other}")));
        }
        assert_eq!(first.trace.len(), second.trace.len(), "{}", failure(seed, "one trace is longer"));
        assert_eq!(first.asked, second.asked, "{}", failure(seed, "the far end was asked differently"));
    }
}
