//! Jobs as files and forks: what a person does who wants to know what went wrong, here or elsewhere.

use std::fs;

use longhaul_tests::program::{Stack, entries};
use serde_json::{Value, json};

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn of_type<'a>(entries: &'a Value, kind: &str) -> Vec<&'a Value> {
    entries.as_array().unwrap().iter().filter(|view| view["entry"]["type"] == kind).collect()
}

#[test]
fn a_job_is_exported_imported_elsewhere_and_stepped_through() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let id = stack.submit("agent-10", &json!({"steps": 6, "fail_at": 4}));
    let failed = stack.ended(&id);
    let exported = stack.run(&["jobs", "export", &id]);
    assert!(exported.status.success(), "{}", said(&exported));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.json");
    fs::write(&file, &exported.stdout).unwrap();
    let file = file.to_str().unwrap();
    drop(stack);

    let stack = Stack::up(&["--think-ms", "0"]);
    // A damaged file changes nothing.
    let damaged = folder.path().join("damaged.json");
    for text in [exported.stdout[..exported.stdout.len() - 40].to_vec(), b"{\"longhaul_export\":7}".to_vec()] {
        fs::write(&damaged, text).unwrap();
        let refused = stack.run(&["jobs", "import", damaged.to_str().unwrap()]);
        assert!(!refused.status.success() && said(&refused).contains("nothing was imported"), "{}", said(&refused));
    }
    assert_eq!(stack.json(&["jobs", "ls", "--json"])["jobs"], json!([]));
    let imported = stack.json(&["jobs", "import", file, "--json"]);
    assert_eq!((&imported["id"], &imported["status"]), (&json!(id), &json!("FAILED")), "{imported}");
    assert!(imported["imported_at"].is_string() && imported["labels"]["imported"] == "yes", "{imported}");
    let again = stack.run(&["jobs", "import", file]);
    assert!(said(&again).contains("it is here already"), "{}", said(&again));
    let shown = stack.show(&id);
    let contents = |story: &Value| -> Vec<Value> {
        story["journal"].as_array().unwrap().iter().map(|view| view["entry"].clone()).collect()
    };
    assert_eq!(contents(&shown), contents(&failed), "the story is the same, entry by entry");

    // Nobody drives it but the person, one outcome at a time, and the stack's own model is not asked.
    let refused = stack.run(&["dead-letters", "replay", &id]);
    assert!(said(&refused).contains("no worker drives it"), "{}", said(&refused));
    for dry_run in
        [&["dead-letters", "replay-all", "--json", "--dry-run"][..], &["dead-letters", "replay-all", "--json"]]
    {
        let output = stack.run(dry_run);
        assert!(!output.status.success(), "{}", said(&output));
        let bulk: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(bulk["opened"], json!([]), "{bulk}");
        assert!(bulk["refused"][&id].as_str().unwrap().contains("longhaul jobs step"), "{bulk}");
    }
    assert_eq!(stack.show(&id)["job"]["status"], "FAILED");
    let refused = stack.run(&["jobs", "step", &id]);
    assert!(said(&refused).contains("--from"), "{}", said(&refused));
    let input = json!({"steps": 6, "fail_at": 4, "mended": true}).to_string();
    let stepped = stack.json(&["jobs", "step", &id, "--input", &input, "--json"]);
    assert_eq!(of_type(&stepped["entries"], "step_completed").len(), 1, "{stepped}");
    assert_eq!(stepped["job"]["status"], "PENDING");
    let other = stack.submit("agent-10", &json!({"steps": 1}));
    assert_eq!(stack.ended(&other)["job"]["status"], "COMPLETED", "the worker works");
    assert_eq!(stack.show(&id)["job"]["status"], "PENDING");
    let stepped = stack.json(&["jobs", "step", &id, "--count", "9", "--json"]);
    assert_eq!(stepped["job"]["status"], "COMPLETED", "{stepped}");
    assert_eq!(of_type(&stepped["entries"], "step_completed").len(), 2, "{stepped}");
    // And again from its second step, though it has completed.
    let second = entries(&stack.show(&id), "step_completed").len();
    assert_eq!(second, 6);
    let stepped = stack.json(&["jobs", "step", &id, "--from", "3", "--json"]);
    assert_eq!(of_type(&stepped["entries"], "step_completed")[0]["entry"]["step"], "1", "{stepped}");
    assert!(stack.model_requests().keys().all(|key| !key.starts_with(&id)), "{:?}", stack.model_requests());
    let refused = stack.run(&["jobs", "step", &other]);
    assert!(said(&refused).contains("was not imported"), "{}", said(&refused));
}

#[test]
fn a_fork_keeps_what_was_paid_for_and_leaves_the_other_job_alone() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let id = stack.submit("agent-10", &json!({"steps": 6, "fail_at": 4}));
    let before = stack.ended(&id);
    let input = json!({"steps": 6, "fail_at": 4, "mended": true}).to_string();
    let fork = stack.json(&["fork", &id, "--input", &input, "--json"]);
    assert_eq!(fork["status"], "COMPLETED", "{fork}");
    let story = stack.show(fork["id"].as_str().unwrap());
    assert_eq!(story["job"]["forked_from"]["job"], json!(id), "{story}");
    assert_eq!(entries(&story, "forked")[0]["kept"], json!(3));
    assert_eq!(entries(&story, "step_completed").len(), 6);
    let early = stack.json(&["fork", &id, "--step", "1", "--input", &input, "--json"]);
    assert_eq!(early["status"], "COMPLETED", "{early}");
    assert_eq!(stack.show(&id), before, "nothing happened to it");
    let asked = stack.model_requests();
    assert!(asked.values().all(|times| *times == 1), "no key was asked twice: {asked:?}");
    let of = |id: &str| asked.keys().filter(|key| key.starts_with(id)).count();
    assert_eq!((of(fork["id"].as_str().unwrap()), of(early["id"].as_str().unwrap())), (3, 5), "{asked:?}");
}
