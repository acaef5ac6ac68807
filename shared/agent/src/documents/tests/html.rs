//! HTML to what a reader would see.

use crate::documents::{DocumentId, Media, SkipReason, read_bytes};

#[test]
fn a_page_becomes_its_words() {
    let table = [
        ("scripts and styles", "<style>p{}</style><script>var a='<p>no</p>'</script><p>Seen</p>", "Seen"),
        ("a link reads as its words", "<p>See <a href='https://a.example/x'>the paper</a>.</p>", "See the paper."),
        ("emphasis and code", "<p><b>Bold</b> <em>words</em> and <code>code()</code></p>", "Bold words and code()"),
        ("entities", "<p>a &amp; b &lt; c &mdash; d&nbsp;e</p>", "a & b < c \u{2014} d\u{a0}e"),
        ("paragraphs and lists", "<p>One</p><p>Two</p><ul><li>x<li>y</ul>", "One\n\nTwo\n* x\n* y"),
        ("headings", "<h1>Top</h1><h3>Sub</h3>text", "# Top\n\n### Sub\n\ntext"),
        ("a rule is no text", "<p>a</p><hr><p>b</p>", "a\n\nb"),
        ("unclosed everything", "<div><p>One<p>Two<table><tr><td>Cell", "One\n\nTwo\n\nCell"),
        ("an image's text", "<p>Before <img src=a.png alt='a diagram'> after</p>", "Before a diagram after"),
        ("pre", "<pre>let a = 1;\n  let b = 2;</pre>", "let a = 1;\n  let b = 2;"),
    ];
    for (case, html, expected) in table {
        let document = read_bytes(DocumentId::new("a.html"), Media::Html, html.as_bytes().to_vec()).expect(case);
        assert_eq!(document.text().trim(), expected, "{case}");
    }
}

#[test]
fn a_paragraph_is_never_torn_into_lines() {
    let long = "many words ".repeat(400);
    let document = read_bytes(DocumentId::new("a.html"), Media::Html, format!("<p>{long}</p>").into_bytes()).unwrap();
    assert_eq!(document.text(), long.trim());
}

#[test]
fn titles_come_from_the_head_or_the_first_heading() {
    let table = [
        ("<title>Fish &amp; Chips</title><h1>Other</h1>x", "Fish & Chips"),
        ("<TITLE lang=en>\n Upper </TITLE>x", "Upper"),
        ("<h1>The <i>first</i></h1>x", "The first"),
        ("<title></title>x", "a"),
    ];
    for (html, expected) in table {
        let document = read_bytes(DocumentId::new("a.html"), Media::Html, html.as_bytes().to_vec()).unwrap();
        assert_eq!(document.title, expected, "{html}");
    }
}

#[test]
fn a_page_without_words_is_refused() {
    let html = b"<html><script>only(code)</script></html>".to_vec();
    assert_eq!(read_bytes(DocumentId::new("a.html"), Media::Html, html), Err(SkipReason::NoText));
}

#[test]
fn nesting_is_read_up_to_a_limit() {
    let nested = |depth: usize| format!("<p>Start</p>{}deep", "<div class=x>".repeat(depth)).into_bytes();
    let read = |html| read_bytes(DocumentId::new("a.html"), Media::Html, html);
    assert!(read(nested(500)).unwrap().text().ends_with("deep"));
    let refused = read(nested(200_000)).unwrap_err();
    assert!(refused.to_string().contains("nest more than"), "{refused}");
    // Long is not deep.
    let long = "<div><b>x</b><br><img src=a><svg><path d='m'/></svg></div><li>y<p>z".repeat(1_000);
    assert!(read(long.into_bytes()).is_ok());
}
