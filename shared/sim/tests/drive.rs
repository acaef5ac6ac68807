//! The drive loop: real agents' code over the simulated store, what they come to and what they cost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::entry::Edit;
use longhaul::engine::job::Status;
use longhaul::engine::journal::Ending;
use longhaul::engine::{AgentRef, Entry, JobState};
use longhaul::store::JobRef;
use longhaul::{Ctx, Error, ErrorClass, Failure, Registry, Result, RetryPolicy, StepError, Usage, outside};
use longhaul_sim::workshop::{Workshop, killed};
use longhaul_sim::{Moment, Sim};
use serde_json::{Value, json};

/// How often each thing was really done.
#[derive(Clone, Default)]
struct Done(Rc<RefCell<BTreeMap<String, u32>>>);

impl Done {
    fn note(&self, what: impl Into<String>) -> u32 {
        let mut done = self.0.borrow_mut();
        let count = done.entry(what.into()).or_default();
        *count += 1;
        *count
    }

    fn read(&self) -> BTreeMap<String, u32> {
        self.0.borrow().clone()
    }
}

/// A registry of one agent called "agent".
fn registry<I, O, F>(agent: F) -> Registry
where
    F: AsyncFn(&mut Ctx, I) -> Result<O> + 'static,
    I: serde::de::DeserializeOwned + 'static,
    O: serde::Serialize + 'static,
{
    let mut registry = Registry::default();
    registry.add("agent", 1, agent).unwrap();
    registry
}

/// An agent of ten steps.
fn ten_steps(done: &Done) -> Registry {
    ten_steps_of(done, Duration::from_millis(300))
}

fn ten_steps_of(done: &Done, length: Duration) -> Registry {
    let done = done.clone();
    registry(async move |ctx: &mut Ctx, _: Value| {
        let mut sum = 0;
        for number in 0..10_u64 {
            sum += ctx
                .step(&format!("step {number}"), async || {
                    done.note(format!("step {number}"));
                    tokio::time::sleep(length).await;
                    Ok(number)
                })
                .await?;
        }
        Ok(sum)
    })
}

async fn result(workshop: &Workshop, job: &JobRef) -> Value {
    workshop.ended(job).await;
    match workshop.journal(job).ending() {
        Some(Ending::Completed { output }) => output.clone(),
        other => panic!("{other:?}\n{}", workshop.story(job)),
    }
}

async fn failure(workshop: &Workshop, job: &JobRef) -> Failure {
    workshop.ended(job).await;
    match workshop.journal(job).ending() {
        Some(Ending::Failed { failure }) => failure.clone(),
        other => panic!("{other:?}\n{}", workshop.story(job)),
    }
}

#[tokio::test(start_paused = true)]
async fn ten_steps_cost_what_the_design_says() {
    let done = Done::default();
    let workshop = Workshop::new(Sim::faultless(), ten_steps(&done));
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!(45));
        })
        .await;
    let counts = workshop.sim.counts();
    let count = |name: &str| counts.get(name).copied().unwrap_or_default();
    assert_eq!(count("submit"), 1);
    assert_eq!(count("append"), 1 + 10 + 1, "claimed, a step each, completed");
    assert_eq!(count("write_job"), 1 + 1, "the claim and the end");
    assert_eq!(count("wake"), 0);
    assert!(done.read().values().all(|times| *times == 1));
    assert_eq!(done.read().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_job_goes_on_over_short_invocations() {
    let done = Done::default();
    let agent = ten_steps_of(&done, Duration::from_secs(1));
    let mut workshop = Workshop::new(Sim::faultless(), agent);
    workshop.invocation = Duration::from_secs(4);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!(45));
            let ended = workshop.ended(&job).await;
            assert!(ended.progress.epoch.0 >= 5, "{} invocations", ended.progress.epoch.0);
        })
        .await;
    assert!(done.read().values().all(|times| *times == 1), "{:?}", done.read());
}

/// For every call of the first worker and both sides of its effect: killed there, the job still ends right, and no
/// step runs more often than the contract says.
#[tokio::test(start_paused = true)]
async fn a_worker_killed_at_any_call_loses_nothing() {
    for moment in [Moment::Before, Moment::After] {
        for call in 1..=17 {
            let done = Done::default();
            let mut workshop = Workshop::new(Sim::faultless(), ten_steps(&done));
            workshop.crashes = Rc::new(move |worker| (worker == 0).then(|| killed(call, moment)));
            let job = workshop
                .run(2, async {
                    let job = workshop.submit(workshop.order("agent", json!(null))).await;
                    assert_eq!(result(&workshop, &job).await, json!(45), "killed {moment:?} call {call}");
                    job
                })
                .await;
            let twice = done.read().values().filter(|times| **times > 1).count();
            assert!(twice <= 1, "killed {moment:?} call {call}: {:?}", done.read());
            assert!(done.read().values().all(|times| *times <= 2), "killed {moment:?} call {call}");
            let story = workshop.story(&job);
            assert_eq!(story.matches("step_completed").count(), 10, "{story}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_workers_job_goes_on_within_thirty_seconds() {
    let done = Done::default();
    let mut workshop = Workshop::new(Sim::faultless(), ten_steps(&done));
    // In mid-step, with the message invisible for an hour and a half: only the watchdog can know.
    workshop.crashes = Rc::new(|worker| (worker == 0).then(|| killed(10, Moment::After)));
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            let taken_over = workshop.until(&job, |job| job.progress.epoch.0 == 2).await;
            let waited = taken_over.order.submitted_at.until(workshop.clock.now());
            assert!(waited <= Duration::from_secs(34), "{waited:?}");
            result(&workshop, &job).await;
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_kills_its_workers_ends_as_worker_lost() {
    // The call at which each worker dies, and the claims that it takes until nobody tries any more: deaths in the first
    // step are counted in the journal, deaths before anything is appended in the job item.
    for (call, claims) in [(7, 4), (5, 6)] {
        let mut workshop = Workshop::new(Sim::faultless(), ten_steps(&Done::default()));
        // A takeover makes one call more than a first claim: it looks the dead session up.
        workshop.crashes = Rc::new(move |worker| Some(killed(call + u64::from(worker > 0), Moment::Before)));
        let job = workshop
            .run(2, async {
                let job = workshop.submit(workshop.order("agent", json!(null))).await;
                workshop.until(&job, |job| job.progress.epoch.0 >= claims - 1).await;
                // The claim is followed by the death.
                workshop.clock.sleep(Duration::from_secs(1)).await;
                job
            })
            .await;
        // The last worker lives, so that the end is written down.
        workshop.crashes = Rc::new(|_| None);
        workshop
            .run(2, async {
                let failure = failure(&workshop, &job).await;
                assert_eq!(failure.class, ErrorClass::WorkerLost, "dying at call {call}");
                assert_eq!(workshop.ended(&job).await.progress.epoch.0, claims, "dying at call {call}");
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn workers_that_die_behind_progress_do_not_end_the_job() {
    let done = Done::default();
    let mut workshop = Workshop::new(Sim::faultless(), ten_steps(&done));
    // Each writes one outcome and dies in the next step; the job item knows of none of it.
    workshop.crashes = Rc::new(|worker| (worker < 10).then(|| killed(8 + u64::from(worker > 0), Moment::Before)));
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!(45));
            assert_eq!(workshop.ended(&job).await.progress.epoch.0, 6, "{}", workshop.story(&job));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_made_again_after_its_wait() {
    let done = Done::default();
    let noted = done.clone();
    let agent = registry(async move |ctx: &mut Ctx, _: Value| {
        ctx.step("flaky", async || match noted.note("flaky") {
            1 | 2 => Err(StepError::new(ErrorClass::Transient, "the server was away")),
            _ => Ok(7),
        })
        .await
    });
    let workshop = Workshop::new(Sim::faultless(), agent);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!(7));
            let ended = workshop.ended(&job).await;
            let took = ended.order.submitted_at.until(ended.progress.updated_at);
            assert!(
                (Duration::from_secs(40)..Duration::from_secs(52)).contains(&took),
                "10 s, 30 s and jitter: {took:?}"
            );
            assert_eq!(ended.progress.epoch.0, 3, "nobody pays for the waits");
        })
        .await;
}

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
            let edit = Edit { input: Some(json!({"mended": true})), budget: None };
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

#[tokio::test(start_paused = true)]
async fn branches_run_together_and_have_keys_of_their_own() {
    let agent = registry(async |ctx: &mut Ctx, items: Vec<u64>| {
        ctx.fan_out("double", &items, async |ctx, item| {
            let doubled = ctx
                .step("double", async || {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    Ok(item * 2)
                })
                .metered(5, |_| Usage { input_tokens: 3, output_tokens: 1, ..Usage::default() })
                .await?;
            ctx.step("plus one", async || Ok(doubled + 1)).await
        })
        .await
    });
    let workshop = Workshop::new(Sim::faultless(), agent);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!([1, 2, 3]))).await;
            assert_eq!(result(&workshop, &job).await, json!([3, 5, 7]));
            let ended = workshop.ended(&job).await;
            let took = ended.order.submitted_at.until(ended.progress.updated_at);
            assert!(took < Duration::from_secs(12), "all at once: {took:?}");
            let keys: Vec<String> = workshop.journal(&job).steps().map(|step| step.id.key.to_string()).collect();
            assert_eq!(keys, ["0[0].0", "0[0].1", "0[1].0", "0[1].1", "0[2].0", "0[2].1"]);
            assert_eq!(ended.progress.totals.usage.tokens(), 12);
        })
        .await;
    // Branches that finish together share a write: claimed, two rounds, completed.
    assert_eq!(workshop.sim.counts()["append"], 4);
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
async fn an_effect_that_is_made_at_most_once_is_not_repeated_after_a_crash() {
    let done = Done::default();
    let noted = done.clone();
    let agent = registry(async move |ctx: &mut Ctx, _: Value| {
        let paid = ctx
            .effect("pay", async |key| {
                noted.note(key.to_string());
                tokio::time::sleep(Duration::from_secs(7)).await;
                Ok(())
            })
            .at_most_once()
            .await;
        match paid {
            Err(Error::Step(failure)) if failure.class == ErrorClass::Interrupted => Ok("ask a person"),
            Ok(()) => Ok("paid"),
            Err(other) => Err(other),
        }
    });
    let mut workshop = Workshop::new(Sim::faultless(), agent);
    // Its second heartbeat comes while it pays.
    workshop.crashes = Rc::new(|worker| (worker == 0).then(|| killed(10, Moment::Before)));
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            assert_eq!(result(&workshop, &job).await, json!("ask a person"), "{}", workshop.story(&job));
        })
        .await;
    assert_eq!(done.read().into_values().collect::<Vec<_>>(), [1]);
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

#[tokio::test(start_paused = true)]
async fn a_budget_ends_a_job_before_the_step_that_it_does_not_allow() {
    let agent = registry(async |ctx: &mut Ctx, _: Value| {
        for number in 0..10_u64 {
            ctx.step("think", async || Ok(number))
                .metered(100, |_| Usage { input_tokens: 60, output_tokens: 40, ..Usage::default() })
                .await?;
        }
        Ok(())
    });
    let workshop = Workshop::new(Sim::faultless(), agent);
    workshop
        .run(1, async {
            let mut order = workshop.order("agent", json!(null));
            order.budget.tokens = Some(350);
            let job = workshop.submit(order).await;
            let failure = failure(&workshop, &job).await;
            assert_eq!(failure.class, ErrorClass::Budget);
            assert_eq!(workshop.journal(&job).totals().usage.tokens(), 300, "three steps fit, the fourth does not");
        })
        .await;
}

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

#[tokio::test(start_paused = true)]
async fn an_agent_that_panics_fails_alone() {
    let agent = registry(async |_: &mut Ctx, panics: bool| {
        assert!(!panics, "a wrong turn");
        Ok(1)
    });
    let workshop = Workshop::new(Sim::faultless(), agent);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(true))).await;
            let failure = failure(&workshop, &job).await;
            assert!(failure.message.contains("a wrong turn"), "{failure:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_with_nothing_left_leaves_an_empty_queue_and_index() {
    let workshop = Workshop::new(Sim::faultless(), ten_steps(&Done::default()));
    workshop
        .run(2, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            result(&workshop, &job).await;
            // The watchdogs of the invocation come, find nothing and are gone.
            workshop.clock.sleep(Duration::from_secs(60)).await;
        })
        .await;
    let snapshot = workshop.sim.snapshot();
    assert_eq!(snapshot.messages, 0);
    assert!(snapshot.sessions.is_empty());
    assert!(snapshot.jobs.values().all(|job| job.progress.due.is_none()));
    let last = snapshot.journals.values().flatten().last().and_then(|batch| batch.entries.last());
    assert!(matches!(last, Some(Entry::Completed { .. })));
    let policy = RetryPolicy::default();
    assert_eq!((policy.attempts_max, policy.wait_first_ms), (3, 10_000), "the articles' defaults");
}
