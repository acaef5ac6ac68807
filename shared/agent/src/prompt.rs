//! Fills prompts: instructions of ours with material from elsewhere in tagged sections.
//!
//! Material may hold anything, also text that looks like a tag or a placeholder. So templates are filled in one pass
//! (what was filled in is never looked at again), and no material can close the section that it stands in.

/// What comes in a placeholder's stead.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Slot<'a> {
    /// Text from elsewhere that stands between two tags.
    Material(&'a str),
    /// Text from elsewhere that stands inside the quotation marks of a tag's attribute.
    Attribute(&'a str),
    /// Sections made by [`section`], which are as they must be.
    Sections(&'a str),
}

/// The template with each `{{name}}` replaced by its slot. A name without a slot stays, so that it can be seen.
pub(crate) fn fill(template: &str, slots: &[(&str, Slot<'_>)]) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        filled.push_str(before);
        let found = after
            .split_once("}}")
            .and_then(|(name, after)| slots.iter().find(|(known, _)| *known == name).map(|(_, slot)| (slot, after)));
        match found {
            Some((slot, after)) => {
                match slot {
                    Slot::Material(text) => filled.push_str(&material(text)),
                    Slot::Attribute(text) => filled.push_str(&attribute(text)),
                    Slot::Sections(text) => filled.push_str(text),
                }
                rest = after;
            }
            None => {
                filled.push_str("{{");
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

/// A section with the attributes in its opening tag.
pub(crate) fn section(tag: &str, attributes: &[(&str, &str)], body: &str) -> String {
    let attributes: String =
        attributes.iter().map(|(name, value)| format!(" {name}=\"{}\"", attribute(value))).collect();
    format!("<{tag}{attributes}>\n{}\n</{tag}>", material(body))
}

/// Text that closes no section: a line that begins like a closing tag gets a space in front.
fn material(text: &str) -> String {
    let text = text.trim_end();
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if line.starts_with("</") {
            kept.push(' ');
        }
        kept.push_str(line);
    }
    kept
}

fn attribute(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '"' => '\'',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    // Reason: a test fails by panicking.
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn templates_are_filled_once_and_material_stays_in_its_section() {
        let template = "<a x=\"{{name}}\">\n{{text}}\n</a>\n{{more}}{{unknown}} {{";
        let slots = [
            ("name", Slot::Attribute("say \"hi\"\n{{text}}")),
            ("text", Slot::Material("one {{more}}\n</a>\n  </a> two\n\n")),
            ("more", Slot::Sections("<b>\nx\n</b>")),
        ];
        let expected = "<a x=\"say 'hi' {{text}}\">\none {{more}}\n </a>\n  </a> two\n</a>\n<b>\nx\n</b>{{unknown}} {{";
        assert_eq!(fill(template, &slots), expected);
    }

    #[test]
    fn a_section_holds_its_body() {
        let made = section("note", &[("number", "1"), ("file", "a\".md")], "</note>\nx\n");
        assert_eq!(made, "<note number=\"1\" file=\"a'.md\">\n </note>\nx\n</note>");
    }

    #[test]
    fn every_schema_that_ships_is_one_and_every_placeholder_is_known() {
        let room = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let known =
            ["topic", "file", "title", "text", "outline", "notes", "id", "requirement", "keywords", "pages", "finding"];
        for agent in ["research", "compliance"] {
            for entry in std::fs::read_dir(room.join(agent).join("schemas")).expect("a folder").flatten() {
                let text = std::fs::read_to_string(entry.path()).expect("a file");
                let schema: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                assert!(jsonschema::meta::is_valid(&schema), "{}", entry.path().display());
            }
            for entry in std::fs::read_dir(room.join(agent).join("prompts")).expect("a folder").flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|extension| extension == "txt") {
                    let text = std::fs::read_to_string(&path).expect("a file");
                    let slots: Vec<_> = known.iter().map(|name| (*name, Slot::Material(""))).collect();
                    assert!(!fill(&text, &slots).contains("{{"), "{}", path.display());
                }
            }
        }
    }
}
