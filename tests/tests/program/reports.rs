//! Reports: made from the documents that were given, with citations that resolve.

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_tests::program::Stack;
use serde_json::Value;
use tempfile::TempDir;

/// Words as they stand in a document, whatever its line breaks and typography.
fn plain(text: &str) -> String {
    let letters = text.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { ' ' });
    letters.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each source is a file of the folder; each quote stands in it; each number in the report has its source.
fn citations_resolve(result: &Value, folder: &Path) {
    let report = result["report"].as_str().unwrap();
    let sources = result["sources"].as_array().unwrap();
    assert!(!sources.is_empty(), "{report}");
    let mut quotes_found = 0;
    for source in sources {
        let file = folder.join(source["file"].as_str().unwrap());
        assert!(file.is_file(), "{}", file.display());
        let number = source["number"].as_u64().unwrap();
        assert!(report.contains(&format!("[{number}]")), "source {number} is cited");
        // PDF and HTML are compared by the program itself; here, what any reader of a text file can check.
        if file.extension().is_some_and(|kind| kind == "md" || kind == "txt") {
            let text = plain(&fs::read_to_string(&file).unwrap());
            for quote in source["quotes"].as_array().unwrap() {
                let quoted = quote["text"].as_str().unwrap();
                assert!(text.contains(&plain(quoted)), "{}: {quoted}", file.display());
                quotes_found += 1;
            }
        }
    }
    assert!(quotes_found > 0, "{report}");
    for number in report.split('[').filter_map(|part| part.split_once(']')?.0.parse::<u64>().ok()) {
        assert!(sources.iter().any(|source| source["number"] == number), "[{number}] has no source");
    }
}

#[test]
fn one_command_gives_a_cited_report() {
    let folder = TempDir::new().unwrap();
    // No stack is running: the command brings its own.
    let output = std::process::Command::new(longhaul_tests::program::longhaul())
        .args(["research", "how queues make agents reliable"])
        .env("LONGHAUL_DATA", folder.path())
        .env_remove("OPENAI_API_KEY")
        .env_remove("ANTHROPIC_API_KEY")
        .output()
        .unwrap();
    let (report, progress) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{progress}");
    assert!(progress.contains("plan") && progress.contains("read queues-and-agents.md"), "{progress}");
    assert!(report.contains("## Sources") && report.contains("[1]"), "{report}");
    assert!(report.contains("No language model"), "it says plainly that no model was used");
    let words = report.split_whitespace().count();
    assert!((900..2_500).contains(&words), "about three pages: {words} words");
}

/// Documents that nobody here wrote: what the crates that this project is built with say about themselves.
fn foreign_documents() -> TempDir {
    let folder = TempDir::new().unwrap();
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"))
        .other_options(vec!["--offline".to_owned()])
        .exec()
        .unwrap();
    let wanted = ["tokio", "tower", "reqwest", "rusqlite", "tracing", "serde", "uuid", "axum", "clap", "futures"];
    for package in &metadata.packages {
        if wanted.contains(&package.name.as_str()) {
            let readme = package.manifest_path.parent().unwrap().join("README.md");
            if let Ok(text) = fs::read(&readme) {
                fs::write(folder.path().join(format!("{}.md", package.name)), text).unwrap();
            }
        }
    }
    let count = fs::read_dir(folder.path()).unwrap().count();
    assert!(count >= 5, "only {count} of {wanted:?} have a README in the registry");
    folder
}

#[test]
fn a_folder_of_other_peoples_documents_is_quoted_word_for_word() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let documents = foreign_documents();
    let folder = documents.path().to_str().unwrap();
    let outcome = stack.json(&["research", "asynchronous runtimes and middleware", "--corpus", folder, "--json"]);
    assert_eq!(outcome["status"], "COMPLETED");
    for field in ["id", "agent", "status", "result", "usage"] {
        assert!(!outcome[field].is_null(), "{field} is there");
    }
    citations_resolve(&outcome["result"], documents.path());

    let own = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../infra/local/corpus"));
    let folder = own.to_str().unwrap();
    let other = stack.json(&["research", "asynchronous runtimes and middleware", "--corpus", folder, "--json"]);
    citations_resolve(&other["result"], &own);
    assert_ne!(outcome["result"]["report"], other["result"]["report"], "another corpus is another report");
}

#[test]
fn bad_folders_are_named_and_broken_files_are_skipped_and_said_so() {
    let stack = Stack::up(&["--think-ms", "0"]);
    let empty = TempDir::new().unwrap();
    let missing = empty.path().join("missing");
    for (folder, why) in [(empty.path(), "no"), (missing.as_path(), "missing")] {
        let output = stack.run(&["research", "queues", "--corpus", folder.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(folder.to_str().unwrap()) && said.contains(why), "the folder is named: {said}");
    }
    let mixed = TempDir::new().unwrap();
    fs::write(mixed.path().join("broken.pdf"), b"%PDF-1.7\nnot a pdf at all").unwrap();
    let text = "# Queues\n\nA queue keeps work until a worker takes it. Queues make agents reliable, because a message \
                that nobody acknowledged is delivered again.\n";
    fs::write(mixed.path().join("good.md"), text).unwrap();
    let outcome = stack.json(&["research", "queues", "--corpus", mixed.path().to_str().unwrap(), "--json"]);
    citations_resolve(&outcome["result"], mixed.path());
    let report = outcome["result"]["report"].as_str().unwrap();
    assert!(report.contains("broken.pdf"), "{report}");
}
