//! One source: read, taken notes on, and the notes' quotes held against the file.

use std::path::PathBuf;
use std::time::Duration;

use longhaul::{Ctx, ErrorClass, StepError, Usage};
use serde::{Deserialize, Serialize};

use super::finding::Candidate;
use super::{Omitted, Plan, Quote, SYSTEM};
use crate::Tools;
use crate::blocking::HeavyWork;
use crate::documents::limits::FILE_TIME_MAX_SECONDS;
use crate::documents::quote::{QUOTE_CHARS_MAX, Wording};
use crate::documents::{Page, SkipReason, read_file};
use crate::excerpt::excerpt;
use crate::model::{Answer, Asking, Form, Question};
use crate::paths::Paths;
use crate::prompt::{Slot, fill};

const NOTES: Form =
    Form { name: "reading_notes", schema: include_str!("schemas/reading_notes.json"), answer_tokens: 1_500 };

/// What a model is given of one source, in characters: about 6,000 tokens, so that ten sources cost what one long
/// prompt does and fit any model's window.
const SOURCE_CHARS_MAX: usize = 24_000;

/// What stands around the source in its prompt, in characters: instructions and topic.
const PROMPT_CHARS: usize = 2_000;

/// What is kept of a summary, in characters. Five sentences have under a thousand.
const SUMMARY_CHARS_MAX: usize = 2_000;

/// Characters of a file's name in a step's name.
const STEP_FILE_CHARS_MAX: usize = 100;

/// What the model answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Notes {
    relevant: bool,
    summary: String,
    quotes: Vec<NotedQuote>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NotedQuote {
    text: String,
    why: String,
}

/// What came of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reading {
    outcome: Outcome,
    usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
enum Outcome {
    /// It speaks about the topic.
    Relevant { notes: Checked, dropped: u64 },
    /// It was read and is not used.
    NotUsed { reason: String, dropped: u64 },
    /// It could not be read any more.
    Unreadable { reason: SkipReason },
}

/// Notes whose quotes stand in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checked {
    pub(super) summary: String,
    pub(super) quotes: Vec<CheckedQuote>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CheckedQuote {
    pub(super) page: u32,
    pub(super) text: String,
    pub(super) why: String,
}

impl Reading {
    fn cost(&self) -> Usage {
        self.usage
    }
}

/// A source with its notes, numbered for the report by its place in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) source: Candidate,
    pub(super) notes: Checked,
}

/// All readings, sorted by what came of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Sorted {
    pub(super) relevant: Vec<Noted>,
    pub(super) not_used: Vec<Omitted>,
    pub(super) unreadable: Vec<Omitted>,
    pub(super) dropped: u64,
}

/// Reads a source in one step: the text itself is never recorded, only what was noted.
pub(super) async fn read(
    ctx: &mut Ctx,
    tools: &Tools,
    topic: &str,
    plan: &Plan,
    folder: &str,
    source: &Candidate,
) -> longhaul::Result<Reading> {
    let short: String = source.file.chars().take(STEP_FILE_CHARS_MAX).collect();
    let queries: Vec<String> =
        std::iter::once(topic).chain(plan.queries.iter().map(String::as_str)).map(str::to_owned).collect();
    let reserved = NOTES.reserved(PROMPT_CHARS.saturating_add(source.chars.min(SOURCE_CHARS_MAX)));
    let live = ctx.live();
    let step = ctx
        .effect(&format!("read {short}"), async |key| {
            let path = Paths::below(folder, &source.file)?;
            let text = match text(tools.heavy, path, queries.clone()).await? {
                Ok(text) => text,
                Err(reason) => return Ok(Reading { outcome: Outcome::Unreadable { reason }, usage: Usage::default() }),
            };
            let user = question(topic, source, &text.shown);
            let question = Question { form: NOTES, system: SYSTEM, user };
            let answer = tools.model.answer::<Notes>(&Asking::of(&live, &key), &question).await?;
            Ok(checked(answer, &text.wording))
        })
        .retry(tools.model.retry())
        .time_limit(tools.model.step_time_limit().saturating_add(Duration::from_secs(FILE_TIME_MAX_SECONDS)))
        .metered(reserved.tokens(), Reading::cost)
        .priced(tools.model.at_most(&live, reserved));
    match step.await {
        // The report can do without one source; it says which, and why.
        Err(longhaul::Error::Step(failure)) if concerns_one_source(failure.class) => {
            let outcome = Outcome::NotUsed { reason: failure.message, dropped: 0 };
            Ok(Reading { outcome, usage: Usage::default() })
        }
        other => other,
    }
}

const fn concerns_one_source(class: ErrorClass) -> bool {
    match class {
        ErrorClass::Refused | ErrorClass::ContextOverflow | ErrorClass::Schema => true,
        ErrorClass::Transient
        | ErrorClass::RateLimited
        | ErrorClass::Overloaded
        | ErrorClass::Timeout
        | ErrorClass::Truncated
        | ErrorClass::Auth
        | ErrorClass::Invalid
        | ErrorClass::Budget
        | ErrorClass::Interrupted
        | ErrorClass::WorkerLost
        | ErrorClass::LoopDetected
        | ErrorClass::Terminal => false,
    }
}

/// A source's text: what the model sees of it, and all its words to check against.
struct Text {
    shown: String,
    wording: Wording,
}

async fn text(heavy: HeavyWork, path: PathBuf, queries: Vec<String>) -> Result<Result<Text, SkipReason>, StepError> {
    heavy
        .run(move || {
            let document = read_file(&path)?;
            let pages: Vec<Page> = excerpt(&document, &queries, SOURCE_CHARS_MAX);
            let shown: Vec<&str> = pages.iter().map(|page| page.text.trim()).collect();
            Ok(Text { shown: shown.join("\n\n"), wording: Wording::of(&document) })
        })
        .await
}

fn question(topic: &str, source: &Candidate, text: &str) -> String {
    fill(
        include_str!("prompts/reading_notes.txt"),
        &[
            ("topic", Slot::Material(topic)),
            ("file", Slot::Attribute(&source.file)),
            ("title", Slot::Attribute(&source.title)),
            ("text", Slot::Material(text)),
        ],
    )
}

/// Keeps of the notes what stands in the file.
fn checked(answer: Answer<Notes>, wording: &Wording) -> Reading {
    let Answer { value: notes, model: _, usage } = answer;
    let mut quotes = Vec::new();
    let mut dropped = 0;
    for NotedQuote { text, why } in notes.quotes {
        match wording.find(&text).filter(|_| text.chars().count() <= QUOTE_CHARS_MAX) {
            Some(page) => quotes.push(CheckedQuote { page, text, why }),
            None => dropped += 1,
        }
    }
    let outcome = if !notes.relevant {
        Outcome::NotUsed { reason: "it does not speak about the topic".to_owned(), dropped }
    } else if quotes.is_empty() {
        // Notes without a single word of the source are not notes on this source.
        Outcome::NotUsed { reason: "no quote that was taken from it stands in it".to_owned(), dropped }
    } else {
        let summary = notes.summary.chars().take(SUMMARY_CHARS_MAX).collect();
        Outcome::Relevant { notes: Checked { summary, quotes }, dropped }
    };
    Reading { outcome, usage }
}

/// Sorts what came of the sources, in their order.
pub(super) fn sort(sources: &[Candidate], readings: Vec<Reading>) -> Sorted {
    let mut sorted = Sorted::default();
    for (source, reading) in sources.iter().zip(readings) {
        let omitted = |reason: String| Omitted { file: source.file.clone(), reason };
        match reading.outcome {
            Outcome::Relevant { notes, dropped } => {
                sorted.dropped += dropped;
                sorted.relevant.push(Noted { source: source.clone(), notes });
            }
            Outcome::NotUsed { reason, dropped } => {
                sorted.dropped += dropped;
                sorted.not_used.push(omitted(reason));
            }
            Outcome::Unreadable { reason } => sorted.unreadable.push(omitted(reason.to_string())),
        }
    }
    sorted
}

impl CheckedQuote {
    /// The quote as a result shows it.
    pub(super) fn shown(&self) -> Quote {
        Quote { page: self.page, text: self.text.clone() }
    }
}

/// The words of a file that the report cites, once more from disk.
pub(super) async fn wording_of(heavy: HeavyWork, folder: &str, file: &str) -> Result<Option<Wording>, StepError> {
    let path = Paths::below(folder, file)?;
    heavy.run(move || read_file(&path).ok().map(|document| Wording::of(&document))).await
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;
    use crate::documents::{Document, DocumentId, Media};

    fn wording() -> Wording {
        let texts = ["A lease names its holder.", "When it expires, another may take it."];
        let pages = (1..).zip(texts).map(|(number, text)| Page { number, text: text.to_owned() }).collect();
        Wording::of(&Document {
            id: DocumentId::new("a.pdf"),
            title: "A".to_owned(),
            media: Media::Pdf,
            pages,
            unread_pages: Vec::new(),
        })
    }

    /// Whether it is relevant, and its quotes; the pages of those kept where the source is used, and how many were
    /// dropped.
    type Case = (bool, &'static [&'static str], Option<&'static [u32]>, u64);

    #[test]
    fn notes_rest_on_words_of_the_source() {
        let cases: [Case; 6] = [
            (true, &["A lease names its holder."], Some(&[1]), 0),
            (true, &["another may take it", "A lease  NAMES its holder"], Some(&[2, 1]), 0),
            (true, &["A lease names its owner.", "When it expires"], Some(&[2]), 1),
            (true, &["A lease names its owner."], None, 1),
            (true, &[], None, 0),
            (false, &["A lease names its holder."], None, 0),
        ];
        for (relevant, quotes, pages, dropped) in cases {
            let quotes: Vec<_> =
                quotes.iter().map(|text| NotedQuote { text: (*text).to_owned(), why: String::new() }).collect();
            let value = Notes { relevant, summary: "It is about leases.".to_owned(), quotes };
            let answer = Answer { value, model: "m".to_owned(), usage: Usage::default() };
            match (checked(answer, &wording()).outcome, pages) {
                (Outcome::Relevant { notes, dropped: found }, Some(pages)) => {
                    let kept: Vec<u32> = notes.quotes.iter().map(|quote| quote.page).collect();
                    assert_eq!((kept.as_slice(), found), (pages, dropped));
                }
                (Outcome::NotUsed { dropped: found, .. }, None) => assert_eq!(found, dropped),
                (outcome, pages) => panic!("{outcome:?} instead of {pages:?}"),
            }
        }
    }
}
