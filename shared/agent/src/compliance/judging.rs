//! One rule, judged from the pages that speak about it.

use std::time::Duration;

use longhaul::{Ctx, Usage};
use serde::{Deserialize, Serialize};

use super::document::Outline;
use super::rules::Rule;
use super::{Finding, Quote, SYSTEM, Verdict};
use crate::Tools;
use crate::documents::limits::FILE_TIME_MAX_SECONDS;
use crate::documents::quote::{QUOTE_CHARS_MAX, Wording, locate};
use crate::documents::{Document, Page};
use crate::excerpt::excerpt;
use crate::model::{Answer, Asking, Form, Question, Reserved};
use crate::prompt::{Slot, fill, section};

const FINDING: Form =
    Form { name: "compliance_finding", schema: include_str!("schemas/compliance_finding.json"), answer_tokens: 1_500 };

/// What the model is given of the document for one rule, in characters: some eight pages.
const PAGES_CHARS_MAX: usize = 24_000;

/// The instructions around rule and pages, in characters.
const PROMPT_CHARS: usize = 1_500;

/// Characters of a rule's id in a step's name.
const STEP_ID_CHARS_MAX: usize = 60;

/// What the model answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Found {
    verdict: Verdict,
    explanation: String,
    quotes: Vec<FoundQuote>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct FoundQuote {
    page: i64,
    text: String,
}

/// A checked finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Judged {
    pub(super) finding: Finding,
    pub(super) model: String,
    pub(super) dropped: u64,
    usage: Usage,
}

impl Judged {
    fn cost(&self) -> Usage {
        self.usage
    }
}

/// Judges a rule in one step.
pub(super) async fn judge(ctx: &mut Ctx, tools: &Tools, outline: &Outline, rule: &Rule) -> longhaul::Result<Judged> {
    let short: String = rule.id.chars().take(STEP_ID_CHARS_MAX).collect();
    let live = ctx.live();
    ctx.effect(&format!("judge {short}"), async |key| {
        let (outline, queries, shelf) = (outline.clone(), queries(rule), tools.shelf.clone());
        let (document, pages) = tools
            .heavy
            .run(move || {
                let document = outline.document(&shelf)?;
                let pages = excerpt(&document, &queries, PAGES_CHARS_MAX);
                Ok((document, pages))
            })
            .await??;
        let question = Question { form: FINDING, system: SYSTEM, user: question(rule, &pages) };
        let answer = tools.model.answer::<Found>(&Asking::of(&live, &key), &question).await?;
        let rule = rule.clone();
        tools.heavy.run(move || checked(&rule, answer, &document)).await
    })
    .retry(tools.model.retry())
    .time_limit(tools.model.step_time_limit().saturating_add(Duration::from_secs(FILE_TIME_MAX_SECONDS)))
    .metered(reserved(outline, rule).tokens(), Judged::cost)
    .priced(tools.model.at_most(&live, reserved(outline, rule)))
    .await
}

/// Tokens to hold back for a rule: its pages, its own words, and the instructions.
fn reserved(outline: &Outline, rule: &Rule) -> Reserved {
    let pages = usize::try_from(outline.chars).unwrap_or(usize::MAX).min(PAGES_CHARS_MAX);
    FINDING.reserved(PROMPT_CHARS.saturating_add(pages).saturating_add(rule.requirement.len()))
}

fn queries(rule: &Rule) -> Vec<String> {
    let mut queries = vec![rule.requirement.clone(), rule.title.clone()];
    // The keywords are what the rule's author expects the document to say, so each looks for itself, too.
    queries.push(rule.keywords.join(" "));
    queries.extend(rule.keywords.iter().cloned());
    queries.retain(|query| !query.trim().is_empty());
    queries
}

fn question(rule: &Rule, pages: &[Page]) -> String {
    let pages: Vec<String> =
        pages.iter().map(|page| section("page", &[("number", &page.number.to_string())], &page.text)).collect();
    fill(
        include_str!("prompts/compliance_finding.txt"),
        &[
            ("id", Slot::Attribute(&rule.id)),
            ("title", Slot::Attribute(&rule.title)),
            ("requirement", Slot::Material(&rule.requirement)),
            ("keywords", Slot::Material(&rule.keywords.join(", "))),
            ("pages", Slot::Sections(&pages.join("\n\n"))),
        ],
    )
}

/// Keeps the quotes that stand in the document, each with the page it really stands on.
fn checked(rule: &Rule, answer: Answer<Found>, document: &Document) -> Judged {
    let Answer { value: found, model, usage } = answer;
    let whole = Wording::of(document);
    let mut quotes = Vec::new();
    let mut dropped = 0;
    for FoundQuote { page, text } in found.quotes {
        // Words may stand on several pages: the page that the model read them on comes first.
        let named = document.pages.iter().find(|known| i64::from(known.number) == page);
        let on_named =
            named.and_then(|named| locate(&text, &Document { pages: vec![named.clone()], ..without_pages(document) }));
        match on_named.or_else(|| whole.find(&text)).filter(|_| text.chars().count() <= QUOTE_CHARS_MAX) {
            Some(page) => quotes.push(Quote { page, text }),
            None => dropped += 1,
        }
    }
    let (verdict, explanation) = match found.verdict {
        Verdict::Met | Verdict::Violated if quotes.is_empty() => {
            (Verdict::Unclear, "No words of the document were found that decide it.".to_owned())
        }
        verdict @ (Verdict::Met | Verdict::Violated | Verdict::Unclear) => (verdict, found.explanation),
    };
    let finding = Finding { rule: rule.id.clone(), title: rule.title.clone(), verdict, explanation, quotes };
    Judged { finding, model, dropped, usage }
}

fn without_pages(document: &Document) -> Document {
    Document {
        id: document.id.clone(),
        title: String::new(),
        media: document.media,
        pages: Vec::new(),
        unread_pages: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

    use super::*;
    use crate::documents::{DocumentId, Media};

    fn document() -> Document {
        let texts =
            ["Logs are kept.", "Access is free for all.", "Logs are kept.", "A sentence runs", "over two pages."];
        let pages = (1..).zip(texts).map(|(number, text)| Page { number, text: text.to_owned() }).collect();
        Document {
            id: DocumentId::new("a.pdf"),
            title: "A".to_owned(),
            media: Media::Pdf,
            pages,
            unread_pages: Vec::new(),
        }
    }

    /// A finding's verdict and the quotes (page named, text); then verdict, pages kept and quotes dropped.
    type Case = (Verdict, &'static [(i64, &'static str)], Verdict, &'static [u32], u64);

    #[test]
    fn a_verdict_rests_on_words_of_the_document() {
        let rule = Rule {
            id: "r".to_owned(),
            title: "R".to_owned(),
            requirement: "Access is limited.".to_owned(),
            keywords: Vec::new(),
        };
        let cases: [Case; 8] = [
            (Verdict::Violated, &[(2, "Access is free for all.")], Verdict::Violated, &[2], 0),
            (Verdict::Violated, &[(5, "access  is free")], Verdict::Violated, &[2], 0),
            (Verdict::Violated, &[(2, "Access is limited.")], Verdict::Unclear, &[], 1),
            (Verdict::Met, &[], Verdict::Unclear, &[], 0),
            (Verdict::Unclear, &[], Verdict::Unclear, &[], 0),
            (Verdict::Met, &[(3, "Logs are kept"), (-1, "Logs are kept")], Verdict::Met, &[3, 1], 0),
            (Verdict::Met, &[(4, "A sentence runs over two pages.")], Verdict::Met, &[4], 0),
            (Verdict::Met, &[(99, "Logs"), (1, "nothing of the kind")], Verdict::Met, &[1], 1),
        ];
        for (verdict, quotes, expected, pages, dropped) in cases {
            let quotes =
                quotes.iter().map(|(page, text)| FoundQuote { page: *page, text: (*text).to_owned() }).collect();
            let value = Found { verdict, explanation: "so".to_owned(), quotes };
            let judged = checked(&rule, Answer { value, model: "m".to_owned(), usage: Usage::default() }, &document());
            let kept: Vec<u32> = judged.finding.quotes.iter().map(|quote| quote.page).collect();
            assert_eq!((judged.finding.verdict, kept.as_slice(), judged.dropped), (expected, pages, dropped));
        }
    }
}
