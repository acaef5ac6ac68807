//! Schedules on the embedded stack: a person saves one, the clock submits, a worker drives, the list shows it.

use longhaul_tests::program::{Stack, wait_for_some};
use serde_json::{Value, json};

#[test]
fn the_clock_submits_jobs_until_it_is_told_to_rest() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let refused = stack.run(&["schedules", "put", "minutely", "--cron", "daily", "--agent", "agent-10"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("/cron"), "{said}");

    let input = json!({ "steps": 2 }).to_string();
    let put = ["schedules", "put", "minutely", "--cron", "* * * * *", "--time-zone", "Europe/Berlin"];
    let job = ["--agent", "agent-10", "--input", &input, "--label", "by=clock", "--json"];
    // Its job does not fail, so that nobody is told.
    let told = ["--webhook", "http://127.0.0.1:9/hook", "--webhook-event", "AgentJobFailed"];
    let saved = stack.json(&[&put[..], &job[..], &told[..]].concat());
    assert_eq!(saved["schedule"]["job"]["webhook_events"], json!(["longhaul.AgentJobFailed"]));
    assert_eq!((&saved["schedule"]["job"]["agent"], saved.get("last")), (&json!("agent-10@1"), None), "{saved}");
    let due = saved["next_at"].as_str().unwrap().to_owned();

    // It comes with the next full minute and the sweep behind it.
    let fired = wait_for_some("the first firing", || {
        let shown = stack.json(&["schedules", "show", "minutely", "--json"]);
        shown.get("last").is_some().then_some(shown)
    });
    assert!(fired["last"]["time"].as_str().unwrap() >= due.as_str(), "{fired}");
    let job = fired["last"]["job"].as_str().unwrap_or_else(|| panic!("{fired}"));
    let ended = stack.ended(job);
    assert_eq!(ended["job"]["status"], "COMPLETED");
    assert_eq!(ended["job"]["submitted_by"], "schedule:minutely");
    let listed = stack.json(&["jobs", "ls", "--label", "by=clock", "--json"]);
    assert!(listed["jobs"].as_array().unwrap().iter().any(|listed| listed["id"] == job), "{listed}");

    let paused = stack.json(&["schedules", "pause", "minutely", "--json"]);
    assert_eq!((&paused["schedule"]["paused"], paused.get("next_at")), (&json!(true), None));
    assert_eq!(paused["schedule"]["job"], saved["schedule"]["job"], "the rest of it stays");
    let table = stack.run(&["schedules", "list"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("minutely") && table.contains("paused") && table.contains("job "), "{table}");
    let resumed = stack.json(&["schedules", "resume", "minutely", "--json"]);
    assert!(resumed["next_at"].as_str().unwrap() > due.as_str(), "{resumed}");
    let removed = stack.run(&["schedules", "delete", "minutely"]);
    assert_eq!(String::from_utf8_lossy(&removed.stdout).trim(), "removed the schedule minutely");
    let none: Value = stack.json(&["schedules", "ls", "--json"]);
    assert_eq!(none, json!({ "schedules": [] }));
}
