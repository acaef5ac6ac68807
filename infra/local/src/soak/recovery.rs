//! How long jobs stood still after a kill: from the moment at which their process died to their next journal entry.

use std::time::Duration;

use longhaul_engine::{Batch, Entry, SessionId, Timestamp};

/// The kill of a function process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kill {
    /// When.
    pub at: Timestamp,
    /// Its function.
    pub function: String,
    /// The sessions that died with it: the invocations that it was in.
    pub sessions: Vec<SessionId>,
}

/// For each of the kills that this job was held by the victim of: how long until its next entry. Kills after which
/// nothing came any more are left to the auditor.
#[must_use]
pub fn stood_still(kills: &[Kill], journal: &[Batch]) -> Vec<Duration> {
    kills.iter().filter_map(|kill| after(kill, journal)).collect()
}

fn after(kill: &Kill, journal: &[Batch]) -> Option<Duration> {
    let written = journal.iter().take_while(|batch| batch.written_at <= kill.at).count();
    let before = journal.get(..written)?;
    let holder = before.iter().flat_map(|batch| &batch.entries).rev().find_map(|entry| match entry {
        Entry::Claimed { session, .. } => Some(session),
        _ => None,
    })?;
    let next = journal.get(written)?;
    // A job that was given back in order is taken up without a takeover, and was not the victim's any more.
    let given_back = matches!(next.entries.first(), Some(Entry::Claimed { takeover: false, .. }));
    (kill.sessions.contains(holder) && !given_back).then(|| next.written_at.since(kill.at))
}

/// The smallest of these that is not under `percent` percent of them; none when there are none.
#[must_use]
pub fn percentile(times: &[Duration], percent: usize) -> Option<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let rank = sorted.len().saturating_mul(percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use longhaul_engine::ids::Epoch;
    use longhaul_engine::{Seq, StepKey, StepKind};
    use serde_json::json;

    use super::*;

    /// An entry with its time.
    type Timed = (u64, Entry);

    fn journal(entries: &[Timed]) -> Vec<Batch> {
        let batch = |(at, (time, entry)): (u64, &(u64, Entry))| {
            let nonce = longhaul::outside::fresh_nonce();
            Batch::new(Seq(at), nonce, Timestamp::from_millis(*time), vec![entry.clone()])
        };
        (1..).zip(entries).map(batch).collect()
    }

    fn claim(session: &str, takeover: bool) -> Entry {
        Entry::Claimed { epoch: Epoch(1), session: session.parse().unwrap(), takeover, beside: 0 }
    }

    fn shown() -> Entry {
        let id = longhaul_engine::entry::StepId {
            key: StepKey::at("", 0),
            name: "s".to_owned(),
            kind: StepKind::Emit,
            branch: None,
        };
        Entry::Emitted { id, data: json!(1) }
    }

    #[test]
    fn a_standstill_is_from_the_kill_of_the_holder_to_the_next_entry() {
        // The journal with its times, when which session was killed, and for how long the job stood still.
        let taken_over = [(10, claim("a", false)), (20, shown()), (70, claim("b", true)), (80, shown())];
        let given_back = [(10, claim("a", false)), (20, shown()), (70, claim("b", false))];
        let rows: [(&[Timed], u64, &str, Option<u64>); 7] = [
            (&taken_over, 30, "a", Some(40)),
            (&taken_over, 20, "a", Some(50)),
            (&taken_over, 30, "b", None),
            (&taken_over, 75, "b", Some(5)),
            (&taken_over, 90, "b", None),
            (&taken_over, 5, "a", None),
            (&given_back, 30, "a", None),
        ];
        for (entries, at, session, expected) in rows {
            let at = Timestamp::from_millis(at);
            let kill = Kill { at, function: "worker".to_owned(), sessions: vec![session.parse().unwrap()] };
            let expected: Vec<_> = expected.map(Duration::from_millis).into_iter().collect();
            assert_eq!(stood_still(&[kill], &journal(entries)), expected, "{session} killed at {at:?}");
        }
    }

    #[test]
    fn percentiles_are_of_the_times_themselves() {
        let times: Vec<_> = (1..=10).rev().map(Duration::from_millis).collect();
        for (percent, expected) in [(50, 5), (99, 10), (100, 10), (1, 1)] {
            assert_eq!(percentile(&times, percent), Some(Duration::from_millis(expected)), "{percent}");
        }
        assert_eq!(percentile(&[], 50), None);
    }
}
