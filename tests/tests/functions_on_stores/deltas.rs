//! What steps say, on its way to those who watch.

use std::time::Duration;

use longhaul::engine::ids::Epoch;
use longhaul::engine::{Seq, StepKey};
use longhaul::store::JobRef;
use longhaul::{Audience as _, Clock, Delta};
use longhaul_aws::connections::Asked;
use longhaul_worker::Broadcast;
use serde_json::json;

use crate::far_end::{FarEnd, Mood};
use crate::ground::order;

/// The longest that a test waits for a message.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the worker waits for a watcher that does not take a message, at the least.
const A_POST: Duration = Duration::from_millis(950);
/// Tries of what a busy machine may spoil.
const TRIES: usize = 10;

fn said(job: &JobRef, offset: u64) -> Delta {
    let (step, name, text) = (StepKey::at("", 3), "draft".to_owned(), "a".to_owned());
    Delta { job: job.clone(), epoch: Epoch(1), step, name, attempt: 1, offset, text }
}

async fn posted(far: &FarEnd, connection: &str, times: usize) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while far.posts(connection) < times {
        assert!(tokio::time::Instant::now() < until, "{connection} was told {} times", far.posts(connection));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// One who does not take his message keeps nobody else waiting: the next piece is with the others before the worker has
/// given him up. He gets no second one meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_watcher_holds_back_nobody_elses_pieces() {
    let far = FarEnd::set_up().await;
    let gateway = ("LONGHAUL_PUSH_ENDPOINT", format!("{}/live", far.base));
    let store = far.ground.store_with(&[gateway]).await;
    let broadcast = Broadcast::of(&store, store.config()).unwrap();
    let clock = Clock::of_machine();
    let listening = async {
        for number in 0..TRIES {
            let job = far.ground.submit(order("acme", "ten", json!({}))).await;
            let [stalled, other] = ["stalled", "other"].map(|name| format!("{name}-{number}="));
            far.set_mood(&stalled, Mood::Hangs);
            for connection in [&stalled, &other] {
                far.come_in(connection, "acme").await;
                let connection = store.connection(connection).await.unwrap().unwrap();
                store.ask(&connection, &job, Asked::to_hear(Seq(0), 0)).await.unwrap();
            }
            broadcast.hear(said(&job, 0));
            posted(&far, &stalled, 1).await;
            posted(&far, &other, 1).await;
            broadcast.hear(said(&job, 1));
            posted(&far, &other, 2).await;
            let (first, second) = (far.posted(&stalled)[0], far.posted(&other)[1]);
            if second.saturating_duration_since(first) < A_POST {
                assert_eq!(far.posts(&stalled), 1);
                return;
            }
        }
        panic!("the others wait for one who is stalled");
    };
    tokio::select! {
        () = listening => {}
        never = broadcast.send_on(&clock) => never,
    }
}
