//! YAML with lines: the events of the parser, put together as JSON by the core schema of YAML 1.2.

use std::borrow::Cow;
use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Number, Value};

use super::{Document, Fault, below, too_deep, twice};

pub(super) fn read(text: &str) -> Result<Document, Fault> {
    let mut reading = Reading { events: Parser::new_from_str(text), lines: BTreeMap::new() };
    let mut value = None;
    loop {
        let (event, line) = reading.next()?;
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::Nothing | Event::DocumentEnd => {}
            Event::DocumentStart(_) if value.is_some() => {
                return Err(Fault::new(line, "", "a second document begins here", "write one agent a file"));
            }
            Event::DocumentStart(_) => {
                let (event, line) = reading.next()?;
                value = Some(reading.value(event, line, String::new())?);
            }
            Event::Alias(_)
            | Event::Scalar(..)
            | Event::SequenceStart(..)
            | Event::SequenceEnd
            | Event::MappingStart(..)
            | Event::MappingEnd => {}
        }
    }
    Ok(Document { value: value.unwrap_or_default(), lines: reading.lines })
}

struct Reading<'a> {
    events: Parser<'a, StrInput<'a>>,
    lines: BTreeMap<String, usize>,
}

impl<'a> Reading<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), Fault> {
        match self.events.next() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, start.line().max(1))),
            Some(Err(error)) => {
                let line = error.marker().line().max(1);
                let message = format!("is no YAML: {}", error.info());
                Err(Fault::new(line, "", message, "look at the indentation here and in the line before; no tabs"))
            }
            None => Ok((Event::StreamEnd, 1)),
        }
    }

    fn value(&mut self, event: Event<'a>, line: usize, pointer: String) -> Result<Value, Fault> {
        self.lines.entry(pointer.clone()).or_insert(line);
        if let Some(fault) = too_deep(line, &pointer) {
            return Err(fault);
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                plain(line, &pointer, anchor, tag.as_deref())?;
                scalar(text, style, line, &pointer)
            }
            Event::SequenceStart(anchor, tag) => {
                plain(line, &pointer, anchor, tag.as_deref())?;
                let mut items = Vec::new();
                loop {
                    let (event, line) = self.next()?;
                    if matches!(event, Event::SequenceEnd | Event::StreamEnd) {
                        return Ok(Value::Array(items));
                    }
                    let item = self.value(event, line, format!("{pointer}/{}", items.len()))?;
                    items.push(item);
                }
            }
            Event::MappingStart(anchor, tag) => {
                plain(line, &pointer, anchor, tag.as_deref())?;
                self.mapping(&pointer)
            }
            Event::Alias(_) => Err(named_part(line, &pointer)),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => Ok(Value::Null),
        }
    }

    fn mapping(&mut self, pointer: &str) -> Result<Value, Fault> {
        let mut fields = Map::new();
        loop {
            let (event, line) = self.next()?;
            let name = match event {
                Event::MappingEnd | Event::StreamEnd => return Ok(Value::Object(fields)),
                Event::Scalar(text, _, anchor, tag) => {
                    plain(line, pointer, anchor, tag.as_deref())?;
                    text.into_owned()
                }
                Event::Alias(_) => return Err(named_part(line, pointer)),
                Event::SequenceStart(..)
                | Event::SequenceEnd
                | Event::MappingStart(..)
                | Event::Nothing
                | Event::StreamStart
                | Event::DocumentStart(_)
                | Event::DocumentEnd => {
                    return Err(Fault::new(line, pointer, "a field's name is no text", "write `name: value`"));
                }
            };
            let field = below(pointer, &name);
            if self.lines.insert(field.clone(), line).is_some() {
                return Err(twice(line, &field));
            }
            let (event, line) = self.next()?;
            let value = self.value(event, line, field)?;
            fields.insert(name, value);
        }
    }
}

/// Refuses what JSON has no like of.
fn plain(line: usize, pointer: &str, anchor: usize, tag: Option<&Tag>) -> Result<(), Fault> {
    if anchor > 0 {
        return Err(named_part(line, pointer));
    }
    match tag {
        None => Ok(()),
        Some(tag) => {
            let message = format!("has the tag `{}{}`", tag.handle, tag.suffix);
            Err(Fault::new(line, pointer, message, "remove it; put a text into quotes instead"))
        }
    }
}

fn named_part(line: usize, pointer: &str) -> Fault {
    Fault::new(
        line,
        pointer,
        "an anchor or alias (`&name`, `*name`) stands here",
        "write the part out where it is used",
    )
}

/// A scalar by the core schema of YAML 1.2: `no` and `on` are texts.
fn scalar(text: Cow<'_, str>, style: ScalarStyle, line: usize, pointer: &str) -> Result<Value, Fault> {
    match style {
        ScalarStyle::Plain => {}
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted | ScalarStyle::Literal | ScalarStyle::Folded => {
            return Ok(Value::String(text.into_owned()));
        }
    }
    Ok(match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        other => match number(other) {
            Some(Some(number)) => Value::Number(number),
            Some(None) => {
                let message = format!("{other} is a number that JSON does not have");
                return Err(Fault::new(line, pointer, message, "put it into quotes if it is a text"));
            }
            None => Value::String(text.into_owned()),
        },
    })
}

/// The number that a text is; `Some(None)` for one that JSON cannot hold.
fn number(text: &str) -> Option<Option<Number>> {
    if let Ok(number) = text.parse::<u64>() {
        return Some(Some(number.into()));
    }
    if let Ok(number) = text.parse::<i64>() {
        return Some(Some(number.into()));
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return u64::from_str_radix(digits, radix).ok().map(|number| Some(number.into()));
        }
    }
    if matches!(text.trim_start_matches(['+', '-']), ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Some(None);
    }
    let shape = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    if text.chars().all(shape) && text.chars().any(|c| c.is_ascii_digit()) && !text.starts_with(['e', 'E']) {
        return text.parse::<f64>().ok().map(Number::from_f64);
    }
    None
}
