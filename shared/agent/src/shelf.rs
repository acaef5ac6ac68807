//! The document that was read last, at hand while its file stays as it is.
//!
//! Many steps of a job need the same long PDF, and reading it costs more than looking things up in it. What is at hand is
//! an economy and nothing else: a step that finds the shelf empty, in another process say, reads the file.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::documents::{Document, SkipReason, read_file};

/// Which state of which file was read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Edition {
    path: String,
    bytes: u64,
    modified: Option<SystemTime>,
}

/// A document and the state of the file that it was read from.
#[derive(Debug)]
struct Kept {
    edition: Edition,
    document: Arc<Document>,
}

/// One document, shared by all jobs of the process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shelf {
    last: Arc<Mutex<Option<Kept>>>,
}

impl Shelf {
    /// The document, read if need be. Blocks; callers at the same time wait for one reading instead of all reading.
    ///
    /// # Errors
    /// The reason why there is no document.
    pub(crate) fn read(&self, path: &str) -> Result<Arc<Document>, SkipReason> {
        let metadata = std::fs::metadata(path).map_err(|error| SkipReason::from(&error))?;
        let edition = Edition { path: path.to_owned(), bytes: metadata.len(), modified: metadata.modified().ok() };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = last.as_ref()
            && kept.edition == edition
            && edition.modified.is_some()
        {
            return Ok(Arc::clone(&kept.document));
        }
        // The old one goes first, so that there are never two in memory.
        *last = None;
        let document = Arc::new(read_file(Path::new(path))?);
        *last = Some(Kept { edition, document: Arc::clone(&document) });
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_has_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let shelf = Shelf::default();
        std::fs::write(path("a.md"), "one").expect("a file");
        let first = shelf.read(&path("a.md")).expect("a document");
        assert!(Arc::ptr_eq(&first, &shelf.read(&path("a.md")).expect("a document")));
        std::fs::write(path("a.md"), "one more").expect("a file");
        assert_eq!(shelf.read(&path("a.md")).expect("a document").text(), "one more");
        std::fs::write(path("b.md"), "two").expect("a file");
        assert_eq!(shelf.read(&path("b.md")).expect("a document").text(), "two");
        assert!(shelf.read(&path("c.md")).is_err());
    }
}
