//! Which records of a stream batch are tried next: retries in order, halves after a failure, and an end to both.

use std::collections::VecDeque;
use std::ops::Range;

/// How often and in what portions failed records are tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a portion is tried again after its first failure (`MaximumRetryAttempts`).
    pub max_retries: u32,
    /// Whether a failed portion of several records is halved, so that one bad record does not take its neighbours
    /// with it (`BisectBatchOnFunctionError`). Halving uses up no retry.
    pub bisect: bool,
}

/// Neighbouring records that are tried together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Portion {
    records: Range<usize>,
    failures: u32,
}

/// What follows a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Records are tried again; so often has this failed in a row.
    Again(u32),
    /// These records have failed too often and are passed over.
    GivenUp(Range<usize>),
}

/// What is still to be done of a batch, in the order of the stream: nothing overtakes a record that fails.
#[derive(Debug)]
pub(super) struct Progress {
    policy: RetryPolicy,
    portions: VecDeque<Portion>,
}

impl Progress {
    /// Begins with these portions.
    pub(super) fn new(policy: RetryPolicy, portions: Vec<Range<usize>>) -> Self {
        let portions = portions.into_iter().map(|records| Portion { records, failures: 0 }).collect();
        Self { policy, portions }
    }

    /// The records to try now; nothing when the batch is done.
    pub(super) fn current(&self) -> Option<Range<usize>> {
        self.portions.front().map(|portion| portion.records.clone())
    }

    /// The current portion is done.
    pub(super) fn succeeded(&mut self) {
        self.portions.pop_front();
    }

    /// The current portion failed at this record; those before it are done. (An error without a report fails at the
    /// portion's first record.)
    pub(super) fn failed(&mut self, at: usize) -> Next {
        let Some(Portion { records, failures }) = self.portions.pop_front() else {
            return Next::Again(0);
        };
        let rest = at.clamp(records.start, records.end.saturating_sub(1))..records.end;
        // Whoever gets further with each try is not failing in a row.
        let failures = if rest.start > records.start { 1 } else { failures.saturating_add(1) };
        if self.policy.bisect && rest.len() > 1 {
            let middle = rest.start + rest.len() / 2;
            self.portions.push_front(Portion { records: middle..rest.end, failures: 0 });
            self.portions.push_front(Portion { records: rest.start..middle, failures: 0 });
            return Next::Again(failures);
        }
        if failures > self.policy.max_retries {
            return Next::GivenUp(rest);
        }
        self.portions.push_front(Portion { records: rest, failures });
        Next::Again(failures)
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::indexing_slicing,
        clippy::single_range_in_vec_init,
        reason = "a failed assumption must fail the test; lists of one range are what is meant"
    )]

    use super::*;

    /// Plays a batch against a function that fails at the first of its bad records, and tells the portions tried and
    /// the records given up.
    fn play(policy: RetryPolicy, count: usize, bad: &[usize], reports: bool) -> (Vec<Range<usize>>, Vec<usize>) {
        let mut progress = Progress::new(policy, vec![0..count]);
        let (mut tried, mut given_up) = (Vec::new(), Vec::new());
        while let Some(records) = progress.current() {
            tried.push(records.clone());
            match records.clone().find(|record| bad.contains(record)) {
                None => progress.succeeded(),
                Some(first_bad) => match progress.failed(if reports { first_bad } else { records.start }) {
                    Next::Again(_) => {}
                    Next::GivenUp(records) => given_up.extend(records),
                },
            }
            assert!(tried.len() < 1000, "there is no end");
        }
        (tried, given_up)
    }

    #[test]
    fn a_bad_record_costs_what_the_policy_says() {
        let policy = |max_retries, bisect| RetryPolicy { max_retries, bisect };
        for (name, policy, bad, reports, tried, given_up) in [
            ("all is well", policy(2, true), vec![], false, vec![0..4], vec![]),
            ("without halving all go", policy(2, false), vec![2], false, vec![0..4, 0..4, 0..4], vec![0, 1, 2, 3]),
            ("no retries at all", policy(0, false), vec![2], false, vec![0..4], vec![0, 1, 2, 3]),
            (
                "halving finds the bad one",
                policy(1, true),
                vec![2],
                false,
                vec![0..4, 0..2, 2..4, 2..3, 2..3, 3..4],
                vec![2],
            ),
            ("a report saves what came before", policy(1, false), vec![2], true, vec![0..4, 2..4], vec![2, 3]),
            ("a report and halving", policy(1, true), vec![1], true, vec![0..4, 1..2, 1..2, 2..4], vec![1]),
        ] {
            assert_eq!(play(policy, 4, &bad, reports), (tried, given_up), "{name}");
        }
    }

    #[test]
    fn every_record_is_done_or_given_up_and_order_is_kept() {
        for bisect in [false, true] {
            for reports in [false, true] {
                for bad in [vec![0], vec![6], vec![0, 6], vec![1, 2, 3], (0..7).collect()] {
                    let policy = RetryPolicy { max_retries: 2, bisect };
                    let (tried, given_up) = play(policy, 7, &bad, reports);
                    assert!(tried.windows(2).all(|pair| pair[0].start <= pair[1].start), "{tried:?}");
                    assert!(bad.iter().all(|record| given_up.contains(record)), "{given_up:?}");
                    if bisect {
                        assert_eq!(given_up, bad, "only the bad ones are lost");
                    }
                }
            }
        }
    }
}
