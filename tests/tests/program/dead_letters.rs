//! A job that fails for good: read, mended, replayed.

use longhaul_tests::program::{Stack, entries};
use serde_json::json;

#[test]
fn a_dead_letter_is_read_edited_and_replayed_from_its_last_good_step() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let id = stack.submit("agent-10", &json!({"steps": 6, "fail_at": 4}));
    let failed = stack.ended(&id);
    assert_eq!(failed["job"]["status"], "FAILED");

    let listed = stack.json(&["dead-letters", "ls", "--json"]);
    let letters = listed["dead_letters"].as_array().unwrap();
    assert_eq!(letters.len(), 1, "{listed}");
    assert_eq!(letters[0]["id"], id.as_str());
    assert_eq!(letters[0]["failure"]["class"], "invalid");
    let story = stack.json(&["dead-letters", "show", &id, "--json"]);
    assert_eq!(entries(&story, "step_completed").len(), 3, "what was done before is there");
    assert_eq!(entries(&story, "step_failed").len(), 1);
    let shown = stack.run(&["dead-letters", "show", &id]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("was told to fail"), "and a person can read it");

    let input = json!({"steps": 6, "fail_at": 4, "mended": true}).to_string();
    let replayed = stack.json(&["dead-letters", "replay", &id, "--input", &input, "--json"]);
    assert_eq!(replayed["status"], "COMPLETED");
    let job = stack.show(&id);
    assert_eq!(entries(&job, "replayed")[0]["by"], "developer", "who replayed it is in the journal");
    assert!(stack.model_requests().values().all(|times| *times == 1), "no step that was paid for ran again");
    assert_eq!(stack.json(&["dead-letters", "ls", "--json"])["dead_letters"].as_array().unwrap().len(), 0);
}

#[test]
fn a_permanent_refusal_of_the_model_is_a_dead_letter_at_once() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let base = stack.address("rehearsal");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let faults = format!("{}/rehearsal/faults", base.trim_end_matches("/v1"));
    runtime.block_on(async {
        let fault = json!([{"schema": "research_plan", "refuse": true}]);
        let answer = reqwest::Client::new().post(faults).json(&fault).send().await.unwrap();
        assert!(answer.status().is_success());
    });
    let id = stack.submit("research", &json!({"topic": "queues"}));
    let job = stack.ended(&id);
    assert_eq!(job["job"]["failure"]["class"], "refused", "{job}");
    assert_eq!(entries(&job, "attempt_failed").len(), 0, "a refusal is not tried again");
    let replayed = stack.json(&["dead-letters", "replay", &id, "--json"]);
    assert_eq!(replayed["status"], "COMPLETED");
}

#[test]
fn a_replay_takes_a_model_instructions_and_a_whole_budget() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let id = stack.submit("agent-10", &json!({"steps": 2, "fail_at": 2}));
    assert_eq!(stack.ended(&id)["job"]["status"], "FAILED");
    let replay = ["dead-letters", "replay", &id, "--model", "small", "--instructions", "Be brief."];
    let budget = ["--tokens", "50000", "--money", "0.5", "--steps", "9", "--seconds", "600", "--detach", "--json"];
    assert_eq!(stack.json(&[&replay[..], &budget[..]].concat())["job"], json!(id));
    let wanted = json!({"tokens": 50_000, "money_micros": 500_000, "steps": 9, "wall_seconds": 600});
    let job = stack.show(&id)["job"].clone();
    assert_eq!((&job["model"], &job["instructions"], &job["budget"]), (&json!("small"), &json!("Be brief."), &wanted));
    // A fork takes the same.
    let forked = stack.json(&[&["fork", &id, "--step", "1"][..], &budget[..]].concat());
    assert_eq!(forked["budget"], wanted, "{forked}");
}
