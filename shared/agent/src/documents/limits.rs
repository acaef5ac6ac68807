//! How much of a folder is read, and how long that may take. A corpus is other people's files: each bound keeps one
//! bad file, or one folder pointed at by mistake, from taking the worker down.

/// A PDF larger than this is mostly pictures: the text of a 2,000-page manual stays under 20 MiB.
pub const PDF_FILE_MAX_BYTES: u64 = 32 * 1024 * 1024;

/// The largest text, Markdown or HTML file: some four thousand printed pages. Beyond that it is a log or an export.
pub const TEXT_FILE_MAX_BYTES: u64 = 8 * 1024 * 1024;

/// The text of one document, once extracted. Fonts can blow a small PDF up to far more text than bytes.
pub const DOCUMENT_TEXT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// The text of all documents together: it is held in memory twice (text and index) in a function that may have
/// 512 MB.
pub const CORPUS_TEXT_MAX_BYTES: usize = 64 * 1024 * 1024;

/// How many files are read. A folder with more is somebody's home directory rather than a corpus.
pub const CORPUS_FILES_MAX: usize = 5_000;

/// How many entries of any kind a walk through the folder looks at before it gives up: seconds, not minutes.
pub const FOLDER_ENTRIES_MAX: usize = 200_000;

/// How deep folders may nest below the corpus folder.
pub const FOLDER_DEPTH_MAX: usize = 16;

/// The most pages of one PDF. Longer ones should be handed over in volumes.
pub const PDF_PAGES_MAX: usize = 3_000;

/// What any single stream inside a PDF may inflate to. A page of text is a few kilobytes; a full-page picture at
/// 600 dots an inch is about 100 MB and nothing that text is read from. Stops decompression bombs.
pub const PDF_STREAM_INFLATED_MAX_BYTES: usize = 64 * 1024 * 1024;

/// How deep a PDF's drawings may contain one another. Real ones stay under 10; the reader recurses once for each,
/// so a drawing that contains itself would otherwise end the process.
pub const PDF_NESTING_MAX: usize = 32;

/// How many HTML elements may be open at once. Browsers stop at 512; pages that forget to close their elements get
/// further. The time to read a page grows with the square of this.
pub const HTML_NESTING_MAX: usize = 3_000;

/// How long one file may take. A 1,000-page PDF takes about a second in a release build and ten in a debug build.
pub const FILE_TIME_MAX_SECONDS: u64 = 30;

/// How long a whole folder may take: a step that reads a corpus must end well within a function's 15 minutes.
pub const CORPUS_TIME_MAX_SECONDS: u64 = 240;

/// Stack of the thread that reads a PDF or HTML file. Both readers recurse with the file's nesting; the pages of a
/// stack that are never touched cost nothing.
pub const READER_STACK_BYTES: usize = 32 * 1024 * 1024;

/// A passage shorter than this is joined to its neighbour: a lone heading or line answers no question.
pub const PASSAGE_MIN_CHARS: usize = 240;

/// A passage longer than this is cut at a sentence: about 250 words, as much as a citation may stand for.
pub const PASSAGE_MAX_CHARS: usize = 1_400;

/// The smallest size a caller may ask of a chunk. Below this, chunks would be fragments of sentences.
pub const CHUNK_MIN_CHARS: usize = 200;
