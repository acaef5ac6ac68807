//! Forks: what they keep, what they do themselves, and that a crash at any call makes no difference.
#![allow(clippy::large_futures, clippy::too_many_lines, reason = "a scenario is read in one piece, and runs once")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::entry::Edit;
use longhaul::engine::fork::Fork;
use longhaul::engine::job::{Imported, Order, Origin, Overrides};
use longhaul::engine::journal::Ending;
use longhaul::engine::{AgentRef, Entry, JobId, JobState, Seq, StepKey, StepKind};
use longhaul::forking::{self, ForkOrder, ForkPoint, Forked};
use longhaul::outside::{self, OutsideError};
use longhaul::store::JobRef;
use longhaul::{Ctx, ErrorClass, Registry, StepError};
use longhaul_sim::workshop::{Workshop, killed};
use longhaul_sim::{CallFaults, Faults, Moment, QueueFaults, Sim};
use serde_json::{Value, json};

use crate::ground::{Done, failure, registry, result};

/// One of everything: a step, a keyed effect, something shown, a signal that comes early, a child, a sleep, an effect that
/// happens once at most, and a step that fails until the input is mended.
pub(crate) fn journey(done: &Done) -> Registry {
    let mut agents = Registry::default();
    let leaf = AgentRef { name: "leaf".parse().unwrap(), version: 1 };
    let noted = done.clone();
    agents
        .add("agent", 1, async move |ctx: &mut Ctx, input: Value| {
            let id = ctx.job_id();
            let note = |what: &str| noted.note(format!("{id}: {what}"));
            ctx.step("plan", async || Ok(note("plan"))).await?;
            ctx.effect("pay", async |key| Ok(note(&key.to_string()))).await?;
            ctx.emit("shown", "half way").await?;
            let go: Value = ctx.signal("go").await?;
            let grown: Value = ctx.child("leaf", leaf.clone(), json!(3)).await?;
            ctx.sleep("pause", Duration::from_secs(3_600)).await?;
            ctx.effect("stamp", async |key| Ok(note(&key.to_string()))).at_most_once().await?;
            let model = ctx.overrides().model.clone();
            ctx.step("end", async || {
                note("end");
                if input["broken"] == json!(true) { Err(StepError::new(ErrorClass::Invalid, "broken")) } else { Ok(()) }
            })
            .await?;
            Ok(json!([go, grown, model]))
        })
        .unwrap();
    agents.add("leaf", 1, async |ctx: &mut Ctx, n: u64| ctx.step("grow", async || Ok(n * 2)).await).unwrap();
    agents
}

/// The place in the journey of everything that has a key.
const STEPS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];

pub(crate) async fn travelled(workshop: &Workshop, input: Value) -> JobRef {
    let job = workshop.submit(workshop.order("agent", input)).await;
    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
    outside::signal(&store, &job, "go".parse().unwrap(), "s1".parse().unwrap(), json!("east"), "ada".into(), now)
        .await
        .unwrap();
    workshop.ended(&job).await;
    job
}

pub(crate) fn asked(workshop: &Workshop, number: u128, from: ForkPoint) -> ForkOrder {
    ForkOrder {
        id: JobId::from_uuid(uuid::Uuid::from_u128(0xf000 + number)),
        from,
        edit: Edit::default(),
        repeat_effects: true,
        traceparent: None,
        now: workshop.clock.now(),
        by: "eve".to_owned(),
    }
}

pub(crate) async fn forked(
    workshop: &Workshop,
    source: &JobRef,
    asked: ForkOrder,
) -> Result<(JobRef, Forked), OutsideError> {
    let reference = JobRef { tenant: source.tenant.clone(), job: asked.id };
    forking::fork(&workshop.sim.handle(), source, asked).await.map(|forked| (reference, forked))
}

/// The journal's entries by type.
pub(crate) fn types(workshop: &Workshop, job: &JobRef) -> Vec<Entry> {
    let batches = workshop.sim.snapshot().journals.remove(&job.job).unwrap_or_default();
    batches.into_iter().flat_map(|batch| batch.entries).collect()
}

/// What was done under a job's id.
fn done_by(done: &BTreeMap<String, u32>, job: &JobRef) -> BTreeMap<String, u32> {
    let prefixes = [format!("{}: ", job.job), format!("{}/", job.job)];
    let strip = |name: &str| {
        let rest = name.strip_prefix(prefixes[0].as_str())?;
        Some(rest.strip_prefix(prefixes[1].as_str()).unwrap_or(rest).to_owned())
    };
    done.iter().filter_map(|(name, times)| Some((strip(name)?, *times))).collect()
}

/// For every position of a journal: the fork comes to the same end, does itself exactly what came behind the position, and
/// the job that it was made of is not touched.
#[tokio::test(start_paused = true)]
async fn a_fork_from_any_position_keeps_what_stands_before_and_does_the_rest_itself() {
    let done = Done::default();
    let workshop = Workshop::new(Sim::faultless(), journey(&done));
    workshop
        .run(2, async {
            let source = travelled(&workshop, json!({})).await;
            let (before, entries) = (done.read(), types(&workshop, &source));
            let end = u64::try_from(entries.len()).unwrap() + 1;
            for at in 1..=end {
                let order = asked(&workshop, u128::from(at), ForkPoint::Position(Seq(at)));
                let (fork, accepted) = forked(&workshop, &source, order).await.unwrap();
                // The signal that the other job had before the position is the fork's as well.
                if !entries[..at as usize - 1]
                    .iter()
                    .any(|entry| matches!(entry, Entry::Signalled { signal, .. } if signal.as_str() == "go"))
                {
                    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                    let (name, key) = ("go".parse().unwrap(), "s2".parse().unwrap());
                    outside::signal(&store, &fork, name, key, json!("east"), "ada".into(), now).await.unwrap();
                }
                let has_outcome = |step: &str| {
                    entries[..at as usize - 1].iter().any(|entry| match entry {
                        Entry::StepCompleted { id, .. } | Entry::WaitEnded { id, .. } | Entry::Emitted { id, .. } => {
                            id.key.as_str() == step
                        }
                        _ => false,
                    })
                };
                // Begun before the position and unfinished there: nobody knows, so it is not done again.
                let begun = entries[..at as usize - 1].iter().any(|entry| matches!(entry, Entry::StepStarted { .. }));
                if begun && !has_outcome("6") {
                    assert_eq!(failure(&workshop, &fork).await.class, ErrorClass::Interrupted, "at {at}");
                    assert!(!done_by(&done.read(), &fork).contains_key("6"), "at {at}");
                    continue;
                }
                assert_eq!(result(&workshop, &fork).await, json!(["east", 6, null]), "at {at}");
                let mine = done_by(&done.read(), &fork);
                for (step, name) in [("0", "plan"), ("1", "1"), ("7", "end")] {
                    assert_eq!(mine.contains_key(name), !has_outcome(step), "{name} at {at}: {mine:?}");
                    assert!(mine.get(name).is_none_or(|times| *times == 1), "{name} at {at}: {mine:?}");
                }
                let story = types(&workshop, &fork);
                let sealed = story.iter().position(|entry| matches!(entry, Entry::Forked { .. })).unwrap();
                assert_eq!(story.iter().filter(|entry| matches!(entry, Entry::Forked { .. })).count(), 1);
                let kept = story[..sealed].iter().filter(|entry| entry.step().is_some()).count();
                let wanted = STEPS.iter().filter(|step| has_outcome(step)).count();
                assert_eq!(kept, wanted, "at {at}: {story:#?}");
                assert!(accepted.kept >= wanted as u64);
                assert_eq!(workshop.journal(&fork).totals().usage.tokens(), 0);
            }
            assert_eq!(
                done_by(&done.read(), &source),
                done_by(&before, &source),
                "nothing happened under the old keys"
            );
            assert_eq!(types(&workshop, &source), entries);
        })
        .await;
}

/// For every call of the fork's first worker and both sides of its effect.
#[tokio::test(start_paused = true)]
async fn a_forks_worker_killed_at_any_call_doubles_nothing_that_was_kept() {
    for place in ["1", "4", "6"] {
        for moment in [Moment::Before, Moment::After] {
            for call in 1..=24 {
                let done = Done::default();
                let mut workshop = Workshop::new(Sim::faultless(), journey(&done));
                let armed = Rc::new(Cell::new(false));
                let trigger = Rc::clone(&armed);
                workshop.crashes = Rc::new(move |_| trigger.replace(false).then(|| killed(call, moment)));
                workshop
                    .run(2, async {
                        let what = format!("from {place}, killed {moment:?} call {call}");
                        let source = travelled(&workshop, json!({})).await;
                        let key: StepKey = serde_json::from_value(json!(place)).unwrap();
                        armed.set(true);
                        let (fork, _) =
                            forked(&workshop, &source, asked(&workshop, 1, ForkPoint::Step(key))).await.unwrap();
                        let ended = workshop.ended(&fork).await;
                        let story = workshop.story(&fork);
                        let stamped = done_by(&done.read(), &fork).get("6").copied().unwrap_or_default();
                        assert!(stamped <= 1, "{what}: {story}");
                        match ended.progress.state {
                            JobState::Completed => {
                                assert_eq!(result(&workshop, &fork).await, json!(["east", 6, null]), "{what}")
                            }
                            // Cut off in the one effect that may not be repeated.
                            _ => {
                                assert_eq!(
                                    failure(&workshop, &fork).await.class,
                                    ErrorClass::Interrupted,
                                    "{what}: {story}"
                                );
                            }
                        }
                        let mine = done_by(&done.read(), &fork);
                        assert!(!mine.contains_key("plan"), "{what}: {mine:?}");
                        assert_eq!(mine.contains_key("1"), place == "1", "{what}: {mine:?}");
                        assert!(mine.values().all(|times| *times <= 2), "{what}: {mine:?}");
                        assert_eq!(story.matches("\"forked\"").count(), 1, "{what}: {story}");
                    })
                    .await;
            }
        }
    }
}

/// A fork of a job that failed goes on from its last good step with what was mended, as a replay does, and leaves the
/// failure standing.
#[tokio::test(start_paused = true)]
async fn a_failed_jobs_fork_goes_on_from_the_last_good_step() {
    let done = Done::default();
    let workshop = Workshop::new(Sim::faultless(), journey(&done));
    workshop
        .run(2, async {
            let source = travelled(&workshop, json!({"broken": true})).await;
            assert_eq!(failure(&workshop, &source).await.class, ErrorClass::Invalid);
            let edit = Edit { input: Some(json!({})), model: Some("better".to_owned()), ..Edit::default() };
            let order = ForkOrder { edit, ..asked(&workshop, 1, ForkPoint::LastGood) };
            let (fork, accepted) = forked(&workshop, &source, order.clone()).await.unwrap();
            assert_eq!(result(&workshop, &fork).await, json!(["east", 6, "better"]));
            assert_eq!(accepted.repeats, [], "all effects are kept");
            assert_eq!(done_by(&done.read(), &fork), BTreeMap::from([("end".to_owned(), 1)]));
            assert!(matches!(workshop.journal(&source).ending(), Some(Ending::Failed { .. })));
            // The same request again is the same fork; another one under its id is refused.
            let (_, again) = forked(&workshop, &source, order.clone()).await.unwrap();
            assert!(again.accepted.existed);
            let other = ForkOrder { edit: Edit::default(), ..order };
            assert!(matches!(forked(&workshop, &source, other).await, Err(OutsideError::OtherRequest)));
            // A fork of a fork keeps what that one kept.
            let (second, _) =
                forked(&workshop, &fork, asked(&workshop, 2, ForkPoint::Step(StepKey::at("", 7)))).await.unwrap();
            assert_eq!(result(&workshop, &second).await, json!(["east", 6, "better"]));
            assert_eq!(done_by(&done.read(), &second), BTreeMap::from([("end".to_owned(), 1)]));
        })
        .await;
}

/// What may happen once at most is not done again by a fork unless somebody says so.
#[tokio::test(start_paused = true)]
async fn effects_that_happen_once_are_repeated_only_on_request() {
    let done = Done::default();
    let workshop = Workshop::new(Sim::faultless(), journey(&done));
    workshop
        .run(2, async {
            let source = travelled(&workshop, json!({})).await;
            let jobs = workshop.sim.snapshot().jobs.len();
            let order = ForkOrder { repeat_effects: false, ..asked(&workshop, 1, ForkPoint::Step(StepKey::at("", 5))) };
            match forked(&workshop, &source, order).await {
                Err(OutsideError::Repeats { effects }) => assert_eq!(effects, ["stamp"]),
                other => panic!("{other:?}"),
            }
            for place in
                [ForkPoint::Position(Seq(0)), ForkPoint::Position(Seq(9_999)), ForkPoint::Step(StepKey::at("", 99))]
            {
                let refused = forked(&workshop, &source, asked(&workshop, 1, place)).await;
                assert!(matches!(refused, Err(OutsideError::NoPosition)), "{refused:?}");
            }
            let foreign = JobRef { tenant: "other".parse().unwrap(), ..source.clone() };
            let refused = forked(&workshop, &foreign, asked(&workshop, 1, ForkPoint::LastGood)).await;
            assert!(matches!(refused, Err(OutsideError::NoJob)));
            assert_eq!(workshop.sim.snapshot().jobs.len(), jobs, "nothing was made");
            let (fork, accepted) =
                forked(&workshop, &source, asked(&workshop, 2, ForkPoint::Step(StepKey::at("", 1)))).await.unwrap();
            let repeats: Vec<(&str, bool)> =
                accepted.repeats.iter().map(|id| (id.name.as_str(), id.kind == StepKind::EffectOnce)).collect();
            assert_eq!(repeats, [("pay", false), ("stamp", true)]);
            result(&workshop, &fork).await;
        })
        .await;
}

/// A fork whose source is gone fails and says so: without what it was to keep it would do everything anew.
#[tokio::test(start_paused = true)]
async fn a_fork_without_its_source_does_nothing() {
    let done = Done::default();
    let workshop = Workshop::new(Sim::faultless(), journey(&done));
    workshop
        .run(1, async {
            let lost = Fork { job: JobId::from_uuid(uuid::Uuid::from_u128(7)), at: Seq(5), without_failures: false };
            let order = Order { origin: Origin::Forked(lost), ..workshop.order("agent", json!({})) };
            let job = workshop.submit(order).await;
            assert_eq!(failure(&workshop, &job).await.class, ErrorClass::Invalid);
            assert_eq!(done.read(), BTreeMap::new());
        })
        .await;
}

/// A cancel that comes before a fork's worker ends it there.
#[tokio::test(start_paused = true)]
async fn a_cancelled_fork_does_nothing() {
    let done = Done::default();
    let workshop = Workshop::new(Sim::faultless(), journey(&done));
    workshop
        .run(0, async {
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            let order = Order { overrides: Overrides::default(), ..workshop.order("agent", json!({})) };
            let source = workshop.submit(order).await;
            let (fork, _) = forked(&workshop, &source, asked(&workshop, 1, ForkPoint::Position(Seq(1)))).await.unwrap();
            outside::cancel(&store, &fork, "c".parse().unwrap(), "ada".into(), None, now).await.unwrap();
            (source, fork)
        })
        .await;
    let fork = JobRef { tenant: "acme".parse().unwrap(), job: asked(&workshop, 1, ForkPoint::LastGood).id };
    workshop
        .run(2, async {
            assert_eq!(workshop.ended(&fork).await.progress.state, JobState::Cancelled);
            assert!(done_by(&done.read(), &fork).is_empty());
        })
        .await;
}

/// A job that came as a file is driven by nobody, whatever message, signal or sweep comes.
#[tokio::test(start_paused = true)]
async fn an_imported_job_is_driven_by_no_worker() {
    let done = Done::default();
    let noted = done.clone();
    let agent = registry(async move |ctx: &mut Ctx, _: Value| ctx.step("work", async || Ok(noted.note("work"))).await);
    let workshop = Workshop::new(Sim::faultless(), agent);
    workshop
        .run(2, async {
            let at = workshop.clock.now();
            let order = Order { origin: Origin::Imported(Imported { at }), ..workshop.order("agent", json!(null)) };
            let job = workshop.submit(order).await;
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            outside::signal(&store, &job, "go".parse().unwrap(), "s".parse().unwrap(), json!(1), "ada".into(), now)
                .await
                .unwrap();
            workshop.clock.sleep(Duration::from_secs(24 * 3_600)).await;
            let stands = workshop.sim.job(job.job).unwrap();
            assert_eq!((stands.progress.state, stands.progress.epoch.0), (JobState::Pending, 0));
        })
        .await;
    assert_eq!(done.read(), BTreeMap::new());
}

/// Workers drive the fork of a job that came as a file, so that it has not the label by which those are known that nobody
/// drives. What its owner calls so is his.
#[tokio::test(start_paused = true)]
async fn the_fork_of_an_imported_job_is_not_called_imported() {
    for (imported, kept) in [(true, false), (false, true)] {
        let workshop = Workshop::new(Sim::faultless(), journey(&Done::default()));
        workshop
            .run(1, async {
                let origin = match imported {
                    true => Origin::Imported(Imported { at: workshop.clock.now() }),
                    false => Origin::Submitted,
                };
                let labels = ["imported", "team"].map(|name| (name.to_owned(), "yes".to_owned()));
                let order = workshop.order("agent", json!({}));
                let source = workshop.submit(Order { origin, labels: BTreeMap::from(labels), ..order }).await;
                let (_, made) =
                    forked(&workshop, &source, asked(&workshop, 1, ForkPoint::Position(Seq(1)))).await.unwrap();
                let labels = &made.accepted.job.order.labels;
                assert_eq!((labels.contains_key("imported"), labels.contains_key("team")), (kept, true), "{imported}");
            })
            .await;
    }
}

/// Worlds by seed in which calls fail, are repeated and come late, messages are lost and doubled, and workers die at random:
/// each fork ends, does what it keeps never, an at-most-once effect at most once, and everything else as often as it was
/// claimed at most.
#[tokio::test(start_paused = true)]
async fn forks_survive_worlds_in_which_everything_goes_wrong() {
    let calls = CallFaults {
        fail_before_permille: 20,
        fail_after_permille: 20,
        repeat_permille: 50,
        late_permille: 20,
        late_max: Duration::from_secs(40),
        latency: Duration::from_millis(1)..=Duration::from_millis(30),
    };
    let queue = QueueFaults {
        lose_permille: 50,
        duplicate_permille: 100,
        delay_max: Duration::from_secs(20),
        ..QueueFaults::default()
    };
    for seed in 0..60_u64 {
        let done = Done::default();
        let mut workshop = Workshop::new(Sim::faultless(), journey(&done));
        let armed = Rc::new(Cell::new(false));
        let trigger = Rc::clone(&armed);
        // Every third worker dies, each at another call.
        workshop.crashes = Rc::new(move |worker| {
            let dies = trigger.get() && (worker + seed) % 3 == 0;
            dies.then(|| {
                killed(3 + (worker * 7 + seed) % 19, if seed % 2 == 0 { Moment::Before } else { Moment::After })
            })
        });
        workshop.sim = Sim::new(seed, Faults::default());
        workshop
            .run(3, async {
                let source = travelled(&workshop, json!({})).await;
                let entries = types(&workshop, &source);
                let before = done_by(&done.read(), &source);
                workshop.sim.set_faults(Faults { calls: calls.clone(), queue: queue.clone() });
                armed.set(true);
                // Behind the signal, which nobody sends again.
                let at = 3 + seed % (entries.len() as u64 - 2);
                let order = asked(&workshop, 1, ForkPoint::Position(Seq(at)));
                let fork = loop {
                    match forked(&workshop, &source, order.clone()).await {
                        Ok((fork, _)) => break fork,
                        Err(OutsideError::Store(_)) => workshop.clock.sleep(Duration::from_secs(1)).await,
                        Err(other) => panic!("seed {seed}: {other}"),
                    }
                };
                let what = format!("seed {seed}, from {at}");
                let ended = workshop.ended(&fork).await;
                let story = types(&workshop, &fork);
                let mine = done_by(&done.read(), &fork);
                let kept = |step: &str| {
                    entries[..at as usize - 1]
                        .iter()
                        .any(|entry| matches!(entry, Entry::StepCompleted { id, .. } if id.key.as_str() == step))
                };
                for (step, name) in [("0", "plan"), ("1", "1"), ("6", "6"), ("7", "end")] {
                    let times = mine.get(name).copied().unwrap_or_default();
                    assert!(!kept(step) || times == 0, "{what}: {name} was kept and done: {}", workshop.story(&fork));
                    let most = if name == "6" { 1 } else { ended.progress.epoch.0 };
                    assert!(u64::from(times) <= most, "{what}: {name} was done {times} times");
                }
                let seals = story.iter().filter(|entry| matches!(entry, Entry::Forked { .. })).count();
                assert!(seals <= 1, "{what}: {}", workshop.story(&fork));
                match workshop.journal(&fork).ending() {
                    Some(Ending::Completed { output }) => {
                        assert_eq!(*output, json!(["east", 6, null]), "{what}");
                        assert_eq!(seals, 1, "{what}");
                    }
                    // What died in its one effect, or three times in a row.
                    Some(Ending::Failed { failure }) => assert!(
                        matches!(failure.class, ErrorClass::Interrupted | ErrorClass::WorkerLost),
                        "{what}: {failure:?}"
                    ),
                    other => panic!("{what}: {other:?}"),
                }
                assert_eq!(done_by(&done.read(), &source), before, "{what}");
            })
            .await;
    }
}
