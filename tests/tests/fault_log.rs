//! Holds the table of the fault log (tests/faults/README.md): each case of kinds B, C, D and E has tests that carry its id, each
//! such test is in the table, and what the cases ask of the deployment stands in the template.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The cases of kinds B (queue and Lambda), C (DynamoDB), D (WebSocket and server-sent events) and E (API and security).
const CASES: [&str; 37] = [
    "B01", "B03", "B04", "B05", "B06", "B07", "B08", "B09", "B10", "B11", "B13", "B14", "C01", "C02", "C04", "C05",
    "C06", "C08", "C09", "D01", "D02", "D03", "D04", "D07", "D08", "D09", "D10", "E01", "E03", "E04", "E05", "E06",
    "E07", "E08", "E09", "E11", "E12",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            if !["target", "node_modules"].contains(&name.as_str()) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// All tests whose names begin with a case's id, by that id.
fn tests_by_case() -> BTreeMap<String, BTreeSet<String>> {
    let mut files = Vec::new();
    for folder in ["shared", "functions", "infra", "tests"] {
        sources(&root().join(folder), &mut files);
    }
    let mut tests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some(rest) = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn ")) else { continue };
            let name: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let id = name.split('_').next().unwrap_or_default().to_ascii_uppercase();
            if std::mem::take(&mut is_test) && CASES.contains(&id.as_str()) {
                tests.entry(id).or_default().insert(name);
            }
        }
    }
    tests
}

/// The tests that the table names, by case.
fn table() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("tests/faults/README.md")).unwrap();
    let mut table = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let names = cells[1].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        if CASES.contains(&cells[0]) {
            assert!(!cells[2].is_empty(), "{} has no outcome", cells[0]);
            assert!(table.insert(cells[0].to_owned(), names).is_none(), "{} stands twice", cells[0]);
        }
    }
    table
}

#[test]
fn each_case_has_its_tests_and_each_test_its_place_in_the_table() {
    let (tests, table) = (tests_by_case(), table());
    for case in CASES {
        let named = table.get(case).unwrap_or_else(|| panic!("{case} is not in tests/faults/README.md"));
        assert!(!named.is_empty(), "{case} has no test");
        assert_eq!(tests.get(case), Some(named), "{case}: the tests (left) and the table (right) differ");
    }
}

/// A resource's part of the template.
fn resource(name: &str) -> String {
    let template = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    let mut lines = template.lines().skip_while(|line| *line != format!("  {name}:"));
    let first = lines.next().unwrap_or_else(|| panic!("the template has no {name}"));
    let inner = lines.take_while(|line| line.is_empty() || line.starts_with("    ") || line.starts_with("  #"));
    std::iter::once(first)
        .chain(inner)
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Worker, queue, worker is a loop on purpose; Lambda cuts such a loop after some sixteen rounds unless it is told.
/// Emulators do not show it, so the template is asked.
#[test]
fn b06_the_template_lets_the_worker_go_round() {
    assert!(resource("JobsEventSource").contains("FunctionName: !Ref WorkerFunction"));
    assert!(resource("WorkerFunction").contains("RecursiveLoop: Allow"));
}

/// Bounded where messages are received and not behind it, with receives to spare.
#[test]
fn b07_the_template_wastes_no_receives() {
    let source = resource("JobsEventSource");
    assert!(source.contains("MaximumConcurrency:") && source.contains("ReportBatchItemFailures"), "{source}");
    assert!(!resource("WorkerFunction").contains("ReservedConcurrentExecutions"));
    let queue = resource("JobsQueue");
    let receives: String =
        queue.split("maxReceiveCount: ").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    assert!(receives.parse::<u32>().unwrap() >= 5, "{queue}");
}

/// A standard queue: nothing of ours waits for another's order.
#[test]
fn b03_the_template_has_no_fifo_queue() {
    let template = std::fs::read_to_string(root().join("template.yaml")).unwrap();
    assert!(template.contains("AWS::SQS::Queue") && !template.contains("FifoQueue"));
}

/// The cases of kinds A (what model servers send) and F (the agent loop).
const MODEL_AND_LOOP_CASES: [&str; 30] = [
    "a01", "a03", "a04", "a05", "a06", "a07", "a08", "a09", "a10", "a12", "a13", "a14", "a15", "a16", "a18", "a19",
    "a20", "a21", "a23", "a24", "a26", "f01", "f02", "f03", "f05", "f06", "f08", "f09", "f11", "f12",
];

/// Each of them has a test whose name begins with its id, or with the ids of several.
#[test]
fn each_case_of_models_and_of_the_loop_has_a_test() {
    let mut files = Vec::new();
    for folder in ["shared", "functions", "infra", "tests"] {
        sources(&root().join(folder), &mut files);
    }
    let is_id = |part: &str| part.len() == 3 && part.starts_with(['a', 'f']) && part[1..].parse::<u8>().is_ok();
    let mut named = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let Some(rest) = line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn ")) else { continue };
            if std::mem::take(&mut is_test) {
                named.extend(rest.split('_').take_while(|part| is_id(part)).map(str::to_owned));
            }
        }
    }
    let missing: Vec<&str> = MODEL_AND_LOOP_CASES.into_iter().filter(|id| !named.contains(*id)).collect();
    assert!(missing.is_empty(), "no test by the id of {missing:?}");
}
