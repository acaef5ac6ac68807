//! Steps, branches and budgets: what they come to and what they cost.

use std::time::Duration;

use longhaul::engine::Entry;
use longhaul::{Ctx, ErrorClass, RetryPolicy, StepError, Usage};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use serde_json::{Value, json};

use crate::ground::{Done, failure, registry, result, ten_steps, ten_steps_of};

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
