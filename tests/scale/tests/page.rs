//! docs/scale.md says what the simulation says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a panic is how a test fails")]

use longhaul_scale::setting::{Setting, neighbours};
use longhaul_scale::world::World;
use longhaul_scale::{report, setting};

#[test]
fn the_page_holds_the_simulations_tables() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scale.md")).unwrap();
    let tables = report::tables(setting::all(), setting::neighbours());
    for line in tables.lines().filter(|line| !line.is_empty()) {
        assert!(page.contains(line), "docs/scale.md lacks this line; `make scale` prints all of them:\n{line}");
    }
}

/// Five workers of ten places, twenty jobs of one step of exactly known length: what comes out can be counted by hand.
#[test]
fn a_small_world_is_as_counted_by_hand() {
    let setting = Setting { steps: 1, think_median_ms: 1_000.0, workers: 2, batch: 10, ..Setting::new("small", 20) };
    let report = World::play(setting);
    assert_eq!((report.ended, report.invocations, report.workers_peak, report.in_flight_peak), (20, 2, 2, 20));
    assert_eq!((report.messages, report.continuations, report.throttled), (20, 0, 0));
    // Claim, one step of two units, end: 4 + 2 + 5 units a job.
    assert!((report.write_units - 20.0 * 11.0).abs() < 2.0, "{}", report.write_units);
}

/// Beside 10,000 jobs of a neighbour that hold every worker, ten jobs wait for the next workers that come free, and for no
/// longer.
#[test]
fn a_neighbours_crowd_does_not_keep_a_few_jobs_waiting() {
    let waits: Vec<u64> = neighbours().into_iter().map(|setting| World::play(setting).wait_ms(Some(1), 95)).collect();
    let [alone, beside, in_one_line] = waits[..] else { panic!("three situations: {waits:?}") };
    println!("alone {alone} ms, beside 10,000 {beside} ms, in one line {in_one_line} ms");
    assert!(alone <= 1_000 && beside <= 30_000, "{beside} ms beside, {alone} ms alone");
    assert!(in_one_line > 50 * beside, "without fairness it would be felt: {in_one_line} ms");
}
