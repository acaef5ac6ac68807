//! The findings as a page that people read.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Approval, Finding, Output, Verdict};
use crate::markdown::{code, inert, line, neutral, pages};
use crate::model::STAND_IN;

/// The report. `asked_for_tickets`: whether the input names a ticket server.
pub(super) fn markdown(output: &Output, unread_pages: &[u32], asked_for_tickets: bool) -> String {
    let mut report = format!("# Compliance of {}\n\n", line(&output.title));
    if output.stand_in {
        let _ = write!(
            report,
            "> No language model was used: the stand-in `{STAND_IN}` compared words and amounts by fixed rules.\n\n"
        );
    }
    let count = |verdict| output.findings.iter().filter(|finding| finding.verdict == verdict).count();
    let _ = writeln!(
        report,
        "{}, {} pages, held to {} rules: {} met, {} violated, {} unclear.",
        code(&output.document),
        output.pages,
        output.findings.len(),
        count(Verdict::Met),
        count(Verdict::Violated),
        count(Verdict::Unclear)
    );
    if !unread_pages.is_empty() {
        let _ = write!(report, "\nNot readable, and so not judged: {}.\n", pages(unread_pages));
    }
    report.push_str("\n| Rule | Verdict | Pages |\n|---|---|---|\n");
    for finding in &output.findings {
        let on: BTreeSet<u32> = finding.quotes.iter().map(|quote| quote.page).collect();
        let on: Vec<String> = on.iter().map(u32::to_string).collect();
        let name = format!("{} {}", inert(&finding.rule), inert(&finding.title));
        let _ = writeln!(report, "| {name} | {} | {} |", word(finding.verdict), on.join(", "));
    }
    for verdict in [Verdict::Violated, Verdict::Unclear, Verdict::Met] {
        for finding in output.findings.iter().filter(|finding| finding.verdict == verdict) {
            report.push_str(&described(finding));
        }
    }
    report.push_str(&tickets(output, asked_for_tickets));
    report
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::Violated => "violated",
        Verdict::Unclear => "unclear",
    }
}

fn described(finding: &Finding) -> String {
    let mut text = format!(
        "\n## {}: {} {}\n\n{}\n",
        word(finding.verdict),
        inert(&finding.rule),
        inert(&finding.title),
        neutral(finding.explanation.trim())
    );
    for quote in &finding.quotes {
        let words = quote.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(text, "\n> “{}” (page {})\n", neutral(&words), quote.page);
    }
    text
}

fn tickets(output: &Output, asked_for_tickets: bool) -> String {
    let mut text = "\n## Tickets\n\n".to_owned();
    let violated = output.findings.iter().any(|finding| finding.verdict == Verdict::Violated);
    for ticket in &output.tickets {
        let place = ticket.url.as_deref().map(|url| format!(", {}", code(url))).unwrap_or_default();
        let _ = writeln!(text, "- {} ({}): {}{place}", inert(&ticket.id), inert(&ticket.rule), inert(&ticket.title));
    }
    let none = match (&output.approval, asked_for_tickets, violated) {
        (_, false, _) => "None were opened: the input names no ticket server (`tickets_url`).",
        (_, true, false) => "None were needed.",
        (Some(Approval::Rejected { reason: None }), true, true) => "None were opened: a person rejected them.",
        (Some(Approval::Rejected { reason: Some(reason) }), true, true) => {
            let _ = writeln!(text, "None were opened: a person rejected them. {}", inert(reason));
            ""
        }
        (Some(Approval::NotDecided), true, true) => "None were opened: nobody decided about them in time.",
        (Some(Approval::Approved), true, true) => {
            text.push_str("\nA person approved them.\n");
            ""
        }
        (None, true, true) => "",
    };
    if !none.is_empty() {
        let _ = writeln!(text, "{none}");
    }
    text
}
