//! The report of a job's end to the address that its caller named.

use serde_json::json;

use crate::far_end::FarEnd;
use crate::stream::ends::end_a_job;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_is_reported_as_a_cloud_event() {
    let far = FarEnd::set_up().await;
    let job = end_a_job(&far, &format!("{}/hooks/end", far.base)).await;
    let calls = far.take("end");
    assert_eq!(calls.len(), 1, "the end alone is reported");
    assert_eq!(calls[0].content_type, "application/cloudevents+json; charset=utf-8");
    let event = &calls[0].body;
    assert_eq!(event["specversion"], "1.0");
    assert_eq!(event["type"], "longhaul.AgentJobCompleted");
    assert_eq!(event["id"], json!(format!("{job}/2")));
    assert_eq!(event["data"]["result"], json!({ "answer": 42 }));
}

/// What may pass is tried again, at most three times; what will not is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_is_tried_a_few_times() {
    for (answers, calls) in [(vec![500, 503], 3), (vec![429], 2), (vec![500; 9], 3), (vec![404], 1), (vec![302], 1)] {
        let far = FarEnd::set_up().await;
        far.webhook_answers(&answers);
        end_a_job(&far, &format!("{}/hooks/end", far.base)).await;
        assert_eq!(far.take("end").len(), calls, "{answers:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_reported_to_a_place_in_the_clear() {
    let far = FarEnd::set_up().await;
    // Nobody is asked for the name, and nothing fails.
    end_a_job(&far, "http://hooks.invalid/end").await;
    end_a_job(&far, "no address").await;
    assert_eq!(far.take("end"), []);
}
