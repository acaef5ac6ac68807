//! The clock → function.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failed assumption must fail the test"
)]

mod functions_under_test;

use std::time::{Duration, Instant};

use functions_under_test::{Platform, eventually};
use longhaul_local::lambda::event_sources::ScheduleMapping;

#[tokio::test]
async fn a_schedule_invokes_until_it_is_stopped() {
    let platform = Platform::start().await;
    let function = platform.add(|_| {}).await;
    let (every, first_after) = (Duration::from_millis(150), Duration::from_millis(10));
    let schedule =
        |name: &str| ScheduleMapping { name: name.to_owned(), every, first_after, function: function.clone() }.start();
    let started = Instant::now();
    let mapping = schedule("sweep");
    let events = platform.events_after(3).await;
    assert!(started.elapsed() >= Duration::from_millis(310), "{:?}", started.elapsed());
    assert_eq!(events[0]["source"], "aws.scheduler");
    assert_eq!(events[0]["resources"][0], "arn:aws:scheduler:us-east-1:000000000000:schedule/default/sweep");
    assert_ne!(events[0]["id"], events[1]["id"]);
    serde_json::from_value::<aws_lambda_events::eventbridge::EventBridgeEvent>(events[0].clone()).unwrap();
    mapping.stop().await;
    // Another schedule ticks on. One tick of the first may just have been on its way.
    let other = schedule("other");
    let ticks = |name: &str| {
        let of = |event: &&serde_json::Value| event["resources"][0].as_str().is_some_and(|arn| arn.ends_with(name));
        platform.events().iter().filter(of).count()
    };
    eventually("a tick of the other", || (ticks("/other") >= 2).then_some(())).await;
    let after = ticks("/sweep");
    eventually("three more", || (ticks("/other") >= 5).then_some(())).await;
    assert_eq!(ticks("/sweep"), after);
    other.stop().await;
}
