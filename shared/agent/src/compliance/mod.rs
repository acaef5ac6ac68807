//! `compliance`: a long document held to a list of rules, with quotes and page numbers, and a ticket for each breach.
//!
//! Read once for its outline; then each rule is judged from the pages that speak about it. A verdict needs words of the
//! document behind it: quotes are held against the pages, and a verdict whose quotes do not stand there counts as
//! unclear. Tickets are opened through any HTTP server with a stable key, so that a crash between two of them opens none
//! twice; if asked, only after a person has said yes.

mod approval;
mod document;
mod judging;
mod report;
mod rules;
mod tickets;

use longhaul::{Ctx, ErrorClass, Failure};
use serde::{Deserialize, Serialize};

use crate::Tools;
use crate::model::STAND_IN;

pub use approval::{APPROVAL_SIGNAL, Approval};
pub use rules::Rules;
pub(crate) use tickets::HttpTickets;
pub use tickets::{TicketAnswer, TicketRequest, TicketServer};

use judging::Judged;
use rules::Rule;

/// Rules judged at the same time: each holds the document in memory while its pages are picked.
const RULES_AT_ONCE: usize = 8;

const SYSTEM: &str = include_str!("prompts/system.txt");

/// What `compliance` is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The path of the document.
    pub document: String,
    /// The path of a file of rules, or the rules themselves.
    pub rules: Rules,
    /// Where tickets are created; findings only, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tickets_url: Option<String>,
    /// Whether a person must approve the tickets first, by the signal [`APPROVAL_SIGNAL`].
    #[serde(default)]
    pub approve: bool,
    /// How long that person has, in seconds.
    #[serde(default = "approval::seconds_default")]
    pub approval_seconds: u64,
}

/// What `compliance` answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// The path of the document.
    pub document: String,
    /// Its title.
    pub title: String,
    /// How many pages it has.
    pub pages: u32,
    /// What was found about each rule, in the rules' order.
    pub findings: Vec<Finding>,
    /// The tickets that were opened.
    pub tickets: Vec<Ticket>,
    /// What the person said, where one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// The whole in Markdown.
    pub report: String,
    /// The model that judged, in its server's words.
    pub model: String,
    /// Whether that was the stand-in: no language model was used.
    pub stand_in: bool,
    /// Quotes of the model that do not stand in the document and were taken out.
    pub dropped: u64,
}

/// Whether the document meets a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It says that it does what the rule asks.
    Met,
    /// It says that it does something else, or less.
    Violated,
    /// The document does not decide it.
    Unclear,
}

/// What was found about a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's id.
    pub rule: String,
    /// Its title.
    pub title: String,
    /// Whether it is met.
    pub verdict: Verdict,
    /// Why.
    pub explanation: String,
    /// The words that decide it.
    pub quotes: Vec<Quote>,
}

/// Words that stand in the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// The page they begin on, from 1.
    pub page: u32,
    /// The words.
    pub text: String,
}

/// A ticket that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The rule it is about.
    pub rule: String,
    /// What the ticket server calls it.
    pub id: String,
    /// Where it can be seen, if the server said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its title.
    pub title: String,
}

/// The agent.
///
/// # Errors
/// A document or rules that cannot be read, a model that gives no usable answer, a server that refuses a ticket.
pub(crate) async fn compliance(ctx: &mut Ctx, tools: &Tools, input: Input) -> longhaul::Result<Output> {
    input.check()?;
    let document = document::read(ctx, tools, &input.document).await?;
    let rules = rules::read(ctx, tools, &input.rules).await?;
    ctx.emit("rules", serde_json::json!({ "total": rules.len(), "pages": document.pages })).await?;
    let mut judged: Vec<Judged> = Vec::new();
    for some in rules.chunks(RULES_AT_ONCE) {
        judged.extend(
            ctx.fan_out("judge", some, async |ctx, rule| judging::judge(ctx, tools, &document, rule).await).await?,
        );
    }
    let breaches: Vec<(&Rule, &Judged)> =
        rules.iter().zip(&judged).filter(|(_, judged)| judged.finding.verdict == Verdict::Violated).collect();
    let (tickets, approval) = match &input.tickets_url {
        Some(url) if !breaches.is_empty() => open_tickets(ctx, tools, &input, url, &breaches).await?,
        Some(_) | None => (Vec::new(), None),
    };
    let model = judged.first().map(|judged| judged.model.clone()).unwrap_or_default();
    let dropped = judged.iter().map(|judged| judged.dropped).sum();
    let findings: Vec<Finding> = judged.into_iter().map(|judged| judged.finding).collect();
    let mut output = Output {
        document: input.document,
        title: document.title,
        pages: document.pages,
        findings,
        tickets,
        approval,
        report: String::new(),
        stand_in: model == STAND_IN,
        model,
        dropped,
    };
    output.report = report::markdown(&output, &document.unread_pages, input.tickets_url.is_some());
    Ok(output)
}

/// Drafts the tickets, asks the person if there is one to ask, and opens them.
async fn open_tickets(
    ctx: &mut Ctx,
    tools: &Tools,
    input: &Input,
    url: &str,
    breaches: &[(&Rule, &Judged)],
) -> longhaul::Result<(Vec<Ticket>, Option<Approval>)> {
    let mut drafts = Vec::new();
    for some in breaches.chunks(RULES_AT_ONCE) {
        let drafted = ctx.fan_out("draft tickets", some, async |ctx, (rule, judged)| {
            tickets::draft(ctx, tools, rule, &judged.finding).await
        });
        drafts.extend(drafted.await?);
    }
    let approval = if input.approve {
        let titles: Vec<&str> = drafts.iter().map(|draft| draft.title.as_str()).collect();
        ctx.emit("approval needed", serde_json::json!({ "signal": APPROVAL_SIGNAL, "tickets": titles })).await?;
        Some(approval::wait(ctx, input.approval_seconds).await?)
    } else {
        None
    };
    match approval {
        None | Some(Approval::Approved) => {
            let opened =
                ctx.fan_out("open tickets", &drafts, async |ctx, draft| tickets::open(ctx, tools, url, draft).await);
            Ok((opened.await?, approval))
        }
        Some(Approval::Rejected { .. } | Approval::NotDecided) => Ok((Vec::new(), approval)),
    }
}

impl Input {
    /// The card's limits, for jobs that did not come through the api.
    fn check(&self) -> longhaul::Result<()> {
        let invalid = |message: String| Err(longhaul::Error::Terminal(Failure::new(ErrorClass::Invalid, message)));
        if let Some(url) = &self.tickets_url
            && !reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
        {
            return invalid("tickets_url is no http or https address".to_owned());
        }
        if !approval::SECONDS.contains(&self.approval_seconds) {
            let (least, most) = (approval::SECONDS.start(), approval::SECONDS.end());
            return invalid(format!("approval_seconds is {}; it must be {least} to {most}", self.approval_seconds));
        }
        Ok(())
    }
}
