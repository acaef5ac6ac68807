//! The table and the queues answer in every wrong way that there is, all at once, under load.

use serde_json::{Value, json};

use crate::field::{Field, jobs, seed};

/// Every kind of fault, at distances that share no factor, so that they meet each other and every kind of call. Held
/// calls outlast a client's patience for one try (3 s).
pub(crate) fn storm() -> Value {
    let table =
        |fault: &str, every: u64| json!({"service": "dynamodb", "fault": fault, "every": every, "hold_ms": 3_500});
    let queue = |action: &str, fault: &str, every: u64| json!({"service": "sqs", "action": action, "fault": fault, "every": every, "hold_ms": 3_500});
    json!({"seed": seed(), "rules": [
        table("throttled", 23), table("failed", 31), table("failed_after", 29), table("cut", 43), table("cut_after", 37),
        table("held", 331), table("held_after", 211), table("slow", 223),
        // Appends and claims in particular: they are the writes that a lost answer leaves in doubt.
        json!({"action": "PutItem", "fault": "cut_after", "every": 19}),
        json!({"action": "UpdateItem", "fault": "failed_after", "every": 7}),
        queue("SendMessage", "throttled", 5), queue("SendMessage", "failed", 11), queue("SendMessage", "failed_after", 7),
        queue("SendMessage", "cut_after", 9), queue("SendMessage", "duplicated", 4), queue("SendMessage", "held_after", 31),
        queue("ReceiveMessage", "failed", 7), queue("ReceiveMessage", "duplicated", 3),
        queue("ReceiveMessage", "cut_after", 13),
        queue("DeleteMessageBatch", "failed", 4), queue("DeleteMessageBatch", "failed_after", 5),
        queue("DeleteMessageBatch", "partial", 3), queue("ChangeMessageVisibilityBatch", "failed", 2),
    ]})
}

#[test]
fn nothing_is_lost_or_doubled_when_stores_and_queues_go_wrong() {
    // A message that was lost in flight comes back when the longest invocation is over.
    let mut field = Field::up(&["--think-ms", "0", "--faults", "{}", "--worker-timeout-seconds", "40"]);
    field.plan(&storm());
    field.usual_load(jobs(16), |_, _| {});
    let told = field.told();
    field.calm();
    let verdict = field.audit();
    let hits = |rule: &Value| rule["hits"].as_u64().unwrap();
    println!("{} faults, {} effects asked for again", told.iter().map(hits).sum::<u64>(), verdict.asked_again);
    for rule in &told {
        // Messages are few when all goes well with jobs; the table's rules and the frequent ones must have hit.
        let frequent = rule["service"] != "sqs" || rule["every"].as_u64().unwrap() <= 5;
        let met = rule["calls"].as_u64().unwrap() >= rule["every"].as_u64().unwrap();
        assert!(hits(rule) > 0 || !(frequent && met), "never hit: {rule}");
    }
    assert!(told.iter().map(hits).sum::<u64>() > 50, "{told:?}");
}
