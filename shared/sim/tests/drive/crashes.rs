//! Workers that die: what goes on, what is repeated, and when a job is given up.

use std::rc::Rc;
use std::time::Duration;

use longhaul::{Ctx, Error, ErrorClass};
use longhaul_sim::workshop::{Workshop, killed};
use longhaul_sim::{Moment, Sim};
use serde_json::{Value, json};

use crate::ground::{Done, failure, registry, result, ten_steps};

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
async fn b04_a_dead_workers_job_goes_on_within_thirty_seconds() {
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
async fn b08_a_job_that_kills_its_workers_ends_as_worker_lost() {
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

/// Found by the model check: the worker that ended the job unread died too, and the next one wrote a second end behind
/// the first, which made the journal unreadable.
#[tokio::test(start_paused = true)]
async fn a_job_that_was_ended_unread_is_ended_once() {
    let mut workshop = Workshop::new(Sim::faultless(), ten_steps(&Done::default()));
    let order = workshop.order("agent", json!(null));
    let (sim, id) = (workshop.sim.clone(), order.id);
    workshop.crashes = Rc::new(move |_| {
        let claims = sim.job(id).map_or(0, |job| job.progress.epoch.0);
        match claims {
            // Over the reading of the journal; a takeover looks the dead session up before.
            0 => Some(killed(5, Moment::Before)),
            1..=4 => Some(killed(6, Moment::Before)),
            // Behind its append of the end: announced, watchdog, item, session, claim, walk, end.
            5 => Some(killed(7, Moment::After)),
            _ => None,
        }
    });
    workshop
        .run(2, async {
            let job = workshop.submit(order).await;
            let failure = failure(&workshop, &job).await;
            assert_eq!(failure.class, ErrorClass::WorkerLost);
            assert_eq!(workshop.ended(&job).await.progress.epoch.0, 7, "{}", workshop.story(&job));
            assert_eq!(workshop.story(&job).matches("\"failed\"").count(), 1, "{}", workshop.story(&job));
        })
        .await;
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
