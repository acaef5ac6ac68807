//! Metrics as CloudWatch reads them out of log lines (embedded metric format): no call, no agent, no client.
//!
//! A line stands alone on standard output, apart from the logs. Alarms tell systems apart by the function's name, which
//! AWS gives and which is another in each deployment.

use std::io::Write;

use metrique::emf::Emf;
use metrique::writer::format::Format;
use metrique::writer::{Entry, IoStreamError};

/// The namespace of all of our metrics.
pub const NAMESPACE: &str = "Longhaul";
/// The name of the function that this process runs: the value of the one dimension.
#[must_use]
pub fn function_name() -> String {
    std::env::var("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default()
}

/// The line of an entry, whose one dimension is its field `function`.
///
/// # Errors
/// [`IoStreamError`] when the entry cannot be written down.
pub fn line(entry: &impl Entry) -> Result<Vec<u8>, IoStreamError> {
    let mut line = Vec::new();
    // The dimension is the entry's own; validations would cost time at each line, and the tests hold the lines.
    Emf::no_validations(NAMESPACE.to_owned(), vec![vec![]]).format(entry, &mut line)?;
    Ok(line)
}

/// Prints an entry's line. What fails is a number less, and said in the log.
pub fn print(entry: &impl Entry) {
    let printed = line(entry)
        .map_err(|error| error.to_string())
        .and_then(|line| std::io::stdout().write_all(&line).map_err(|error| error.to_string()));
    if let Err(error) = printed {
        tracing::warn!(error, "metrics were not written");
    }
}
