//! JSON with lines. `serde_json` decides what is JSON; a walk over the same text then finds where things stand.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::CharIndices;

use super::{Document, Fault, below, too_deep, twice};

const HELP: &str = "JSON has double quotes, no comments and no comma behind the last item; YAML is read too";

pub(super) fn read(text: &str) -> Result<Document, Fault> {
    let value = serde_json::from_str(text)
        .map_err(|error| Fault::new(error.line().max(1), "", format!("is no JSON: {error}"), HELP))?;
    let mut walk = Walk { text, chars: text.char_indices().peekable(), line: 1, lines: BTreeMap::new() };
    walk.value(String::new())?;
    Ok(Document { value, lines: walk.lines })
}

/// A walk over a text that is known to be JSON. What it does not expect cannot be there.
struct Walk<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    line: usize,
    lines: BTreeMap<String, usize>,
}

impl Walk<'_> {
    fn next(&mut self) -> Option<(usize, char)> {
        let next = self.chars.next();
        if matches!(next, Some((_, '\n'))) {
            self.line += 1;
        }
        next
    }

    fn peek_behind_blanks(&mut self) -> Option<char> {
        while self.chars.next_if(|(_, c)| c.is_ascii_whitespace() && *c != '\n').is_some()
            || matches!(self.chars.peek(), Some((_, '\n'))) && self.next().is_some()
        {}
        self.chars.peek().map(|(_, c)| *c)
    }

    fn value(&mut self, pointer: String) -> Result<(), Fault> {
        let first = self.peek_behind_blanks();
        self.lines.entry(pointer.clone()).or_insert(self.line);
        if let Some(fault) = too_deep(self.line, &pointer) {
            return Err(fault);
        }
        match first {
            Some('{') => self.object(&pointer),
            Some('[') => self.array(&pointer),
            Some('"') => {
                self.string();
                Ok(())
            }
            Some(_) | None => {
                while self.chars.next_if(|(_, c)| !matches!(c, ',' | ']' | '}') && !c.is_ascii_whitespace()).is_some() {
                }
                Ok(())
            }
        }
    }

    fn object(&mut self, pointer: &str) -> Result<(), Fault> {
        self.next();
        loop {
            match self.peek_behind_blanks() {
                Some('"') => {
                    let line = self.line;
                    let field = below(pointer, &self.string());
                    if self.lines.insert(field.clone(), line).is_some() {
                        return Err(twice(line, &field));
                    }
                    self.peek_behind_blanks();
                    self.next();
                    self.value(field)?;
                }
                Some(',') => {
                    self.next();
                }
                Some(_) | None => {
                    self.next();
                    return Ok(());
                }
            }
        }
    }

    fn array(&mut self, pointer: &str) -> Result<(), Fault> {
        self.next();
        let mut index = 0_usize;
        loop {
            match self.peek_behind_blanks() {
                Some(']') | None => {
                    self.next();
                    return Ok(());
                }
                Some(',') => {
                    self.next();
                }
                Some(_) => {
                    self.value(format!("{pointer}/{index}"))?;
                    index += 1;
                }
            }
        }
    }

    /// Goes behind a string and gives what it says.
    fn string(&mut self) -> String {
        let start = self.next().map_or(0, |(at, _)| at);
        let mut end = start;
        while let Some((at, c)) = self.next() {
            match c {
                '\\' => {
                    self.next();
                }
                '"' => {
                    end = at + 1;
                    break;
                }
                _ => {}
            }
        }
        self.text.get(start..end).and_then(|quoted| serde_json::from_str(quoted).ok()).unwrap_or_default()
    }
}
