//! What commands print. A reader that has seen enough and goes away (`| head`) ends the command, not with a fault.

use std::io::{self, Write};

use serde_json::Value;

use super::CliError;

/// Characters of a message that goes into a line.
const LINE_TEXT_MAX: usize = 160;

/// Prints a line on standard output.
pub(super) fn print(line: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(CliError::Output)
}

/// Says a line on standard error. Nobody is told when nobody listens.
pub(super) fn say(line: &str) {
    let _nobody_listens = writeln!(io::stderr().lock(), "{line}");
}

/// A text of several lines without what steers a terminal: documents, models and tools may write anything.
pub(super) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// A value as a short text on one line. Control characters of a model's or tool's making stay out of the terminal.
pub(super) fn line_of(value: Option<&Value>) -> String {
    let text = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut cut: String = plain.clone().take(LINE_TEXT_MAX).collect();
    if plain.count() > LINE_TEXT_MAX {
        cut.push('…');
    }
    cut
}
