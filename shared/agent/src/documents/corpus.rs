//! A folder of files as a corpus.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::limits::{
    CORPUS_FILES_MAX, CORPUS_TEXT_MAX_BYTES, CORPUS_TIME_MAX_SECONDS, FILE_TIME_MAX_SECONDS, FOLDER_DEPTH_MAX,
    FOLDER_ENTRIES_MAX,
};
use super::reading::{media_of, read_path};
use super::{Document, DocumentId, Media, SkipReason};

/// The documents of one folder, and what could not be read of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corpus {
    /// In the order of their ids; never empty.
    pub documents: Vec<Document>,
    /// Files of a kind that is read, and folders, that were skipped, in the order of their names.
    pub skipped: Vec<Skipped>,
    /// How many other files there were: of other kinds, and hidden ones (their names begin with a dot).
    pub ignored: usize,
}

/// A file or folder that is not part of the corpus though it might have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its path relative to the corpus folder.
    pub file: String,
    /// Why it was skipped.
    pub reason: SkipReason,
}

impl std::fmt::Display for Skipped {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {}", self.file, self.reason)
    }
}

/// Why a folder is no corpus at all.
#[derive(Debug, Error)]
pub enum CorpusError {
    /// There is no such folder.
    #[error("the corpus folder {} does not exist", folder.display())]
    Missing {
        /// The folder asked for.
        folder: PathBuf,
    },
    /// There is something else by that name.
    #[error("{} is not a folder", folder.display())]
    NotAFolder {
        /// The path asked for.
        folder: PathBuf,
    },
    /// The system would not let it be read.
    #[error("the corpus folder {} cannot be read", folder.display())]
    Unreadable {
        /// The folder asked for.
        folder: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// It holds too much to be meant.
    #[error("the corpus folder {} holds more than {CORPUS_FILES_MAX} documents; name a smaller folder", folder.display())]
    TooManyFiles {
        /// The folder asked for.
        folder: PathBuf,
    },
    /// No file in it is of a kind that is read.
    #[error("the corpus folder {} holds no .md, .txt, .html or .pdf file ({ignored} other files)", folder.display())]
    Empty {
        /// The folder asked for.
        folder: PathBuf,
        /// How many files of other kinds it holds.
        ignored: usize,
    },
    /// There are files, and each was skipped.
    #[error("no file in the corpus folder {} can be read: {}", folder.display(), listed(skipped))]
    NothingReadable {
        /// The folder asked for.
        folder: PathBuf,
        /// Each file and the reason.
        skipped: Vec<Skipped>,
    },
}

/// How many skipped files an error message names.
const LISTED_MAX: usize = 5;

fn listed(skipped: &[Skipped]) -> String {
    let mut named: Vec<String> = skipped.iter().take(LISTED_MAX).map(Skipped::to_string).collect();
    if skipped.len() > LISTED_MAX {
        named.push(format!("and {} more", skipped.len() - LISTED_MAX));
    }
    named.join("; ")
}

impl Corpus {
    /// Reads a folder and the folders below it. It blocks, at worst for [`CORPUS_TIME_MAX_SECONDS`] and the time of
    /// one more file; from async code call [`Corpus::load`].
    ///
    /// # Errors
    /// When the folder gives no document at all.
    pub fn read(folder: &Path) -> Result<Self, CorpusError> {
        let walk = Walk::through(folder)?;
        let (documents, skipped, ignored) = walk.read(Duration::from_secs(CORPUS_TIME_MAX_SECONDS));
        if !documents.is_empty() {
            return Ok(Self { documents, skipped, ignored });
        }
        let folder = folder.to_owned();
        Err(if skipped.is_empty() {
            CorpusError::Empty { folder, ignored }
        } else {
            CorpusError::NothingReadable { folder, skipped }
        })
    }

    /// Reads a folder like [`Corpus::read`], on a thread where blocking hurts nobody.
    ///
    /// # Errors
    /// When the folder gives no document at all.
    pub async fn load(folder: PathBuf) -> Result<Self, CorpusError> {
        let asked = folder.clone();
        let reading = tokio::task::spawn_blocking(move || Self::read(&folder));
        reading
            .await
            .unwrap_or_else(|error| Err(CorpusError::Unreadable { folder: asked, source: io::Error::other(error) }))
    }

    /// The document of this id.
    pub fn get(&self, id: &DocumentId) -> Option<&Document> {
        let at = self.documents.binary_search_by(|document| document.id.cmp(id)).ok()?;
        self.documents.get(at)
    }
}

/// A file that may become a document.
struct Candidate {
    relative: String,
    /// Without any link in it, so that what is read is what was checked.
    path: PathBuf,
    media: Media,
    is_link: bool,
}

/// What a walk through the folder has found so far.
struct Walk {
    folder: PathBuf,
    /// The folder's real place: whatever a link leads to must lie below it.
    root: PathBuf,
    candidates: Vec<Candidate>,
    skipped: Vec<Skipped>,
    ignored: usize,
    entries: usize,
}

impl Walk {
    fn through(folder: &Path) -> Result<Self, CorpusError> {
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => CorpusError::Missing { folder: folder.to_owned() },
            _ => CorpusError::Unreadable { folder: folder.to_owned(), source },
        };
        let root = folder.canonicalize().map_err(unreadable)?;
        if !root.is_dir() {
            return Err(CorpusError::NotAFolder { folder: folder.to_owned() });
        }
        // An unreadable folder is an error, an unreadable folder within it only a skip.
        std::fs::read_dir(&root).map_err(unreadable)?;
        let mut walk = Self {
            folder: folder.to_owned(),
            root: root.clone(),
            candidates: Vec::new(),
            skipped: Vec::new(),
            ignored: 0,
            entries: 0,
        };
        walk.enter(&root, "", 0)?;
        walk.candidates.sort_by(|left, right| left.relative.cmp(&right.relative));
        Ok(walk)
    }

    fn enter(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<(), CorpusError> {
        if depth > FOLDER_DEPTH_MAX {
            self.skip(prefix.trim_end_matches('/').to_owned(), SkipReason::TooDeep);
            return Ok(());
        }
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.skip(prefix.trim_end_matches('/').to_owned(), SkipReason::from(&error));
                return Ok(());
            }
        };
        for entry in entries {
            self.entries += 1;
            if self.entries > FOLDER_ENTRIES_MAX || self.candidates.len() > CORPUS_FILES_MAX {
                return Err(CorpusError::TooManyFiles { folder: self.folder.clone() });
            }
            match entry.and_then(|entry| Ok((entry.file_type()?, entry))) {
                Ok((kind, entry)) => {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let relative = format!("{prefix}{name}");
                    if name.starts_with('.') {
                        self.ignored += 1;
                    } else if kind.is_dir() {
                        self.enter(&entry.path(), &format!("{relative}/"), depth + 1)?;
                    } else {
                        self.meet(relative, entry.path(), kind);
                    }
                }
                Err(error) => self.skip(prefix.trim_end_matches('/').to_owned(), SkipReason::from(&error)),
            }
        }
        Ok(())
    }

    /// Meets what is not a folder.
    fn meet(&mut self, relative: String, path: PathBuf, kind: std::fs::FileType) {
        let is_link = kind.is_symlink();
        let media = media_of(&path);
        let real = if is_link { self.follow(&path) } else { Ok(path) };
        match (real, media) {
            // A link to a folder is worth a word whatever its name; other kinds of file are not.
            (Err(SkipReason::LinkToFolder), _) => self.skip(relative, SkipReason::LinkToFolder),
            (_, None) => self.ignored += 1,
            (Err(reason), Some(_)) => self.skip(relative, reason),
            (Ok(_), Some(_)) if !is_link && !kind.is_file() => self.skip(relative, SkipReason::NotAFile),
            (Ok(path), Some(media)) => self.candidates.push(Candidate { relative, path, media, is_link }),
        }
    }

    /// Where a link leads, if that is a place within the corpus folder.
    fn follow(&self, link: &Path) -> Result<PathBuf, SkipReason> {
        let target = link.canonicalize().map_err(|_| SkipReason::LinkBroken)?;
        if !target.starts_with(&self.root) {
            Err(SkipReason::LinkOutside)
        } else if target.is_dir() {
            Err(SkipReason::LinkToFolder)
        } else {
            Ok(target)
        }
    }

    fn skip(&mut self, file: String, reason: SkipReason) {
        self.skipped.push(Skipped { file, reason });
    }

    fn read(mut self, at_most: Duration) -> (Vec<Document>, Vec<Skipped>, usize) {
        #[expect(clippy::disallowed_methods, reason = "inside a step's body")]
        let began = Instant::now();
        let mut documents = Vec::new();
        let mut room_bytes = CORPUS_TEXT_MAX_BYTES;
        let mut named = self.names();
        for candidate in std::mem::take(&mut self.candidates) {
            let id = DocumentId::new(candidate.relative.clone());
            let original = named.entry(candidate.path.clone()).or_insert_with(|| id.clone());
            let left = at_most.saturating_sub(began.elapsed());
            let outcome = if *original != id {
                Err(SkipReason::Duplicate { original: original.clone() })
            } else if left.is_zero() {
                Err(SkipReason::OutOfTime)
            } else {
                read_path(&candidate.path, id, candidate.media, Duration::from_secs(FILE_TIME_MAX_SECONDS))
            };
            let fitting = outcome.and_then(|document| {
                let bytes: usize = document.pages.iter().map(|page| page.text.len()).sum();
                room_bytes = room_bytes.checked_sub(bytes).ok_or(SkipReason::CorpusFull)?;
                Ok(document)
            });
            match fitting {
                Ok(document) => documents.push(document),
                Err(reason) => self.skip(candidate.relative, reason),
            }
        }
        self.skipped.sort_by(|left, right| left.file.cmp(&right.file));
        (documents, self.skipped, self.ignored)
    }

    /// Under which name each real file is read: its own, if that is among the candidates, before any link's.
    fn names(&self) -> BTreeMap<PathBuf, DocumentId> {
        let own = self.candidates.iter().filter(|candidate| !candidate.is_link);
        own.map(|candidate| (candidate.path.clone(), DocumentId::new(candidate.relative.clone()))).collect()
    }
}
