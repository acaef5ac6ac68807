//! The sweep's numbers, as CloudWatch reads them out of a log line.

use std::time::SystemTime;

use longhaul_aws::metrics;
use metrique::unit::Count;
use metrique::unit_of_work::metrics;
use metrique::{CloseValue as _, RootEntry};

use crate::Swept;

/// Prints the line.
pub(crate) fn print(swept: &Swept) {
    metrics::print(&RootEntry::new(Line::new(swept, SystemTime::now(), metrics::function_name()).close()));
}

#[metrics(emf::dimension_sets = [["function"]])]
struct Line {
    #[metrics(timestamp)]
    at: SystemTime,
    function: String,
    #[metrics(name = "JobsLookedAt", unit = Count)]
    jobs_looked_at: u64,
    #[metrics(name = "ContinuationsSent", unit = Count)]
    continuations_sent: u64,
    #[metrics(name = "SweepFailures", unit = Count)]
    sweep_failures: u64,
}

impl Line {
    const fn new(swept: &Swept, at: SystemTime, function: String) -> Self {
        Self {
            at,
            function,
            jobs_looked_at: swept.looked,
            continuations_sent: swept.sent,
            sweep_failures: swept.failed,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use std::time::Duration;

    use super::*;

    #[test]
    fn the_line_is_what_cloudwatch_reads() {
        let swept = Swept { looked: 12, sent: 3, failed: 1, cut_short: false };
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_764_440_000_000);
        let line = metrics::line(&RootEntry::new(Line::new(&swept, at, "sweeper".to_owned()).close())).unwrap();
        insta::assert_json_snapshot!(serde_json::from_slice::<serde_json::Value>(&line).unwrap());
    }
}
