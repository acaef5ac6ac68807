//! Replays that die halfway: their entry stands in the journal, and the job item still says that the job has ended. Whoever
//! sends something to that journal is not to wait for the replay's repetition.

use std::time::Duration;

use longhaul::engine::entry::Edit;
use longhaul::engine::job::Status;
use longhaul::outside::{self, OutsideError};
use longhaul::store::JobRef;
use longhaul::{Ctx, ErrorClass, Registry, Result, StepError};
use longhaul_sim::workshop::{Workshop, killed};
use longhaul_sim::{Moment, Sim, SimStore};
use serde_json::{Value, json};

use crate::ground::{failure, registry, result};

/// More than a replay has calls.
const CALLS: std::ops::RangeInclusive<u64> = 1..=10;

/// What somebody asks of the job behind the half of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    Signal,
    Cancel,
    TheSameReplay,
}

/// Fails, and when it is mended waits for a decision and comes to that.
fn agent() -> Registry {
    registry(async |ctx: &mut Ctx, input: Value| -> Result<Value> {
        let body = async || match input["mended"].is_null() {
            true => Err(StepError::new(ErrorClass::Refused, "the model refused")),
            false => Ok(()),
        };
        ctx.step("draft", body).await?;
        ctx.signal("approval").await
    })
}

async fn replay(workshop: &Workshop, store: &SimStore, job: &JobRef) -> Result<(), OutsideError> {
    let edit = Edit { input: Some(json!({"mended": true})), ..Edit::default() };
    let (key, now) = ("r".parse().unwrap(), workshop.clock.now());
    outside::replay(store, job, key, "bob".into(), None, edit, now).await.map(|_| ())
}

async fn signal(workshop: &Workshop, job: &JobRef) -> Result<(), OutsideError> {
    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
    let (name, key) = ("approval".parse().unwrap(), "s".parse().unwrap());
    outside::signal(&store, job, name, key, json!("yes"), "ada".into(), now).await.map(|_| ())
}

async fn cancel(workshop: &Workshop, job: &JobRef) -> Result<(), OutsideError> {
    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
    outside::cancel(&store, job, "c".parse().unwrap(), "ada".into(), None, now).await.map(|_| ())
}

/// Whether the replay's half had opened the journal.
async fn check(call: u64, moment: Moment, asks: Asks) -> bool {
    let workshop = Workshop::new(Sim::faultless(), agent());
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            failure(&workshop, &job).await;
            let dying = workshop.sim.handle();
            dying.crash_at(killed(call, moment));
            tokio::select! {
                _ = replay(&workshop, &dying, &job) => {}
                () = dying.crashed() => {}
            }
            let said = format!("died at call {call}, {moment:?}, then {asks:?}");
            let open = workshop.journal(&job).ending().is_none();
            let answer = match asks {
                Asks::Signal => signal(&workshop, &job).await,
                Asks::Cancel => cancel(&workshop, &job).await,
                Asks::TheSameReplay => replay(&workshop, &workshop.sim.handle(), &job).await,
            };
            match (asks, open) {
                (Asks::Signal | Asks::Cancel, false) => {
                    assert!(matches!(answer, Err(OutsideError::Ended)), "{said}: {answer:?}");
                    return open;
                }
                (Asks::Signal | Asks::Cancel, true) | (Asks::TheSameReplay, _) => answer.unwrap(),
            }
            if asks == Asks::TheSameReplay {
                signal(&workshop, &job).await.unwrap();
            }
            workshop.clock.sleep(Duration::from_secs(3_600)).await;
            let status = workshop.sim.job(job.job).unwrap().progress.state.status();
            let expected = if asks == Asks::Cancel { Status::Cancelled } else { Status::Completed };
            assert_eq!(status, expected, "{said}\n{}", workshop.story(&job));
            if expected == Status::Completed {
                assert_eq!(result(&workshop, &job).await, json!("yes"), "{said}");
            }
            // The first claim, and one more for the replay and for each wait that it came back from.
            let epoch = workshop.journal(&job).last_claim().unwrap().epoch.0;
            assert!(epoch <= 3, "{said}: claimed {epoch} times\n{}", workshop.story(&job));
            open
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_behind_half_a_replay_finishes_it() {
    for asks in [Asks::Signal, Asks::Cancel, Asks::TheSameReplay] {
        let mut opened = 0;
        for (call, moment) in CALLS.flat_map(|call| [(call, Moment::Before), (call, Moment::After)]) {
            opened += u32::from(check(call, moment, asks).await);
        }
        assert!((2..20).contains(&opened), "{asks:?}: the replay died behind its entry {opened} times");
    }
}
