//! Threads over the real stores: what holds up nobody, and who interrupts whom.

use longhaul::engine::entry::Edit;
use longhaul::engine::thread::{OnBusy, Thread};
use longhaul::engine::{JobState, SignalKey};
use longhaul::outside;
use longhaul::store::JobRef;
use serde_json::json;

use crate::erasing::work;
use crate::ground::{Ground, now, order};

async fn submit(ground: &Ground, agent: &str, on_busy: OnBusy) -> JobRef {
    let mut asked = order("acme", agent, json!({}));
    asked.thread = Some(Thread { id: "talk".parse().unwrap(), on_busy });
    let job = ground.submit(asked).await;
    work(ground).await;
    job
}

fn key(text: &str) -> SignalKey {
    text.parse().unwrap()
}

/// Neither the end of the job before it nor the turn of the one behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_cannot_be_read_holds_up_no_thread() {
    let ground = Ground::lay().await;
    let first = submit(&ground, "waits", OnBusy::Enqueue).await;
    let second = submit(&ground, "ten", OnBusy::Enqueue).await;
    let third = submit(&ground, "ten", OnBusy::Enqueue).await;
    assert_eq!(ground.state(&third).await, JobState::Pending);
    ground.spoil(&second).await;
    outside::cancel(&ground.store, &first, key("c"), "ada".to_owned(), None, now()).await.unwrap();
    for _ in 0..3 {
        work(&ground).await;
    }
    assert_eq!(ground.state(&first).await, JobState::Cancelled);
    assert_eq!(ground.state(&third).await, JobState::Completed);
    // Nobody is busy but the one that nobody can read.
    let fourth = submit(&ground, "ten", OnBusy::Reject).await;
    work(&ground).await;
    assert_eq!(ground.state(&fourth).await, JobState::Completed);
}

/// What was submitted to interrupt has done so; its replay stands behind jobs that were asked for later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_interrupts_nobody() {
    let ground = Ground::lay().await;
    let old = submit(&ground, "waits", OnBusy::Enqueue).await;
    let interrupts = submit(&ground, "fragile", OnBusy::Interrupt).await;
    for _ in 0..3 {
        work(&ground).await;
    }
    assert_eq!(ground.state(&old).await, JobState::Cancelled);
    assert_eq!(ground.state(&interrupts).await, JobState::Failed);
    let later = submit(&ground, "waits", OnBusy::Enqueue).await;
    let (store, by) = (&ground.store, "ada".to_owned());
    outside::replay(store, &interrupts, key("r"), by.clone(), None, Edit::default(), now()).await.unwrap();
    for _ in 0..3 {
        work(&ground).await;
    }
    assert!(matches!(ground.state(&later).await, JobState::Waiting { .. }));
    assert_eq!(ground.state(&interrupts).await, JobState::Pending);
    outside::cancel(store, &later, key("c"), by, None, now()).await.unwrap();
    for _ in 0..3 {
        work(&ground).await;
    }
    assert_eq!(ground.state(&later).await, JobState::Cancelled);
    assert_eq!(ground.state(&interrupts).await, JobState::Failed, "it had its turn");
}
