//! What to call a document: its own title, or failing that the name of its file.

use super::{Media, Page};

/// A first line longer than this is a sentence rather than a title.
const TITLE_MAX_CHARS: usize = 120;

/// What programs write when their user gave no title.
const PLACEHOLDERS: [&str; 3] = ["untitled", "untitled document", "title"];

/// The best name for a document whose format declared `declared` (a PDF's or HTML page's title), if anything.
pub(super) fn title(declared: Option<&str>, media: Media, pages: &[Page], file_stem: &str) -> String {
    declared
        .and_then(usable)
        .or_else(|| from_text(media, pages.iter().find(|page| !page.text.trim().is_empty())?))
        .unwrap_or_else(|| file_stem.to_owned())
}

fn from_text(media: Media, page: &Page) -> Option<String> {
    match media {
        Media::Markdown => front_matter(&page.text).or_else(|| heading(&page.text)),
        Media::Html => heading(&page.text),
        Media::Text | Media::Pdf => page.text.lines().find(|line| !line.trim().is_empty()).and_then(usable),
    }
}

/// The `title:` of a YAML block that opens the file.
fn front_matter(text: &str) -> Option<String> {
    let mut lines = text.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let title = lines.take_while(|line| line.trim_end() != "---").find_map(|line| line.strip_prefix("title:"))?;
    usable(title.trim().trim_matches(['"', '\'']))
}

/// The first heading of the highest level, as Markdown writes it.
fn heading(text: &str) -> Option<String> {
    let of_level = |prefix: &str| text.lines().find_map(|line| line.strip_prefix(prefix)).and_then(usable);
    of_level("# ").or_else(|| of_level("## "))
}

/// The title with its spaces and Markdown marks tidied; `None` if nothing readable or too much is left.
fn usable(raw: &str) -> Option<String> {
    let cleaned = raw.replace(['*', '`', '\u{feff}'], "");
    let title = cleaned.split_whitespace().collect::<Vec<_>>().join(" ");
    let title = title.trim_end_matches(" #").trim_start_matches("# ").to_owned();
    let readable = title.chars().any(char::is_alphanumeric) && title.chars().count() <= TITLE_MAX_CHARS;
    let placeholder = PLACEHOLDERS.iter().any(|placeholder| title.eq_ignore_ascii_case(placeholder));
    (readable && !placeholder).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_called_by_its_own_title_first() {
        let long = "word ".repeat(60);
        let table = [
            (Some("Declared"), Media::Pdf, "First line", "Declared"),
            (Some("Untitled"), Media::Pdf, "A contract", "A contract"),
            (Some("  "), Media::Pdf, "\n\nFirst  line\nsecond", "First line"),
            (None, Media::Markdown, "intro\n\n## Two\n# The *Big* One #\n", "The Big One"),
            (None, Media::Markdown, "---\ntags: x\ntitle: \"Front\"\n---\n# Body\n", "Front"),
            (None, Media::Markdown, "no heading at all", "stem"),
            (None, Media::Html, "## Only a second level", "Only a second level"),
            (None, Media::Text, "Notes on queues\n\nbody", "Notes on queues"),
            (None, Media::Text, long.as_str(), "stem"),
            (None, Media::Text, "-----\n", "stem"),
        ];
        for (declared, media, text, expected) in table {
            let pages = [Page { number: 1, text: text.to_owned() }];
            assert_eq!(title(declared, media, &pages, "stem"), expected, "{text:?}");
        }
    }
}
