//! One file to one document, or the reason why not.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::limits::{DOCUMENT_TEXT_MAX_BYTES, FILE_TIME_MAX_SECONDS, PDF_FILE_MAX_BYTES, TEXT_FILE_MAX_BYTES};
use super::{Document, DocumentId, Media, Page, encoding, guard, html, pdf, title};

/// Why a file is not among the documents. Its text is for the people whose file it is.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum SkipReason {
    /// Zero bytes.
    #[error("it is empty")]
    Empty,
    /// Nothing in it to read: only white space, or a PDF of scanned pictures without a text layer.
    #[error("it holds no text (a scan without a text layer?)")]
    NoText,
    /// More bytes than are read of one file.
    #[error("it is larger than {max_bytes} bytes")]
    TooLarge {
        /// The limit for its kind.
        max_bytes: u64,
    },
    /// More pages than are read of one PDF.
    #[error("it has {pages} pages; at most {max_pages} are read")]
    TooManyPages {
        /// How many it has.
        pages: usize,
        /// How many it may have.
        max_pages: usize,
    },
    /// Its text is larger than a document's may be.
    #[error("its text is larger than {DOCUMENT_TEXT_MAX_BYTES} bytes")]
    TooMuchText,
    /// Something in it inflates beyond all measure.
    #[error("it holds compressed data that inflates beyond the limit")]
    Inflates,
    /// It wants a password.
    #[error("it is encrypted and needs a password")]
    Encrypted,
    /// Not text in the encoding that it should be in.
    #[error("it is not valid {expected} text")]
    Encoding {
        /// The encoding it announced, or UTF-8.
        expected: String,
    },
    /// Named like text but holding NUL characters.
    #[error("it is binary data")]
    Binary,
    /// Its format is broken.
    #[error("it is damaged: {detail}")]
    Damaged {
        /// What the reader of the format says.
        detail: String,
    },
    /// The reader of its format broke down over it.
    #[error("the reader broke down over it")]
    ReaderFailed,
    /// It was not read within the time for one file.
    #[error("reading it took longer than {seconds} seconds")]
    TooSlow {
        /// The limit.
        seconds: u64,
    },
    /// The folder's time was over before its turn.
    #[error("the time for reading the folder was over")]
    OutOfTime,
    /// The documents before it hold as much text as a corpus may.
    #[error("the corpus is full")]
    CorpusFull,
    /// The system would not let it be read.
    #[error("it cannot be opened: {detail}")]
    Unreadable {
        /// What the system says.
        detail: String,
    },
    /// Neither a file nor a folder: a socket, a pipe, a device.
    #[error("it is not a regular file")]
    NotAFile,
    /// Not a kind of file that is read.
    #[error("its kind is not read (only .md, .txt, .html and .pdf)")]
    OtherKind,
    /// A symbolic link to something outside the corpus folder.
    #[error("it is a link that leads out of the folder")]
    LinkOutside,
    /// A symbolic link to nothing.
    #[error("it is a link that leads nowhere")]
    LinkBroken,
    /// A symbolic link to a folder. A folder's files are read where they really are.
    #[error("it is a link to a folder")]
    LinkToFolder,
    /// A link to a file that is read under another name.
    #[error("it is the same file as {original}")]
    Duplicate {
        /// The name it is read under.
        original: DocumentId,
    },
    /// Folders nest deeper than is followed.
    #[error("it lies too deep")]
    TooDeep,
}

impl From<&io::Error> for SkipReason {
    fn from(error: &io::Error) -> Self {
        Self::Unreadable { detail: error.to_string() }
    }
}

/// Reads one file, its id being its file name. It blocks for up to [`FILE_TIME_MAX_SECONDS`].
///
/// # Errors
/// The reason why there is no document.
pub fn read_file(path: &Path) -> Result<Document, SkipReason> {
    let media = media_of(path).ok_or(SkipReason::OtherKind)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    read_path(path, DocumentId::new(name), media, Duration::from_secs(FILE_TIME_MAX_SECONDS))
}

/// Reads a document from bytes at hand, for example the body of a response. It blocks like [`read_file`].
///
/// # Errors
/// The reason why there is no document.
pub fn read_bytes(id: DocumentId, media: Media, bytes: Vec<u8>) -> Result<Document, SkipReason> {
    read_within(id, media, bytes, Duration::from_secs(FILE_TIME_MAX_SECONDS))
}

pub(super) fn media_of(path: &Path) -> Option<Media> {
    Media::of_extension(path.extension()?.to_str()?)
}

pub(super) fn read_path(path: &Path, id: DocumentId, media: Media, at_most: Duration) -> Result<Document, SkipReason> {
    let max_bytes = file_max_bytes(media);
    // Opening a pipe would wait for its other end.
    let metadata = std::fs::metadata(path).map_err(|error| SkipReason::from(&error))?;
    if !metadata.is_file() {
        return Err(SkipReason::NotAFile);
    }
    if metadata.len() > max_bytes {
        return Err(SkipReason::TooLarge { max_bytes });
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| SkipReason::from(&error))?;
    // The file may grow while it is read; one byte over is enough to tell.
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(|error| SkipReason::from(&error))?;
    read_within(id, media, bytes, at_most)
}

fn file_max_bytes(media: Media) -> u64 {
    match media {
        Media::Pdf => PDF_FILE_MAX_BYTES,
        Media::Markdown | Media::Text | Media::Html => TEXT_FILE_MAX_BYTES,
    }
}

fn read_within(id: DocumentId, media: Media, bytes: Vec<u8>, at_most: Duration) -> Result<Document, SkipReason> {
    let max_bytes = file_max_bytes(media);
    if bytes.is_empty() {
        return Err(SkipReason::Empty);
    }
    if u64::try_from(bytes.len()).is_ok_and(|length| length > max_bytes) {
        return Err(SkipReason::TooLarge { max_bytes });
    }
    let read = match media {
        Media::Markdown | Media::Text => plain(&bytes),
        Media::Html => under_guard(&id, at_most, move || {
            let (declared, text) = html::text_of(&encoding::decode_html(&bytes)?)?;
            Ok(Contents { declared, pages: vec![Page { number: 1, text }], unread_pages: Vec::new() })
        }),
        Media::Pdf => under_guard(&id, at_most, move || {
            let extracted = pdf::text_of(&bytes)?;
            Ok(Contents { declared: extracted.title, pages: extracted.pages, unread_pages: extracted.unread })
        }),
    }?;
    if read.pages.iter().all(|page| page.text.trim().is_empty()) {
        return Err(SkipReason::NoText);
    }
    if read.pages.iter().map(|page| page.text.len()).sum::<usize>() > DOCUMENT_TEXT_MAX_BYTES {
        return Err(SkipReason::TooMuchText);
    }
    let stem = Path::new(id.as_str()).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let title = title::title(read.declared.as_deref(), media, &read.pages, &stem.unwrap_or_default());
    Ok(Document { id, title, media, pages: read.pages, unread_pages: read.unread_pages })
}

/// What a format's reader hands back.
struct Contents {
    declared: Option<String>,
    pages: Vec<Page>,
    unread_pages: Vec<u32>,
}

fn plain(bytes: &[u8]) -> Result<Contents, SkipReason> {
    let text = encoding::decode_text(bytes)?;
    let pages = text.split('\u{c}').zip(1..).map(|(text, number)| Page { number, text: text.to_owned() }).collect();
    Ok(Contents { declared: None, pages, unread_pages: Vec::new() })
}

fn under_guard(
    id: &DocumentId,
    at_most: Duration,
    work: impl FnOnce() -> Result<Contents, SkipReason> + Send + 'static,
) -> Result<Contents, SkipReason> {
    guard::guarded(id.as_str(), at_most, work).unwrap_or_else(|failure| {
        Err(match failure {
            guard::Failure::Panicked => SkipReason::ReaderFailed,
            guard::Failure::TimedOut => SkipReason::TooSlow { seconds: at_most.as_secs() },
            guard::Failure::NoThread => SkipReason::Unreadable { detail: "no thread to read it on".to_owned() },
        })
    })
}
