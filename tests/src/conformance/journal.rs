//! Batches are appended once a position, and read back in order.

use std::time::Duration;

use longhaul::outside::fresh_nonce;
use longhaul::store::{Append, JobRef, Store, StoreError};
use longhaul_engine::budget::Budget;
use longhaul_engine::entry::{Branch, Edit, StepId, StepKind, WaitEnd, WaitFor};
use longhaul_engine::{Batch, Entry, Epoch, JobId, Seq, StepKey, Usage, limits};
use serde_json::json;
use uuid::Uuid;

use crate::sample::{self, NOW, batch, failure, job, noise, outcome, outcomes, reference, session, signal};
use crate::stage::Stage;

async fn written<S: Store>(store: &S, job: &JobRef, batch: &Batch) {
    assert_eq!(store.append(job, batch).await.unwrap(), Append::Written, "at {}", batch.at);
}

/// As they were written, whatever order they were written in.
pub async fn batches_come_back_in_order<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = reference(&job());
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), [], "a job without entries");

    let batches = [outcomes(1, 1), outcomes(2, 3), outcomes(5, 1), outcomes(6, 7)];
    for batch in batches.iter().rev() {
        written(&store, &job, batch).await;
    }
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), batches);

    let other = JobId::from_uuid(Uuid::new_v4());
    assert_eq!(store.journal(other, Seq::FIRST).await.unwrap(), [], "another job's journal");
}

/// One of each, with every field that can be there.
pub async fn every_kind_of_entry_comes_back<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = reference(&job());
    let batch = batch(1, every_entry());
    assert!(batch.entries.len() <= limits::BATCH_ENTRIES_MAX, "it is one batch");
    written(&store, &job, &batch).await;
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), [batch]);
}

/// One of each entry, with every field that can be there.
#[must_use]
pub fn every_entry() -> Vec<Entry> {
    let id = || StepId {
        key: StepKey::at("1[3].", 0),
        name: "read".to_owned(),
        kind: StepKind::Effect,
        branch: Some(Branch { index: 3, of: 10 }),
    };
    let waiting = |on| Entry::Waiting { id: id(), on, until: Some(sample::later(60)) };
    vec![
        Entry::Claimed { epoch: Epoch(7), session: session("session-1"), takeover: true, beside: 0 },
        Entry::StepStarted { id: id() },
        outcome(1, json!({"text": "Größe ✓\u{0}\u{1F980}", "number": 1e-200, "more": [0.1, u64::MAX, i64::MIN, null]})),
        Entry::AttemptFailed {
            id: id(),
            attempt: 1,
            started_at: NOW,
            failure: failure(),
            retry_at: sample::later(10),
            usage: Usage::default(),
        },
        Entry::StepFailed { id: id(), attempt: 2, started_at: NOW, failure: failure(), usage: Usage::default() },
        waiting(WaitFor::Time),
        waiting(WaitFor::Signal { signal: "approval".parse().unwrap() }),
        waiting(WaitFor::Child { child: JobId::from_uuid(Uuid::from_u128(9)), budget: Budget::default() }),
        Entry::WaitEnded { id: id(), end: WaitEnd::Signal { signal_seq: Seq(4) } },
        Entry::Emitted { id: id(), data: json!(["progress", 0.5]) },
        signal("key-1"),
        Entry::CancelRequested {
            key: "key-2".parse().unwrap(),
            by: "ada".to_owned(),
            reason: Some("enough".to_owned()),
        },
        Entry::Completed { output: json!({"report": ""}) },
        Entry::Failed { failure: failure() },
        Entry::Cancelled { by: "ada".to_owned(), reason: None },
        Entry::Replayed {
            key: "key-3".parse().unwrap(),
            by: "ada".to_owned(),
            from: Some(Seq(3)),
            edit: Edit {
                input: Some(json!({"topic": "other"})),
                budget: Some(Budget { tokens: Some(9), wall_seconds: Some(60), ..Budget::default() }),
                ..Edit::default()
            },
        },
    ]
}

/// The loser learns from the refusal itself what the winner wrote, however large; the journal is the winner's.
pub async fn a_conflict_gives_what_stands_there<S: Stage>(stage: &S) {
    let store = stage.store();
    for first in [outcomes(1, 2), batch(1, vec![outcome(1, json!(noise(2 * limits::BATCH_INLINE_BYTES_MAX)))])] {
        let job = reference(&job());
        written(&store, &job, &first).await;
        let second = batch(1, vec![signal("key-1")]);
        assert_eq!(store.append(&job, &second).await.unwrap(), Append::Conflict(Box::new(first.clone())));
        assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), [first]);
    }
}

/// A repeated append is told that it is written: by its mark and nothing else.
pub async fn an_append_knows_its_own_echo<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = reference(&job());
    let first = outcomes(1, 2);
    written(&store, &job, &first).await;
    written(&store, &job, &first).await;

    let mut twin = first.clone();
    twin.nonce = fresh_nonce();
    assert_eq!(store.append(&job, &twin).await.unwrap(), Append::Conflict(Box::new(first.clone())), "the same content");
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), [first]);
}

/// What stands behind a gap does not count until the gap is filled.
pub async fn a_journal_is_cut_at_the_first_gap<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = reference(&job());
    let (first, behind, filling) = (outcomes(1, 2), outcomes(4, 2), outcomes(3, 1));
    written(&store, &job, &behind).await;
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), [], "the first batch is missing");
    written(&store, &job, &first).await;
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), std::slice::from_ref(&first));
    assert_eq!(store.journal(job.job, Seq(3)).await.unwrap(), [], "from the gap itself");
    assert_eq!(store.journal(job.job, Seq(5)).await.unwrap(), std::slice::from_ref(&behind), "from behind the gap");
    written(&store, &job, &filling).await;
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), [first, filling, behind]);
}

/// The batch that holds the position comes first, also when it is as long as a batch can be.
pub async fn a_journal_can_be_read_from_the_middle_of_a_batch<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = reference(&job());
    let longest = u64::try_from(limits::BATCH_ENTRIES_MAX).unwrap();
    let batches =
        [outcomes(1, longest), outcomes(longest + 1, 1), outcomes(longest + 2, longest), outcomes(2 * longest + 2, 1)];
    for batch in &batches {
        written(&store, &job, batch).await;
    }
    let end = 2 * longest + 3;
    for from in 1..end + 2 {
        let expected: Vec<Batch> = batches.iter().filter(|batch| batch.next() > Seq(from)).cloned().collect();
        assert_eq!(store.journal(job.job, Seq(from)).await.unwrap(), expected, "from {from}");
    }
}

/// By where it begins; a position in its middle is none.
pub async fn one_batch_is_read_by_its_position<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = reference(&job());
    let batches = [outcomes(1, 3), outcomes(4, 1)];
    for batch in &batches {
        written(&store, &job, batch).await;
    }
    for (at, expected) in [(1, Some(&batches[0])), (2, None), (3, None), (4, Some(&batches[1])), (5, None)] {
        assert_eq!(store.batch_at(job.job, Seq(at)).await.unwrap().as_ref(), expected, "at {at}");
    }
}

/// From a few bytes to two megabytes, text that compresses and text that does not.
pub async fn large_batches_come_back_whole<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = reference(&job());
    let mut batches = Vec::new();
    for bytes in [10, 3_000, 100_000, 2_000_000] {
        for text in [noise(bytes), "a step at a time ".repeat(bytes / 17)] {
            let at = u64::try_from(batches.len()).unwrap() + 1;
            let mut batch = batch(at, vec![outcome(at, json!(text))]);
            batch.written_at = NOW.plus(Duration::from_millis(at));
            written(&store, &job, &batch).await;
            assert_eq!(store.batch_at(job.job, Seq(at)).await.unwrap().as_ref(), Some(&batch), "{bytes} bytes");
            batches.push(batch);
        }
    }
    assert!(store.journal(job.job, Seq::FIRST).await.unwrap() == batches, "the whole journal comes back");
}

/// It is not decoded, let alone driven on; batches before a gap are readable all the same.
pub async fn a_newer_batch_is_left_alone<S: Stage>(stage: &S) {
    let store = stage.store();
    let job = reference(&job());
    let mut newer = outcomes(2, 1);
    newer.v = limits::PROTOCOL_VERSION + 1;
    written(&store, &job, &newer).await;
    assert_eq!(store.journal(job.job, Seq::FIRST).await.unwrap(), [], "it stands behind a gap");
    written(&store, &job, &outcomes(1, 1)).await;

    let is_newer = |error: StoreError| matches!(error, StoreError::Newer { found, .. } if found == newer.v);
    assert!(is_newer(store.journal(job.job, Seq::FIRST).await.unwrap_err()));
    assert!(is_newer(store.batch_at(job.job, Seq(2)).await.unwrap_err()));
    assert!(is_newer(store.append(&job, &outcomes(2, 1)).await.unwrap_err()));
}
