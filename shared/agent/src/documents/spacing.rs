//! Widely spaced pages: where lines stand so far apart that each was taken for a paragraph, the lines of a sentence
//! are brought together again. Contracts and theses are often set with half a line or a line of extra space.

/// Lines of a page below which nothing can be said about its spacing.
const LINES_MIN: usize = 6;

/// A page is widely spaced when at least this share of its lines is followed by a blank one.
const SPACED_MIN_PERCENT: usize = 60;

/// A line at least this long, compared with the longest of the page, was broken because it was full.
const FULL_MIN_PERCENT: usize = 75;

/// The page's text with the blank lines within sentences taken out, if it is widely spaced; else as it was.
pub(super) fn close_up(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let blanks = text.lines().zip(text.lines().skip(1)).filter(|(line, next)| ends_block(line, next)).count();
    if lines.len() < LINES_MIN || blanks * 100 < (lines.len() - 1) * SPACED_MIN_PERCENT {
        return text.to_owned();
    }
    let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let mut closed = String::with_capacity(text.len());
    for (at, line) in lines.iter().enumerate() {
        closed.push_str(line);
        match lines.get(at + 1) {
            Some(next) if goes_on(line, next, longest) => closed.push('\n'),
            Some(_) => closed.push_str("\n\n"),
            None => {}
        }
    }
    closed
}

fn ends_block(line: &str, next: &str) -> bool {
    !line.trim().is_empty() && next.trim().is_empty()
}

/// Whether the sentence that the line is part of continues on the next one.
fn goes_on(line: &str, next: &str, longest: usize) -> bool {
    let full = line.chars().count() * 100 >= longest * FULL_MIN_PERCENT;
    let ended = line.ends_with(['.', ':', ';', '!', '?']);
    full && (!ended || next.starts_with(char::is_lowercase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_widely_spaced_pages_are_closed_up() {
        let spaced = "4. Lease\n\nThe holder of a lease may renew it before\n\nits end. A lease that was not renewed ends\n\n\
                      by itself. Its holder must then stop work.\n\nA new holder receives a higher epoch and\n\n\
                      may begin at once.\n\n5. Fence";
        let closed = "4. Lease\n\nThe holder of a lease may renew it before\nits end. A lease that was not renewed ends\n\
                      by itself. Its holder must then stop work.\n\nA new holder receives a higher epoch and\n\
                      may begin at once.\n\n5. Fence";
        let few = "Title\n\nAuthor of the book\n\nYear";
        for (text, expected) in [(spaced, closed), (closed, closed), (few, few), ("", "")] {
            assert_eq!(close_up(text), expected);
        }
    }
}
