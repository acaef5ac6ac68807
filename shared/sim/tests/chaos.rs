//! Seeds: everything goes wrong at once, and the promises hold.
//!
//! Each seed draws faults of the store and the queue, crashes of workers, and the moments at which a person approves or
//! cancels. After each run an auditor reads everything that is stored. A failure names its seed;
//! `LONGHAUL_SEED=n cargo test -p longhaul-sim --test chaos` runs that one alone, `LONGHAUL_SEEDS=a..b` a range.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::append::Stop;
use longhaul::engine::{Entry, JobState, Journal, StepKind};
use longhaul::store::JobRef;
use longhaul::{Ctx, ErrorClass, Registry, StepError, outside};
use longhaul_sim::workshop::{Workshop, killed, story};
use longhaul_sim::{CallFaults, Faults, Moment, QueueFaults, Sim, Snapshot};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// Seeds of an ordinary test run.
const SEEDS: u64 = 120;
/// Jobs of one world.
const JOBS: u64 = 3;

type Effects = Rc<RefCell<BTreeMap<String, u32>>>;

/// An agent with one of everything.
fn registry(effects: &Effects) -> Registry {
    let effects = Rc::clone(effects);
    let note = move |key: String| *effects.borrow_mut().entry(key).and_modify(|count| *count += 1).or_insert(1);
    let mut registry = Registry::default();
    let agent = async move |ctx: &mut Ctx, flaky: u64| {
        let job = ctx.job_id();
        let items: Vec<u64> = ctx.step("plan", async || Ok(vec![1, 2, 3])).await?;
        let read = ctx
            .fan_out("read", &items, async |ctx, item| {
                let tried = ctx.effect("read", async |key| {
                    let times = note(key.to_string());
                    tokio::time::sleep(Duration::from_millis(40 * item)).await;
                    if u64::from(times) <= flaky && *item == 2 {
                        return Err(StepError::new(ErrorClass::Transient, "away"));
                    }
                    Ok(item * 10)
                });
                tried.await
            })
            .await?;
        ctx.emit("read", &read).await?;
        ctx.sleep("pause", Duration::from_secs(40)).await?;
        let paid = ctx.effect("pay", async |key| Ok(note(format!("once {key}")))).at_most_once().await;
        let answer: String =
            ctx.signal("approval").timeout(Duration::from_secs(7_200)).await.unwrap_or_else(|error| error.to_string());
        let url: String = ctx.effect("publish", async |key| Ok(format!("{}{}", note(key.to_string()), job))).await?;
        Ok(json!({ "read": read, "paid": paid.is_ok(), "answer": answer, "url": url }))
    };
    registry.add("agent", 1, agent).unwrap();
    registry
}

fn faults(dice: &mut StdRng) -> Faults {
    let upto = |dice: &mut StdRng, max: u32| if dice.random_bool(0.5) { 0 } else { dice.random_range(0..max) };
    Faults {
        calls: CallFaults {
            fail_before_permille: upto(dice, 60),
            fail_after_permille: upto(dice, 60),
            repeat_permille: upto(dice, 200),
            late_permille: upto(dice, 40),
            late_max: Duration::from_secs(dice.random_range(1..90)),
            latency: Duration::ZERO..=Duration::from_millis(dice.random_range(0..400)),
        },
        queue: QueueFaults {
            lose_permille: upto(dice, 200),
            duplicate_permille: upto(dice, 300),
            delay_max: Duration::from_secs(dice.random_range(0..40)),
            visibility: Duration::from_secs(dice.random_range(30..900)),
        },
    }
}

/// One world by one seed; what it came to, for the comparison of two runs.
async fn world(seed: u64) -> (Snapshot, BTreeMap<String, u32>) {
    let mut dice = StdRng::seed_from_u64(seed);
    let effects = Effects::default();
    let mut workshop = Workshop::new(Sim::new(seed, faults(&mut dice)), registry(&effects));
    workshop.invocation = Duration::from_secs(dice.random_range(20..900));
    // Bounded, so that the world comes to rest; by the seed and the worker alone, so that it is the same each time.
    let killed_upto = dice.random_range(0..8_u64);
    workshop.crashes = Rc::new(move |worker| {
        let mut dice = StdRng::seed_from_u64(seed ^ (worker << 32));
        let moment = if dice.random_bool(0.5) { Moment::Before } else { Moment::After };
        (worker < killed_upto && dice.random_bool(0.6)).then(|| killed(dice.random_range(1..30), moment))
    });
    let workers = dice.random_range(2..4);
    let (cancels, approves) = (dice.random_bool(0.2), dice.random_bool(0.7));
    let (after, flaky) = (dice.random_range(0..200_u64), dice.random_range(0..3_u64));
    workshop
        .run(workers, async {
            let mut jobs = Vec::new();
            for number in 0..JOBS {
                let mut order = workshop.order("agent", json!(flaky));
                order.id = longhaul::engine::JobId::of_key(&order.tenant, &format!("{number}"));
                jobs.push(workshop.submit(order).await);
            }
            workshop.clock.sleep(Duration::from_secs(after)).await;
            for job in &jobs {
                speak(&workshop, job, cancels, approves).await;
            }
            for job in &jobs {
                workshop.ended(job).await;
            }
            // Let what is still under way come in: late writes, doubled messages, watchdogs.
            workshop.clock.sleep(Duration::from_secs(24 * 3_600)).await;
        })
        .await;
    let done = effects.borrow().clone();
    (workshop.sim.snapshot(), done)
}

/// A person approves or cancels, trying again until it is taken in or the job has ended.
async fn speak(workshop: &Workshop, job: &JobRef, cancels: bool, approves: bool) {
    let store = workshop.sim.handle();
    for attempt in 0.. {
        let now = workshop.clock.now();
        let spoken = if cancels {
            outside::cancel(&store, job, "cancel".parse().unwrap(), "ada".into(), None, now).await
        } else if approves {
            let (name, key) = ("approval".parse().unwrap(), "approve".parse().unwrap());
            outside::signal(&store, job, name, key, json!("yes"), "ada".into(), now).await
        } else {
            return;
        };
        match spoken {
            Ok(_) | Err(outside::OutsideError::Ended) => return,
            Err(_) if attempt < 200 => workshop.clock.sleep(Duration::from_secs(1)).await,
            Err(error) => panic!("not taken in: {error}"),
        }
    }
}

/// Reads everything that is stored and says what promise was broken.
fn audit(seed: u64, snapshot: &Snapshot, effects: &BTreeMap<String, u32>) {
    let broken = |what: &str, job| -> ! { panic!("seed {seed}: {what}\n{}", story(snapshot, job)) };
    assert_eq!(snapshot.jobs.len() as u64, JOBS, "seed {seed}");
    for (id, job) in &snapshot.jobs {
        let batches = snapshot.journals.get(id).cloned().unwrap_or_default();
        let journal = match Journal::read(batches.clone()) {
            Ok(journal) => journal,
            Err(error) => broken(&format!("the journal cannot be read: {error}"), *id),
        };
        if journal.ending().is_none() || !job.progress.state.is_terminal() {
            broken(&format!("not ended: {:?}", job.progress.state), *id);
        }
        if matches!(job.progress.state, JobState::Failed) {
            broken("crashes and faults alone never fail a job", *id);
        }
        if job.progress.due.is_some() {
            broken("an ended job is still due", *id);
        }
        fenced(&batches).unwrap_or_else(|stop| broken(&format!("an effect behind a newer claim: {stop}"), *id));
        effects_are_bounded(&batches, effects, &format!("{id}")).unwrap_or_else(|what| broken(&what, *id));
    }
    assert_eq!(snapshot.messages, 0, "seed {seed}: the queue is not empty");
    let alive = snapshot.sessions.len();
    assert!(alive <= 64, "seed {seed}: {alive} sessions of workers that died expire by themselves");
}

/// Epochs never fall in a journal.
fn fenced(batches: &[longhaul::engine::Batch]) -> Result<(), Stop> {
    let mut highest = longhaul::engine::Epoch(0);
    for entry in batches.iter().flat_map(|batch| &batch.entries) {
        if let Entry::Claimed { epoch, .. } = entry {
            if *epoch <= highest {
                return Err(Stop::Fenced { by: highest });
            }
            highest = *epoch;
        }
    }
    Ok(())
}

/// Runs of a step's effect ≤ attempts + claims between the outcome before it and its own; at most once is once.
fn effects_are_bounded(
    batches: &[longhaul::engine::Batch],
    effects: &BTreeMap<String, u32>,
    job: &str,
) -> Result<(), String> {
    let entries: Vec<&Entry> = batches.iter().flat_map(|batch| &batch.entries).collect();
    let claims = entries.iter().filter(|entry| matches!(entry, Entry::Claimed { .. })).count();
    for (key, times) in effects.iter().filter(|(key, _)| key.contains(job)) {
        let step = key.rsplit('/').next().unwrap_or_default();
        let attempts = entries
            .iter()
            .filter(|entry| match entry {
                Entry::StepCompleted { id, .. } | Entry::AttemptFailed { id, .. } | Entry::StepFailed { id, .. } => {
                    id.key.as_str() == step && id.kind != StepKind::EffectOnce
                }
                _ => false,
            })
            .count();
        let allowed = if key.starts_with("once ") { 1 } else { attempts + claims };
        if *times as usize > allowed {
            return Err(format!("{key} ran {times} times, allowed are {allowed}"));
        }
    }
    Ok(())
}

fn run(seed: u64) -> (Snapshot, BTreeMap<String, u32>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(world(seed))
}

fn seeds() -> std::ops::Range<u64> {
    let set = |name: &str| std::env::var(name).ok();
    if let Some(seed) = set("LONGHAUL_SEED").and_then(|text| text.parse().ok()) {
        return seed..seed + 1;
    }
    let range = set("LONGHAUL_SEEDS").unwrap_or_else(|| format!("0..{SEEDS}"));
    let (from, to) = range.split_once("..").expect("LONGHAUL_SEEDS is a..b");
    from.parse().unwrap()..to.parse().unwrap()
}

#[test]
fn whatever_goes_wrong_the_promises_hold() {
    for seed in seeds() {
        let run = std::panic::catch_unwind(|| run(seed));
        let (snapshot, effects) = run.unwrap_or_else(|_| panic!("seed {seed} failed"));
        audit(seed, &snapshot, &effects);
    }
}

#[test]
fn one_seed_gives_one_run() {
    for seed in seeds().take(5) {
        let (first, second) = (run(seed), run(seed));
        let told = |snapshot: &Snapshot| -> Vec<Value> {
            snapshot.jobs.keys().map(|job| Value::String(story(snapshot, *job))).collect()
        };
        assert_eq!(told(&first.0), told(&second.0), "seed {seed}");
        assert_eq!(first.1, second.1, "seed {seed}");
    }
}
