//! Many at once: exactly one wins, and the losers learn who.

use longhaul::outside::fresh_nonce;
use longhaul::store::{Append, Store, Submit, Write};
use longhaul_engine::Seq;
use serde_json::json;
use tokio::task::JoinSet;

use crate::sample::{batch, claim, job, later, outcome, reference};
use crate::stage::Stage;

/// How many race. More than one connection, less than what makes a small machine slow.
const RACERS: u64 = 16;
/// How often.
const ROUNDS: usize = 5;

/// All losers are told the winner's batch.
pub async fn one_of_many_appends_wins<S: Stage>(stage: &S) {
    for _ in 0..ROUNDS {
        let job = reference(&job());
        let mut racers = JoinSet::new();
        for racer in 0..RACERS {
            let (store, job) = (stage.store(), job.clone());
            let batch = batch(1, vec![outcome(racer, json!(racer))]);
            racers.spawn(async move { (store.append(&job, &batch).await.unwrap(), batch) });
        }
        let outcomes = racers.join_all().await;
        let stands = stage.store().journal(job.job, Seq::FIRST).await.unwrap();
        let [winner] = &stands[..] else { panic!("one batch stands, not {stands:?}") };
        for (outcome, batch) in outcomes {
            if batch == *winner {
                assert_eq!(outcome, Append::Written);
            } else {
                assert_eq!(outcome, Append::Conflict(Box::new(winner.clone())));
            }
        }
    }
}

/// All losers are told whose lease stands.
pub async fn one_of_many_claims_wins<S: Stage>(stage: &S) {
    for _ in 0..ROUNDS {
        let read = job();
        stage.store().submit(&read).await.unwrap();
        let mut racers = JoinSet::new();
        for racer in 0..RACERS {
            let (store, job) = (stage.store(), reference(&read));
            let claim = claim(&read, &format!("session-{racer}"));
            racers.spawn(async move { (store.write_job(&job, &claim.write).await.unwrap(), claim) });
        }
        let outcomes = racers.join_all().await;
        let stands = stage.store().job(&reference(&read)).await.unwrap().unwrap();
        for (outcome, claim) in outcomes {
            if claim.write.nonce == stands.last_write {
                assert_eq!(outcome, Write::Written { wakes: 0 });
                assert_eq!(stands.progress, claim.write.progress);
            } else {
                assert_eq!(outcome, Write::Refused(Box::new(stands.clone())));
            }
        }
    }
}

/// All losers are told the winner's job.
pub async fn one_of_many_submissions_wins<S: Stage>(stage: &S) {
    for _ in 0..ROUNDS {
        let first = job();
        let mut racers = JoinSet::new();
        for racer in 0..RACERS {
            let store = stage.store();
            let mut job = first.clone();
            job.last_write = fresh_nonce();
            job.order.input = json!(racer);
            racers.spawn(async move { (store.submit(&job).await.unwrap(), job) });
        }
        let outcomes = racers.join_all().await;
        let stands = stage.store().job(&reference(&first)).await.unwrap().unwrap();
        for (outcome, job) in outcomes {
            if job.last_write == stands.last_write {
                assert_eq!(outcome, Submit::Created);
            } else {
                assert_eq!(outcome, Submit::Exists(Box::new(stands.clone())));
            }
        }
    }
}

/// None is lost.
pub async fn many_wakes_all_count<S: Stage>(stage: &S) {
    let read = job();
    stage.store().submit(&read).await.unwrap();
    let mut racers = JoinSet::new();
    for _ in 0..RACERS {
        let (store, job) = (stage.store(), reference(&read));
        racers.spawn(async move { store.wake(&job, later(1)).await.unwrap() });
    }
    racers.join_all().await;
    let woken = stage.store().job(&reference(&read)).await.unwrap().unwrap();
    assert_eq!(woken.wakes, RACERS);
}
