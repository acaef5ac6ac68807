//! Function processes die at random moments through a load.

use crate::field::{Field, jobs, kill_at_random};

#[test]
fn nothing_is_lost_or_doubled_when_processes_are_killed_at_random() {
    let mut field = Field::up(&["--think-ms", "20"]);
    let mut kills = 0;
    // The worker most of the time: it is the one that holds something.
    let functions = ["worker", "worker", "worker", "api", "websocket", "sweeper"];
    field.usual_load(jobs(50), |stack, over| kills = kill_at_random(stack, &functions, 45, over));
    let verdict = field.audit();
    println!("{kills} kills, {} takeovers, {} effects asked for again", verdict.takeovers, verdict.asked_again);
    assert!(kills >= 3, "{kills} kills");
    assert!(verdict.takeovers >= 1, "no kill hit a job");
}
