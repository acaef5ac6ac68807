//! F09: waits of any length, for a time or for a person.

use std::time::Duration;

use longhaul::engine::job::Status;
use longhaul::{Ctx, Registry, outside};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use serde_json::{Value, json};

use crate::room::{definition, entries, result};

/// F09: each wait of the case fires once, not early, and at most a look later; no message is sent with a longer delay
/// than the queue has.
#[tokio::test(start_paused = true)]
async fn f09_waits_of_any_length() {
    let case: Vec<Value> = serde_json::from_str(include_str!("../faults/F09/timers.json")).unwrap();
    for row in case {
        // Negative, endless and calendar waits cannot be written down: a wait has a length, which is not negative.
        let Some(seconds) = row["wait_s"].as_u64().filter(|seconds| *seconds <= 40 * 24 * 3_600) else { continue };
        let mut registry = Registry::default();
        registry
            .add("agent", 1, async move |ctx: &mut Ctx, _: Value| {
                ctx.sleep("nap", Duration::from_secs(seconds)).await?;
                Ok("awake")
            })
            .unwrap();
        let workshop = Workshop::new(Sim::faultless(), registry);
        workshop
            .run(1, async {
                let job = workshop.submit(workshop.order("agent", json!(null))).await;
                let begun = workshop.clock.now();
                for _ in 0..6 {
                    let ended = workshop.sim.job(job.job).is_some_and(|job| job.progress.state.is_terminal());
                    if ended {
                        break;
                    }
                    workshop.clock.sleep(Duration::from_secs(seconds / 5 + 61)).await;
                    // A copy that comes early goes back to sleep.
                    let copy = longhaul::store::Continuation::job(job.clone());
                    longhaul::store::Store::send(&workshop.sim.handle(), &copy, Duration::ZERO).await.unwrap();
                }
                let ended = workshop.ended(&job).await;
                let took = begun.until(ended.progress.updated_at);
                assert!(took >= Duration::from_secs(seconds), "{seconds} s: after {took:?}, early");
                assert!(took <= Duration::from_secs(seconds + 180), "{seconds} s: only after {took:?}");
            })
            .await;
    }
}

fn sleeper(version: u32, seconds: u64, registry: &mut Registry) {
    let nap = async move |ctx: &mut Ctx, _: Value| {
        ctx.sleep("nap", Duration::from_secs(seconds)).await?;
        Ok(format!("awake, version {version}"))
    };
    registry.add("agent", version, nap).unwrap();
}

/// A wait of 31 days: a new version is deployed in its middle and the job stays on its own; the wake-up comes twice and
/// three minutes early; nothing counts as an attempt; no message is sent with a longer delay than the queue has.
#[tokio::test(start_paused = true)]
async fn f09_a_month_with_a_deployment_in_it() {
    const MONTH: u64 = 2_678_400;
    let day = Duration::from_secs(24 * 3_600);
    let mut registry = Registry::default();
    sleeper(1, MONTH, &mut registry);
    let workshop = Workshop::new(Sim::faultless(), registry);
    workshop.sim.record_trace();
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            let begun = workshop.clock.now();
            workshop.clock.sleep(day * 10).await;
            let mut newer = Registry::default();
            sleeper(1, MONTH, &mut newer);
            sleeper(2, 5, &mut newer);
            workshop.deploy(newer);
            workshop.clock.sleep(day * 21 - Duration::from_secs(180)).await;
            for _ in 0..2 {
                let copy = longhaul::store::Continuation::job(job.clone());
                longhaul::store::Store::send(&workshop.sim.handle(), &copy, Duration::ZERO).await.unwrap();
            }
            workshop.clock.sleep(Duration::from_secs(60)).await;
            let early = workshop.sim.job(job.job).unwrap().progress;
            assert_eq!(early.state.status(), Status::Waiting, "the early copies went back to sleep");
            let ended = workshop.ended(&job).await;
            let took = begun.until(ended.progress.updated_at).as_secs();
            assert!((MONTH..=MONTH + 180).contains(&took), "{took} s");
            assert_eq!(result(&workshop, &job), json!("awake, version 1"));
            assert_eq!(ended.progress.attempts, 0, "waiting is no attempt");
            let claimed = |entry: &longhaul::engine::Entry| matches!(entry, longhaul::engine::Entry::Claimed { .. });
            let claims = entries(&workshop, &job).into_iter().filter(claimed).count();
            assert_eq!(claims, 2, "one to begin, one to end; looks in between claim nothing");
        })
        .await;
    let delays: Vec<u64> = workshop
        .sim
        .trace()
        .iter()
        .filter_map(|line| line.rsplit_once(" in ")?.1.strip_suffix(" ms")?.parse().ok())
        .collect();
    assert!(!delays.is_empty() && delays.iter().all(|delay| *delay <= 900_000), "{delays:?}");
}

/// A wait that is cancelled on its twentieth day ends then, and never fires.
#[tokio::test(start_paused = true)]
async fn f09_a_wait_that_is_cancelled() {
    let mut registry = Registry::default();
    sleeper(1, 2_678_400, &mut registry);
    let workshop = Workshop::new(Sim::faultless(), registry);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!(null))).await;
            workshop.clock.sleep(Duration::from_secs(20 * 24 * 3_600)).await;
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            outside::cancel(&store, &job, "c".parse().unwrap(), "ada".to_owned(), None, now).await.unwrap();
            let ended = workshop.ended(&job).await;
            assert_eq!(ended.progress.state.status(), Status::Cancelled);
            assert!(now.until(ended.progress.updated_at) < Duration::from_secs(5));
            workshop.clock.sleep(Duration::from_secs(20 * 24 * 3_600)).await;
        })
        .await;
    let fired = |entry: &&longhaul::engine::Entry| matches!(entry, longhaul::engine::Entry::WaitEnded { .. });
    let order = workshop.order("agent", json!(null));
    let job = longhaul::store::JobRef { tenant: order.tenant, job: order.id };
    assert_eq!(entries(&workshop, &job).iter().filter(fired).count(), 0);
}

/// Waits that cannot be are refused where they are written down, with the field; none is taken for another.
#[test]
fn f09_waits_that_cannot_be() {
    for wait in [json!(-5), json!(1e18), json!(1_000_000_000_000_000_000_u64), json!("soon"), json!(1.5)] {
        let text = definition(&["pay"], json!({"approval": ["pay"], "approval_wait_seconds": wait})).to_string();
        let found = longhaul_definition::read(&text, longhaul_definition::Format::Json).unwrap_err();
        assert_eq!(found[0].field, "/approval_wait_seconds", "{wait}: {found:?}");
    }
}
