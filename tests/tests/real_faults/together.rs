//! Kills, wrong clocks and a storm in the stores, at the same time.

use crate::field::{Field, jobs, kill_at_random};
use crate::stores::storm;

/// Clocks that leave time within the short invocations here, and after which messages that were lost in flight come back.
const OFFSETS: &str = "--worker-clock-offsets-seconds=-45,45,0,-30,30";

#[test]
fn nothing_is_lost_or_doubled_when_everything_goes_wrong_at_once() {
    let mut field = Field::up(&["--think-ms", "20", "--faults", "{}", "--worker-timeout-seconds", "60", OFFSETS]);
    field.plan(&storm());
    let mut kills = 0;
    field.usual_load(jobs(10), |stack, over| {
        kills = kill_at_random(stack, &["worker", "worker", "api", "sweeper"], 90, over);
    });
    field.calm();
    let verdict = field.audit();
    assert!(kills > 0 && verdict.takeovers > 0, "{kills} kills and {} takeovers are not everything", verdict.takeovers);
    println!("{kills} kills, {} takeovers, {} effects asked for again", verdict.takeovers, verdict.asked_again);
}
