//! The documents that ship inside the program, so that `longhaul research TOPIC` works in any folder, with no argument
//! and no download: a small corpus about reliable agents, and a contract with rules to review it by.
//!
//! Jobs name files by path and may run for days, across an upgrade of the program. Each version of the documents
//! is therefore unpacked into a folder of its own, named after its contents, and never changed afterwards.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The folders that are unpacked, each with the names and contents of its files.
const SHIPPED: [(&str, &[File]); 2] = [(CORPUS_FOLDER, CORPUS), (SAMPLES_FOLDER, SAMPLES)];

type File = (&'static str, &'static [u8]);

macro_rules! files {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        &[$(($name, include_bytes!(concat!("../", $folder, "/", $name)))),+]
    };
}

/// The folder, below the one that [`unpack`] gives, of articles about reliable agents.
pub const CORPUS_FOLDER: &str = "corpus";

/// The folder, below the one that [`unpack`] gives, of [`AGREEMENT_FILE`] and [`RULES_FILE`].
pub const SAMPLES_FOLDER: &str = "samples";

/// A contract of more than fifty pages.
pub const AGREEMENT_FILE: &str = "supplier-agreement.pdf";

/// Rules to review the contract by, of which it breaks three.
pub const RULES_FILE: &str = "compliance-rules.json";

const CORPUS: &[File] = files!("corpus":
    "backpressure.txt",
    "budgets-for-agents.md",
    "dead-letters.md",
    "delivery-semantics.md",
    "durable-execution.md",
    "event-sourcing.md",
    "heartbeats.txt",
    "idempotency.md",
    "leases-and-fencing.md",
    "prompt-injection.html",
    "queues-and-agents.md",
    "retries-and-backoff.md",
    "serverless-time-limits.pdf",
    "websockets-and-sse.html",
);

const SAMPLES: &[File] = files!("samples": "supplier-agreement.pdf", "compliance-rules.json");

/// Hexadecimal digits of the digest in the folder's name: enough to tell the versions of one program apart.
const VERSION_DIGITS: usize = 12;

/// Writes the corpus and the samples into a folder below `into`, unless they are there already, and gives that
/// folder; in it are [`CORPUS_FOLDER`] and [`SAMPLES_FOLDER`]. A file that was changed or removed since is put right;
/// files that somebody added are left alone.
///
/// # Errors
/// When a folder or file cannot be written; the error names it.
pub fn unpack(into: &Path) -> io::Result<PathBuf> {
    let root = into.join(format!("shipped-{}", version()));
    for (folder, files) in SHIPPED {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).map_err(|error| naming(&folder, &error))?;
        for (name, contents) in files {
            put(&folder, name, contents)?;
        }
    }
    Ok(root)
}

fn put(folder: &Path, name: &str, contents: &[u8]) -> io::Result<()> {
    let path = folder.join(name);
    if fs::read(&path).is_ok_and(|present| present == contents) {
        return Ok(());
    }
    // Renamed into place, so that a reader beside us sees a whole file or none. Two programs that unpack at once write
    // the same bytes, but not through the same temporary file.
    let partial = folder.join(format!(".{name}.{}", std::process::id()));
    fs::write(&partial, contents).map_err(|error| naming(&partial, &error))?;
    fs::rename(&partial, &path).map_err(|error| naming(&path, &error))
}

fn naming(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn version() -> String {
    let mut hasher = Sha256::new();
    for (folder, files) in SHIPPED {
        for (name, contents) in files {
            hasher.update(format!("{folder}/{name}\n"));
            hasher.update(Sha256::digest(contents));
        }
    }
    let digest: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    digest.chars().take(VERSION_DIGITS).collect()
}

#[cfg(test)]
mod tests {
    // A test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use std::collections::BTreeSet;

    use longhaul_agent::documents::quote::Wording;
    use longhaul_agent::documents::{Corpus, DocumentId, Index, read_file};

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("longhaul-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn every_file_of_the_folder_ships() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let there: BTreeSet<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let shipped: BTreeSet<String> = CORPUS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(there, shipped, "a file in infra/local/corpus is missing from the list in this module");
    }

    #[test]
    fn unpacking_repairs_and_keeps() {
        let into = scratch("unpack");
        let root = unpack(&into).unwrap();
        let folder = root.join(CORPUS_FOLDER);
        let first = folder.join(CORPUS[0].0);
        let untouched = folder.join(CORPUS[1].0);
        fs::write(&first, "changed").unwrap();
        fs::write(folder.join("own.md"), "# Mine").unwrap();
        let before = fs::metadata(&untouched).unwrap().modified().unwrap();
        assert_eq!(unpack(&into).unwrap(), root);
        assert_eq!(fs::read(&first).unwrap(), CORPUS[0].1);
        assert_eq!(fs::metadata(&untouched).unwrap().modified().unwrap(), before, "what is right is not written again");
        assert_eq!(fs::read(folder.join("own.md")).unwrap(), b"# Mine");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), CORPUS.len() + 1, "no temporary file is left");
        fs::remove_dir_all(&into).unwrap();

        fs::write(&into, "a file in the way").unwrap();
        let error = unpack(&into).expect_err("the folder cannot be made");
        assert!(error.to_string().contains(&*into.display().to_string()), "{error}");
        fs::remove_file(&into).unwrap();
    }

    #[test]
    fn the_corpus_can_be_read_searched_and_quoted() {
        let into = scratch("corpus");
        let corpus = Corpus::read(&unpack(&into).unwrap().join(CORPUS_FOLDER)).unwrap();
        assert_eq!((corpus.documents.len(), corpus.skipped.len(), corpus.ignored), (CORPUS.len(), 0, 0));
        for document in &corpus.documents {
            let words = document.text().split_whitespace().count();
            assert!((600..=1_100).contains(&words), "{} has {words} words", document.id);
            assert!(document.title.contains(' '), "{} is called {:?}", document.id, document.title);
            assert!(document.unread_pages.is_empty());
        }
        let index = Index::build(&corpus.documents);
        let table = [
            ("how queues make agents reliable", "queues-and-agents.md"),
            ("exactly once delivery", "delivery-semantics.md"),
            ("fencing token", "leases-and-fencing.md"),
            ("exponential backoff with jitter", "retries-and-backoff.md"),
            ("function time limit of fifteen minutes", "serverless-time-limits.pdf"),
            ("server-sent events", "websockets-and-sse.html"),
        ];
        for (query, expected) in table {
            assert_eq!(index.search(query, 1)[0].document, DocumentId::new(expected), "{query}");
        }
        assert!(index.sources(table[0].0, 10).len() == 10, "a report has ten sources to rest on");
        fs::remove_dir_all(&into).unwrap();
    }

    #[test]
    fn the_sample_contract_breaks_three_of_its_rules_on_known_pages() {
        let into = scratch("samples");
        let samples = unpack(&into).unwrap().join(SAMPLES_FOLDER);
        let rules: serde_json::Value = serde_json::from_slice(&fs::read(samples.join(RULES_FILE)).unwrap()).unwrap();
        let ids: Vec<&str> = rules.as_array().unwrap().iter().map(|rule| rule["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["DP-1", "DP-2", "DP-3", "FIN-1", "LIA-1", "TER-1"]);
        let agreement = read_file(&samples.join(AGREEMENT_FILE)).unwrap();
        assert!(agreement.pages.len() >= 52, "{} pages", agreement.pages.len());
        let wording = Wording::of(&agreement);
        let table = [
            // Broken: DP-1, DP-2, FIN-1.
            ("The Supplier retains Personal Data for 36 months after this Agreement ends", 34),
            ("The Supplier may engage a new Subprocessor without prior written notice to the Customer", 34),
            ("The Customer pays each undisputed invoice within 90 days after receipt of the invoice", 9),
            // Kept: DP-3, LIA-1, TER-1.
            ("notifies the Customer of each personal data breach within 24 hours", 14),
            ("capped for each Contract Year at 150 per cent of the annual Charges", 13),
            ("for convenience at any time with a notice of 60 days", 15),
        ];
        for (words, page) in table {
            assert_eq!(wording.find(words), Some(page), "{words}");
        }
        fs::remove_dir_all(&into).unwrap();
    }
}
