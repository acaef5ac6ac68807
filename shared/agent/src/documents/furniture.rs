//! Running headers, footers and page numbers: they tear sentences that go over a page, so they are taken out.

use std::collections::BTreeMap;

use super::Page;

/// Below this many pages a repeated line may be content: a table's heading, a form's label.
const PAGES_MIN: usize = 4;

/// How many lines at the top and at the bottom of a page may be furniture.
const EDGE_LINES: usize = 2;

/// A line is furniture when it stands at the same edge of at least this share of the pages.
const SHARE_MIN_PERCENT: usize = 60;

/// Removes from each page the lines at its edges that most pages have, whatever numbers they contain.
pub(super) fn strip(pages: &mut [Page]) {
    if pages.len() < PAGES_MIN {
        return;
    }
    let mut seen: BTreeMap<(Edge, String), usize> = BTreeMap::new();
    for page in pages.iter() {
        for (_, edge, shape) in edges(&page.text) {
            *seen.entry((edge, shape)).or_default() += 1;
        }
    }
    let often = |edge, shape| seen.get(&(edge, shape)).is_some_and(|n| n * 100 >= pages.len() * SHARE_MIN_PERCENT);
    let removals: Vec<Vec<usize>> = pages
        .iter()
        .map(|page| {
            edges(&page.text)
                .into_iter()
                .filter(|(_, edge, shape)| often(*edge, shape.clone()))
                .map(|(at, ..)| at)
                .collect()
        })
        .collect();
    for (page, removed) in pages.iter_mut().zip(removals) {
        let kept = page.text.lines().enumerate().filter(|(at, _)| !removed.contains(at)).map(|(_, line)| line);
        page.text = kept.collect::<Vec<_>>().join("\n").trim().to_owned();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Top,
    Bottom,
}

/// The first and last lines with text: where they stand, at which edge, and their shape (digits made equal).
fn edges(text: &str) -> Vec<(usize, Edge, String)> {
    let lines: Vec<(usize, &str)> = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).collect();
    let shaped = |edge| move |(at, line): &(usize, &str)| (*at, edge, shape(line));
    let top = lines.iter().take(EDGE_LINES).map(shaped(Edge::Top));
    top.chain(lines.iter().rev().take(EDGE_LINES).map(shaped(Edge::Bottom))).collect()
}

fn shape(line: &str) -> String {
    let mut shape = String::new();
    for c in line.trim().chars() {
        let c = if c.is_ascii_digit() { '0' } else { c };
        // Page 9 and page 10 have the same shape.
        if !(c == '0' && shape.ends_with('0')) {
            shape.push(c);
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing)] // A missing page must fail the test.

    use super::*;

    const BODIES: [&str; 4] = ["Alpha begins", "Beta follows", "Gamma then", "Delta ends"];

    fn pages(count: usize) -> Vec<Page> {
        let bodies = BODIES.iter().cycle().zip(1..).take(count);
        let text = |body, number| format!("Handbook, part {number}\n\n{body}\nand {body} on\n\nPage {number} of 12\n");
        bodies.map(|(body, number)| Page { number, text: text(*body, number) }).collect()
    }

    #[test]
    fn lines_that_most_pages_share_at_an_edge_are_removed() {
        let mut twelve = pages(12);
        twelve[4].text = "A picture page".to_owned();
        strip(&mut twelve);
        assert_eq!(twelve[0].text, "Alpha begins\nand Alpha begins on");
        assert_eq!(twelve[4].text, "A picture page");
        assert_eq!(twelve[11].text, "Delta ends\nand Delta ends on");
    }

    #[test]
    fn few_pages_are_left_alone() {
        let mut three = pages(3);
        strip(&mut three);
        assert_eq!(three, pages(3));
    }
}
