//! The simulation misbehaves as it was told, and by the same seed in the same way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may panic: that is how it fails")]

use std::time::Duration;

use longhaul::store::{Append, Continuation, JobRef, Store};
use longhaul_engine::{Batch, Entry, Epoch, JobId, Nonce, Seq, Timestamp};
use longhaul_sim::{CallFaults, Crash, Death, Faults, Moment, QueueFaults, Sim};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

const ALWAYS: u32 = 1_000;
const LONG: Duration = Duration::from_secs(1_000_000);

fn reference() -> JobRef {
    JobRef { tenant: "acme".parse().unwrap(), job: JobId::from_uuid(Uuid::from_u128(7)) }
}

fn batch(at: u64) -> Batch {
    let claimed = Entry::Claimed { epoch: Epoch(1), session: "session-1".parse().unwrap(), takeover: false, beside: 0 };
    let nonce = Nonce::from_uuid(Uuid::from_u128(at.into()));
    Batch::new(Seq(at), nonce, Timestamp::from_millis(0), vec![claimed])
}

fn batches(sim: &Sim) -> usize {
    sim.snapshot().journals.values().map(Vec::len).sum()
}

#[tokio::test(start_paused = true)]
async fn a_call_fails_as_told() {
    let calls = CallFaults::default;
    let late_max = Duration::from_secs(5);
    for (name, faults, succeeds, stands_at_once, stands_later) in [
        ("before", CallFaults { fail_before_permille: ALWAYS, ..calls() }, false, 0, 0),
        ("after", CallFaults { fail_after_permille: ALWAYS, ..calls() }, false, 1, 1),
        ("repeated", CallFaults { repeat_permille: ALWAYS, ..calls() }, true, 1, 1),
        ("late", CallFaults { late_permille: ALWAYS, late_max, ..calls() }, false, 0, 1),
        ("fine", calls(), true, 1, 1),
    ] {
        let sim = Sim::new(1, Faults { calls: faults, ..Faults::default() });
        let outcome = sim.handle().append(&reference(), &batch(1)).await;
        assert_eq!(outcome.is_ok(), succeeds, "{name}");
        if let Ok(outcome) = outcome {
            assert_eq!(outcome, Append::Written, "{name}: a repeated write knows its echo");
        }
        assert_eq!(batches(&sim), stands_at_once, "{name}, at once");
        tokio::time::advance(late_max).await;
        assert_eq!(batches(&sim), stands_later, "{name}, later");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_write_does_not_overwrite_what_stands_by_then() {
    let sim = Sim::new(
        1,
        Faults { calls: CallFaults { late_permille: ALWAYS, ..CallFaults::default() }, ..Faults::default() },
    );
    let store = sim.handle();
    store.append(&reference(), &batch(1)).await.unwrap_err();
    sim.set_faults(Faults::default());
    let mut other = batch(1);
    other.nonce = Nonce::from_uuid(Uuid::from_u128(99));
    assert_eq!(store.append(&reference(), &other).await.unwrap(), Append::Written);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(store.batch_at(reference().job, Seq(1)).await.unwrap(), Some(other));
}

#[tokio::test(start_paused = true)]
async fn a_call_takes_its_time() {
    let latency = Duration::from_millis(20)..=Duration::from_millis(40);
    let sim = Sim::new(1, Faults { calls: CallFaults { latency, ..CallFaults::default() }, ..Faults::default() });
    let began = Instant::now();
    sim.handle().journal(reference().job, Seq::FIRST).await.unwrap();
    let took = began.elapsed();
    assert!((Duration::from_millis(20)..=Duration::from_millis(42)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_dies_alone_and_where_it_was_told() {
    for (moment, stands) in [(Moment::Before, 1), (Moment::After, 2)] {
        for death in [Death::Hang, Death::Fail] {
            let sim = Sim::faultless();
            let (dying, other) = (sim.handle(), sim.handle());
            dying.crash_at(Crash { call: 2, moment, death });
            dying.append(&reference(), &batch(1)).await.unwrap();
            for _ in 0..2 {
                let outcome = timeout(LONG, dying.append(&reference(), &batch(2))).await;
                match death {
                    Death::Hang => assert!(outcome.is_err(), "it does not return"),
                    Death::Fail => assert!(outcome.expect("it returns").is_err()),
                }
                timeout(LONG, dying.crashed()).await.expect("it is dead");
                assert_eq!(batches(&sim), stands, "{moment:?}, {death:?}");
            }
            assert_eq!(other.append(&reference(), &batch(3)).await.unwrap(), Append::Written);
            assert!(timeout(LONG, other.crashed()).await.is_err(), "the other one lives");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_death_cuts_a_call_that_is_under_way() {
    let latency = Duration::from_secs(1)..=Duration::from_secs(1);
    let sim = Sim::new(1, Faults { calls: CallFaults { latency, ..CallFaults::default() }, ..Faults::default() });
    let store = sim.handle();
    let killer = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        store.crash_now(Death::Fail);
    };
    let (reference, batch) = (reference(), batch(1));
    let (outcome, ()) = tokio::join!(store.append(&reference, &batch), killer);
    assert!(outcome.is_err());
    assert_eq!(batches(&sim), 0, "it had not come to the store");
}

async fn messages_within(sim: &Sim, wait: Duration) -> Vec<Duration> {
    let began = Instant::now();
    let mut times = Vec::new();
    while let Ok(message) = timeout(wait.saturating_sub(began.elapsed()), sim.next_message()).await {
        times.push(began.elapsed());
        message.acknowledge();
    }
    times
}

#[tokio::test(start_paused = true)]
async fn messages_fare_as_told() {
    let queue = QueueFaults::default;
    let delay_max = Duration::from_secs(30);
    for (name, faults, expected) in [
        ("fine", queue(), 1),
        ("lost", QueueFaults { lose_permille: ALWAYS, ..queue() }, 0),
        ("doubled", QueueFaults { duplicate_permille: ALWAYS, ..queue() }, 2),
        ("delayed", QueueFaults { delay_max, ..queue() }, 1),
    ] {
        let sim = Sim::new(3, Faults { queue: faults, ..Faults::default() });
        sim.handle().send(&Continuation::job(reference()), Duration::from_secs(10)).await.unwrap();
        let times = messages_within(&sim, Duration::from_secs(60)).await;
        assert_eq!(times.len(), expected, "{name}");
        let window = Duration::from_secs(10)..=Duration::from_secs(10) + delay_max + Duration::from_millis(1);
        assert!(times.iter().all(|time| window.contains(time)), "{name}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_comes_again_until_it_is_acknowledged() {
    let visibility = Duration::from_secs(30);
    let sim = Sim::new(1, Faults { queue: QueueFaults { visibility, ..QueueFaults::default() }, ..Faults::default() });
    sim.handle().send(&Continuation::job(reference()), Duration::ZERO).await.unwrap();
    let began = Instant::now();
    assert_eq!(sim.next_message().await.receives, 1);
    let again = sim.next_message().await;
    assert_eq!(again.receives, 2);
    assert!(began.elapsed() >= visibility);
    again.give_back();
    let third = timeout(Duration::from_secs(1), sim.next_message()).await.expect("at once");
    assert_eq!(third.receives, 3);
    third.acknowledge();
    assert!(timeout(LONG, sim.next_message()).await.is_err());
    assert_eq!(sim.snapshot().messages, 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_wakes_who_waits_for_one() {
    let sim = Sim::faultless();
    let store = sim.handle();
    let sender = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        store.send(&Continuation::job(reference()), Duration::ZERO).await.unwrap();
    };
    let (received, ()) = tokio::join!(timeout(Duration::from_secs(4), sim.next_message()), sender);
    assert_eq!(received.expect("in time").continuation, Continuation::job(reference()));
}

/// What a hundred appends by a seed come to.
async fn run(seed: u64) -> Vec<bool> {
    let calls = CallFaults {
        fail_before_permille: 100,
        fail_after_permille: 100,
        repeat_permille: 100,
        late_permille: 100,
        latency: Duration::ZERO..=Duration::from_millis(50),
        ..CallFaults::default()
    };
    let sim = Sim::new(seed, Faults { calls, ..Faults::default() });
    let store = sim.handle();
    let mut outcomes = Vec::new();
    for at in 1..=100 {
        outcomes.push(store.append(&reference(), &batch(at)).await.is_ok());
    }
    assert_eq!(store.calls(), 100);
    assert_eq!(sim.counts().get("append"), Some(&100));
    outcomes
}

#[tokio::test(start_paused = true)]
async fn a_seed_is_a_run() {
    let (one, again, other) = (run(1).await, run(1).await, run(2).await);
    assert_eq!(one, again);
    assert_ne!(one, other);
    let failures = one.iter().filter(|succeeded| !**succeeded).count();
    assert!((10..50).contains(&failures), "about 27 in a hundred fail, here {failures}");
}
