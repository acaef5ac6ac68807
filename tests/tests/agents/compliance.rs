//! `compliance`: the planted breaches and no others, each with its page and one ticket.

use std::collections::BTreeSet;
use std::time::Duration;

use longhaul::ErrorClass;
use longhaul::engine::Entry;
use longhaul_agent::documents::quote::locate;
use longhaul_agent::documents::read_file;
use longhaul_local::rehearsal::RequestRecord;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::room::{Room, folder, shipped_file};
use crate::tickets::{Manner, Tickets};

const VIOLATED: [&str; 3] = ["DP-1", "DP-2", "FIN-1"];
const MET: [&str; 3] = ["DP-3", "LIA-1", "TER-1"];

fn input(tickets: Option<&Tickets>) -> Value {
    let mut input = json!({
        "document": shipped_file("samples/supplier-agreement.pdf"),
        "rules": shipped_file("samples/compliance-rules.json"),
    });
    if let Some(tickets) = tickets {
        input["tickets_url"] = json!(tickets.url);
    }
    input
}

/// Two pages and three rules, one of them broken: for what happens around the tickets.
fn small(tickets: &Tickets) -> (TempDir, Value) {
    let text = "Customer Data is encrypted at rest and in transit.\u{c}The Customer pays each invoice within 90 days after \
        receipt of the invoice.\n\nThe Supplier keeps audit logs of access for 24 months.\n";
    let files = folder(&[("agreement.txt", text.as_bytes())]);
    let input = json!({
        "document": files.path().join("agreement.txt"),
        "rules": [
            "Customer Data must be encrypted at rest and in transit.",
            {"id": "pay", "requirement": "Invoices must be paid within 60 days after receipt of the invoice."},
            "Audit logs of access must be kept for at least 12 months.",
        ],
        "tickets_url": tickets.url,
    });
    (files, input)
}

/// Holds the findings to the small sample.
fn check_small(output: &Value) {
    assert_eq!(rules_with(output, "violated"), BTreeSet::from(["pay"]), "{output}");
    assert_eq!(rules_with(output, "met"), BTreeSet::from(["rule-1", "rule-3"]), "{output}");
    assert_eq!(output["findings"][1]["quotes"][0]["page"], 2);
}

fn rules_with<'a>(output: &'a Value, verdict: &str) -> BTreeSet<&'a str> {
    let findings = output["findings"].as_array().unwrap().iter();
    findings.filter(|finding| finding["verdict"] == verdict).map(|finding| finding["rule"].as_str().unwrap()).collect()
}

/// Holds the findings to the sample.
fn check(output: &Value) {
    assert!(output["pages"].as_u64().unwrap() >= 50, "{}", output["pages"]);
    assert_eq!(rules_with(output, "violated"), BTreeSet::from(VIOLATED));
    assert_eq!(rules_with(output, "met"), BTreeSet::from(MET));
    let document = read_file(&shipped_file("samples/supplier-agreement.pdf")).unwrap();
    let decisive = [
        ("DP-1", "The Supplier retains Personal Data for 36 months after this Agreement ends"),
        ("DP-2", "The Supplier may engage a new Subprocessor without prior written notice to the Customer"),
        ("FIN-1", "The Customer pays each undisputed invoice within 90 days after receipt of the invoice"),
    ];
    let report = output["report"].as_str().unwrap();
    for (rule, words) in decisive {
        let finding = output["findings"].as_array().unwrap().iter().find(|finding| finding["rule"] == rule).unwrap();
        let quotes = finding["quotes"].as_array().unwrap();
        let collapsed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let quote = quotes.iter().find(|quote| collapsed(quote["text"].as_str().unwrap()).contains(words));
        let quote = quote.unwrap_or_else(|| panic!("{rule}: {quotes:?}"));
        let page = quote["page"].as_u64().unwrap();
        let on_page = &document.pages[usize::try_from(page).unwrap() - 1];
        assert_eq!(u64::from(on_page.number), page);
        assert!(collapsed(&on_page.text).contains(words), "{rule}: page {page} holds the words");
        assert_eq!(locate(words, &document).map(u64::from), Some(page));
        assert!(report.contains(&format!("(page {page})")), "{rule}");
    }
    assert!(report.contains("No language model was used"), "the stand-in says so");
}

#[tokio::test]
async fn the_planted_breaches_are_found_and_each_gets_a_ticket() {
    let room = Room::open().await;
    let tickets = Tickets::start(&[]).await;
    let output = room.run("compliance", input(Some(&tickets))).await.output();
    check(&output);
    let opened = tickets.opened();
    assert_eq!((opened.len(), tickets.requests().len()), (3, 3));
    let about: BTreeSet<&str> = opened.values().map(|(_, sent)| sent["rule"].as_str().unwrap()).collect();
    assert_eq!(about, BTreeSet::from(VIOLATED));
    for (_, sent) in opened.values() {
        assert!(!sent["title"].as_str().unwrap().is_empty() && !sent["body"].as_str().unwrap().is_empty());
        assert!(["low", "medium", "high", "critical"].contains(&sent["severity"].as_str().unwrap()));
        assert!(sent["quotes"][0]["page"].is_u64(), "{sent}");
    }
    let ids: BTreeSet<&str> =
        output["tickets"].as_array().unwrap().iter().map(|ticket| ticket["id"].as_str().unwrap()).collect();
    assert_eq!(ids, opened.values().map(|(id, _)| id.as_str()).collect());
}

#[tokio::test]
async fn without_a_ticket_server_there_are_findings_only() {
    let room = Room::open().await;
    let output = room.run("compliance", input(None)).await.output();
    check(&output);
    assert_eq!((output["tickets"].as_array().unwrap().len(), room.asked_for("ticket").await), (0, 0));
    assert!(output["report"].as_str().unwrap().contains("the input names no ticket server"));
}

#[tokio::test]
async fn a_worker_that_dies_over_a_ticket_opens_none_twice() {
    let room = Room::open().await;
    let tickets = Tickets::start(&[Manner::Silent]).await;
    let job = room.submit("compliance", input(Some(&tickets))).await;
    // The server has opened the ticket, the worker never hears of it.
    room.invoke_until(tickets.is_silent()).await;
    let asked: Vec<RequestRecord> = room.requests().await;
    let output = room.drive(&job).await.output();
    check(&output);
    let requests = tickets.requests();
    let keys: BTreeSet<&String> = requests.iter().collect();
    assert_eq!((tickets.opened().len(), keys.len(), output["tickets"].as_array().unwrap().len()), (3, 3, 3));
    assert!(requests.len() > 3, "the ticket was asked for again: {requests:?}");
    assert_eq!(room.requests().await.len(), asked.len(), "no model call was made again");
    for key in keys {
        assert!(key.starts_with(&job.job.to_string()), "{key}");
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_asked_again_and_one_that_refuses_is_not() {
    let cases = [(503, true), (429, true), (422, false)];
    for (status, again) in cases {
        let room = Room::open().await;
        let tickets = Tickets::start(&[Manner::Refuses(status)]).await;
        let (_files, input) = small(&tickets);
        let job = room.submit("compliance", input.clone()).await;
        let end = room.drive(&job).await;
        if again {
            check_small(&end.output());
            assert_eq!((tickets.opened().len(), tickets.requests().len()), (1, 2), "{status}");
        } else {
            let failure = end.failure();
            assert_eq!(failure.class, ErrorClass::Invalid);
            assert!(failure.message.contains("422") && failure.message.contains("not now"), "{failure:?}");
            assert_eq!((tickets.opened().len(), tickets.requests().len()), (0, 1), "{status}");
            // Replayed, only the missing one is opened.
            room.replay(&job, input).await;
            check_small(&room.drive(&job).await.output());
            assert_eq!((tickets.opened().len(), tickets.requests().len()), (1, 2), "{status}");
        }
    }
}

#[tokio::test]
async fn a_person_decides() {
    let cases: [(Value, usize, &str); 3] = [
        (json!({"decision": "approved"}), 1, "A person approved them."),
        (json!({"decision": "rejected", "reason": "known"}), 0, "a person rejected them. known"),
        (json!("rejected"), 0, "a person rejected them."),
    ];
    for (decision, opened, said) in cases {
        let room = Room::open().await;
        let tickets = Tickets::start(&[]).await;
        let (_files, mut input) = small(&tickets);
        input["approve"] = json!(true);
        let job = room.submit("compliance", input).await;
        // What is no decision does not end the wait.
        room.signal(&job, "approval", "slip", json!("yse")).await;
        let decided = async {
            let asked =
                |entry: &Entry| matches!(entry, Entry::Emitted { id, .. } if id.name == "approval not understood");
            while !room.entries(&job).iter().any(asked) {
                assert!(room.end(&job).is_none(), "it ended early:\n{}", room.workshop.story(&job));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(tickets.requests().is_empty(), "nothing is opened before the decision");
            room.signal(&job, "approval", "word", decision.clone()).await;
        };
        let (end, ()) = tokio::join!(room.drive(&job), decided);
        let output = end.output();
        check_small(&output);
        assert_eq!(tickets.opened().len(), opened, "{decision}");
        assert!(output["report"].as_str().unwrap().contains(said), "{}", output["report"]);
    }
}

#[tokio::test]
async fn nobody_decides() {
    let room = Room::open().await;
    let tickets = Tickets::start(&[]).await;
    let (_files, mut input) = small(&tickets);
    input["approve"] = json!(true);
    input["approval_seconds"] = json!(1);
    let output = room.run("compliance", input).await.output();
    check_small(&output);
    assert!(tickets.requests().is_empty());
    assert_eq!(output["approval"], json!({"decision": "not_decided"}));
}

#[tokio::test]
async fn what_cannot_be_examined_is_named() {
    let files =
        folder(&[("broken.pdf", b"%PDF-1.7\nno"), ("good.md", b"Logs are kept."), ("rules.json", b"{\"rules\": 1}")]);
    let path = |name: &str| files.path().join(name).to_string_lossy().into_owned();
    let cases: [(Value, &str); 6] = [
        (json!({"document": path("missing.pdf"), "rules": ["A"]}), "missing.pdf"),
        (json!({"document": path("broken.pdf"), "rules": ["A"]}), "broken.pdf"),
        (json!({"document": path("good.md"), "rules": path("missing.json")}), "missing.json"),
        (json!({"document": path("good.md"), "rules": path("rules.json")}), "rules.json"),
        (json!({"document": path("good.md"), "rules": []}), "0 rules"),
        (json!({"document": path("good.md"), "rules": ["A"], "tickets_url": "ftp://x"}), "tickets_url"),
    ];
    for (input, named) in cases {
        let room = Room::open().await;
        let failure = room.run("compliance", input.clone()).await.failure();
        assert_eq!(failure.class, ErrorClass::Invalid, "{input}: {failure:?}");
        assert!(failure.message.contains(named), "{input}: {failure:?}");
    }
}
