//! Jobs with children.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::entry::Edit;
use longhaul::engine::{AgentRef, Job, JobId, JobState, limits};
use longhaul::store::JobRef;
use longhaul::{Ctx, Error, ErrorClass, Registry, StepError, outside};
use longhaul_sim::workshop::{Workshop, killed};
use longhaul_sim::{Moment, Sim};
use serde_json::{Value, json};

use crate::ground::{failure, result};

#[tokio::test(start_paused = true)]
async fn children_are_jobs_of_their_own_and_are_joined() {
    let mut registry = Registry::default();
    let child = AgentRef { name: "child".parse().unwrap(), version: 1 };
    registry
        .add("agent", 1, async move |ctx: &mut Ctx, items: Vec<i64>| {
            ctx.fan_out("review", &items, async |ctx, item| {
                match ctx.child::<i64>("child", child.clone(), *item).await {
                    Ok(result) => Ok(result),
                    Err(Error::Step(failure)) => Ok(if failure.class == ErrorClass::Invalid { -1 } else { -2 }),
                    Err(other) => Err(other),
                }
            })
            .await
        })
        .unwrap();
    registry
        .add("child", 1, async |ctx: &mut Ctx, item: i64| {
            ctx.sleep("pause", Duration::from_secs(30)).await?;
            ctx.step("square", async || match item {
                13 => Err(StepError::new(ErrorClass::Invalid, "13 is not reviewed")),
                _ => Ok(item * item),
            })
            .await
        })
        .unwrap();
    let workshop = Workshop::new(Sim::faultless(), registry);
    workshop
        .run(3, async {
            let job = workshop.submit(workshop.order("agent", json!([2, 13, 5]))).await;
            assert_eq!(result(&workshop, &job).await, json!([4, -1, 25]));
            assert_eq!(workshop.sim.snapshot().jobs.len(), 4);
        })
        .await;
}

/// A parent that waits for one child, which fails until it is mended, takes its time, or both.
fn family() -> Registry {
    let mut registry = Registry::default();
    let child = AgentRef { name: "child".parse().unwrap(), version: 1 };
    registry
        .add("agent", 1, async move |ctx: &mut Ctx, input: Value| ctx.child::<u64>("child", child.clone(), input).await)
        .unwrap();
    registry
        .add("child", 1, async |ctx: &mut Ctx, input: Value| {
            ctx.sleep("pause", Duration::from_secs(100)).await?;
            ctx.step("work", async || match input["mended"] == json!(true) {
                true => Ok(7),
                false => Err(StepError::new(ErrorClass::Invalid, "not mended")),
            })
            .await
        })
        .unwrap();
    registry
}

async fn replay(workshop: &Workshop, job: &JobRef, key: &str, input: Option<Value>) {
    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
    let edit = Edit { input, budget: None, ..Edit::default() };
    let replayed = outside::replay(&store, job, key.parse().unwrap(), "bob".into(), None, edit, now).await;
    assert!(replayed.unwrap().seq.is_some());
}

/// A parent that is opened again does not wait for a child that has nothing more to say.
#[tokio::test(start_paused = true)]
async fn a_replayed_parent_hears_of_children_that_ended_while_it_was_closed() {
    // Whether the parent was cancelled in mid-wait (or its child failed), and whether a person replays the child first.
    for (cancelled, child_first) in [(true, false), (true, true), (false, true)] {
        let workshop = Workshop::new(Sim::faultless(), family());
        workshop
            .run(2, async {
                let job = workshop.submit(workshop.order("agent", json!({ "mended": cancelled }))).await;
                workshop.until(&job, |job| matches!(job.progress.state, JobState::Waiting { .. })).await;
                if cancelled {
                    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                    outside::cancel(&store, &job, "c".parse().unwrap(), "ada".into(), None, now).await.unwrap();
                }
                workshop.ended(&job).await;
                let other = |id: &&JobId| **id != job.job;
                let child = *workshop.sim.snapshot().jobs.keys().find(other).unwrap();
                let child = JobRef { tenant: job.tenant.clone(), job: child };
                workshop.ended(&child).await;
                if child_first {
                    replay(&workshop, &child, "r", Some(json!({ "mended": true }))).await;
                    workshop.ended(&child).await;
                }
                replay(&workshop, &job, "r", None).await;
                assert_eq!(result(&workshop, &job).await, json!(7), "{cancelled} {child_first}");
            })
            .await;
    }
}

/// The second end of a parent cancels its child as the first one did.
#[tokio::test(start_paused = true)]
async fn a_child_is_cancelled_as_often_as_its_parent_ends() {
    let workshop = Workshop::new(Sim::faultless(), family());
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!({ "mended": true }))).await;
            for (cancel, again) in [("c1", true), ("c2", false)] {
                let child_waits = || {
                    let snapshot = workshop.sim.snapshot();
                    let waits = |it: &Job| matches!(it.progress.state, JobState::Waiting { .. });
                    snapshot.jobs.len() == 2 && snapshot.jobs.values().all(waits)
                };
                while !child_waits() {
                    workshop.clock.sleep(Duration::from_secs(1)).await;
                }
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                outside::cancel(&store, &job, cancel.parse().unwrap(), "ada".into(), None, now).await.unwrap();
                workshop.ended(&job).await;
                workshop.clock.sleep(Duration::from_secs(10)).await;
                let cancelled = |it: &Job| it.progress.state == JobState::Cancelled;
                assert!(workshop.sim.snapshot().jobs.values().all(cancelled), "{cancel}");
                if again {
                    replay(&workshop, &job, "r", None).await;
                }
            }
        })
        .await;
}

/// Found by a review: the end of a child that nobody could read was told under the key of its first end, so its parent
/// took it for known and waited for ever.
#[tokio::test(start_paused = true)]
async fn a_parent_hears_of_a_replayed_child_that_ends_unread() {
    let mended = Rc::new(Cell::new(false));
    let mut registry = Registry::default();
    let child = AgentRef { name: "child".parse().unwrap(), version: 1 };
    registry
        .add("agent", 1, async move |ctx: &mut Ctx, input: Value| ctx.child::<u64>("child", child.clone(), input).await)
        .unwrap();
    let seen = Rc::clone(&mended);
    registry
        .add("child", 1, async move |ctx: &mut Ctx, _: Value| {
            ctx.step("work", async || match seen.get() {
                true => Ok(()),
                false => Err(StepError::new(ErrorClass::Invalid, "not mended")),
            })
            .await?;
            ctx.sleep("pause", Duration::from_secs(100)).await?;
            Ok(7)
        })
        .unwrap();
    let mut workshop = Workshop::new(Sim::faultless(), registry);
    let (sim, doomed) = (workshop.sim.clone(), Rc::new(Cell::new(None::<(JobId, u64)>)));
    let target = Rc::clone(&doomed);
    workshop.crashes = Rc::new(move |_| {
        let (child, since) = target.get()?;
        match sim.job(child)?.progress.epoch.0.checked_sub(since)? {
            // Over the reading of the journal; a takeover looks the dead session up before.
            0 => Some(killed(5, Moment::Before)),
            1..=5 => Some(killed(6, Moment::Before)),
            _ => None,
        }
    });
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            assert_eq!(failure(&workshop, &job).await.class, ErrorClass::Invalid);
            let jobs = workshop.sim.snapshot().jobs;
            let child = jobs.keys().copied().find(|id| *id != job.job).unwrap();
            mended.set(true);
            replay(&workshop, &job, "again", None).await;
            let asleep = || {
                let found = workshop.sim.job(child).unwrap().progress;
                matches!(found.state, JobState::Waiting { until: Some(_), .. }).then_some(found.epoch.0)
            };
            let since = loop {
                match asleep() {
                    Some(epoch) => break epoch,
                    None => workshop.clock.sleep(Duration::from_secs(1)).await,
                }
            };
            doomed.set(Some((child, since)));
            let told = failure(&workshop, &job).await;
            assert!(told.message.contains("worker died"), "{told:?}\n{}", workshop.story(&job));
        })
        .await;
}

/// Found by a tester: an agent that starts itself went on for ever, faster than a cancel could follow.
#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_itself_comes_to_an_end() {
    let mut registry = Registry::default();
    let itself = AgentRef { name: "agent".parse().unwrap(), version: 1 };
    registry
        .add("agent", 1, async move |ctx: &mut Ctx, _: Value| {
            ctx.child::<Value>("again", itself.clone(), json!(null)).await
        })
        .unwrap();
    let workshop = Workshop::new(Sim::faultless(), registry);
    workshop
        .run(3, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            let failure = failure(&workshop, &job).await;
            assert_eq!(failure.class, ErrorClass::Budget, "{failure:?}");
            assert_eq!(workshop.sim.snapshot().jobs.len(), 1 + limits::CHILD_DEPTH_MAX as usize);
        })
        .await;
}

/// What a person has changed of a job holds for that job: its children bring what is theirs.
#[tokio::test(start_paused = true)]
async fn children_do_not_inherit_what_was_changed_of_their_parent() {
    let mut registry = Registry::default();
    let child = AgentRef { name: "child".parse().unwrap(), version: 1 };
    registry
        .add("agent", 1, async move |ctx: &mut Ctx, _: Value| {
            let model = ctx.overrides().model.clone();
            let replays = ctx.replays();
            ctx.step("ready", async || match replays {
                0 => Err(StepError::new(ErrorClass::Invalid, "not yet")),
                _ => Ok(()),
            })
            .await?;
            let of_child: Value = ctx.child("child", child.clone(), json!(null)).await?;
            Ok(json!([model, of_child]))
        })
        .unwrap();
    registry
        .add("child", 1, async |ctx: &mut Ctx, _: Value| {
            let overrides = ctx.overrides().clone();
            Ok(json!([overrides.model, overrides.instructions]))
        })
        .unwrap();
    let workshop = Workshop::new(Sim::faultless(), registry);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            failure(&workshop, &job).await;
            let (model, instructions) = (Some("another".to_owned()), Some("Do it well.".to_owned()));
            let edit = Edit { model, instructions, ..Edit::default() };
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            outside::replay(&store, &job, "r".parse().unwrap(), "ada".to_owned(), None, edit, now).await.unwrap();
            workshop.until(&job, |job: &Job| job.progress.state == JobState::Completed).await;
            assert_eq!(result(&workshop, &job).await, json!(["another", [null, null]]));
        })
        .await;
}
