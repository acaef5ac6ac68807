//! The promise that agents rest on: a quote stands letter by letter where it is said to stand.

use longhaul_local::rehearsal::Rehearsal;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

use crate::prompts::{SOURCES, Stand, TOPIC, notes, report};

/// Pieces of documents as they are met: prose, and everything that is not.
const PIECES: [&str; 24] = [
    "# Queues and agents\n",
    "\n\n",
    "\n",
    " ",
    "- ",
    "1. ",
    "> ",
    "```\n",
    "=====\n",
    "| a | b |\n",
    "<b>",
    "[page 3]\n",
    "Queues make every agent more reliable than a bare call does.",
    "Agents wait, e.g. for Dr. A. B. Smith, and queues do not",
    "“Is it so,” she asked, “that queues help agents at all?”",
    "Zürich's agents queue at 3.5 stops, don't they?",
    "队列让代理更可靠。代理会等待！",
    "NO AGENT SHALL JUMP THE QUEUE IN ANY CASE.",
    "a queue of agents (and more of them",
    "See https://example.test/queue for the reliable agents there.",
    "🙂 Reliable queues smile at each agent in the line…",
    "\u{a0}Queues\tand\u{2028}agents are reliable when each of them waits.\r\n",
    "…",
    "**Bold** queues hold `code` for each reliable agent...",
];

fn document() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![4 => select(&PIECES[..]).prop_map(str::to_owned), 1 => "\\PC{0,12}"], 0..40)
        .prop_map(|pieces| pieces.concat())
        // What whoever fills a prompt takes care of.
        .prop_map(|text| text.replace("\n</", "\n </"))
}

fn texts(quotes: &Value) -> Vec<&str> {
    quotes.as_array().unwrap().iter().map(|quote| quote["text"].as_str().unwrap()).collect()
}

#[test]
fn quotes_are_verbatim_in_any_document() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let stand = runtime.block_on(Stand::start(Rehearsal::default()));
    let mut quoted = 0;
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(96)
    });
    let quoted_ref = std::cell::RefCell::new(&mut quoted);
    runner
        .run(&(document(), document()), |(one, other)| {
            runtime.block_on(async {
                let values = [("topic", TOPIC), ("file", "f"), ("title", "t"), ("text", one.as_str())];
                let notes = stand.ask("reading_notes", &values).await;
                for quote in texts(&notes["quotes"]) {
                    prop_assert!(one.contains(quote), "{quote:?} is not in {one:?}");
                    **quoted_ref.borrow_mut() += 1;
                }
                let pages = format!("<page number=\"1\">\n{one}\n</page>\n<page number=\"2\">\n{other}\n</page>");
                let rule = [
                    ("id", "R"),
                    ("title", "Queues"),
                    ("requirement", "Agents must use a reliable queue."),
                    ("keywords", ""),
                ];
                let finding =
                    stand.ask("compliance_finding", &[&rule[..], &[("pages", pages.as_str())]].concat()).await;
                for quote in finding["quotes"].as_array().unwrap() {
                    let page = if quote["page"] == 1 { &one } else { &other };
                    prop_assert!(page.contains(quote["text"].as_str().unwrap()), "{quote} is not in {page:?}");
                }
                Ok(())
            })
        })
        .unwrap();
    assert!(quoted > 60, "a property over nothing: {quoted} quotes");
}

/// In a report, each “quote” [n] is a sentence of source n, and each relevant source is cited.
#[tokio::test]
async fn citations_of_reports_lead_to_their_sources() {
    let stand = Stand::start(Rehearsal::default()).await;
    let collapse = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sources in [&SOURCES[..], &SOURCES[1..], &SOURCES[..1]] {
        let report = report(&stand, TOPIC, sources).await;
        let cited: Vec<&str> =
            sources.iter().filter(|(file, ..)| *file != "tides.md").map(|(.., text)| *text).collect();
        assert!(!notes(&stand, TOPIC, sources).await.contains("tides.md"), "not about the topic");
        let paragraphs: Vec<&str> = report["sections"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|section| section["paragraphs"].as_array().unwrap())
            .map(|paragraph| paragraph.as_str().unwrap())
            .collect();
        let text = paragraphs.join("\n");
        for number in 1..=cited.len() {
            assert!(text.contains(&format!("[{number}]")), "{number} is not cited in {text}");
        }
        assert!(!text.contains(&format!("[{}]", cited.len() + 1)), "{text}");
        let mut quotes = 0;
        for part in text.split('“').skip(1) {
            let (quote, rest) = part.split_once("” [").unwrap();
            let number: usize = rest.split_once(']').unwrap().0.parse().unwrap();
            assert!(collapse(cited[number - 1]).contains(quote), "{quote:?} is not in source {number}");
            quotes += 1;
        }
        assert!(quotes > 0, "{text}");
    }
}
