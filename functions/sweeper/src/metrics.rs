//! The sweep's numbers as CloudWatch reads them out of a log line (embedded metric format).

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::Swept;

/// Writes the line. It must stand alone on a line of standard output, which is why the log does not do it.
pub(crate) fn print(swept: &Swept) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let line = format!("{}\n", line(swept, now));
    if let Err(error) = std::io::stdout().write_all(line.as_bytes()) {
        tracing::warn!(%error, "the sweep's metrics were not written");
    }
}

fn line(swept: &Swept, since_epoch: Duration) -> Value {
    let count = |name: &str| json!({ "Name": name, "Unit": "Count" });
    json!({
        "_aws": {
            "Timestamp": u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX),
            "CloudWatchMetrics": [{
                "Namespace": "Longhaul",
                "Dimensions": [["function"]],
                "Metrics": [count("JobsLookedAt"), count("ContinuationsSent"), count("SweepFailures")],
            }],
        },
        "function": "sweeper",
        "JobsLookedAt": swept.looked,
        "ContinuationsSent": swept.sent,
        "SweepFailures": swept.failed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_what_cloudwatch_reads() {
        let swept = Swept { looked: 12, sent: 3, failed: 1, cut_short: false };
        insta::assert_json_snapshot!(line(&swept, Duration::from_millis(1_764_440_000_000)));
    }
}
