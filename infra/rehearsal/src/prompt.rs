//! What a conversation asks for: tagged sections of a message, and plain text where there are none.
//!
//! The rule of the prompts: an opening tag (`<source file="a.md">`) and its closing tag (`</source>`) each stand alone
//! on a line, attributes in double quotes, material in between as it is. Material cannot close its own section, since
//! whoever fills a prompt indents lines that begin with `</`.

/// A section's attributes and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Section<'a> {
    attributes: &'a str,
    /// What stands between the tags, without the line break before the closing one.
    pub(super) body: &'a str,
}

impl<'a> Section<'a> {
    /// An attribute's value; empty when there is none.
    pub(super) fn attribute(&self, name: &str) -> &'a str {
        let mut rest = self.attributes;
        while let Some((before, after)) = rest.split_once("=\"") {
            let Some((value, next)) = after.split_once('"') else {
                break;
            };
            if before.trim() == name {
                return value;
            }
            rest = next;
        }
        ""
    }
}

/// All sections with this tag, in order.
pub(super) fn sections<'a>(text: &'a str, tag: &str) -> Vec<Section<'a>> {
    let opening = format!("<{tag}");
    let closing = format!("</{tag}>");
    let mut found = Vec::new();
    let mut open: Option<(&'a str, usize)> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let bare = line.trim_end();
        match open {
            None => {
                let attributes = bare.strip_prefix(opening.as_str()).and_then(|rest| rest.strip_suffix('>'));
                if let Some(attributes) = attributes.filter(|rest| rest.is_empty() || rest.starts_with(' ')) {
                    open = Some((attributes, end));
                }
            }
            Some((attributes, body_start)) if bare == closing => {
                let body = text.get(body_start..start).unwrap_or_default();
                let body = body.strip_suffix('\n').unwrap_or(body);
                found.push(Section { attributes, body });
                open = None;
            }
            Some(_) => {}
        }
        start = end;
    }
    found
}

/// The body of the first section with this tag.
pub(super) fn section<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    sections(text, tag).first().map(|section| section.body)
}

/// The topic of a message: its section of that name, or its first line that says anything.
pub(super) fn topic(text: &str) -> &str {
    section(text, "topic")
        .or_else(|| text.lines().find(|line| line.chars().any(char::is_alphanumeric)))
        .unwrap_or_default()
        .trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_found_and_kept_as_they_are() {
        let text = "Read.\n\n<topic>\n a \n</topic>\n<source file=\"a b.md\" title=\"T's <x>\">\none\n\n </source>\n\
            <source>\ntwo\n</source>\n<source file=\"c\">\n</source>\nrest";
        let found = sections(text, "source");
        assert_eq!(
            found.iter().map(|section| section.body).collect::<Vec<_>>(),
            ["one\n\n </source>\n<source>\ntwo", ""]
        );
        assert_eq!(found.iter().map(|section| section.attribute("file")).collect::<Vec<_>>(), ["a b.md", "c"]);
        assert_eq!(found.first().map(|section| section.attribute("title")), Some("T's <x>"));
        assert_eq!(topic(text), "a");
        assert_eq!(topic("\n--\nqueues?\n"), "queues?");
        assert_eq!(section("<topics>\nx\n</topics>", "topic"), None);
    }
}
