//! Which seeds a test runs: those that whoever runs it names, or the first ones. And how it runs them: on all cores, telling
//! how far it is, and of each failure the seed, the commit and the command that runs it again.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Seeds between two words about how far it is.
const PROGRESS: u64 = 250;
/// Seeds that are run twice, to compare their traces.
const TWICE: usize = 8;
/// A trace of fewer lines tells nothing.
const TRACE_LINES_MIN: usize = 50;

/// A test that runs worlds by seed.
#[derive(Debug, Clone, Copy)]
pub struct Worlds {
    /// What they are worlds of.
    pub what: &'static str,
    /// The test's name, by which it is run again.
    pub test: &'static str,
    /// How many seeds an ordinary run has.
    pub seeds_default: u64,
}

impl Worlds {
    /// Runs all seeds, on each core with a check of its own, and gives back what they met together.
    ///
    /// # Panics
    /// When a seed fails, with all that did.
    pub fn run<M: Default + Send, C: FnMut(u64) -> Result<M, String>>(
        self,
        check: impl Fn() -> C + Sync,
        plus: impl Fn(M, M) -> M + Sync,
    ) -> M {
        let (seeds, began) = (seeds(self.seeds_default), Instant::now());
        let (next, done) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
        let (met, violations) = (Mutex::new(M::default()), Mutex::new(Vec::new()));
        let tell = std::env::var("LONGHAUL_SEEDS").is_ok();
        let work = || {
            let mut check = check();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return;
                }
                match whatever_it_panics(|| check(seed)) {
                    Ok(in_world) => {
                        let mut met = met.lock().unwrap();
                        *met = plus(std::mem::take(&mut *met), in_world);
                    }
                    Err(broken) => {
                        println!("{}", self.failure(seed, &broken));
                        violations.lock().unwrap().push((seed, broken));
                    }
                }
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                if tell && done.is_multiple_of(PROGRESS) {
                    let violations = violations.lock().unwrap().len();
                    println!("{done} seeds, {violations} violations, {} s", began.elapsed().as_secs());
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
                scope.spawn(work);
            }
        });
        let mut violations: Vec<(u64, String)> = violations.into_inner().unwrap();
        violations.sort();
        println!(
            "verified: {}: {} worlds by seed ({seeds:?}) in {} s; violations: {}",
            self.what,
            seeds.end - seeds.start,
            began.elapsed().as_secs(),
            violations.len()
        );
        if let Some((seed, broken)) = violations.first() {
            let all: Vec<u64> = violations.iter().map(|(seed, _)| *seed).collect();
            panic!("{}\nAll that failed: {all:?}", self.failure(*seed, broken));
        }
        met.into_inner().unwrap()
    }

    /// Runs the first seeds twice each and compares what happened in them, line by line.
    ///
    /// # Panics
    /// When two runs of a seed differ, or tell next to nothing.
    pub fn compare_twice(self, trace: impl Fn(u64) -> Vec<String>) {
        for seed in seeds(self.seeds_default).take(TWICE) {
            let (first, second) = (trace(seed), trace(seed));
            assert!(first.len() > TRACE_LINES_MIN, "seed {seed}: a trace tells what happened");
            let differs = first.iter().zip(&second).position(|(one, other)| one != other);
            if let Some(at) = differs {
                let broken = format!("two runs differ at line {at}:\n{}\n{}", first[at], second[at]);
                panic!("{}", self.failure(seed, &broken));
            }
            assert_eq!(first.len(), second.len(), "{}", self.failure(seed, "one trace is longer"));
        }
    }

    /// What went wrong, with the seed, the commit and the command that runs it again.
    #[must_use]
    pub fn failure(self, seed: u64, broken: &str) -> String {
        let test = self.test;
        format!(
            "seed {seed} at {}: {broken}\nAgain: LONGHAUL_SEED={seed} cargo test -p longhaul-simulation --test {test}",
            commit()
        )
    }

    /// Whether an ordinary run's seeds are run, or as many: they must meet everything.
    #[must_use]
    pub fn are_many(self) -> bool {
        let seeds = seeds(self.seeds_default);
        seeds.end - seeds.start >= self.seeds_default
    }
}

/// A world that panics has failed.
fn whatever_it_panics<M>(check: impl FnOnce() -> Result<M, String>) -> Result<M, String> {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        Err(said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

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

/// The seeds that `LONGHAUL_SEED=7` or `LONGHAUL_SEEDS=a..b` names; else the first `seeds_default`.
///
/// # Panics
/// Where they name no seed: a test that ran nothing would pass.
#[must_use]
pub fn seeds(seeds_default: u64) -> Range<u64> {
    let named = |name: &str| std::env::var(name).ok();
    let seeds = named("LONGHAUL_SEED").map_or_else(
        || named("LONGHAUL_SEEDS").map_or(0..seeds_default, |range| range_of(&range)),
        |seed| range_of(&format!("{seed}..={seed}")),
    );
    assert!(!seeds.is_empty(), "no seed is named");
    seeds
}

fn range_of(text: &str) -> Range<u64> {
    let (from, to) = text.split_once("..").expect("LONGHAUL_SEEDS is a..b");
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|error| panic!("{text:?} is no seed: {error}"));
    match to.strip_prefix('=') {
        Some(last) => number(from)..number(last).checked_add(1).expect("there is a seed behind the last one"),
        None => number(from)..number(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_seeds() {
        assert_eq!(range_of("0..20"), 0..20);
        assert_eq!(range_of("7..=7"), 7..8);
        for none in ["", "7", "a..b", "1..", "-1..2"] {
            assert!(std::panic::catch_unwind(|| range_of(none)).is_err(), "{none}");
        }
    }
}
