//! The document under examination: read once for what it is, and again by each step that needs its words.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longhaul::{Ctx, ErrorClass, StepError};
use serde::{Deserialize, Serialize};

use crate::Tools;
use crate::documents::Document;
use crate::documents::limits::FILE_TIME_MAX_SECONDS;
use crate::shelf::Shelf;

/// Time for the step: the file's own and some.
const TIME_LIMIT: Duration = Duration::from_secs(2 * FILE_TIME_MAX_SECONDS);

/// What is recorded of the document. Its text stays on disk: fifty pages in every journal would cost more than reading
/// them again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Outline {
    /// Where it was read.
    path: String,
    pub(super) title: String,
    pub(super) pages: u32,
    /// Characters of its text: by these and the pages it is recognised.
    pub(super) chars: u64,
    /// Pages that could not be read.
    pub(super) unread_pages: Vec<u32>,
}

impl Outline {
    fn of(path: String, document: &Document) -> Self {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Self {
            path,
            title: document.title.clone(),
            pages: u32::try_from(document.pages.len()).unwrap_or(u32::MAX),
            chars: count(document.chars()),
            unread_pages: document.unread_pages.clone(),
        }
    }

    /// The document's words, from disk. Blocks.
    ///
    /// # Errors
    /// [`ErrorClass::Invalid`] when it cannot be read any more, or is another one by now: findings about two documents
    /// must not end in one report.
    pub(super) fn document(&self, shelf: &Shelf) -> Result<Arc<Document>, StepError> {
        let document = open(shelf, &self.path)?;
        if Self::of(self.path.clone(), &document) == *self {
            return Ok(document);
        }
        let message = format!("{} was changed while the job ran; submit it again", self.path);
        Err(StepError::new(ErrorClass::Invalid, message))
    }
}

/// Reads the document for the first time.
pub(super) async fn read(ctx: &mut Ctx, tools: &Tools, named: &str) -> longhaul::Result<Outline> {
    ctx.step("read document", async || {
        let path = tools.paths.allowed(named)?;
        let shelf = tools.shelf.clone();
        tools.heavy.run(move || first_look(&shelf, path)).await?
    })
    .retry(tools.model.retry())
    .time_limit(TIME_LIMIT)
    .await
}

fn first_look(shelf: &Shelf, path: PathBuf) -> Result<Outline, StepError> {
    let path = path.to_string_lossy().into_owned();
    let document = open(shelf, &path)?;
    Ok(Outline::of(path, &document))
}

fn open(shelf: &Shelf, path: &str) -> Result<Arc<Document>, StepError> {
    shelf
        .read(path)
        .map_err(|reason| StepError::new(ErrorClass::Invalid, format!("the document {path} cannot be read: {reason}")))
}
