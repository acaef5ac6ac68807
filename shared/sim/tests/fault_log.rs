//! Cases of the fault log (tests/faults/README.md) that only time brings out: workers that die, sends that fail, clocks
//! that are wrong. The real drive loop under virtual time; each test carries its case's id.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::job::Status;
use longhaul::engine::journal::Ending;
use longhaul::engine::{Entry, ErrorClass, Journal, Timestamp, limits};
use longhaul::outside::{self, OutsideError};
use longhaul::store::{Continuation, JobRef, Store};
use longhaul::{Ctx, Registry};
use longhaul_sim::workshop::{Skew, Workshop, killed};
use longhaul_sim::{Faults, Moment, QueueFaults, Sim};
use serde_json::{Value, json};

/// How often each thing was really done.
#[derive(Clone, Default)]
struct Done(Rc<RefCell<BTreeMap<String, u32>>>);

impl Done {
    fn note(&self, what: &str) -> u32 {
        let mut done = self.0.borrow_mut();
        let count = done.entry(what.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn of(&self, what: &str) -> u32 {
        self.0.borrow().get(what).copied().unwrap_or_default()
    }

    fn all(&self) -> Vec<u32> {
        self.0.borrow().values().copied().collect()
    }
}

/// A registry of one agent called "agent" that takes steps of this length, one after the other, and gives their number.
fn steps(done: &Done, count: u64, length: Duration) -> Registry {
    let done = done.clone();
    let mut registry = Registry::default();
    let agent = async move |ctx: &mut Ctx, _: Value| {
        for number in 0..count {
            ctx.step(&format!("step {number}"), async || {
                done.note(&format!("step {number}"));
                tokio::time::sleep(length).await;
                Ok(number)
            })
            .await?;
        }
        Ok(count)
    };
    registry.add("agent", 1, agent).unwrap();
    registry
}

/// Waits for a job's result.
async fn result(workshop: &Workshop, job: &JobRef) -> Value {
    workshop.ended(job).await;
    match workshop.journal(job).ending() {
        Some(Ending::Completed { output }) => output.clone(),
        other => panic!("{other:?}\n{}", workshop.story(job)),
    }
}

fn entries(workshop: &Workshop, job: &JobRef) -> Vec<Entry> {
    let batches = workshop.sim.snapshot().journals.remove(&job.job).unwrap_or_default();
    batches.into_iter().flat_map(|batch| batch.entries).collect()
}

/// Outcomes of steps in a journal.
fn outcomes(entries: &[Entry]) -> usize {
    entries.iter().filter(|entry| matches!(entry, Entry::StepCompleted { .. })).count()
}

/// Sends one continuation of a job more.
async fn send(workshop: &Workshop, job: &JobRef, delay: Duration) {
    workshop.sim.handle().send(&Continuation::job(job.clone()), delay).await.unwrap();
}

/// B01: the second copy does nothing and is acknowledged; should the first worker die, its watchdog is the way back.
#[tokio::test(start_paused = true)]
async fn b01_a_second_copy_is_no_second_worker_and_not_the_only_way_back() {
    // The first worker ends its step of 40 s, or dies in it 30 s on, long after the copy came.
    for dies in [false, true] {
        let done = Done::default();
        let mut workshop = Workshop::new(Sim::faultless(), steps(&done, 1, Duration::from_secs(40)));
        workshop.crashes = Rc::new(move |worker| (dies && worker == 0).then(|| killed(33, Moment::Before)));
        workshop
            .run(2, async {
                let job = workshop.submit(workshop.order("agent", json!(null))).await;
                send(&workshop, &job, Duration::from_secs(20)).await;
                workshop.clock.sleep(Duration::from_secs(25)).await;
                let held = workshop.sim.job(job.job).unwrap();
                assert_eq!((held.progress.epoch.0, done.of("step 0")), (1, 1), "the copy claimed nothing");
                assert_eq!(result(&workshop, &job).await, json!(1));
                let ended = workshop.ended(&job).await;
                assert_eq!(ended.progress.epoch.0, if dies { 2 } else { 1 }, "{}", workshop.story(&job));
                assert_eq!(done.of("step 0"), if dies { 2 } else { 1 });
                // Neither the copy nor the death is a failed attempt of the step.
                assert!(workshop.story(&job).contains(r#""attempt":1"#), "{}", workshop.story(&job));
                let took = ended.order.submitted_at.until(ended.progress.updated_at);
                assert!(took < Duration::from_secs(40 + 40 + 34), "{took:?}");
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn b01_two_copies_at_one_moment_are_one_run() {
    let done = Done::default();
    let workshop = Workshop::new(Sim::faultless(), steps(&done, 3, Duration::from_millis(300)));
    workshop
        .run(4, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            for delay_ms in [0, 0, 5] {
                send(&workshop, &job, Duration::from_millis(delay_ms)).await;
            }
            assert_eq!(result(&workshop, &job).await, json!(3));
            workshop.clock.sleep(Duration::from_secs(120)).await;
            assert_eq!(outcomes(&entries(&workshop, &job)), 3);
        })
        .await;
    assert_eq!(done.all(), [1; 3]);
    assert_eq!(workshop.sim.snapshot().messages, 0);
}

/// B04 (c): a call that hangs is given up before the deadline, by the worker itself, and its job is driven on.
#[tokio::test(start_paused = true)]
async fn b04_a_call_that_hangs_ends_before_the_deadline() {
    let done = Done::default();
    let noted = done.clone();
    let mut registry = Registry::default();
    let agent = async move |ctx: &mut Ctx, _: Value| {
        ctx.step("ask", async || {
            if noted.note("ask") == 1 {
                std::future::pending::<()>().await;
            }
            Ok(7)
        })
        .await
    };
    registry.add("agent", 1, agent).unwrap();
    let mut workshop = Workshop::new(Sim::faultless(), registry);
    workshop.invocation = Duration::from_secs(30);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            // A lease without an end is none: whoever holds the job, its due time stands and lies ahead.
            let held = workshop.until(&job, |job| job.progress.epoch.0 == 1).await;
            assert!(held.progress.due > Some(workshop.clock.now()));
            assert_eq!(result(&workshop, &job).await, json!(7));
            let story = workshop.story(&job);
            assert!(story.contains(r#""class":"timeout""#), "{story}");
            assert!(!story.contains(r#""takeover":true"#), "nobody was killed at the deadline: {story}");
        })
        .await;
    assert_eq!(done.of("ask"), 2);
}

/// B05 (b): whatever the worker was doing when it died, a send behind a checkpoint included, the job is found again.
#[tokio::test(start_paused = true)]
async fn b05_a_continuation_that_was_never_sent_is_missed_by_nobody() {
    let mut sends = 0;
    for moment in [Moment::Before, Moment::After] {
        for call in 1..=16 {
            let done = Done::default();
            // Invocations so short that each step is followed by a release and a send.
            let mut workshop = Workshop::new(Sim::faultless(), steps(&done, 2, Duration::from_secs(1)));
            workshop.invocation = Duration::from_secs(3);
            workshop.crashes = Rc::new(move |worker| (worker == 0).then(|| killed(call, moment)));
            workshop
                .run(2, async {
                    let job = workshop.submit(workshop.order("agent", json!(null))).await;
                    assert_eq!(result(&workshop, &job).await, json!(2), "killed {moment:?} call {call}");
                    assert_eq!(outcomes(&entries(&workshop, &job)), 2);
                })
                .await;
            assert!(done.all().iter().all(|times| *times <= 2), "killed {moment:?} call {call}: {:?}", done.all());
            sends += workshop.sim.counts().get("send").copied().unwrap_or_default();
        }
    }
    assert!(sends > 32 * 2, "the deaths came around sends: {sends}");
}

/// B05 (c): sends that time out though the queue took the message bring each message twice, and each step runs once.
#[tokio::test(start_paused = true)]
async fn b05_two_copies_of_every_continuation_are_one_run() {
    let done = Done::default();
    let queue = QueueFaults { duplicate_permille: 1_000, ..QueueFaults::default() };
    let sim = Sim::new(7, Faults { queue, ..Faults::default() });
    let mut workshop = Workshop::new(sim, steps(&done, 6, Duration::from_secs(1)));
    workshop.invocation = Duration::from_secs(3);
    workshop
        .run(3, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!(6));
        })
        .await;
    assert_eq!(done.all(), [1; 6]);
}

/// B06: a job goes over the queue as often as it needs, far beyond the sixteen rounds after which Lambda cuts a loop that
/// it was not told of.
#[tokio::test(start_paused = true)]
async fn b06_more_rounds_over_the_queue_than_lambda_allows_unasked() {
    let done = Done::default();
    let mut workshop = Workshop::new(Sim::faultless(), steps(&done, 80, Duration::from_secs(1)));
    workshop.invocation = Duration::from_millis(3_200);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!(80));
            let rounds = workshop.ended(&job).await.progress.epoch.0;
            assert!(rounds >= 40, "{rounds}");
        })
        .await;
    assert_eq!(done.all(), [1; 80]);
}

/// B08: a step that kills its worker each time ends its job as worker_lost, and the jobs beside it are done.
#[tokio::test(start_paused = true)]
async fn b08_a_killing_step_ends_its_job_and_no_other() {
    let done = Done::default();
    let mut workshop = Workshop::new(Sim::faultless(), steps(&done, 2, Duration::from_millis(300)));
    // The first message is the killer's; the next three are the others'. Watchdogs make too few calls to die at this one.
    workshop.crashes = Rc::new(|n| (n == 0 || n > 3).then(|| killed(7 + u64::from(n > 0), Moment::Before)));
    let order = |name: &str| {
        let mut order = workshop.order("agent", json!(null));
        order.id = longhaul::engine::JobId::of_key(&order.tenant, name);
        order
    };
    let (killer, others) = workshop
        .run(1, async {
            let killer = workshop.submit(order("killer")).await;
            let mut others = Vec::new();
            for name in ["a", "b", "c"] {
                others.push(workshop.submit(order(name)).await);
            }
            for other in &others {
                assert_eq!(result(&workshop, other).await, json!(2));
            }
            workshop.until(&killer, |job| job.progress.epoch.0 >= u64::from(limits::CRASHES_MAX)).await;
            // Let the third one die as well.
            workshop.clock.sleep(Duration::from_secs(2)).await;
            (killer, others)
        })
        .await;
    // The last worker lives, so that the end is written down.
    workshop.crashes = Rc::new(|_| None);
    workshop
        .run(1, async {
            let ended = workshop.ended(&killer).await;
            assert_eq!(ended.progress.state.status(), Status::Failed, "{}", workshop.story(&killer));
            assert_eq!(ended.progress.epoch.0, u64::from(limits::CRASHES_MAX) + 1, "{}", workshop.story(&killer));
            workshop.clock.sleep(Duration::from_secs(24 * 3_600)).await;
        })
        .await;
    let snapshot = workshop.sim.snapshot();
    assert_eq!(snapshot.messages, 0, "its message left the queue");
    let letters: Vec<_> = snapshot.dead_letters.iter().map(|letter| (&letter.job, letter.failure.class)).collect();
    assert_eq!(letters, [(&killer, ErrorClass::WorkerLost)]);
    assert_eq!(others.len(), 3);
}

/// B08, second form: a cancel takes effect at the next delivery, however the deliveries before it ended.
#[tokio::test(start_paused = true)]
async fn b08_a_cancel_stops_a_killing_step() {
    let done = Done::default();
    let mut workshop = Workshop::new(Sim::faultless(), steps(&done, 2, Duration::from_millis(300)));
    workshop.crashes = Rc::new(|n| (n < 4).then(|| killed(7 + u64::from(n > 0), Moment::Before)));
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            workshop.until(&job, |job| job.progress.epoch.0 == 2).await;
            workshop.clock.sleep(Duration::from_secs(2)).await;
            let runs = done.of("step 0");
            let store = workshop.sim.handle();
            let key = "c-1".parse().unwrap();
            outside::cancel(&store, &job, key, "ada".to_owned(), None, workshop.clock.now()).await.unwrap();
            let ended = workshop.ended(&job).await;
            assert_eq!(ended.progress.state.status(), Status::Cancelled, "{}", workshop.story(&job));
            assert_eq!(ended.progress.epoch.0, 3, "by the next delivery");
            assert_eq!(done.of("step 0"), runs, "{}", workshop.story(&job));
        })
        .await;
}

/// B14, first form: a worker whose clock is 90 s ahead takes a live session for dead. The fence keeps one result.
#[tokio::test(start_paused = true)]
async fn b14_a_clock_that_is_ahead_steals_a_lease_and_doubles_no_outcome() {
    let done = Done::default();
    let mut workshop = Workshop::new(Sim::faultless(), steps(&done, 3, Duration::from_secs(60)));
    workshop.skews = Rc::new(|worker| Skew::Ahead(Duration::from_secs(if worker == 0 { 0 } else { 90 })));
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            send(&workshop, &job, Duration::from_secs(20)).await;
            assert_eq!(result(&workshop, &job).await, json!(3));
            let entries = entries(&workshop, &job);
            assert_eq!(outcomes(&entries), 3, "{}", workshop.story(&job));
            // Journal::read refuses a second outcome; that it was read at all says that there is none.
            assert!(workshop.journal(&job).crashes_in_row() <= 1);
        })
        .await;
    // The fenced worker finds out at its next write: one effect more at most, for each time that the job changed hands.
    assert!(done.all().iter().all(|times| *times <= 2), "{:?}", done.all());
}

/// B14, second form: a worker whose clock is 90 s behind takes a dead session for alive that much longer. The job's due
/// time bounds it: five minutes, the minute until a sweep, and the skew.
#[tokio::test(start_paused = true)]
async fn b14_a_clock_that_is_behind_delays_a_takeover_within_bounds() {
    let done = Done::default();
    let mut workshop = Workshop::new(Sim::faultless(), steps(&done, 3, Duration::from_secs(5)));
    workshop.crashes = Rc::new(|worker| (worker == 0).then(|| killed(12, Moment::Before)));
    workshop.skews = Rc::new(|worker| match worker {
        0 => Skew::Ahead(Duration::ZERO),
        _ => Skew::Behind(Duration::from_secs(90)),
    });
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            // The first worker is dead and its place empty: only the one whose clock is wrong is there.
            workshop.until(&job, |job| job.progress.epoch.0 == 2).await;
            let bound = Duration::from_millis(limits::LEASE_DUE_MS) + Duration::from_secs(60 + 90);
            let waited = workshop.sim.job(job.job).unwrap().order.submitted_at.until(workshop.clock.now());
            assert!(waited <= bound, "{waited:?}");
            assert_eq!(result(&workshop, &job).await, json!(3));
        })
        .await;
}

/// B14, third form: whatever the clocks of those who write say, a journal's order is that of its positions, and no wait
/// ends early by the clock of the worker that began it.
#[tokio::test(start_paused = true)]
async fn b14_order_is_by_position_and_a_sessions_time_never_goes_back() {
    let done = Done::default();
    let mut workshop = Workshop::new(Sim::faultless(), steps(&done, 8, Duration::from_secs(1)));
    workshop.invocation = Duration::from_secs(3);
    workshop.skews = Rc::new(|worker| match worker {
        0 => Skew::Ahead(Duration::from_secs(30)),
        _ => Skew::Behind(Duration::from_secs(30)),
    });
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!(8));
            let batches = workshop.sim.snapshot().journals.remove(&job.job).unwrap();
            let journal = Journal::read(batches.clone()).unwrap();
            assert_eq!(batches.last().unwrap().next(), journal.next(), "one behind the other, without a gap");
            // Between two claims one session writes, by one clock.
            let mut last = Timestamp::from_millis(0);
            for batch in &batches {
                if batch.entries.iter().any(|entry| matches!(entry, Entry::Claimed { .. })) {
                    last = Timestamp::from_millis(0);
                }
                assert!(batch.written_at >= last, "{}", workshop.story(&job));
                last = batch.written_at;
            }
        })
        .await;
    assert_eq!(done.all(), [1; 8]);
}

/// C05: an approval that comes behind its timeout changes nothing, though nothing was deleted: the timeout stands in the
/// journal and not in an item that expires.
#[tokio::test(start_paused = true)]
async fn c05_an_approval_behind_its_timeout_is_refused() {
    let mut registry = Registry::default();
    let agent = async |ctx: &mut Ctx, _: Value| match ctx.signal::<Value>("ap_1").timeout(Duration::from_secs(60)).await
    {
        Ok(answer) => Ok(answer),
        Err(_) => Ok(json!("expired")),
    };
    registry.add("agent", 1, agent).unwrap();
    let workshop = Workshop::new(Sim::faultless(), registry);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!("expired"));
            let (name, key) = ("ap_1".parse().unwrap(), "k".parse().unwrap());
            let store = workshop.sim.handle();
            let now = workshop.clock.now();
            let late = outside::signal(&store, &job, name, key, json!("yes"), "ada".to_owned(), now).await;
            assert!(matches!(late, Err(OutsideError::Ended)), "{late:?}");
            assert_eq!(result(&workshop, &job).await, json!("expired"));
        })
        .await;
}

/// C06: three branches, of which the last two end in the same moment, are joined once and only when all are there.
#[tokio::test(start_paused = true)]
async fn c06_a_fan_in_fires_once_and_after_all() {
    let done = Done::default();
    let noted = done.clone();
    let mut registry = Registry::default();
    let agent = async move |ctx: &mut Ctx, _: Value| {
        let read = ctx
            .fan_out("tools", &[30_u64, 50, 50], async |ctx, length| {
                ctx.step("tool", async || {
                    tokio::time::sleep(Duration::from_millis(*length)).await;
                    Ok(*length)
                })
                .await
            })
            .await?;
        ctx.step("join", async || Ok(noted.note("join"))).await?;
        Ok(read)
    };
    registry.add("agent", 1, agent).unwrap();
    let workshop = Workshop::new(Sim::faultless(), registry);
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!([30, 50, 50]));
            assert_eq!(outcomes(&entries(&workshop, &job)), 4);
        })
        .await;
    assert_eq!(done.of("join"), 1);
}
