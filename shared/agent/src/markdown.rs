//! Text from elsewhere inside Markdown of ours.

/// Prose that cannot become a heading, a picture or a tag of the report it stands in.
pub(crate) fn neutral(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut in_code = false;
    let mut line_start = true;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '`' {
            in_code = !in_code;
        }
        let next = chars.peek().copied();
        let opens_tag =
            c == '<' && next.is_some_and(|next| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'));
        let opens_picture = c == '!' && next == Some('[');
        if (line_start && c == '#') || (!in_code && (opens_tag || opens_picture)) {
            kept.push('\\');
        }
        line_start = c == '\n' || (line_start && c == ' ');
        kept.push(c);
    }
    kept
}

/// One line of plain words: a title, a heading.
pub(crate) fn line(text: &str) -> String {
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    neutral(joined.trim_start_matches(['#', ' ']))
}

/// Words between marks of ours, such as a title in italics: no mark of theirs ends them early.
pub(crate) fn inert(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for c in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        if matches!(c, '\\' | '*' | '_' | '`' | '[' | ']' | '<' | '|') {
            kept.push('\\');
        }
        kept.push(c);
    }
    kept
}

/// A file's name as code.
pub(crate) fn code(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// "page 3", "pages 3, 7".
pub(crate) fn pages(numbers: &[u32]) -> String {
    let listed: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("{} {}", if numbers.len() == 1 { "page" } else { "pages" }, listed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_lose_their_meaning_where_they_would_do_harm() {
        let cases = [
            ("plain *and* `<code>`", "plain *and* `<code>`"),
            ("a < b, <b>", "a < b, \\<b>"),
            ("  # x\n# y # z", "  \\# x\n\\# y # z"),
            ("![x](y) wow!", "\\![x](y) wow!"),
        ];
        for (text, expected) in cases {
            assert_eq!(neutral(text), expected, "{text}");
        }
        assert_eq!(line("## A\n title "), "A title");
        assert_eq!(inert("a [b] *c*\nd"), "a \\[b\\] \\*c\\* d");
        assert_eq!(code("a`b.md"), "`` a`b.md ``");
        assert_eq!((pages(&[3]), pages(&[3, 7])), ("page 3".to_owned(), "pages 3, 7".to_owned()));
    }
}
