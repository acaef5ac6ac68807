//! What comes of a dead session's watchdog messages: each job that it left to nobody is called up, and no other, however
//! often a call fails meanwhile. A load of 500 jobs over failing stores once drowned in what watchdogs sent again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::drive::{Handled, Invocation};
use longhaul::engine::claim::{At, ClaimDecision, Held, Holder, News, decide};
use longhaul::engine::ids::{JobId, Seq, SessionId};
use longhaul::engine::job::Totals;
use longhaul::engine::journal::Ending;
use longhaul::engine::limits;
use longhaul::store::{About, Continuation, JobRef, Store, Write};
use longhaul::{Registry, outside};
use longhaul_sim::workshop::Workshop;
use longhaul_sim::{CallMishap, Planned, Sim, SimStore};
use serde_json::json;

/// Jobs of each kind.
const JOBS: usize = 2;

/// How each job of the dead session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// Its message is in the dead session's hands, or in the queue.
    CalledUp,
    Held(&'static str),
    /// For a signal that has come. Whoever sent it has sent a message, which is in the dead session's hands.
    WaitsWithNews,
    Waits,
    Ended,
    Gone,
}

/// Each with whether nobody else looks after it.
const ALL: [(Stands, bool); 8] = [
    (Stands::CalledUp, true),
    (Stands::Held("dead"), true),
    // That one's watchdogs may have come already, and what they sent may be in these dead hands.
    (Stands::Held("another-dead"), true),
    (Stands::Held("living"), false),
    (Stands::WaitsWithNews, true),
    (Stands::Waits, false),
    (Stands::Ended, false),
    (Stands::Gone, false),
];

fn session(name: &str) -> SessionId {
    name.parse().unwrap()
}

/// Claims a job and, if it is to stand so, ends or gives back what was claimed.
async fn bring(workshop: &Workshop, store: &SimStore, job: &JobRef, stands: Stands) {
    let by = session(match stands {
        Stands::Held(by) => by,
        Stands::WaitsWithNews | Stands::Waits | Stands::Ended => "before",
        Stands::CalledUp | Stands::Gone => return,
    });
    let (found, now) = (store.job(job).await.unwrap().unwrap(), workshop.clock.now());
    let decision = decide(&found, &by, Holder::Unknown, News::Unknown, outside::fresh_nonce(), now);
    let ClaimDecision::Claim(claim) = decision else { panic!("{decision:?}") };
    let Write::Written { wakes } = store.write_job(job, &claim.write).await.unwrap() else { panic!("refused") };
    let held = Held::after_claim(&claim, &by, wakes);
    let at = At { tail: Seq::FIRST, totals: Totals::default(), now };
    let write = match stands {
        Stands::WaitsWithNews | Stands::Waits => held.wait(outside::fresh_nonce(), None, &at),
        Stands::Ended => {
            held.finish(outside::fresh_nonce(), &Ending::Cancelled { by: "ada".to_owned(), reason: None }, &at)
        }
        Stands::Held(_) | Stands::CalledUp | Stands::Gone => return,
    };
    assert!(matches!(store.write_job(job, &write).await.unwrap(), Write::Written { .. }));
    if stands == Stands::WaitsWithNews {
        let (name, key) = ("approval".parse().unwrap(), "s".parse().unwrap());
        outside::signal(store, job, name, key, json!("yes"), "ada".into(), now).await.unwrap();
    }
}

/// The jobs that a session had messages for, as they stand when it is found dead; the third part says whether to call it up.
async fn jobs(workshop: &Workshop, store: &SimStore) -> Vec<(JobRef, Stands, bool)> {
    let mut jobs = Vec::new();
    for (kind, (stands, orphaned)) in ALL.into_iter().enumerate() {
        for number in 0..JOBS {
            let mut order = workshop.order("agent", json!(null));
            order.id = JobId::of_key(&order.tenant, &format!("{kind} {number}"));
            let job = JobRef { tenant: order.tenant.clone(), job: order.id };
            if stands != Stands::Gone {
                workshop.submit(order).await;
            }
            bring(workshop, store, &job, stands).await;
            jobs.push((job, stands, orphaned));
        }
    }
    jobs
}

/// Lets a dead session's watchdog message come to a worker until it is gone, while something goes wrong; how many jobs were
/// called up twice, and how many calls that took.
async fn check(planned: Option<Planned>) -> (usize, u64) {
    let workshop = Workshop::new(Sim::faultless(), Registry::default());
    let store = workshop.sim.handle();
    store.beat(&session("dead"), workshop.clock.now()).await.unwrap();
    store.beat(&session("another-dead"), workshop.clock.now()).await.unwrap();
    let jobs = jobs(&workshop, &store).await;
    // The messages so far are in hands that do not come back.
    for _ in 0..workshop.sim.messages() {
        workshop.sim.next_message().await;
    }
    workshop.clock.sleep(Duration::from_secs(limits::WATCHDOG_DELAY_SECONDS)).await;
    store.beat(&session("living"), workshop.clock.now()).await.unwrap();
    if let Some(planned) = planned {
        workshop.sim.plan(planned);
    }
    let named = jobs.iter().map(|(job, ..)| job.clone()).collect();
    store.send(&Continuation::watchdog(session("dead"), named), Duration::ZERO).await.unwrap();
    let mut called_up = BTreeMap::<JobRef, u32>::new();
    let (worker, registry) = (workshop.sim.worker(), Registry::default());
    while let Ok(message) = tokio::time::timeout(Duration::from_secs(15), workshop.sim.next_message()).await {
        if let About::Job(job) = &message.continuation.about {
            *called_up.entry(job.clone()).or_default() += 1;
            message.acknowledge();
            continue;
        }
        let deadline = workshop.clock.now().plus(Duration::from_secs(900));
        let invocation = Invocation::begin(&worker, &registry, session("finder"), workshop.clock, deadline);
        match invocation.handle(&message.continuation).await {
            Ok(Handled::Acknowledge) => message.acknowledge(),
            Ok(Handled::GiveBack) | Err(_) => message.give_back(),
        }
    }
    let mut twice = 0;
    for (job, stands, orphaned) in jobs {
        let times = called_up.remove(&job).unwrap_or_default();
        assert_eq!(times > 0, orphaned, "{planned:?}: a job that is {stands:?} was called up {times} times");
        twice += usize::from(times > 1);
    }
    (twice, worker.calls())
}

/// Every call goes wrong in turn. One that fails costs nothing but itself; where it took effect all the same nobody can know,
/// and one job is called up twice.
#[tokio::test(start_paused = true)]
async fn a_watchdogs_jobs_are_called_up_once_whatever_fails() {
    let (twice, calls) = check(None).await;
    assert_eq!(twice, 0);
    for call in 1..=calls {
        let failing = |mishap| check(Some(Planned::Call(call, mishap)));
        assert_eq!(failing(CallMishap::FailsBefore).await.0, 0, "call {call}");
        assert!(failing(CallMishap::FailsAfter).await.0 <= 1, "call {call}");
    }
}
