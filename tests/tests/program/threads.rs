//! Threads on the embedded stack: real workers, one of them killed in the middle.

use longhaul_tests::program::{Stack, entries, kill, wait_for};
use serde_json::{Value, json};

fn submit(stack: &Stack, steps: u32, more: &[&str]) -> String {
    let input = json!({ "steps": steps }).to_string();
    let arguments = ["run", "agent-10", "--input", &input, "--detach", "--json", "--thread", "talk"];
    let submitted = stack.json(&[&arguments, more].concat());
    assert_eq!(submitted["thread"], "talk", "{submitted}");
    submitted["id"].as_str().unwrap().to_owned()
}

/// When the first entry of a kind was written; they are texts of one length.
fn time<'a>(job: &'a Value, kind: &str) -> &'a str {
    let mut journal = job["journal"].as_array().unwrap().iter();
    journal.find(|written| written["entry"]["type"] == kind).unwrap()["at"].as_str().unwrap()
}

#[test]
fn jobs_of_a_thread_go_one_after_another_also_over_a_kill() {
    let stack = Stack::up(&["--think-ms", "1500"]);
    let jobs: Vec<String> = [8, 2, 2].map(|steps| submit(&stack, steps, &[])).into();
    wait_for("a step", || !entries(&stack.show(&jobs[0]), "step_completed").is_empty());
    let shown = stack.show(&jobs[1]);
    assert_eq!((&shown["job"]["status"], &shown["job"]["waits_for"]), (&json!("PENDING"), &json!(jobs[0])), "{shown}");
    let refused = stack.run(&["run", "agent-10", "--detach", "--thread", "talk", "--on-busy", "reject"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&jobs[0]), "{said}");
    stack.processes("worker").into_iter().for_each(kill);

    let ended: Vec<Value> = jobs.iter().map(|job| stack.ended(job)).collect();
    assert!(ended.iter().all(|job| job["job"]["status"] == "COMPLETED"));
    for pair in ended.windows(2) {
        assert!(time(&pair[0], "completed") <= time(&pair[1], "claimed"), "{pair:?}");
    }
    let listed = stack.json(&["jobs", "ls", "--thread", "talk", "--json"]);
    let listed: Vec<&Value> = listed["jobs"].as_array().unwrap().iter().map(|job| &job["id"]).collect();
    assert_eq!(listed, [&json!(jobs[2]), &json!(jobs[1]), &json!(jobs[0])]);

    // The thread is free again. What would take half a minute is cut off by the one that follows it.
    let long = submit(&stack, 60, &[]);
    wait_for("a step", || !entries(&stack.show(&long), "step_completed").is_empty());
    let next = submit(&stack, 1, &["--on-busy", "interrupt"]);
    let (long, next) = (stack.ended(&long), stack.ended(&next));
    assert_eq!((&long["job"]["status"], &next["job"]["status"]), (&json!("CANCELLED"), &json!("COMPLETED")));
    assert_eq!(long["job"]["cancelled"]["by"], format!("job:{}", next["job"]["id"].as_str().unwrap()));
    assert!(time(&long, "cancelled") <= time(&next, "claimed"));
}
