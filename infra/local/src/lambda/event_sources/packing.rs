//! Fitting the records of a batch into events that an invocation can carry.

use std::ops::Range;

use crate::lambda::runtime_api::PAYLOAD_MAX_BYTES;

/// What an event has around its records.
const HEAD: &str = "{\"Records\":[";
const TAIL: &str = "]}";

/// Splits records into runs of neighbours, each of which fits into one event. A record that is too large alone gets
/// an event of its own, and Lambda's refusal.
pub(super) fn pack(records: &[String]) -> Vec<Range<usize>> {
    let room = PAYLOAD_MAX_BYTES - HEAD.len() - TAIL.len();
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut filled = 0_usize;
    for (position, record) in records.iter().enumerate() {
        // One byte for the comma.
        let bytes = record.len().saturating_add(1);
        match runs.last_mut() {
            Some(run) if filled.saturating_add(bytes) <= room => {
                run.end = position + 1;
                filled += bytes;
            }
            Some(_) | None => {
                runs.push(position..position + 1);
                filled = bytes;
            }
        }
    }
    runs
}

/// The event of these records, which are JSON already.
pub(super) fn event(records: &[String]) -> String {
    [HEAD, &records.join(","), TAIL].concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "lists of one run are what is expected")]

    use super::*;

    #[test]
    fn runs_fit_and_leave_nothing_out() {
        let mb = 1024 * 1024;
        for (sizes, expected) in [
            (vec![], vec![]),
            (vec![5], vec![0..1]),
            (vec![5, 5, 5], vec![0..3]),
            (vec![3 * mb, 2 * mb, 2 * mb, mb], vec![0..2, 2..4]),
            (vec![7 * mb, 5, 5], vec![0..1, 1..3]),
            (vec![5, 7 * mb, 5], vec![0..1, 1..2, 2..3]),
        ] {
            let records: Vec<String> = sizes.iter().map(|size| "x".repeat(*size)).collect();
            assert_eq!(pack(&records), expected, "{sizes:?}");
        }
        let full = vec!["x".repeat(PAYLOAD_MAX_BYTES / 2 - HEAD.len()); 2];
        assert_eq!(pack(&full), [0..2]);
        assert!(event(&full).len() <= PAYLOAD_MAX_BYTES);
    }

    #[test]
    fn events_are_json() {
        assert_eq!(event(&[]), r#"{"Records":[]}"#);
        assert_eq!(event(&["1".to_owned(), "2".to_owned()]), r#"{"Records":[1,2]}"#);
    }
}
