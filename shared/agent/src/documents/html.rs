//! HTML to the text a reader would see: no scripts, no styles, no link targets, headings marked as in Markdown.

use html2text::config;
use html2text::render::TextDecorator;

use super::SkipReason;
use super::limits::HTML_NESTING_MAX;

/// Lines are not wrapped before this width: a paragraph stays one line, and a quote within it is not torn.
const LINE_WIDTH_CHARS: usize = 100_000;

/// The page's `<title>`, if any, and its text.
pub(super) fn text_of(html: &str) -> Result<(Option<String>, String), SkipReason> {
    if nests_too_deep(html) {
        return Err(SkipReason::Damaged { detail: format!("its elements nest more than {HTML_NESTING_MAX} deep") });
    }
    let text = render(html)?;
    let title = title_element(html).map(render).transpose()?;
    Ok((title, text))
}

fn render(html: &str) -> Result<String, SkipReason> {
    let rendered = config::with_decorator(Words)
        .raw_mode(true)
        .allow_width_overflow()
        .string_from_read(html.as_bytes(), LINE_WIDTH_CHARS)
        .map_err(|error| SkipReason::Damaged { detail: error.to_string() })?;
    // A horizontal rule is drawn across the whole width: it is a blank line to us.
    let lines = rendered.lines().map(|line| if line.chars().all(|c| c == '\u{2500}') { "" } else { line.trim_end() });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

/// Elements without content, and those that a following one closes: their start tags do not add up to nesting.
const NOT_NESTING: [&str; 36] = [
    "a", "area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html", "img", "input",
    "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt", "source", "tbody", "td", "tfoot", "th",
    "thead", "title", "tr", "track", "wbr", "script", "style",
];

/// Whether more elements are open at once than any page has. A rough count over the tags is enough to tell; parser
/// and renderer take time that grows with the square of the nesting, so neither can be asked.
fn nests_too_deep(html: &str) -> bool {
    let mut depth = 0_usize;
    for tag in html.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let name = tag.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        if name.is_empty() || tag.ends_with('/') || NOT_NESTING.contains(&name.as_str()) {
            continue;
        }
        depth = if tag.starts_with('/') { depth.saturating_sub(1) } else { depth + 1 };
        if depth > HTML_NESTING_MAX {
            return true;
        }
    }
    false
}

/// What stands between `<title …>` and `</title`, its entities not yet decoded. The renderer skips the whole head.
fn title_element(html: &str) -> Option<&str> {
    // Lowering ASCII only keeps all byte positions.
    let lowered = html.to_ascii_lowercase();
    let open = lowered.find("<title")?;
    let from = open + lowered.get(open..)?.find('>')? + 1;
    let to = from + lowered.get(from..)?.find("</title")?;
    html.get(from..to)
}

/// Adds no marks to the words themselves, so that what is quoted from the text reads as on the page.
#[derive(Debug, Clone)]
struct Words;

impl TextDecorator for Words {
    type Annotation = ();

    fn decorate_link_start(&mut self, _url: &str) -> (String, ()) {
        (String::new(), ())
    }
    fn decorate_link_end(&mut self) -> String {
        String::new()
    }
    fn decorate_em_start(&self) -> (String, ()) {
        (String::new(), ())
    }
    fn decorate_em_end(&self) -> String {
        String::new()
    }
    fn decorate_strong_start(&self) -> (String, ()) {
        (String::new(), ())
    }
    fn decorate_strong_end(&self) -> String {
        String::new()
    }
    fn decorate_strikeout_start(&self) -> (String, ()) {
        (String::new(), ())
    }
    fn decorate_strikeout_end(&self) -> String {
        String::new()
    }
    fn decorate_code_start(&self) -> (String, ()) {
        (String::new(), ())
    }
    fn decorate_code_end(&self) -> String {
        String::new()
    }
    fn decorate_preformat_first(&self) {}
    fn decorate_preformat_cont(&self) {}
    fn decorate_image(&mut self, _src: &str, title: &str) -> (String, ()) {
        (title.to_owned(), ())
    }
    fn header_prefix(&self, level: usize) -> String {
        format!("{} ", "#".repeat(level))
    }
    fn quote_prefix(&self) -> String {
        "> ".to_owned()
    }
    fn unordered_item_prefix(&self) -> String {
        "* ".to_owned()
    }
    fn ordered_item_prefix(&self, number: i64) -> String {
        format!("{number}. ")
    }
    fn make_subblock_decorator(&self) -> Self {
        Self
    }
}
