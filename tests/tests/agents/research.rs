//! `research`: what it says can be looked up.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use longhaul::ErrorClass;
use longhaul::engine::Entry;
use longhaul_agent::documents::quote::locate;
use longhaul_agent::documents::read_file;
use serde_json::{Value, json};

use crate::room::{Room, folder, shipped_file, topic};

/// Every number in the text's `[n]`.
fn cited(text: &str) -> BTreeSet<u64> {
    text.split('[').skip(1).filter_map(|rest| rest.split_once(']')?.0.parse().ok()).collect()
}

/// Every `“words” [n]` of the text.
fn quoted(text: &str) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for part in text.split('“').skip(1) {
        let Some((words, rest)) = part.split_once('”') else { continue };
        let number = rest.strip_prefix(" [").and_then(|rest| rest.split_once(']')?.0.parse().ok());
        found.extend(number.map(|number| (words.to_owned(), number)));
    }
    found
}

fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the words stand in the file. A text file is looked through as it lies on disk, without our reader's help.
fn stands(words: &str, file: &Path) -> bool {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("md" | "txt") => collapsed(&std::fs::read_to_string(file).unwrap()).contains(&collapsed(words)),
        _ => locate(words, &read_file(file).unwrap()).is_some(),
    }
}

/// Holds a result to what the agent promises; the prose without the apparatus.
fn check<'a>(output: &'a Value, corpus: &Path) -> &'a str {
    let report = output["report"].as_str().unwrap();
    let (prose, apparatus) = report.split_once("\n## Sources\n").expect("a list of sources");
    let sources = output["sources"].as_array().unwrap();
    let numbers: BTreeSet<u64> = sources.iter().map(|source| source["number"].as_u64().unwrap()).collect();
    assert_eq!(cited(prose), numbers, "the numbers in the prose are those of the list");
    assert_eq!(numbers, (1..=u64::try_from(sources.len()).unwrap()).collect());
    let file = |source: &Value| corpus.join(source["file"].as_str().unwrap());
    for source in sources {
        let quotes = source["quotes"].as_array().unwrap();
        assert!(!quotes.is_empty(), "{source}");
        for quote in quotes {
            assert!(stands(quote["text"].as_str().unwrap(), &file(source)), "{quote} is not in {}", source["file"]);
            assert!(source["pages"].as_array().unwrap().contains(&quote["page"]));
        }
        let line = format!("- [{}] ", source["number"]);
        let line = apparatus.lines().find(|known| known.starts_with(&line)).expect("the source is listed");
        assert!(line.contains(source["file"].as_str().unwrap()), "{line}");
    }
    let quotations = quoted(prose);
    assert!(!quotations.is_empty(), "the report quotes");
    for (words, number) in quotations {
        let source = &sources[usize::try_from(number).unwrap() - 1];
        assert!(stands(&words, &file(source)), "“{words}” is not in {}", source["file"]);
    }
    assert_eq!(output["stand_in"], true);
    assert!(prose.contains("No language model was used"), "the stand-in says so");
    prose
}

#[tokio::test]
async fn the_report_rests_on_files_that_hold_its_words() {
    let room = Room::open().await;
    let job = room.submit("research", topic("how queues make agents reliable", None)).await;
    let output = room.drive(&job).await.output();
    let prose = check(&output, &shipped_file("corpus"));
    let words = prose.split_whitespace().count();
    assert!((700..=2_200).contains(&words), "about three pages: {words} words");
    let sources = output["sources"].as_array().unwrap().len();
    assert!((3..=10).contains(&sources), "{sources} sources");
    // Each step asked once.
    let read = room.asked_for("reading_notes").await;
    assert!(read >= sources && read <= 10, "{read} of {sources}");
    assert_eq!((room.asked_for("research_plan").await, room.asked_for("report").await), (1, 1));
    let keys: BTreeSet<String> =
        room.requests().await.into_iter().filter_map(|request| request.idempotency_key).collect();
    assert_eq!(keys.len(), read + 2, "each call has its own key: {keys:?}");
    // People who watch learn how much there is to read, before it is read.
    let entries = room.entries(&job);
    let shown = entries.iter().position(
        |entry| matches!(entry, Entry::Emitted { id, data } if id.name == "sources" && data["total"] == read),
    );
    let first_read = entries
        .iter()
        .position(|entry| matches!(entry, Entry::StepCompleted { id, .. } if id.name.starts_with("read ")));
    assert!(shown.expect("the number of sources") < first_read.expect("a reading"));
}

const BEES: [(&str, &[u8]); 3] = [
    (
        "hive/honey.md",
        b"# Honey\n\nBees make honey from the nectar of flowers. A colony of bees stores honey for the winter, since no \
          flowers bloom then.\n\nA strong colony of bees makes thirty kilograms of honey in a good summer.\n",
    ),
    (
        "swarms.txt",
        b"Bees swarm in May. A swarm of bees carries honey for three days, and looks for a hollow tree to live in.\n",
    ),
    ("engines.md", b"# Engines\n\nA diesel engine burns oil under pressure and turns a shaft.\n"),
];

#[tokio::test]
async fn another_corpus_is_another_report() {
    let room = Room::open().await;
    let corpus = folder(&BEES);
    let output = room.run("research", topic("bees and their honey", Some(corpus.path()))).await.output();
    let prose = check(&output, corpus.path());
    assert!(prose.contains("honey for the winter") && !prose.contains("queue"), "{prose}");
    let files: BTreeSet<&str> =
        output["sources"].as_array().unwrap().iter().map(|source| source["file"].as_str().unwrap()).collect();
    assert_eq!(files, BTreeSet::from(["hive/honey.md", "swarms.txt"]));
}

#[tokio::test]
async fn what_cannot_be_read_is_said() {
    let room = Room::open().await;
    let mut files = BEES.to_vec();
    files.extend([("broken.pdf", &b"%PDF-1.7\nthis is not one"[..]), ("empty.txt", b""), ("notes.docx", b"x")]);
    let corpus = folder(&files);
    let output = room.run("research", topic("bees and their honey", Some(corpus.path()))).await.output();
    check(&output, corpus.path());
    let skipped: Vec<&str> =
        output["skipped"].as_array().unwrap().iter().map(|one| one["file"].as_str().unwrap()).collect();
    assert_eq!(skipped, ["broken.pdf", "empty.txt"]);
    assert!(output["report"].as_str().unwrap().contains("- `broken.pdf`: it is damaged"), "{}", output["report"]);
}

#[tokio::test]
async fn a_corpus_that_gives_nothing_is_named_and_not_tried_again() {
    let empty = folder(&[]);
    let only_broken = folder(&[("broken.pdf", b"%PDF-1.7\nno")]);
    let file = folder(&[("a.md", b"x")]);
    let cases: [(&Path, &str); 4] = [
        (Path::new("/nowhere/at/all"), "/nowhere/at/all"),
        (empty.path(), empty.path().to_str().unwrap()),
        (only_broken.path(), "broken.pdf"),
        (&file.path().join("a.md"), "a.md"),
    ];
    for (corpus, named) in cases {
        let room = Room::open().await;
        let job = room.submit("research", topic("bees and their honey", Some(corpus))).await;
        let failure = room.drive(&job).await.failure();
        assert_eq!(failure.class, ErrorClass::Invalid, "{failure:?}");
        assert!(failure.message.contains(named), "{failure:?}");
        let tried_again = room.entries(&job).iter().any(|entry| matches!(entry, Entry::AttemptFailed { .. }));
        assert!(!tried_again, "{named}");
    }
}

#[tokio::test]
async fn silence_of_the_corpus_is_reported_without_asking_for_a_report() {
    let room = Room::open().await;
    let corpus = folder(&BEES);
    let output = room.run("research", topic("zygote phlogiston", Some(corpus.path()))).await.output();
    assert_eq!((output["sources"].as_array().unwrap().len(), room.asked_for("report").await), (0, 0));
    assert!(output["report"].as_str().unwrap().contains("nothing to report"), "{}", output["report"]);
}

#[tokio::test]
async fn faults_of_the_model_cost_an_attempt_or_a_source() {
    let room = Room::open().await;
    let faults = json!([
        {"schema": "research_plan", "nth": 1, "status": 500},
        {"schema": "reading_notes", "nth": 1, "refuse": true},
        {"schema": "report", "nth": 1, "cut_after_bytes": 400},
    ]);
    room.faults(faults).await;
    let corpus = folder(&BEES);
    let output = room.run("research", topic("bees and their honey", Some(corpus.path()))).await.output();
    check(&output, corpus.path());
    assert_eq!((room.asked_for("research_plan").await, room.asked_for("report").await), (2, 2));
    let not_cited = output["not_cited"].to_string();
    assert!(not_cited.contains("told to refuse") || not_cited.contains("declined"), "{not_cited}");
    // An attempt keeps its key.
    let requests = room.requests().await;
    let keys: BTreeSet<&Option<String>> = requests
        .iter()
        .filter(|request| request.schema.as_deref() == Some("report"))
        .map(|request| &request.idempotency_key)
        .collect();
    assert_eq!(keys.len(), 1);
}

#[tokio::test]
async fn a_worker_that_dies_over_the_report_reads_nothing_again() {
    let room = Room::open().await;
    room.faults(json!([{"schema": "report", "nth": 1, "think_ms": 60_000}])).await;
    let corpus = folder(&BEES);
    let job = room.submit("research", topic("bees and their honey", Some(corpus.path()))).await;
    Box::pin(room.invoke_until(async {
        while room.asked_for("report").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }))
    .await;
    let read = room.asked_for("reading_notes").await;
    check(&room.drive(&job).await.output(), corpus.path());
    let counts = (room.asked_for("research_plan").await, room.asked_for("reading_notes").await);
    assert_eq!((counts, room.asked_for("report").await), ((1, read), 2));
}

#[tokio::test]
async fn an_input_beyond_its_limits_is_refused() {
    for input in [
        json!({"topic": "ab"}),
        json!({"topic": "bees", "sources_max": 0}),
        json!({"topic": "bees", "sources_max": 11}),
        json!({"topic": "bees", "depth": 3}),
        json!({}),
    ] {
        let room = Room::open().await;
        let failure = room.run("research", input.clone()).await.failure();
        assert_eq!(failure.class, ErrorClass::Invalid, "{input}: {failure:?}");
        assert!(room.requests().await.is_empty());
    }
}
