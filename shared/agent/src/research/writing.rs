//! The report: written by the model from the notes alone, then held against the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use longhaul::{Ctx, StepError};
use serde::{Deserialize, Serialize};

use super::citations::{Writer, cited, claims};
use super::finding::Found;
use super::reading::{Noted, Sorted, wording_of};
use super::{Omitted, Output, Plan, SYSTEM, Source};
use crate::Tools;
use crate::blocking::HeavyWork;
use crate::documents::limits::FILE_TIME_MAX_SECONDS;
use crate::documents::quote::Wording;
use crate::documents::{Document, DocumentId, Media, Page};
use crate::markdown::{code, inert, line, pages};
use crate::model::{Answer, Asking, Form, Question, STAND_IN};
use crate::prompt::{Slot, fill, section};

const REPORT: Form = Form { name: "report", schema: include_str!("schemas/report.json"), answer_tokens: 5_000 };

/// Time for the check: it may read each cited file once more.
const CHECK_TIME_LIMIT: Duration = Duration::from_secs(4 * FILE_TIME_MAX_SECONDS);

/// What the model writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Draft {
    title: String,
    summary: String,
    sections: Vec<DraftSection>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DraftSection {
    heading: String,
    paragraphs: Vec<String>,
}

impl Draft {
    /// The prose, in the reader's order.
    fn prose(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.summary).chain(self.sections.iter().flat_map(|section| &section.paragraphs))
    }
}

/// Has the report written.
pub(super) async fn write(
    ctx: &mut Ctx,
    tools: &Tools,
    topic: &str,
    plan: &Plan,
    relevant: &[Noted],
) -> longhaul::Result<Answer<Draft>> {
    let user = fill(
        include_str!("prompts/report.txt"),
        &[
            ("topic", Slot::Material(topic)),
            ("outline", Slot::Material(&plan.outline.join("\n"))),
            ("notes", Slot::Sections(&notes(relevant))),
        ],
    );
    let question = Question { form: REPORT, system: SYSTEM, user };
    let sources = count(relevant);
    let live = ctx.live();
    ctx.effect("report", async |key| {
        let cites_a_source =
            |draft: &Draft| match draft.prose().flat_map(|text| cited(text)).any(|n| (1..=sources).contains(&n)) {
                true => Ok(()),
                false => Err("no statement cites a note; each must end in its note's number, such as [1]".to_owned()),
            };
        tools.model.answer_that(&Asking::of(&live, &key), &question, cites_a_source).await
    })
    .retry(tools.model.retry())
    .time_limit(tools.model.step_time_limit())
    .metered(question.reserved().tokens(), Answer::cost)
    .priced(tools.model.at_most(&live, question.reserved()))
    .await
}

/// The notes as the prompt shows them, numbered from 1.
fn notes(relevant: &[Noted]) -> String {
    let sections = relevant.iter().zip(1_u64..).map(|(noted, number)| {
        let quotes: Vec<_> = noted
            .notes
            .quotes
            .iter()
            .map(|quote| serde_json::json!({ "text": quote.text, "why": quote.why }))
            .collect();
        let note = serde_json::json!({ "relevant": true, "summary": noted.notes.summary, "quotes": quotes });
        let number = number.to_string();
        section(
            "note",
            &[("number", &number), ("file", &noted.source.file), ("title", &noted.source.title)],
            &note.to_string(),
        )
    });
    sections.collect::<Vec<_>>().join("\n\n")
}

fn count(relevant: &[Noted]) -> u64 {
    u64::try_from(relevant.len()).unwrap_or(u64::MAX)
}

/// A quotation of the draft that its source's file holds, though the notes do not.
type HeldByFile = BTreeSet<(u64, String)>;

/// Checks the draft against the files and puts the report together.
pub(super) async fn check(
    ctx: &mut Ctx,
    tools: &Tools,
    topic: &str,
    found: &Found,
    sorted: Sorted,
    draft: Option<Answer<Draft>>,
    planned_by: String,
) -> longhaul::Result<Output> {
    let Some(draft) = draft else {
        return Ok(Report { topic, found, sorted: &sorted, model: &planned_by }.of_nothing());
    };
    let open = open_claims(&sorted.relevant, &draft.value);
    let held = ctx
        .step("check citations", async || held_by_files(tools.heavy, &found.folder, &sorted.relevant, &open).await)
        .retry(tools.model.retry())
        .time_limit(CHECK_TIME_LIMIT)
        .await?;
    Ok(Report { topic, found, sorted: &sorted, model: &draft.model }.of(&draft.value, &held))
}

/// The quotations that the notes do not vouch for.
fn open_claims(relevant: &[Noted], draft: &Draft) -> HeldByFile {
    let mut open = HeldByFile::new();
    for claim in draft.prose().flat_map(|text| claims(text)) {
        for number in claim.sources {
            if at(relevant, number).is_some_and(|noted| !noted.quotes_hold(&claim.words)) {
                open.insert((number, claim.words.clone()));
            }
        }
    }
    open
}

/// Which of the quotations the files hold. A file that is gone by now holds nothing.
async fn held_by_files(
    heavy: HeavyWork,
    folder: &str,
    relevant: &[Noted],
    open: &HeldByFile,
) -> Result<HeldByFile, StepError> {
    let mut wordings: BTreeMap<u64, Option<Wording>> = BTreeMap::new();
    let mut held = HeldByFile::new();
    for (number, words) in open {
        let Some(noted) = at(relevant, *number) else { continue };
        if !wordings.contains_key(number) {
            wordings.insert(*number, wording_of(heavy, folder, &noted.source.file).await?);
        }
        if wordings.get(number).and_then(Option::as_ref).is_some_and(|wording| wording.find(words).is_some()) {
            held.insert((*number, words.clone()));
        }
    }
    Ok(held)
}

fn at(relevant: &[Noted], number: u64) -> Option<&Noted> {
    relevant.get(usize::try_from(number.checked_sub(1)?).ok()?)
}

/// Puts a report together.
struct Report<'a> {
    topic: &'a str,
    found: &'a Found,
    sorted: &'a Sorted,
    model: &'a str,
}

impl Report<'_> {
    fn of(&self, draft: &Draft, held: &HeldByFile) -> Output {
        let relevant = &self.sorted.relevant;
        let holds = |words: &str, number: u64| {
            at(relevant, number).is_some_and(|noted| noted.quotes_hold(words))
                || held.contains(&(number, words.to_owned()))
        };
        let mut writer = Writer::new(count(relevant), holds);
        let mut body = format!("{}\n", writer.prose(&draft.summary));
        for section in &draft.sections {
            let _ = write!(body, "\n## {}\n", line(&section.heading));
            for paragraph in &section.paragraphs {
                let _ = write!(body, "\n{}\n", writer.prose(paragraph));
            }
        }
        let (order, unheld) = writer.finish();
        let sources: Vec<Source> =
            order.iter().zip(1_u64..).filter_map(|(old, number)| Some(at(relevant, *old)?.cited_as(number))).collect();
        let uncited = relevant
            .iter()
            .filter(|noted| sources.iter().all(|source| source.file != noted.source.file))
            .map(|noted| Omitted { file: noted.source.file.clone(), reason: "the report does not cite it".to_owned() });
        let not_cited: Vec<Omitted> = uncited.chain(self.sorted.not_used.iter().cloned()).collect();
        self.finish(&draft.title, body, sources, not_cited, unheld)
    }

    fn of_nothing(&self) -> Output {
        let body = match self.found.sources.len() {
            0 => format!(
                "None of the {} documents in {} answers any of the searches for this topic, so there is nothing to report.\n",
                self.found.documents,
                code(&self.found.folder)
            ),
            read => {
                format!("Of the {read} sources read, none speaks about this topic, so there is nothing to report.\n")
            }
        };
        self.finish(self.topic, body, Vec::new(), self.sorted.not_used.clone(), 0)
    }

    fn finish(&self, title: &str, body: String, sources: Vec<Source>, not_cited: Vec<Omitted>, unheld: u64) -> Output {
        let skipped: Vec<Omitted> = self.found.skipped.iter().chain(&self.sorted.unreadable).cloned().collect();
        let dropped = unheld.saturating_add(self.sorted.dropped);
        let stand_in = self.model == STAND_IN;
        let mut report = format!("# {}\n\n", line(title));
        if stand_in {
            report.push_str(&format!(
                "> No language model was used: the stand-in `{STAND_IN}` chose and joined sentences of the sources by \
                 fixed rules.\n\n"
            ));
        }
        report.push_str(&body);
        if !sources.is_empty() {
            report.push_str("\n## Sources\n\n");
        }
        for source in &sources {
            let _ = writeln!(report, "- [{}] {}", source.number, self.described(source));
        }
        report.push_str(&self.about(&sources, &not_cited, &skipped, dropped));
        Output { report, sources, not_cited, skipped, model: self.model.to_owned(), stand_in, dropped }
    }

    fn described(&self, source: &Source) -> String {
        let paged = self.found.sources.iter().any(|candidate| candidate.file == source.file && candidate.paged);
        let place = if paged { format!(", {}", pages(&source.pages)) } else { String::new() };
        format!("*{}*, {}{place}", inert(&source.title), code(&source.file))
    }

    /// What a reader should know about how the report came about.
    fn about(&self, sources: &[Source], not_cited: &[Omitted], skipped: &[Omitted], dropped: u64) -> String {
        let mut about = format!(
            "\n## About this report\n\nThe corpus holds {} readable documents; {} were read and {} are cited. Each quotation \
             with a number was found word for word in its source.",
            self.found.documents,
            self.found.sources.len(),
            sources.len()
        );
        if dropped > 0 {
            let _ = write!(about, " {dropped} quotations or citations of the draft were not, and were taken out.");
        }
        about.push('\n');
        for (heading, files) in [("Read and not cited", not_cited), ("Skipped files", skipped)] {
            if !files.is_empty() {
                let _ = write!(about, "\n{heading}:\n\n");
            }
            for file in files {
                let _ = writeln!(about, "- {}: {}", code(&file.file), inert(&file.reason));
            }
        }
        about
    }
}

impl Noted {
    /// Whether one of the checked quotes holds these words.
    fn quotes_hold(&self, words: &str) -> bool {
        self.notes.quotes.iter().any(|quote| wording(&quote.text).find(words).is_some())
    }

    fn cited_as(&self, number: u64) -> Source {
        let pages: BTreeSet<u32> = self.notes.quotes.iter().map(|quote| quote.page).collect();
        Source {
            number,
            file: self.source.file.clone(),
            title: self.source.title.clone(),
            quotes: self.notes.quotes.iter().map(super::reading::CheckedQuote::shown).collect(),
            pages: pages.into_iter().collect(),
        }
    }
}

/// The wording of a quote alone.
fn wording(text: &str) -> Wording {
    Wording::of(&Document {
        id: DocumentId::new("quote"),
        title: String::new(),
        media: Media::Text,
        pages: vec![Page { number: 1, text: text.to_owned() }],
        unread_pages: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;
    use crate::research::finding::Candidate;
    use crate::research::reading::{Checked, CheckedQuote};

    fn noted(file: &str, quote: &str) -> Noted {
        let source = Candidate {
            file: file.to_owned(),
            title: format!("About [{file}]"),
            chars: 100,
            paged: file.ends_with(".pdf"),
            page: 1,
            passage: String::new(),
        };
        let quotes = vec![CheckedQuote { page: 4, text: quote.to_owned(), why: String::new() }];
        Noted { source, notes: Checked { summary: String::new(), quotes } }
    }

    fn report(model: &str, summary: &str, paragraph: &str) -> Output {
        let relevant =
            vec![noted("a.md", "Leases expire."), noted("b.pdf", "Tokens grow."), noted("c.md", "Queues wait.")];
        let found = Found {
            folder: "corpus".to_owned(),
            documents: 9,
            sources: relevant.iter().map(|noted| noted.source.clone()).collect(),
            skipped: vec![Omitted { file: "bad.pdf".to_owned(), reason: "it is empty".to_owned() }],
        };
        let sorted = Sorted { relevant, dropped: 1, ..Sorted::default() };
        let draft = Draft {
            title: "# Leases\nand tokens".to_owned(),
            summary: summary.to_owned(),
            sections: vec![DraftSection { heading: "How".to_owned(), paragraphs: vec![paragraph.to_owned()] }],
        };
        Report { topic: "leases", found: &found, sorted: &sorted, model }.of(&draft, &HeldByFile::new())
    }

    #[test]
    fn a_report_lists_what_it_cites_and_no_more() {
        let output = report("teller", "Both [2].", "“Leases expire.” [1] “Leases last.” [1] Nobody [9].");
        let expected = "# Leases and tokens\n\nBoth [1].\n\n## How\n\n“Leases expire.” [2] Leases last. [2] Nobody.\n\n\
            ## Sources\n\n- [1] *About \\[b.pdf\\]*, `b.pdf`, page 4\n- [2] *About \\[a.md\\]*, `a.md`\n\n\
            ## About this report\n\nThe corpus holds 9 readable documents; 3 were read and 2 are cited. Each quotation with \
            a number was found word for word in its source. 3 quotations or citations of the draft were not, and were \
            taken out.\n\nRead and not cited:\n\n- `c.md`: the report does not cite it\n\nSkipped files:\n\n- `bad.pdf`: \
            it is empty\n";
        assert_eq!(output.report, expected);
        let sources: Vec<(u64, &str)> = output.sources.iter().map(|it| (it.number, it.file.as_str())).collect();
        assert_eq!(sources, [(1, "b.pdf"), (2, "a.md")]);
        assert_eq!((output.dropped, output.stand_in), (3, false));
    }

    #[test]
    fn the_stand_in_is_called_by_its_name() {
        let output = report(STAND_IN, "Both [2].", "One [1].");
        assert!(output.stand_in && output.report.contains("> No language model was used"), "{}", output.report);
    }

    #[tokio::test]
    async fn files_vouch_for_what_the_notes_do_not_hold() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a.md"), "Leases expire. Nobody renews them.").expect("a file");
        let relevant = [noted("a.md", "Leases expire."), noted("gone.md", "Tokens grow.")];
        let draft = Draft {
            title: String::new(),
            summary: "“Leases expire.” [1] “Nobody renews\nthem” [1]. “Nobody sells them” [1].".to_owned(),
            sections: vec![DraftSection {
                heading: String::new(),
                paragraphs: vec!["“Tokens shrink” [2] and “tokens grow” [2][1], “x” [3].".to_owned()],
            }],
        };
        let open = open_claims(&relevant, &draft);
        let claims: Vec<(u64, &str)> = open.iter().map(|(number, words)| (*number, words.as_str())).collect();
        let expected = [(1, "Nobody renews them"), (1, "Nobody sells them"), (1, "tokens grow"), (2, "Tokens shrink")];
        assert_eq!(claims, expected);
        let held =
            held_by_files(HeavyWork::Apart, &folder.path().to_string_lossy(), &relevant, &open).await.expect("a check");
        assert_eq!(held, HeldByFile::from([(1, "Nobody renews them".to_owned())]));
    }
}
