//! Jobs that outlive their workers, their invocations and their stack.

use std::time::{Duration, Instant};

use longhaul_tests::program::{Stack, entries, kill, wait_for};
use serde_json::{Value, json};

/// Every step has one outcome, and the model was asked once for each but for those that a kill may have cut off.
fn nothing_lost_nothing_doubled(stack: &Stack, job: &Value, steps: usize, kills: usize) {
    assert_eq!(job["job"]["status"], "COMPLETED", "{job}");
    assert_eq!(entries(job, "step_completed").len(), steps, "{job}");
    let id = job["job"]["id"].as_str().unwrap();
    let asked: Vec<usize> =
        stack.model_requests().into_iter().filter(|(key, _)| key.contains(id)).map(|(_, times)| times).collect();
    assert_eq!(asked.len(), steps, "one stable key a step: {asked:?}");
    let repeated: usize = asked.iter().map(|times| times - 1).sum();
    assert!(repeated <= kills, "{repeated} steps ran again after {kills} kills");
}

fn steps_done(stack: &Stack, id: &str) -> usize {
    entries(&stack.show(id), "step_completed").len()
}

#[test]
fn a_job_goes_on_over_many_short_invocations() {
    let stack = Stack::up(&["--worker-timeout-seconds", "6", "--think-ms", "1200"]);
    let id = stack.submit("agent-10", &json!({"steps": 10}));
    let job = stack.ended(&id);
    let claims = entries(&job, "claimed");
    assert!(claims.len() >= 5, "{} invocations", claims.len());
    assert!(claims.iter().all(|claim| claim["takeover"] == false), "given back in order, never taken over");
    nothing_lost_nothing_doubled(&stack, &job, 10, 0);
}

#[test]
fn a_killed_workers_job_goes_on_by_itself() {
    // With which arguments, and within which time after the kill the next worker has the job.
    let rows: [(&[&str], u64); 2] = [(&[], 5), (&["--as-aws"], 45)];
    for (arguments, within_s) in rows {
        let stack = Stack::up(&[&["--think-ms", "1500"], arguments].concat());
        let id = stack.submit("agent-10", &json!({"steps": 5}));
        wait_for("two steps", || steps_done(&stack, &id) == 2);
        let workers = stack.processes("worker");
        let killed_at = Instant::now();
        workers.into_iter().for_each(kill);
        wait_for("another worker", || entries(&stack.show(&id), "claimed").len() == 2);
        let took = killed_at.elapsed();
        assert!(took < Duration::from_secs(within_s), "{arguments:?}: {took:?}");
        let job = stack.ended(&id);
        assert_eq!(entries(&job, "claimed")[1]["takeover"], true);
        nothing_lost_nothing_doubled(&stack, &job, 5, 1);
        println!("{arguments:?}: taken over {took:?} after the kill");
    }
}

#[test]
fn a_killed_stacks_jobs_go_on_when_it_is_started_again() {
    let mut stack = Stack::up(&["--think-ms", "700"]);
    let ids: Vec<String> = (0..3).map(|_| stack.submit("agent-10", &json!({"steps": 6}))).collect();
    wait_for("a step of each job", || ids.iter().all(|id| steps_done(&stack, id) >= 1));
    stack.kill();
    stack.start();
    for id in &ids {
        let job = stack.ended(id);
        assert_eq!(job["job"]["status"], "COMPLETED");
        assert_eq!(entries(&job, "step_completed").len(), 6);
    }
    // The stand-in model is as new as the stack: what it was asked since is what was not recorded before.
    assert!(stack.model_requests().values().all(|times| *times == 1));
}
