//! What commands print. A reader that has seen enough and goes away (`| head`) ends the command, not with a fault.

use std::io::{self, Write};

use super::CliError;

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
