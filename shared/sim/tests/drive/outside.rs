//! What comes from outside: signals, cancels, replays, deployments.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::entry::Edit;
use longhaul::engine::job::Status;
use longhaul::engine::{AgentRef, Entry, JobState, Seq, TenantId};
use longhaul::store::StoreError;
use longhaul::{Agent, AgentSource, Ctx, Error, ErrorClass, Registry, StepError, outside};
use longhaul_sim::workshop::Workshop;
use longhaul_sim::{CallFaults, Faults, Sim};
use serde_json::{Value, json};

use crate::ground::{Done, failure, registry, result};

#[tokio::test(start_paused = true)]
async fn what_is_not_worth_a_retry_is_a_dead_letter_and_is_mended_and_replayed() {
    let done = Done::default();
    let noted = done.clone();
    let agent = registry(async move |ctx: &mut Ctx, input: Value| {
        let plan: String = ctx.step("plan", async || Ok(format!("plan {}", noted.note("plan")))).await?;
        let mended = input["mended"] == json!(true);
        let body = async || {
            noted.note("publish");
            if mended { Ok(()) } else { Err(StepError::new(ErrorClass::Refused, "the model refused")) }
        };
        ctx.step("publish", body).await?;
        Ok(plan)
    });
    let workshop = Workshop::new(Sim::faultless(), agent);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            let failure = failure(&workshop, &job).await;
            assert_eq!(failure.class, ErrorClass::Refused);
            assert_eq!(failure.step.as_ref().map(|step| step.as_str()), Some("1"));
            let letters = workshop.sim.snapshot().dead_letters;
            assert_eq!(letters.len(), 1);
            let edit = Edit { input: Some(json!({"mended": true})), budget: None, ..Edit::default() };
            let replay = |key: &'static str| {
                let (store, job, edit) = (workshop.sim.handle(), job.clone(), edit.clone());
                let now = workshop.clock.now();
                async move { outside::replay(&store, &job, key.parse().unwrap(), "bob".into(), None, edit, now).await }
            };
            assert!(replay("r1").await.unwrap().seq.is_some());
            assert_eq!(replay("r1").await.unwrap().seq, None, "pressed twice, taken in once");
            assert_eq!(result(&workshop, &job).await, json!("plan 1"), "the plan was kept");
            assert!(replay("r2").await.is_err(), "a completed job is not replayed");
        })
        .await;
    assert_eq!(done.read(), BTreeMap::from([("plan".to_owned(), 1), ("publish".to_owned(), 2)]));
}

/// Two replays at once, one of which is slow at any of its calls: one of them opens the job, and whoever asked for other
/// changes is told that his were not made.
#[tokio::test(start_paused = true)]
async fn of_two_replays_at_once_the_one_that_changes_nothing_is_refused() {
    for (call, same) in (1..=8).flat_map(|call| [(call, true), (call, false)]) {
        let agent = registry(async move |ctx: &mut Ctx, input: Value| {
            let body = async || {
                if input["mended"].is_null() {
                    return Err(StepError::new(ErrorClass::Refused, "the model refused"));
                }
                tokio::time::sleep(Duration::from_secs(100)).await;
                Ok(input["mended"].clone())
            };
            let whole: Value = ctx.step("publish", body).await?;
            Ok(whole)
        });
        let workshop = Workshop::new(Sim::faultless(), agent);
        workshop
            .run(1, async {
                let job = workshop.submit(workshop.order("agent", json!({}))).await;
                failure(&workshop, &job).await;
                let edit = |who: &str| Edit { input: Some(json!({ "mended": who })), ..Edit::default() };
                let edits = [edit("ada"), edit(if same { "ada" } else { "bob" })];
                let (slow, quick, now) = (workshop.sim.handle(), workshop.sim.handle(), workshop.clock.now());
                slow.freeze_at(call, Duration::from_secs(10));
                let ask = |store, key: &str, edit: &Edit| {
                    let (job, key, edit) = (job.clone(), key.parse().unwrap(), edit.clone());
                    Box::pin(async move { outside::replay(store, &job, key, "eve".into(), None, edit, now).await })
                };
                let late = slow.unless_frozen(ask(&slow, "r1", &edits[0]));
                let answers: [_; 2] = tokio::join!(late, ask(&quick, "r2", &edits[1])).into();
                let whole = result(&workshop, &job).await;
                let batches = workshop.sim.snapshot().journals.remove(&job.job).unwrap();
                let entries = batches.into_iter().flat_map(|batch| batch.entries);
                let made: Vec<Edit> = entries
                    .filter_map(|entry| if let Entry::Replayed { edit, .. } = entry { Some(edit) } else { None })
                    .collect();
                let said = format!("slow at call {call}, the same changes: {same}: {answers:?}");
                assert_eq!(made.len(), 1, "{said}");
                assert_eq!(whole, made[0].input.as_ref().unwrap()["mended"], "{said}");
                for (answer, edit) in answers.iter().zip(&edits) {
                    match answer {
                        Ok(_) => assert_eq!(edit, &made[0], "{said}"),
                        Err(outside::OutsideError::NotReplayable) => {}
                        Err(other) => panic!("{said}: {other}"),
                    }
                }
                let taken = answers.iter().filter(|answer| answer.is_ok()).count();
                // In the middle of the slow one, who asks for the same is answered as it is.
                match (same, call) {
                    (true, 2..=4) => assert_eq!(taken, 2, "{said}"),
                    (true, _) => assert!(taken > 0, "{said}"),
                    (false, _) => assert_eq!(taken, 1, "{said}"),
                }
            })
            .await;
    }
}

/// A position that the journal does not have is none to go back to.
#[tokio::test(start_paused = true)]
async fn a_replay_from_a_position_that_is_not_there_is_refused() {
    let agent = registry(async |ctx: &mut Ctx, _: Value| {
        ctx.step("publish", async || -> Result<(), StepError> { Err(StepError::new(ErrorClass::Refused, "no")) }).await
    });
    let workshop = Workshop::new(Sim::faultless(), agent);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            failure(&workshop, &job).await;
            let next = workshop.journal(&job).next();
            let replay = async |key: &str, from: Seq| {
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                outside::replay(&store, &job, key.parse().unwrap(), "ada".into(), Some(from), Edit::default(), now)
                    .await
            };
            let before = workshop.story(&job);
            for from in [next.plus(1), next.plus(1_000_000)] {
                let refused = replay("r1", from).await;
                assert!(matches!(refused, Err(outside::OutsideError::NoPosition)), "{from}: {refused:?}");
            }
            assert_eq!(workshop.story(&job), before);
            assert!(replay("r1", next).await.unwrap().seq.is_some());
        })
        .await;
}

/// Waits for a person, with a timeout.
fn asks_a_person() -> Registry {
    registry(async |ctx: &mut Ctx, timeout_s: Option<u64>| {
        let wait = ctx.signal::<String>("approval");
        let answer = match timeout_s {
            Some(seconds) => wait.timeout(Duration::from_secs(seconds)).await,
            None => wait.await,
        };
        match answer {
            Ok(answer) => Ok(answer),
            Err(Error::TimedOut { name }) => Ok(format!("{name} timed out")),
            Err(other) => Err(other),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_by_its_signal_or_its_timeout() {
    // Signal sent after so many seconds (none: never), the wait's timeout, what the agent comes to.
    let rows = [
        (Some(0), None, "yes"),
        (Some(5), None, "yes"),
        (Some(3_000), None, "yes"),
        (Some(5), Some(60), "yes"),
        (None, Some(1), "approval timed out"),
        (None, Some(60), "approval timed out"),
        (None, Some(100_000), "approval timed out"),
        (Some(90), Some(60), "approval timed out"),
    ];
    for (sent_after, timeout, expected) in rows {
        let workshop = Workshop::new(Sim::faultless(), asks_a_person());
        workshop
            .run(2, async {
                let job = workshop.submit(workshop.order("agent", json!(timeout))).await;
                if let Some(after) = sent_after {
                    workshop.clock.sleep(Duration::from_secs(after)).await;
                    let (name, key) = ("approval".parse().unwrap(), "k".parse().unwrap());
                    let now = workshop.clock.now();
                    let sent =
                        outside::signal(&workshop.sim.handle(), &job, name, key, json!("yes"), "ada".into(), now).await;
                    assert_eq!(sent.is_ok(), expected == "yes", "{sent:?}: refused behind the end");
                }
                assert_eq!(result(&workshop, &job).await, json!(expected), "{sent_after:?} {timeout:?}");
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_job_wherever_it_stands() {
    // An agent that waits, and one in the middle of a long step.
    let long_step = registry(async |ctx: &mut Ctx, _: Option<u64>| {
        ctx.step("long", async || {
            tokio::time::sleep(Duration::from_secs(100)).await;
            Ok("done".to_owned())
        })
        .await
    });
    for (name, agent, within_s) in [("waiting", asks_a_person(), 2), ("in mid-step", long_step, 4)] {
        let workshop = Workshop::new(Sim::faultless(), agent);
        workshop
            .run(1, async {
                let job = workshop.submit(workshop.order("agent", json!(null))).await;
                workshop.clock.sleep(Duration::from_secs(20)).await;
                let asked_at = workshop.clock.now();
                let key = "c".parse().unwrap();
                outside::cancel(&workshop.sim.handle(), &job, key, "ada".into(), None, asked_at).await.unwrap();
                let ended = workshop.ended(&job).await;
                assert_eq!(ended.progress.state, JobState::Cancelled, "{name}");
                let took = asked_at.until(ended.progress.updated_at);
                assert!(took <= Duration::from_secs(within_s), "{name}: {took:?}");
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_does_not_match_the_code_blocks_and_goes_on_after_a_fix() {
    let broken = Rc::new(Cell::new(false));
    let deployed = Rc::clone(&broken);
    let agent = registry(async move |ctx: &mut Ctx, _: Value| {
        let name = if deployed.get() { "other" } else { "first" };
        let first: u64 = ctx.step(name, async || Ok(1)).await?;
        let answer: u64 = ctx.signal("go").await?;
        Ok(first + answer)
    });
    let workshop = Workshop::new(Sim::faultless(), agent);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            workshop.until(&job, |job| matches!(job.progress.state, JobState::Waiting { .. })).await;
            broken.set(true);
            let (name, key) = ("go".parse().unwrap(), "k".parse().unwrap());
            let now = workshop.clock.now();
            outside::signal(&workshop.sim.handle(), &job, name, key, json!(2), "ada".into(), now).await.unwrap();
            let blocked = workshop.until(&job, |job| job.progress.state.status() == Status::Blocked).await;
            match blocked.progress.state {
                JobState::Blocked { mismatch } => {
                    assert_eq!(mismatch.recorded, "step \"first\"");
                    assert_eq!(mismatch.attempted, "step \"other\"");
                }
                other => panic!("{other:?}"),
            }
            broken.set(false);
            assert_eq!(result(&workshop, &job).await, json!(3));
        })
        .await;
}

/// A stored agent that this build cannot read: as long as that is so the job is BLOCKED, with the reason; a build that
/// can read it goes on. The worker does not take it up again and again meanwhile.
#[tokio::test(start_paused = true)]
async fn a_stored_agent_that_cannot_be_read_blocks_its_job() {
    struct Stored {
        reads: Rc<Cell<u32>>,
        error: fn() -> StoreError,
    }
    impl AgentSource for Stored {
        fn agent<'a>(
            &'a self,
            _tenant: &'a TenantId,
            _agent: &'a AgentRef,
        ) -> Pin<Box<dyn Future<Output = Result<Option<Agent>, StoreError>> + 'a>> {
            self.reads.set(self.reads.get() + 1);
            Box::pin(async { Err((self.error)()) })
        }
    }
    let corrupt = || StoreError::Corrupt { what: "the definition of agent@1".to_owned(), detail: "line 1".to_owned() };
    let newer = || StoreError::Newer { what: "the definition of agent@1".to_owned(), found: 9 };
    for (error, said) in [(corrupt as fn() -> StoreError, "line 1"), (newer, "protocol version 9")] {
        let mut registry = Registry::default();
        let reads = Rc::new(Cell::new(0));
        registry.set_source(Rc::new(Stored { reads: Rc::clone(&reads), error }));
        let workshop = Workshop::new(Sim::faultless(), registry);
        workshop
            .run(1, async {
                let job = workshop.submit(workshop.order("agent", json!({}))).await;
                let blocked = workshop.until(&job, |job| job.progress.state.status() == Status::Blocked).await;
                let JobState::Blocked { mismatch, .. } = &blocked.progress.state else { panic!("{blocked:?}") };
                assert!(mismatch.recorded.contains("agent@1"), "{mismatch:?}");
                assert!(
                    mismatch.attempted.contains("cannot read it") && mismatch.attempted.contains(said),
                    "{mismatch:?}"
                );
                workshop.clock.sleep(Duration::from_secs(20 * 60)).await;
                assert!(reads.get() <= 6, "looked at every five minutes, not in a loop: {}", reads.get());
                let mended = crate::ground::registry(async |_: &mut Ctx, _: Value| Ok("done"));
                workshop.deploy(mended);
                assert_eq!(result(&workshop, &job).await, json!("done"));
            })
            .await;
    }
}

/// A cancel that comes to the journal just before an effect that may happen once would begin: behind it nothing irreversible
/// begins, at whatever moment it comes, and what has begun is written down.
#[tokio::test(start_paused = true)]
async fn nothing_irreversible_begins_behind_a_cancel() {
    let (mut kept_from, mut begun) = (0, 0);
    for seed in 0..600 {
        let millis = seed % 120;
        let done = Done::default();
        let noted = done.clone();
        let agent = registry(async move |ctx: &mut Ctx, _: Value| {
            ctx.step("plan", async || Ok(())).await?;
            ctx.effect("stamp", async |_| Ok(noted.note("stamp"))).at_most_once().await
        });
        // Calls of different length, so that either may come first.
        let latency = Duration::from_millis(1)..=Duration::from_millis(20);
        let calls = CallFaults { latency, ..CallFaults::default() };
        let workshop = Workshop::new(Sim::new(seed, Faults { calls, ..Faults::default() }), agent);
        let job = workshop
            .run(1, async {
                let job = workshop.submit(workshop.order("agent", json!({}))).await;
                workshop.clock.sleep(Duration::from_millis(millis)).await;
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                // It may have ended by then.
                let _late = outside::cancel(&store, &job, "c".parse().unwrap(), "ada".to_owned(), None, now).await;
                workshop.ended(&job).await;
                job
            })
            .await;
        let batches = workshop.sim.snapshot().journals.remove(&job.job).unwrap();
        let entries: Vec<Entry> = batches.into_iter().flat_map(|batch| batch.entries).collect();
        let place = |is: fn(&Entry) -> bool| entries.iter().position(is);
        let cancelled = place(|entry| matches!(entry, Entry::CancelRequested { .. }));
        let planned = place(|entry| matches!(entry, Entry::StepCompleted { id, .. } if id.name == "plan"));
        let started = place(|entry| matches!(entry, Entry::StepStarted { .. }));
        let stamped = done.read().get("stamp").copied().unwrap_or_default();
        assert_eq!(stamped, u32::from(started.is_some()), "after {millis} ms: {}", workshop.story(&job));
        if let (Some(cancelled), Some(started)) = (cancelled, started) {
            assert!(started < cancelled, "after {millis} ms: {}", workshop.story(&job));
        }
        kept_from += u32::from(planned < cancelled && planned.is_some() && started.is_none());
        begun += u32::from(started.is_some() && cancelled.is_some());
    }
    assert!(kept_from > 0 && begun > 0, "both ways were met: {kept_from} and {begun}");
}

/// An agent that takes too long to tell others of its job's end does not take the time in which the end is written down.
#[tokio::test(start_paused = true)]
async fn leaving_ends_before_the_invocation_does() {
    let mut agents = Registry::default();
    let agent = Agent::new(async |ctx: &mut Ctx, _: Value| {
        ctx.step("work", async || -> Result<(), StepError> {
            tokio::time::sleep(Duration::from_secs(2)).await;
            Err(StepError::new(ErrorClass::Invalid, "no"))
        })
        .await
    });
    let told = Rc::new(Cell::new(0));
    let seen = Rc::clone(&told);
    let agent = agent.leaving(async move |_| {
        seen.set(seen.get() + 1);
        std::future::pending().await
    });
    agents.add_agent(AgentRef { name: "agent".parse().unwrap(), version: 1 }, agent);
    let mut workshop = Workshop::new(Sim::faultless(), agents);
    workshop.invocation = Duration::from_secs(6);
    workshop
        .run(1, async {
            let begun = workshop.clock.now();
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            workshop.ended(&job).await;
            let took = begun.until(workshop.sim.job(job.job).unwrap().progress.updated_at);
            assert!(took <= Duration::from_millis(5_100), "{took:?} of an invocation of 6 s");
        })
        .await;
    assert_eq!(told.get(), 1);
}
