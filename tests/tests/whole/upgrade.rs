//! An upgrade with jobs in flight, and a rollback.
//!
//! *Upgrade.* What an earlier build had left in its stores in the middle of its work is kept in `tests/upgrade`, byte for
//! byte as that build wrote it; today's build starts on it and must bring every job to its end. A build of an earlier
//! commit would be the same bytes at ten times the price of a run. `LONGHAUL_RECORD=1` records what today's build leaves,
//! under the day's name, and never over another: do so with the program of each release.
//!
//! *Rollback.* There is no build yet that writes another version of the protocol, so one is played: what it would have
//! written is today's with the version raised, which is all that an older build looks at before it turns away. Today's
//! build, in the part of the older one, must leave such a job as it is, in the table and in the queue, do its other jobs
//! meanwhile, and leave one that goes on when the version is one that the worker knows (the newer build is back).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use longhaul_tests::program::{Stack, entries, wait_for};
use serde_json::{Value, json};

use crate::everything::{CLERK, KEY_VARIABLE};
use crate::outside::{Outside, large_text};
use crate::shelves::Shelves;

/// What one build has left: the stores, and its jobs by what they were doing.
#[derive(serde::Serialize, serde::Deserialize)]
struct Recording {
    /// Of which build.
    of: String,
    /// The jobs.
    jobs: BTreeMap<String, String>,
    /// The stores.
    shelves: Shelves,
}

/// A version that this build does not know.
const NEWER: u32 = longhaul_engine::limits::PROTOCOL_VERSION + 1;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("upgrade")
}

fn recordings() -> Vec<Recording> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder()).unwrap().flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "zst"));
    files.sort();
    let read = |path: PathBuf| serde_json::from_slice(&zstd::decode_all(&*fs::read(path).unwrap()).unwrap()).unwrap();
    files.into_iter().map(read).collect()
}

fn providers(outside: &Outside) -> String {
    json!({"script": {
        "wire": "chat", "model": "scripted", "base_url": format!("http://{}/v1", outside.address),
        "features": {"streaming": false}, "key_variable": KEY_VARIABLE,
    }})
    .to_string()
}

fn up(folder: tempfile::TempDir, outside: &Outside, think_ms: &str) -> Stack {
    Stack::up_on(
        folder,
        &["--think-ms", think_ms],
        &[("LONGHAUL_PROVIDERS", &providers(outside)), (KEY_VARIABLE, "key")],
    )
}

fn steps(stack: &Stack, job: &str) -> usize {
    entries(&stack.show(job), "step_completed").len()
}

/// Jobs in every state, and a stack that is cut off in the middle of them.
fn record() -> Recording {
    let outside = Outside::start();
    let mut stack = up(tempfile::TempDir::new().unwrap(), &outside, "700");
    let path = stack.data().join("clerk.yaml");
    fs::write(&path, CLERK.replace("INSTRUCTIONS", "Ask, then answer.")).unwrap();
    assert!(stack.run(&["agents", "apply", path.to_str().unwrap()]).status.success());
    let mut jobs = BTreeMap::new();
    let mut submit = |stack: &Stack, name: &str, agent: &str, input: &Value| {
        // As a file: one of them is too large for an argument.
        let path = stack.data().join("input.json");
        fs::write(&path, input.to_string()).unwrap();
        let submitted = stack.run(&["run", agent, "--input", &format!("@{}", path.display()), "--detach"]);
        assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
        let id = String::from_utf8(submitted.stdout).unwrap().trim().to_owned();
        jobs.insert(name.to_owned(), id.clone());
        id
    };
    let failed = submit(&stack, "failed", "agent-10", &json!({"steps": 2, "fail_at": 2}));
    let completed = submit(&stack, "completed", "agent-10", &json!({"steps": 1}));
    let asking = submit(&stack, "waiting", "clerk", &json!({"material": large_text("a large input ")}));
    for job in [&failed, &completed] {
        assert!(!entries(&stack.ended(job), "claimed").is_empty());
    }
    wait_for("the question", || stack.show(&asking)["job"]["status"] == "WAITING");
    let running = submit(&stack, "running", "agent-10", &json!({"steps": 6, "bytes": 20_000}));
    wait_for("two steps", || steps(&stack, &running) >= 2);
    for number in 0..3 {
        submit(&stack, &format!("pending {number}"), "agent-10", &json!({"steps": 3}));
    }
    stack.kill();
    let shelves = outside.runtime.block_on(Shelves::of(stack.data()));
    Recording { of: std::env::var("LONGHAUL_RECORD").unwrap(), jobs, shelves }
}

/// Brings the jobs of a recording to their ends.
fn finish(recording: &Recording, stack: &Stack) {
    let job = |name: &str| recording.jobs[name].as_str();
    for name in recording.jobs.keys().filter(|name| *name == "running" || name.starts_with("pending")) {
        let done = stack.ended(job(name));
        assert_eq!(done["job"]["status"], "COMPLETED", "{} {name}: {done}", recording.of);
    }
    let shown = stack.show(job("waiting"));
    let signal = entries(&shown, "waiting")[0]["on"]["signal"].as_str().unwrap().to_owned();
    assert!(stack.run(&["jobs", "signal", job("waiting"), &signal, "--payload", "\"yes\""]).status.success());
    assert_eq!(stack.ended(job("waiting"))["job"]["status"], "COMPLETED", "{}", recording.of);
    let mended = json!({"steps": 2, "fail_at": 2, "mended": true}).to_string();
    let replayed = stack.json(&["dead-letters", "replay", job("failed"), "--input", &mended, "--json"]);
    assert_eq!(replayed["status"], "COMPLETED", "{}", recording.of);
    let completed = stack.show(job("completed"));
    assert_eq!(completed["job"]["result"]["steps"], 1, "{}: {completed}", recording.of);
    // What was paid for under the old build is not asked for again under the new one.
    let before: BTreeMap<&str, usize> =
        ["running", "failed"].map(|name| (job(name), recording.shelves.entries(job(name), "step_completed"))).into();
    let asked = stack.model_requests();
    for (id, had) in before {
        assert!(had >= 1, "{}: {id} had begun", recording.of);
        let again = asked.keys().filter(|key| key.starts_with(id)).count();
        let whole = entries(&stack.show(id), "step_completed").len();
        assert_eq!(again + had, whole, "{}: {id}", recording.of);
    }
}

#[test]
fn jobs_of_an_earlier_build_are_finished() {
    if let Ok(name) = std::env::var("LONGHAUL_RECORD") {
        let path = folder().join(format!("{name}.json.zst"));
        assert!(!path.exists(), "{} is there already", path.display());
        fs::create_dir_all(folder()).unwrap();
        let json = serde_json::to_vec(&record()).unwrap();
        fs::write(&path, zstd::encode_all(&*json, 19).unwrap()).unwrap();
    }
    let recordings = recordings();
    assert!(!recordings.is_empty(), "there is nothing to be upgraded");
    for recording in recordings {
        let outside = Outside::start();
        let data = tempfile::TempDir::new().unwrap();
        outside.runtime.block_on(recording.shelves.put(data.path()));
        let stack = up(data, &outside, "0");
        finish(&recording, &stack);
    }
}

/// The stores as a newer build would have left them for some jobs: every item and message of theirs has its version.
fn as_newer(shelves: &Shelves, jobs: &[&str]) -> Shelves {
    let mut newer = shelves.clone();
    let theirs = |text: &str| jobs.iter().any(|job| text.contains(*job));
    for item in newer.items.iter_mut().filter(|item| theirs(item["PK"]["S"].as_str().unwrap())) {
        if item.get("v").is_some() {
            item["v"]["N"] = json!(NEWER.to_string());
        }
    }
    for body in newer.messages.iter_mut().filter(|body| theirs(body)) {
        let mut message: Value = serde_json::from_str(body).unwrap();
        message["v"] = json!(NEWER);
        *body = message.to_string();
    }
    newer
}

#[test]
fn a_rollback_in_the_middle_harms_no_job() {
    let recording = recordings().pop().expect("a recording");
    let of = |name: &str| recording.jobs[name].clone();
    let (running, waiting) = (of("running"), of("waiting"));
    let mut newer = as_newer(&recording.shelves, &[&running, &waiting]);
    // Both have a message, whatever the cut left in the queue; one of this version too, as older builds send them.
    for (v, job) in [(NEWER, &running), (NEWER, &waiting), (1, &running)] {
        newer.messages.push(json!({"v": v, "type": "job", "tenant": "local", "job": job}).to_string());
    }
    let outside = Outside::start();
    let data = tempfile::TempDir::new().unwrap();
    outside.runtime.block_on(newer.put(data.path()));
    let mut older = up(data, &outside, "0");
    for name in recording.jobs.keys().filter(|name| name.starts_with("pending")) {
        assert_eq!(older.ended(&of(name))["job"]["status"], "COMPLETED", "what it can read, it does");
    }
    // It has met the others, more often than the queue's patience would last, and has put each message off. Sweeps came
    // by meanwhile.
    let log = older.data().join("logs/worker.log");
    wait_for("the messages to be put off", || {
        let said = fs::read_to_string(&log).unwrap_or_default();
        said.contains("given back untouched") && said.matches("was sent anew, for later").count() >= 3
    });
    older.kill();
    let left = outside.runtime.block_on(Shelves::of(older.data()));
    for job in [&running, &waiting] {
        // What a job is found by in the index `search` is made from the stream and has no version.
        let untouched = |shelves: &Shelves| -> BTreeMap<String, Value> {
            let items = shelves.of_job(job).into_iter().filter(|item| item.get("v").is_some());
            items.map(|item| (item["SK"]["S"].to_string(), item.clone())).collect()
        };
        assert_eq!(untouched(&left), untouched(&newer), "{job} is as the newer build left it");
        let message = json!({"v": NEWER, "type": "job", "tenant": "local", "job": job});
        let waits = left.messages.iter().any(|body| serde_json::from_str::<Value>(body).unwrap() == message);
        assert!(waits, "its message is in the queue: {:?}", left.messages);
        assert!(!left.dead_letters.iter().any(|body| body.contains(job.as_str())), "it is no dead letter");
    }

    // The newer build is back: for it, theirs is a version that it knows.
    let mut again = left;
    for item in &mut again.items {
        if item["v"]["N"] == *NEWER.to_string() {
            item["v"]["N"] = json!("1");
        }
    }
    for body in &mut again.messages {
        *body = body.replace(&format!("\"v\":{NEWER}"), "\"v\":1");
    }
    let data = tempfile::TempDir::new().unwrap();
    outside.runtime.block_on(again.put(data.path()));
    let stack = up(data, &outside, "0");
    finish(&recording, &stack);
}
