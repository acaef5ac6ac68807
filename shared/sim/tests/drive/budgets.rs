//! Budgets: time that waits keep to, and use that is held back before and counted once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::budget::Budget;
use longhaul::engine::entry::Edit;
use longhaul::engine::job::Usage;
use longhaul::engine::{AgentRef, JobState, Seq};
use longhaul::store::JobRef;
use longhaul::{Ctx, ErrorClass, Registry, RetryPolicy, StepError, outside};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use serde_json::{Value, json};

use crate::ground::{failure, result};

fn tokens(tokens: u64) -> Usage {
    Usage { input_tokens: tokens, ..Usage::default() }
}

/// Waits in the way that its input names.
fn waiting() -> Registry {
    let mut registry = Registry::default();
    let child = AgentRef { name: "child".parse().unwrap(), version: 1 };
    registry
        .add("agent", 1, async move |ctx: &mut Ctx, way: String| {
            ctx.so_far("half of it")?;
            match way.as_str() {
                "sleep" => ctx.sleep("nap", Duration::from_secs(3_600)).await?,
                "short sleep" => ctx.sleep("nap", Duration::from_secs(59)).await?,
                "signal" => ctx.signal::<Value>("word").await.map(drop)?,
                "signal in time" => ctx.signal::<Value>("word").timeout(Duration::from_secs(3_600)).await.map(drop)?,
                "retry" => {
                    let policy = RetryPolicy { wait_first_ms: 600_000, ..RetryPolicy::default() };
                    let down = async || Err::<(), _>(StepError::new(ErrorClass::Transient, "down"));
                    ctx.step("try", down).retry(policy).await?;
                }
                "child" => ctx.child::<()>("child", child.clone(), "signal").await?,
                "branches" => {
                    let waits = [30_u64, 3_600];
                    ctx.fan_out("nap", &waits, async |ctx, seconds| {
                        ctx.sleep("nap", Duration::from_secs(*seconds)).await
                    })
                    .await
                    .map(drop)?;
                }
                other => panic!("{other}"),
            }
            Ok("done")
        })
        .unwrap();
    registry.add("child", 1, async |ctx: &mut Ctx, _: String| ctx.signal::<Value>("word").await.map(drop)).unwrap();
    registry
}

/// A job does not wait past its time: it ends then, also when nobody comes, and what it had come to is kept.
#[tokio::test(start_paused = true)]
async fn no_wait_is_longer_than_the_jobs_time() {
    for way in ["sleep", "signal", "signal in time", "retry", "child", "branches"] {
        let workshop = Workshop::new(Sim::faultless(), waiting());
        workshop
            .run(2, async {
                let mut order = workshop.order("agent", json!(way));
                order.budget = Budget { wall_seconds: Some(60), ..Budget::default() };
                let (begun, job) = (order.submitted_at, workshop.submit(order).await);
                let told = failure(&workshop, &job).await;
                assert_eq!(told.class, ErrorClass::Budget, "{way}: {told:?}");
                assert!(told.message.contains("60 s"), "{way}: {told:?}");
                assert_eq!(told.partial.as_deref(), Some(&json!("half of it")), "{way}");
                let took = begun.until(workshop.sim.job(job.job).unwrap().progress.updated_at);
                assert!((60..=63).contains(&took.as_secs()), "{way}: {took:?}");
                // And nobody below it goes on.
                workshop.clock.sleep(Duration::from_secs(10)).await;
                let snapshot = workshop.sim.snapshot();
                assert!(snapshot.jobs.values().all(|job| job.progress.state.is_terminal()), "{way}");
            })
            .await;
    }
    let workshop = Workshop::new(Sim::faultless(), waiting());
    workshop
        .run(1, async {
            let mut order = workshop.order("agent", json!("short sleep"));
            order.budget = Budget { wall_seconds: Some(60), ..Budget::default() };
            let job = workshop.submit(order).await;
            assert_eq!(result(&workshop, &job).await, json!("done"), "what fits is not cut");
        })
        .await;
}

/// Branches that run at once hold back what they may need: the budget is never passed by all of them together, what runs
/// is not thrown away, and what it did not need is there for the next.
#[tokio::test(start_paused = true)]
async fn branches_hold_back_before_and_settle_after() {
    // The budget, what each step holds back and uses; how many of five steps are done, and whether the job is.
    let rows =
        [(1_000, 400, 100, 2, false), (1_000, 200, 200, 5, true), (1_000, 333, 333, 3, false), (100, 101, 1, 0, false)];
    for (budget, reserve, used, done, completed) in rows {
        let mut registry = Registry::default();
        let (running, most) = (Rc::new(Cell::new(0_u64)), Rc::new(Cell::new(0_u64)));
        let (now, peak) = (Rc::clone(&running), Rc::clone(&most));
        registry
            .add("agent", 1, async move |ctx: &mut Ctx, _: Value| {
                ctx.fan_out("work", &[1, 2, 3, 4, 5], async |ctx, _| {
                    let (now, peak) = (Rc::clone(&now), Rc::clone(&peak));
                    let work = async move || {
                        now.set(now.get() + 1);
                        peak.set(peak.get().max(now.get()));
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        now.set(now.get() - 1);
                        Ok(used)
                    };
                    ctx.step("step", work).metered(reserve, |used| tokens(*used)).await
                })
                .await
            })
            .unwrap();
        let workshop = Workshop::new(Sim::faultless(), registry);
        workshop
            .run(1, async {
                let mut order = workshop.order("agent", json!(null));
                order.budget = Budget { tokens: Some(budget), ..Budget::default() };
                let job = workshop.submit(order).await;
                let ended = workshop.ended(&job).await;
                let at = format!("{budget} {reserve} {used}:\n{}", workshop.story(&job));
                assert_eq!(ended.progress.state == JobState::Completed, completed, "{at}");
                let totals = *workshop.journal(&job).totals();
                assert_eq!((totals.steps, totals.usage.tokens()), (done, done * used), "{at}");
                assert!(most.get() * reserve <= budget, "{} at once: {at}", most.get());
                if !completed {
                    assert_eq!(failure(&workshop, &job).await.class, ErrorClass::Budget, "{at}");
                }
            })
            .await;
    }
}

/// What one step did not need of what it had held back is there for the next one.
#[tokio::test(start_paused = true)]
async fn what_was_not_needed_is_given_back() {
    let mut registry = Registry::default();
    registry
        .add("agent", 1, async |ctx: &mut Ctx, _: Value| {
            for _ in 0..8 {
                ctx.step("step", async || Ok(100_u64)).metered(300, |used| tokens(*used)).await?;
            }
            Ok("done")
        })
        .unwrap();
    let workshop = Workshop::new(Sim::faultless(), registry);
    workshop
        .run(1, async {
            let mut order = workshop.order("agent", json!(null));
            order.budget = Budget { tokens: Some(1_000), ..Budget::default() };
            let job = workshop.submit(order).await;
            assert_eq!(result(&workshop, &job).await, json!("done"));
            assert_eq!(workshop.journal(&job).totals().usage.tokens(), 800);
        })
        .await;
}

async fn replay(workshop: &Workshop, job: &JobRef, key: &str, from: Option<Seq>) {
    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
    let replayed = outside::replay(&store, job, key.parse().unwrap(), "bob".into(), from, Edit::default(), now).await;
    assert!(replayed.unwrap().seq.is_some());
}

/// Two children; the parent fails behind them until it is mended.
fn family(mended: &Rc<Cell<bool>>, child_fails: &Rc<Cell<bool>>, spent: &Rc<RefCell<Vec<u64>>>) -> Registry {
    let mut registry = Registry::default();
    let child = AgentRef { name: "child".parse().unwrap(), version: 1 };
    let mended = Rc::clone(mended);
    registry
        .add("agent", 1, async move |ctx: &mut Ctx, _: Value| {
            ctx.fan_out("part", &[1_u64, 2], async |ctx, part| ctx.child::<u64>("child", child.clone(), *part).await)
                .await?;
            ctx.step("end", async || match mended.get() {
                true => Ok(10_u64),
                false => Err(StepError::new(ErrorClass::Invalid, "not mended").used(tokens(10))),
            })
            .metered(20, |used| tokens(*used))
            .await
        })
        .unwrap();
    let (fails, spent) = (Rc::clone(child_fails), Rc::clone(spent));
    registry
        .add("child", 1, async move |ctx: &mut Ctx, part: u64| {
            let spend = async || {
                spent.borrow_mut().push(part);
                Ok(100 * part)
            };
            let used = ctx.step("work", spend).metered(300, |used| tokens(*used)).await?;
            ctx.step("check", async || match fails.get() && part == 2 {
                true => Err(StepError::new(ErrorClass::Invalid, "no").used(tokens(5))),
                false => Ok(used),
            })
            .metered(300, |_| tokens(5))
            .await
        })
        .unwrap();
    registry
}

/// What children use counts as their parent's, once: also when the parent is replayed, from its last good step or from a
/// place before them, and when a child goes on itself.
#[tokio::test(start_paused = true)]
async fn a_childs_use_counts_once_over_replays() {
    // Whether a child fails first; from where the parent is replayed.
    for (child_fails_first, from_the_start) in [(false, false), (false, true), (true, false), (true, true)] {
        let (mended, child_fails) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(child_fails_first)));
        let spent = Rc::new(RefCell::default());
        let workshop = Workshop::new(Sim::faultless(), family(&mended, &child_fails, &spent));
        workshop
            .run(3, async {
                let mut order = workshop.order("agent", json!(null));
                order.budget = Budget { tokens: Some(5_000), ..Budget::default() };
                let job = workshop.submit(order).await;
                assert_eq!(failure(&workshop, &job).await.class, ErrorClass::Invalid);
                workshop.clock.sleep(Duration::from_secs(60)).await;
                child_fails.set(false);
                for round in 0..3 {
                    mended.set(round == 2);
                    replay(&workshop, &job, &format!("r{round}"), from_the_start.then_some(Seq(2))).await;
                    workshop.ended(&job).await;
                    workshop.clock.sleep(Duration::from_secs(60)).await;
                }
                assert_eq!(result(&workshop, &job).await, json!(10));
                let at = format!("{child_fails_first} {from_the_start}:\n{}", workshop.story(&job));
                // What was really spent: by the journals themselves, each job's own steps alone.
                let snapshot = workshop.sim.snapshot();
                let own = snapshot.journals.values().flatten().flat_map(|batch| &batch.entries).map(|entry| {
                    serde_json::to_value(entry).unwrap()["usage"]["input_tokens"].as_u64().unwrap_or_default()
                });
                let used = workshop.journal(&job).totals().usage.tokens();
                assert_eq!(used, own.sum::<u64>(), "{at}");
                assert_eq!(spent.borrow().len(), 2, "{at}");
            })
            .await;
    }
}
