//! The engine's decisions as tables: one row a situation, one `check` a family.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul_engine::append::{AfterRead, NextMove, OnConflict, Stop, after_read, ending, next_move, on_conflict};
use longhaul_engine::budget::{self, Budget, Exhausted, Held};
use longhaul_engine::claim::{ClaimDecision, Holder, News, NoClaim, beside, decide, died_unread, holder};
use longhaul_engine::entry::{Batch, Edit, Entry, StepId, WaitEnd, WaitFor};
use longhaul_engine::ids::{Epoch, IdError, JobId, Nonce, Seq, SessionId, StepKey, TenantId};
use longhaul_engine::job::{Job, JobState, Lease, Mismatch, Order, Totals, Usage};
use longhaul_engine::journal::{Ending, FoldError, KeyKind, StepState};
use longhaul_engine::retry::{AfterFailure, RetryPolicy, after_failure};
use longhaul_engine::sweep::{self, Sweep};
use longhaul_engine::wait::{ComeBack, Place, come_back, fits, place};
use longhaul_engine::{ErrorClass, Failure, Journal, StepKind, Timestamp, limits};
use serde_json::json;
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn after(millis: u64) -> Timestamp {
    NOW.plus(Duration::from_millis(millis))
}

fn nonce(number: u128) -> Nonce {
    Nonce::from_uuid(Uuid::from_u128(number))
}

fn session(name: &str) -> SessionId {
    name.parse().unwrap()
}

fn job(state: JobState, due: Option<Timestamp>) -> Job {
    let order = Order {
        tenant: "acme".parse().unwrap(),
        id: JobId::from_uuid(Uuid::from_u128(7)),
        agent: longhaul_engine::AgentRef { name: "research".parse().unwrap(), version: 1 },
        input: json!({"topic": "queues"}),
        budget: Budget::default(),
        webhook: None,
        webhook_events: Vec::new(),
        labels: BTreeMap::new(),
        parent: None,
        origin: Default::default(),
        thread: None,
        overrides: Default::default(),
        priority: Default::default(),
        traceparent: None,
        submitted_at: NOW,
        submitted_by: "ada".to_owned(),
    };
    let mut job = Job::accepted(order, nonce(1));
    job.progress.state = state;
    job.progress.epoch = Epoch(4);
    job.progress.due = due;
    job
}

fn step(key: &str) -> StepId {
    let (scope, position) = key.rsplit_once(|c: char| !c.is_ascii_digit()).map_or(("", key), |_| {
        let at = key.rfind(|c: char| !c.is_ascii_digit()).unwrap() + 1;
        key.split_at(at)
    });
    StepId {
        key: StepKey::at(scope, position.parse().unwrap()),
        name: format!("step {key}"),
        kind: StepKind::Step,
        branch: None,
    }
}

fn claimed(epoch: u64, takeover: bool) -> Entry {
    Entry::Claimed { epoch: Epoch(epoch), session: session("s"), takeover, beside: 0 }
}

fn done(key: &str) -> Entry {
    Entry::StepCompleted {
        id: step(key),
        attempt: 1,
        started_at: NOW,
        output: json!(key),
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        look: false,
    }
}

fn failed(key: &str) -> Entry {
    let failure = Failure::new(ErrorClass::Invalid, "no");
    Entry::StepFailed { id: step(key), attempt: 1, started_at: NOW, failure, usage: Usage::default() }
}

fn cancel() -> Entry {
    Entry::CancelRequested { key: "c".parse().unwrap(), by: "ada".to_owned(), reason: None }
}

fn signal(name: &str) -> Entry {
    let key = format!("key-{name}").parse().unwrap();
    Entry::Signalled { signal: name.parse().unwrap(), key, payload: json!(name), by: "ada".to_owned() }
}

fn completed() -> Entry {
    Entry::Completed { output: json!("done") }
}

fn job_failed() -> Entry {
    Entry::Failed { failure: Failure::new(ErrorClass::Invalid, "no") }
}

fn replayed(from: Option<u64>) -> Entry {
    let edit = Edit { input: Some(json!({"topic": "edited"})), budget: None, ..Edit::default() };
    Entry::Replayed { key: "r".parse().unwrap(), by: "ada".to_owned(), from: from.map(Seq), edit }
}

/// A journal of one entry a batch; entry `n` is marked with nonce `100 + n`.
fn batches(entries: Vec<Entry>) -> Vec<Batch> {
    (1_u64..)
        .zip(entries)
        .map(|(at, entry)| Batch::new(Seq(at), nonce(100 + u128::from(at)), NOW, vec![entry]))
        .collect()
}

fn journal(entries: Vec<Entry>) -> Journal {
    Journal::read(batches(entries)).unwrap()
}

#[test]
fn who_may_claim() {
    enum Expect {
        NoClaim(NoClaim),
        LookUp,
        Peek,
        Claim { takeover: bool },
    }
    use Expect::{Claim, LookUp, Peek};
    let lease = |name: &str| JobState::Processing { lease: Lease { session: session(name), nonce: nonce(9) } };
    let waiting = |until: Option<Timestamp>| JobState::Waiting { until, seen: Seq(3) };
    let blocked =
        JobState::Blocked { mismatch: Mismatch { step: None, recorded: String::new(), attempted: String::new() } };
    let later = Some(after(60_000));
    let past = Some(NOW);
    let (unknown, unread) = (Holder::Unknown, News::Unknown);
    let rows = [
        ("pending", JobState::Pending, later, unknown, unread, Claim { takeover: false }),
        ("completed", JobState::Completed, None, unknown, unread, Expect::NoClaim(NoClaim::Ended)),
        ("failed", JobState::Failed, None, unknown, unread, Expect::NoClaim(NoClaim::Ended)),
        ("cancelled", JobState::Cancelled, None, unknown, unread, Expect::NoClaim(NoClaim::Ended)),
        ("held, holder unknown", lease("other"), later, unknown, unread, LookUp),
        ("held by a live one", lease("other"), later, Holder::Alive, unread, Expect::NoClaim(NoClaim::Held)),
        ("held by a dead one", lease("other"), later, Holder::Dead, unread, Claim { takeover: true }),
        ("lease lapsed unrenewed", lease("other"), past, Holder::Alive, unread, Claim { takeover: true }),
        ("mine by name only", lease("me"), later, unknown, unread, Claim { takeover: true }),
        ("waiting, not looked", waiting(later), later, unknown, unread, Peek),
        ("waiting, nothing new", waiting(later), later, unknown, News::Nothing, Expect::NoClaim(NoClaim::NothingNew)),
        ("waiting, a signal", waiting(None), later, unknown, News::Something, Claim { takeover: false }),
        ("waiting, time is up", waiting(past), later, unknown, unread, Claim { takeover: false }),
        ("blocked", blocked, later, unknown, unread, Claim { takeover: false }),
    ];
    for (name, state, due, holder, news, expect) in rows {
        let job = job(state, due);
        let decision = decide(&job, &session("me"), holder, news, nonce(42), NOW);
        match (expect, decision) {
            (Expect::NoClaim(expected), ClaimDecision::Acknowledge(found)) => assert_eq!(found, expected, "{name}"),
            (LookUp, ClaimDecision::LookUp(found)) => assert_eq!(found, session("other"), "{name}"),
            (Peek, ClaimDecision::Peek(from)) => assert_eq!(from, Seq(3), "{name}"),
            (Claim { takeover }, ClaimDecision::Claim(claim)) => {
                assert_eq!(claim.takeover, takeover, "{name}");
                assert_eq!(claim.epoch, Epoch(5), "{name}: the epoch grows by one");
                assert_eq!(claim.write.last_write, nonce(1), "{name}: exactly on what was read");
                assert!(claim.write.progress.due.is_some(), "{name}: due is set while a job lives");
            }
            (_, other) => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_session_is_dead_after_its_silence() {
    let rows = [(0, Holder::Alive), (19_999, Holder::Alive), (20_000, Holder::Dead), (600_000, Holder::Dead)];
    for (silence, expected) in rows {
        assert_eq!(holder(Some(NOW), after(silence)), expected, "silent for {silence} ms");
    }
    assert_eq!(holder(None, NOW), Holder::Dead, "a session without an item");
    let arrives = limits::WATCHDOG_DELAY_SECONDS * 1_000;
    assert!(arrives >= limits::SESSION_SILENCE_MAX_MS, "the last watchdog must find the session dead");
    assert!(arrives + limits::HEARTBEAT_INTERVAL_MS <= 30_000, "a killed worker's job goes on within 30 s");
}

#[test]
fn what_stands_at_my_position() {
    let rows: Vec<(&str, Vec<Entry>, OnConflict)> = vec![
        ("a signal", vec![signal("go")], OnConflict::Reconsider),
        ("a cancel", vec![cancel()], OnConflict::Reconsider),
        ("an older claim", vec![claimed(4, false)], OnConflict::Reconsider),
        ("a newer claim", vec![claimed(6, true)], OnConflict::Stop(Stop::Fenced { by: Epoch(6) })),
        ("my epoch, not mine", vec![claimed(5, false)], OnConflict::Stop(Stop::Fenced { by: Epoch(5) })),
        ("the end", vec![completed()], OnConflict::Stop(Stop::Ended)),
        (
            "a signal, then a newer claim",
            vec![signal("go"), claimed(6, true)],
            OnConflict::Stop(Stop::Fenced { by: Epoch(6) }),
        ),
        ("an outcome of an older epoch", vec![done("0")], OnConflict::Reconsider),
    ];
    for (name, entries, expected) in rows {
        let found = Batch::new(Seq(3), nonce(77), NOW, entries.clone());
        assert_eq!(on_conflict(Epoch(5), nonce(1), &found), expected, "{name}");
        let mine = Batch::new(Seq(3), nonce(1), NOW, entries);
        assert_eq!(on_conflict(Epoch(5), nonce(1), &mine), OnConflict::Own, "{name}, my own mark");
    }
}

#[test]
fn what_a_claimer_finds_in_the_journal() {
    let rows: Vec<(&str, Vec<Entry>, AfterRead)> = vec![
        ("nothing", vec![], AfterRead::Claim),
        ("an older claim", vec![claimed(4, false), done("0")], AfterRead::Claim),
        ("a newer claim", vec![claimed(6, false)], AfterRead::Stop(Stop::Fenced { by: Epoch(6) })),
        ("my epoch taken", vec![claimed(5, false)], AfterRead::Stop(Stop::Fenced { by: Epoch(5) })),
        (
            "the end",
            vec![claimed(4, false), completed()],
            AfterRead::Repair(Ending::Completed { output: json!("done") }),
        ),
        ("opened again", vec![claimed(4, false), job_failed(), replayed(None)], AfterRead::Claim),
    ];
    for (name, entries, expected) in rows {
        let journal = journal(entries);
        assert_eq!(after_read(&journal, Epoch(5), journal.next()), expected, "{name}");
    }
}

#[test]
fn crashes_in_a_row_are_counted_in_the_journal() {
    let rows: Vec<(&str, Vec<Entry>, u32)> = vec![
        ("a first claim", vec![claimed(1, false)], 0),
        ("three crashes", vec![claimed(1, false), claimed(2, true), claimed(3, true), claimed(4, true)], 3),
        ("progress between", vec![claimed(1, false), claimed(2, true), done("0"), claimed(3, true)], 1),
        ("a release between", vec![claimed(1, false), claimed(2, true), claimed(3, false), claimed(4, true)], 1),
        ("releases alone", vec![claimed(1, false), claimed(2, false), claimed(3, false), claimed(4, false)], 0),
        ("an epoch that never wrote", vec![claimed(1, false), claimed(2, true), claimed(4, true)], 1),
        ("signals are no progress", vec![claimed(1, false), claimed(2, true), signal("go"), claimed(3, true)], 2),
        (
            "the start of an at-most-once step is no progress",
            vec![claimed(1, false), claimed(2, true), Entry::StepStarted { id: step("0") }, claimed(3, true)],
            2,
        ),
    ];
    for (name, entries, expected) in rows {
        let journal = journal(entries);
        assert_eq!(journal.crashes_in_row(), expected, "{name}");
        let ends = matches!(next_move(&journal), NextMove::End(Ending::Failed { .. }));
        assert_eq!(ends, expected >= limits::CRASHES_MAX, "{name}: worker_lost at {}", limits::CRASHES_MAX);
    }
}

/// A claim by a process that has so many other jobs in hand.
fn among(epoch: u64, takeover: bool, others: u32) -> Entry {
    Entry::Claimed { epoch: Epoch(epoch), session: session("s"), takeover, beside: beside(others) }
}

/// The story of a job: for each of its sessions, which all die without progress, how many others its process had in hand.
fn dying(others: &[u32]) -> Journal {
    let claims = (1..).zip(others).map(|(epoch, others)| among(epoch, epoch > 1, *others));
    let last = among(others.len() as u64 + 1, true, 0);
    journal(claims.chain([last]).collect())
}

#[test]
fn a_death_among_many_is_not_the_jobs_own() {
    let few = limits::NEIGHBOURS_FEW_MAX;
    let rows: [(&str, &[u32], bool); 9] = [
        ("alone", &[0; 3], true),
        ("a batch of the queue", &[few; 3], true),
        ("one more than that", &[few + 1; 3], false),
        ("alone at the last", &[500, 500, 0], false),
        ("twice alone", &[500, 0, 0], false),
        ("three times alone among others", &[500, 0, 500, 0, 500, 0], true),
        ("always among many", &[500; 8], false),
        ("always among many, once more", &[500; 9], true),
        ("both together", &[500, 500, 500, 0, 500, 500, 500, 0, 500], true),
    ];
    for (name, others, ends) in rows {
        let journal = dying(others);
        let own = others.iter().filter(|others| **others <= few).count() as u32;
        assert_eq!((journal.crashes_in_row(), journal.own_crashes_in_row()), (others.len() as u32, own), "{name}");
        assert_eq!(matches!(next_move(&journal), NextMove::End(Ending::Failed { .. })), ends, "{name}");
    }
}

/// Whatever neighbours a job has: it does not die for ever.
#[test]
fn every_job_that_only_dies_ends_in_bounded_time() {
    let most = limits::CRASHES_SHARED_MAX as usize;
    for pattern in 0_u32..1 << most {
        let others: Vec<u32> = (0..most).map(|at| if pattern >> at & 1 == 1 { 500 } else { 0 }).collect();
        let ends = (1..=most).find(|died| next_move(&dying(&others[..*died])) != NextMove::Drive);
        assert!(ends.is_some_and(|died| died >= limits::CRASHES_MAX as usize), "{others:?}");
    }
}

#[test]
fn progress_forgets_deaths_among_many_too() {
    let mut entries: Vec<Entry> = (1..8).map(|epoch| among(epoch, epoch > 1, 500)).collect();
    entries.extend([done("0"), among(8, true, 500), among(9, true, 500)]);
    let journal = journal(entries);
    assert_eq!((journal.crashes_in_row(), journal.own_crashes_in_row()), (2, 0));
}

#[test]
fn a_claim_without_many_neighbours_is_written_as_ever() {
    let written = |others| serde_json::to_value(among(2, true, others)).unwrap();
    let ever = json!({"type": "claimed", "epoch": 2, "session": "s", "takeover": true});
    assert_eq!(written(limits::NEIGHBOURS_FEW_MAX), ever);
    assert_eq!(written(341)["beside"], 341);
}

#[test]
fn a_cancel_goes_before_the_agents_own_end() {
    let wanted = Ending::Completed { output: json!(1) };
    let rows: Vec<(&str, Vec<Entry>, bool)> = vec![
        ("no cancel", vec![claimed(1, false)], false),
        ("a cancel", vec![claimed(1, false), cancel()], true),
        ("a cancel before the claim", vec![cancel(), claimed(1, false)], true),
        ("a cancel of the time before a replay", vec![cancel(), job_failed(), replayed(None)], false),
    ];
    for (name, entries, cancelled) in rows {
        let journal = journal(entries);
        assert_eq!(matches!(ending(&journal, &wanted), Ending::Cancelled { .. }), cancelled, "{name}");
        assert_eq!(matches!(next_move(&journal), NextMove::End(Ending::Cancelled { .. })), cancelled, "{name}");
    }
}

#[test]
fn a_replay_keeps_what_was_good() {
    let story = || vec![claimed(1, false), done("0"), done("1"), failed("2"), job_failed()];
    let rows: Vec<(&str, Option<u64>, Vec<&str>)> =
        vec![("from the last good step", None, vec!["0", "1"]), ("from position 3", Some(3), vec!["0"])];
    for (name, from, kept) in rows {
        let mut entries = story();
        entries.push(replayed(from));
        let journal = journal(entries);
        let steps: Vec<&str> = journal.steps().map(|record| record.id.key.as_str()).collect();
        assert_eq!(steps, kept, "{name}");
        assert_eq!(journal.ending(), None, "{name}");
        let order = job(JobState::Pending, None).order;
        assert_eq!(journal.edited(&order).input, json!({"topic": "edited"}), "{name}");
        assert_eq!(journal.totals().usage.tokens(), 30, "{name}: what was paid stays paid");
    }
}

/// Found by seeds: a replay made an effect again that is made at most once and had been cut off.
#[test]
fn a_replay_does_not_repeat_what_may_have_happened_unless_it_is_told_to() {
    let id = || StepId { kind: StepKind::EffectOnce, ..step("0") };
    for (class, from, kept) in [
        (ErrorClass::Interrupted, None, true),
        (ErrorClass::Interrupted, Some(2), false),
        (ErrorClass::Invalid, None, false),
    ] {
        let failure = Failure::new(class, "cut off");
        let cut_off = Entry::StepFailed {
            id: id(),
            attempt: 1,
            started_at: Timestamp::from_millis(0),
            failure,
            usage: Usage::default(),
        };
        let started = Entry::StepStarted { id: id() };
        let journal = journal(vec![claimed(1, false), started, cut_off, job_failed(), replayed(from)]);
        assert_eq!(journal.steps().count() == 1, kept, "{class:?} {from:?}");
    }
}

#[test]
fn a_replay_forgets_a_childs_failure_and_keeps_its_result_for_the_wait_to_come() {
    let child = || StepId { kind: StepKind::Child, ..step("0") };
    let story = |status: &str| {
        let key = "child:7:0".parse().unwrap();
        let payload = json!({"status": status, "output": 1});
        vec![
            claimed(1, false),
            Entry::Signalled { signal: "child:7".parse().unwrap(), key, payload, by: "job:7".to_owned() },
            Entry::WaitEnded { id: child(), end: WaitEnd::Signal { signal_seq: Seq(2) } },
            job_failed(),
        ]
    };
    // How the child ended, from where the parent is replayed, whether its wait still has its end, and whether the
    // child's signal is there for a new wait.
    let rows = [
        ("COMPLETED", None, true, false),
        ("COMPLETED", Some(2), false, true),
        ("FAILED", None, false, false),
        ("FAILED", Some(2), false, false),
    ];
    for (status, from, kept, untaken) in rows {
        let mut entries = story(status);
        entries.push(replayed(from));
        let journal = journal(entries);
        assert_eq!(journal.step(&child().key).is_some(), kept, "{status} {from:?}");
        assert_eq!(journal.untaken_signal(&"child:7".parse().unwrap()).is_some(), untaken, "{status} {from:?}");
    }
}

#[test]
fn deaths_before_anything_was_written_are_told_from_those_behind_a_claim() {
    let rows = [(5, 0, false), (6, 0, true), (6, 1, false), (12, 7, false), (12, 6, true)];
    for (attempts, claims_written, expected) in rows {
        assert_eq!(died_unread(attempts, claims_written), expected, "{attempts} claims, {claims_written} written");
    }
}

#[test]
fn a_signal_is_kept_for_its_wait_and_taken_once() {
    let wait = |end| Entry::WaitEnded { id: StepId { kind: StepKind::Signal, ..step("0") }, end };
    let early = journal(vec![signal("approval"), claimed(1, false)]);
    let name = "approval".parse().unwrap();
    assert_eq!(early.untaken_signal(&name).map(|signal| signal.seq), Some(Seq(1)), "an early signal is kept");
    let taken = journal(vec![signal("approval"), claimed(1, false), wait(WaitEnd::Signal { signal_seq: Seq(1) })]);
    assert_eq!(taken.untaken_signal(&name), None);
    let late = journal(vec![claimed(1, false), wait(WaitEnd::Time), signal("approval")]);
    let state = &late.step(&StepKey::at("", 0)).unwrap().state;
    assert_eq!(*state, StepState::WaitEnded { end: WaitEnd::Time }, "a late signal does not undo a timeout");
    assert!(taken.has_key(KeyKind::Signal, &"key-approval".parse().unwrap()));
    assert!(!taken.has_key(KeyKind::Cancel, &"key-approval".parse().unwrap()), "a key is its kind's alone");
}

#[test]
fn journals_that_cannot_be_read() {
    let mut newer = batches(vec![claimed(1, false)]);
    newer[0].v = limits::PROTOCOL_VERSION + 1;
    let mut gap = batches(vec![claimed(1, false), done("0")]);
    gap[1].at = Seq(3);
    let waiting = Entry::Waiting { id: step("0"), on: WaitFor::Time, until: None };
    let rows = [
        (newer, FoldError::Newer { at: Seq(1), found: limits::PROTOCOL_VERSION + 1, known: limits::PROTOCOL_VERSION }),
        (gap, FoldError::Gap { expected: Seq(2), found: Seq(3) }),
        (batches(vec![done("0"), done("0")]), FoldError::SecondOutcome { step: StepKey::at("", 0), at: Seq(2) }),
        (batches(vec![done("0"), waiting]), FoldError::SecondOutcome { step: StepKey::at("", 0), at: Seq(2) }),
        (batches(vec![completed(), claimed(2, false)]), FoldError::AfterEnd { at: Seq(2) }),
    ];
    for (batches, expected) in rows {
        assert_eq!(Journal::read(batches), Err(expected));
    }
}

#[test]
fn when_a_step_is_tried_again() {
    let policy = RetryPolicy::default();
    let job = JobId::from_uuid(Uuid::from_u128(7));
    let key = StepKey::at("", 0);
    // Attempt, class, Retry-After in ms, earliest and latest wait in ms; none: given up.
    let rows = [
        (1, ErrorClass::Transient, None, Some((10_000, 12_000))),
        (2, ErrorClass::Transient, None, Some((30_000, 36_000))),
        (3, ErrorClass::Transient, None, None),
        (1, ErrorClass::RateLimited, Some(45_000), Some((45_000, 54_000))),
        (1, ErrorClass::RateLimited, Some(7_000), Some((7_000, 8_400))),
        (2, ErrorClass::RateLimited, Some(0), Some((1_000, 1_200))),
        (1, ErrorClass::RateLimited, Some(u64::MAX), Some((86_400_000, 103_680_000))),
        (1, ErrorClass::Refused, None, None),
        (1, ErrorClass::ContextOverflow, None, None),
        (1, ErrorClass::Schema, None, None),
        (1, ErrorClass::Auth, None, None),
        (1, ErrorClass::Invalid, Some(1_000), None),
    ];
    for (attempt, class, retry_after, expected) in rows {
        let asked = retry_after.map(Duration::from_millis);
        let decision = after_failure(&policy, job, &key, attempt, class, asked, NOW);
        match (decision, expected) {
            (AfterFailure::GiveUp, None) => {}
            (AfterFailure::Retry { at }, Some((earliest, latest))) => {
                assert!((after(earliest)..=after(latest)).contains(&at), "{attempt} {class:?}: {at:?}");
            }
            (found, expected) => panic!("{attempt} {class:?}: {found:?}, expected {expected:?}"),
        }
        assert_eq!(decision, after_failure(&policy, job, &key, attempt, class, asked, NOW), "the same at every look");
    }
}

/// Jobs that failed together do not come back together.
#[test]
fn jobs_are_tried_again_at_times_of_their_own() {
    let at = |job: u128| {
        let (policy, job) = (RetryPolicy::default(), JobId::from_uuid(Uuid::from_u128(job)));
        match after_failure(&policy, job, &StepKey::at("", 0), 1, ErrorClass::Transient, None, NOW) {
            AfterFailure::Retry { at } => at,
            AfterFailure::GiveUp => panic!("given up"),
        }
    };
    let times: std::collections::BTreeSet<_> = (0..100).map(at).collect();
    assert!(times.len() > 50, "{} times for 100 jobs", times.len());
}

#[test]
fn where_a_wait_is_spent() {
    // Wait and time left in the invocation, in ms.
    let rows = [
        (0, 60_000, Place::Inside),
        (1_500, 60_000, Place::Inside),
        (1_501, 60_000, Place::Released),
        (1_000, 1_500, Place::Released),
    ];
    for (wait, left, expected) in rows {
        assert_eq!(place(NOW, after(wait), after(left)), expected, "{wait} ms of {left} ms");
    }
    let rows = [(5_000, 6_000, true), (5_000, 5_999, false), (0, 500, false)];
    for (limit, left, expected) in rows {
        assert_eq!(fits(NOW, Duration::from_millis(limit), after(left)), expected, "{limit} ms of {left} ms");
    }
}

#[test]
fn how_a_waiting_job_comes_back() {
    let minutes = |count: u64| count * 60_000;
    let seconds = Duration::from_secs;
    let rows = [
        (None, ComeBack { due: after(60_000), message_delay: None }),
        (Some(10_000), ComeBack { due: after(70_000), message_delay: Some(seconds(10)) }),
        (Some(10_001), ComeBack { due: after(70_001), message_delay: Some(seconds(11)) }),
        (Some(minutes(15)), ComeBack { due: after(minutes(16)), message_delay: Some(seconds(900)) }),
        (Some(minutes(16)), ComeBack { due: after(60_000), message_delay: None }),
    ];
    for (wait, expected) in rows {
        assert_eq!(come_back(NOW, wait.map(after)), expected, "{wait:?}");
    }
}

#[test]
fn what_the_budget_allows() {
    let used = |tokens, steps| Totals { usage: Usage { input_tokens: tokens, ..Usage::default() }, steps };
    let budget = Budget { tokens: Some(100), steps: Some(5), wall_seconds: Some(60), ..Budget::default() };
    let rows = [
        (budget, used(0, 0), 100, 0, Ok(())),
        (budget, used(50, 0), 51, 0, Err(Exhausted::Tokens { limit: 100, used: 50, reserved: 51 })),
        (budget, used(100, 0), 0, 0, Err(Exhausted::Tokens { limit: 100, used: 100, reserved: 0 })),
        (budget, used(0, 5), 0, 0, Err(Exhausted::Steps { limit: 5 })),
        (budget, used(0, 0), 0, 60_000, Err(Exhausted::Wall { limit: 60 })),
        (Budget::default(), used(u64::MAX, 9_999), u64::MAX, u64::MAX / 2_000, Ok(())),
        (Budget::default(), used(0, 10_000), 0, 0, Err(Exhausted::Steps { limit: 10_000 })),
    ];
    for (budget, totals, reserved, age, expected) in rows {
        let held = Held::for_step(reserved, None);
        assert_eq!(budget::check(&budget, &totals, held, NOW, after(age)), expected);
    }
}

#[test]
fn what_the_sweeper_does() {
    let minute = 60_000;
    let waiting = |end| JobState::Waiting { until: Some(after(end)), seen: Seq(3) };
    let rows = [
        (JobState::Pending, Some(0), 0, Sweep::Send { seen_due: NOW, due: after(minute) }),
        (JobState::Pending, Some(0), 3, Sweep::Send { seen_due: NOW, due: after(8 * minute) }),
        (JobState::Pending, Some(0), 60, Sweep::Send { seen_due: NOW, due: after(60 * minute) }),
        (waiting(30_000), Some(0), 5, Sweep::Send { seen_due: NOW, due: after(30_000) }),
        (JobState::Pending, Some(1), 0, Sweep::Leave),
        (JobState::Completed, None, 0, Sweep::Leave),
    ];
    for (state, due, sweeps, expected) in rows {
        let mut job = job(state, due.map(after));
        job.sweeps = sweeps;
        assert_eq!(sweep::decide(&job, NOW), expected);
    }
}

#[test]
fn ids_are_what_they_say() {
    let tenant: TenantId = "acme".parse().unwrap();
    assert_eq!(JobId::of_key(&tenant, "k"), JobId::of_key(&tenant, "k"), "one key, one job");
    let apart = [JobId::of_key(&"a".parse().unwrap(), "b:c"), JobId::of_key(&"a:b".parse().unwrap(), "c")];
    assert_ne!(apart[0], apart[1], "tenant and key do not run together");
    for bad in ["", "a b", "a/b", "ä", "a\n", &"x".repeat(limits::TENANT_LENGTH_MAX + 1)] {
        assert!(bad.parse::<TenantId>().is_err(), "{bad:?}");
    }
    for bad in ["", "7", "{0190b6a2-7d3c-7c4e-9b1f-0a2b3c4d5e6f}", "0190b6a27d3c7c4e9b1f0a2b3c4d5e6f", "../x"] {
        assert_eq!(bad.parse::<JobId>(), Err(IdError::Job), "{bad:?}");
    }
    let branch = StepKey::at("", 1).branch_scope(3);
    assert_eq!(StepKey::at(&branch, 0).as_str(), "1[3].0");
}
