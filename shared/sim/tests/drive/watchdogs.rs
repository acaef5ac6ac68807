//! What comes of a dead session's watchdog messages: each job that it left to nobody is called up, and no other, however
//! often a call fails meanwhile. A load of 500 jobs over failing stores once drowned in what watchdogs sent again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::drive::{Handled, Invocation};
use longhaul::engine::claim::{ClaimDecision, Holder, News, decide};
use longhaul::engine::ids::{JobId, SessionId};
use longhaul::engine::limits;
use longhaul::store::{About, Continuation, JobRef, Store, Write};
use longhaul::{Registry, outside};
use longhaul_sim::workshop::Workshop;
use longhaul_sim::{CallMishap, Planned, Sim, SimStore};
use serde_json::json;

/// Jobs of each kind.
const JOBS: usize = 4;

/// How each job of the dead session stands, and whether anybody looks after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stands {
    HeldByTheDeadOne,
    CalledUp,
    HeldByAnother,
    Gone,
}

impl Stands {
    const ALL: [Self; 4] = [Self::HeldByTheDeadOne, Self::CalledUp, Self::HeldByAnother, Self::Gone];

    const fn is_orphaned(self) -> bool {
        match self {
            Self::HeldByTheDeadOne | Self::CalledUp => true,
            Self::HeldByAnother | Self::Gone => false,
        }
    }
}

fn session(name: &str) -> SessionId {
    name.parse().unwrap()
}

async fn claim(workshop: &Workshop, store: &SimStore, job: &JobRef, by: &str) {
    let (found, now) = (store.job(job).await.unwrap().unwrap(), workshop.clock.now());
    let decision = decide(&found, &session(by), Holder::Unknown, News::Unknown, outside::fresh_nonce(), now);
    let ClaimDecision::Claim(claim) = decision else { panic!("{decision:?}") };
    assert!(matches!(store.write_job(job, &claim.write).await.unwrap(), Write::Written { .. }));
}

/// The jobs in the hands of a session that dies, by how they stand.
async fn jobs(workshop: &Workshop, store: &SimStore) -> BTreeMap<JobRef, Stands> {
    let mut jobs = BTreeMap::new();
    for (kind, stands) in Stands::ALL.into_iter().enumerate() {
        for number in 0..JOBS {
            let mut order = workshop.order("agent", json!(null));
            order.id = JobId::of_key(&order.tenant, &format!("{kind} {number}"));
            let job = match stands {
                Stands::Gone => JobRef { tenant: order.tenant.clone(), job: order.id },
                Stands::HeldByTheDeadOne | Stands::CalledUp | Stands::HeldByAnother => workshop.submit(order).await,
            };
            match stands {
                Stands::HeldByTheDeadOne => claim(workshop, store, &job, "dead").await,
                Stands::HeldByAnother => claim(workshop, store, &job, "another").await,
                Stands::CalledUp | Stands::Gone => {}
            }
            jobs.insert(job, stands);
        }
    }
    jobs
}

/// Lets the watchdog message come to a worker until it is gone, with one call that fails; how often each job was called up.
async fn check(call: u64, mishap: CallMishap) -> usize {
    let workshop = Workshop::new(Sim::faultless(), Registry::default());
    let store = workshop.sim.handle();
    store.beat(&session("dead"), workshop.clock.now()).await.unwrap();
    let jobs = jobs(&workshop, &store).await;
    // The submissions' own messages are in hands that do not come back.
    for _ in 0..workshop.sim.messages() {
        workshop.sim.next_message().await;
    }
    workshop.clock.sleep(Duration::from_secs(limits::WATCHDOG_DELAY_SECONDS)).await;
    workshop.sim.plan(Planned::Call(call, mishap));
    store.send(&Continuation::watchdog(session("dead"), jobs.keys().cloned().collect()), Duration::ZERO).await.unwrap();
    let mut called_up = BTreeMap::<JobRef, u32>::new();
    let (worker, registry) = (workshop.sim.worker(), Registry::default());
    while let Ok(message) = tokio::time::timeout(Duration::from_secs(60), workshop.sim.next_message()).await {
        if let About::Job(job) = &message.continuation.about {
            *called_up.entry(job.clone()).or_default() += 1;
            message.acknowledge();
            continue;
        }
        let deadline = workshop.clock.now().plus(Duration::from_secs(900));
        let invocation = Invocation::begin(&worker, &registry, session("living"), workshop.clock, deadline);
        match invocation.handle(&message.continuation).await {
            Ok(Handled::Acknowledge) => message.acknowledge(),
            Ok(Handled::GiveBack) | Err(_) => message.give_back(),
        }
    }
    let mut twice = 0;
    for (job, stands) in jobs {
        let times = called_up.remove(&job).unwrap_or_default();
        let said = format!("{mishap:?} at call {call}: a job that is {stands:?} was called up {times} times");
        assert_eq!(times > 0, stands.is_orphaned(), "{said}");
        twice += usize::from(times > 1);
    }
    twice
}

/// Every call of the look-up goes wrong in turn. A call that fails costs nothing but itself; where it took effect all the
/// same, nobody can know, and one job is called up twice.
#[tokio::test(start_paused = true)]
async fn a_watchdogs_jobs_are_called_up_once_whatever_fails() {
    // The session's item, an item for each job, a message for each that is orphaned.
    let calls = 1 + JOBS * Stands::ALL.len() + JOBS * 2;
    for call in 1..=u64::try_from(calls).unwrap() {
        assert_eq!(check(call, CallMishap::FailsBefore).await, 0, "call {call}");
        assert!(check(call, CallMishap::FailsAfter).await <= 1, "call {call}");
    }
}
