//! What is found, and in which order.

use super::document;
use crate::documents::{Document, Index, Media};

fn shelf() -> Vec<Document> {
    let pad = "Other matters of daily work are told here at some length, so that each text has a fair size. ".repeat(3);
    let article = |id: &str, text: &str| document(id, Media::Markdown, &[&format!("{text}\n\n{pad}")]);
    vec![
        article(
            "backoff.md",
            "# Retries\n\nA retry waits longer each time, and a little at random, to spread the load.",
        ),
        article("bread.md", "# Bread\n\nKnead the dough, let it rest, bake it hot."),
        article("leases.md", "# Leases\n\nA lease ends by itself when its holder dies. Fencing stops the old holder."),
        article(
            "queues.md",
            "# Queues\n\nA queue holds messages until a worker takes them. Queues make agents reliable.",
        ),
    ]
}

#[test]
fn the_best_answer_stands_first() {
    let index = Index::build(&shelf());
    let table = [
        ("how queues make agents reliable", Some("queues.md")),
        ("retrying with waits", Some("backoff.md")),
        ("what happens when the holder of a lease dies?", Some("leases.md")),
        ("baking", Some("bread.md")),
        ("quantum chromodynamics", None),
        ("the of and", None),
        ("", None),
    ];
    for (query, expected) in table {
        let hits = index.search(query, 3);
        assert_eq!(hits.first().map(|hit| hit.document.as_str()), expected, "{query:?}");
        assert!(hits.len() <= 3 && hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "{query:?}");
    }
}

#[test]
fn equal_passages_stand_in_the_order_of_the_documents() {
    let text = "Backpressure slows the sender down. ".repeat(8);
    let twins: Vec<Document> =
        (0..40).map(|number| document(&format!("{number:02}.md"), Media::Markdown, &[&text])).collect();
    // Titles are searched, too: with equal ones, nothing tells the documents apart.
    let twins: Vec<Document> = twins.into_iter().map(|twin| Document { title: "Twin".to_owned(), ..twin }).collect();
    let index = Index::build(&twins);
    let found: Vec<String> = index.search("backpressure", 40).iter().map(|hit| hit.document.to_string()).collect();
    assert_eq!(found, (0..40).map(|number| format!("{number:02}.md")).collect::<Vec<_>>());
}

#[test]
fn sources_name_each_document_once() {
    let paragraph = "Queues smooth the load of a worker, and a queue is durable. ".repeat(5);
    let long = [paragraph.as_str(); 6].join("\n\n");
    let mut documents = shelf();
    documents.push(document("long.md", Media::Markdown, &[&long]));
    let index = Index::build(&documents);
    assert!(index.search("queue worker", 10).len() > index.sources("queue worker", 10).len());
    let mut sources: Vec<String> =
        index.sources("queue worker", 10).iter().map(|hit| hit.document.to_string()).collect();
    sources.sort();
    assert_eq!(sources, ["long.md", "queues.md"]);
    assert_eq!(index.sources("queue worker", 1).len(), 1);
}

#[test]
fn a_hit_says_where_it_is() {
    let pages = ["Nothing here but a preface of the book.", "Heartbeats tell that a session is alive."];
    let index = Index::build(&[document("book.pdf", Media::Pdf, &pages)]);
    let hits = index.search("heartbeat", 1);
    assert_eq!((hits[0].page, hits[0].passage.text.as_str()), (2, pages[1]));
    assert_eq!(Index::build(&[]).search("heartbeat", 5), []);
    assert_eq!(index.passages(), 2);
}
