//! An error with everything underneath it, in one line for the log.

use std::error::Error;

/// The messages from the error down to its first cause.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        line = format!("{line}: {cause}");
        next = cause.source();
    }
    line
}
