//! `agent-10`: steps to count, and a step to mend.

use longhaul::ErrorClass;
use serde_json::json;

use crate::room::Room;

#[tokio::test]
async fn each_step_asks_once_and_records_its_bytes() {
    let room = Room::open().await;
    let output = room.run("agent-10", json!({"bytes": 3_000})).await.output();
    assert_eq!(output, json!({"steps": 10, "bytes": 30_000}));
    assert_eq!(room.requests().await.len(), 10);
}

#[tokio::test]
async fn a_mended_step_goes_on_from_where_it_failed() {
    let room = Room::open().await;
    let job = room.submit("agent-10", json!({"steps": 5, "bytes": 10, "fail_at": 3})).await;
    let failure = room.drive(&job).await.failure();
    assert_eq!(failure.class, ErrorClass::Invalid);
    assert!(failure.message.contains("step 3"), "{failure:?}");
    assert_eq!(room.requests().await.len(), 2);
    room.replay(&job, json!({"steps": 5, "bytes": 10, "fail_at": 3, "mended": true})).await;
    assert_eq!(room.drive(&job).await.output(), json!({"steps": 5, "bytes": 50}));
    assert_eq!(room.requests().await.len(), 5, "no step was run twice");
}
