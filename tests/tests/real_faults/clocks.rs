//! Each worker's clock is wrong by another amount: nothing is safe by a clock.

use crate::field::{Field, jobs, kill_at_random};

/// By so many seconds, worker after worker.
const OFFSETS: &str = "--worker-clock-offsets-seconds=-90,90,0,-45,45";

#[test]
fn nothing_is_lost_or_doubled_when_clocks_are_wrong() {
    let mut field = Field::up(&["--think-ms", "50", OFFSETS]);
    // A kill now and then, so that workers of all clocks take jobs from each other.
    field.usual_load(jobs(24), |stack, over| {
        kill_at_random(stack, &["worker"], 90, over);
    });
    let verdict = field.audit();
    assert!(verdict.takeovers > 0, "no worker took a job from one with another clock");
    println!("{} takeovers, {} effects asked for again", verdict.takeovers, verdict.asked_again);
}
