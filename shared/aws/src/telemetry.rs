//! Logs: one JSON object a line, which CloudWatch searches by field; plain lines where a person watches.
//!
//! Prompts, answers and tokens are no fields of any log line: what a job says stands in its journal alone.

use std::error::Error;

use tracing_subscriber::EnvFilter;

/// Directives that quiet the libraries underneath: at `debug` they would print headers and bodies.
const LIBRARIES: [&str; 6] = [
    "aws_config=warn",
    "aws_sdk_dynamodb=warn",
    "aws_smithy_runtime=warn",
    "hyper=warn",
    "hyper_util=warn",
    "rustls=warn",
];

/// Starts the logs of this process as its environment asks: the level by `LONGHAUL_LOG` (or Lambda's own
/// `AWS_LAMBDA_LOG_LEVEL`), the form by `LONGHAUL_LOG_FORMAT` (`json`, the default, or `text`). A second call does
/// nothing.
pub fn init() {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let level = variable("LONGHAUL_LOG").or_else(|| variable("AWS_LAMBDA_LOG_LEVEL"));
    let text = variable("LONGHAUL_LOG_FORMAT").is_some_and(|format| format == "text");
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter(level.as_deref())).with_writer(std::io::stderr);
    // Both fail only when a subscriber stands already: then logs go there.
    let _already_started = if text {
        subscriber.with_target(false).try_init().is_err()
    } else {
        subscriber.json().flatten_event(true).with_span_list(false).with_current_span(true).try_init().is_err()
    };
}

/// The filter for a level or a list of directives; what cannot be read counts as `info`.
fn filter(level: Option<&str>) -> EnvFilter {
    let wanted = level.unwrap_or("info").to_ascii_lowercase();
    // Lambda's FATAL is above all that is logged here.
    let wanted = if wanted == "fatal" { "error".to_owned() } else { wanted };
    // A caller's own directive for a library comes later and so goes first.
    let directives = format!("{},{wanted}", LIBRARIES.join(","));
    EnvFilter::try_new(directives).unwrap_or_else(|_| EnvFilter::new("info"))
}

/// An error with everything underneath it, in one line: JSON logs show an error's own message alone.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        line = format!("{line}: {cause}");
        next = cause.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read() {
        for (given, wanted) in [
            (None, "info"),
            (Some("DEBUG"), "debug"),
            (Some("FATAL"), "error"),
            (Some("longhaul_worker=trace,warn"), "longhaul_worker=trace"),
            (Some("longhaul_worker=loud"), "info"),
        ] {
            let shown = filter(given).to_string();
            assert!(shown.contains(wanted), "{given:?} became {shown}");
        }
        assert!(filter(None).to_string().contains("hyper=warn"));
    }

    #[test]
    fn starting_twice_is_safe() {
        init();
        init();
    }
}
