//! F01: the model repeats itself.

use std::time::Duration;

use longhaul::ErrorClass;
use serde_json::{Value, json};

use crate::room::{Hall, Script, calls, definition, echo, entries, failure, finish, told, turn_of, workshop};

/// A form of the case: its name, the call of a turn, model calls, tool calls, class of the end, the limit shown.
type Form = (&'static str, fn(usize) -> (&'static str, Value), usize, usize, ErrorClass, &'static str);

#[tokio::test(start_paused = true)]
async fn f01_the_same_call_for_ever() {
    let case: Value = serde_json::from_str(include_str!("../faults/F01/script.json")).unwrap();
    let limits = json!({
        "turns_max": case["limits"]["max_steps"], "repeats_max": case["limits"]["max_repeats"],
    });
    let forms: [Form; 3] = [
        // Four are carried out, the fifth is refused with a word, the sixth ends the job.
        ("the same", |turn| ("poll_status", poll(turn)), 6, 4, ErrorClass::LoopDetected, "repeats_max"),
        (
            "in turns",
            |turn| if turn.is_multiple_of(2) { ("A", json!({"x": 1})) } else { ("B", json!({"y": 2})) },
            25,
            25,
            ErrorClass::Budget,
            "turns_max",
        ),
        ("counting", |turn| ("A", json!({"n": turn})), 25, 25, ErrorClass::Budget, "turns_max"),
    ];
    for (name, call, model_calls, tool_calls, class, limit) in forms {
        // In one invocation, and with another worker after every step or two: what is counted must survive.
        for invocation in [Duration::from_secs(900), Duration::from_millis(3_500)] {
            let definition = definition(&["poll_status", "A", "B"], json!({ "limits": limits }));
            let script = Script::new(move |_, request| {
                let (name, arguments) = call(turn_of(request));
                calls(&[(name, arguments)])
            });
            let hall = Hall::new(|function, event| match function {
                "poll_status" => Ok(longhaul_agent::Invoked::Answered(json!("[]"))),
                _ => echo(function, event),
            });
            let mut workshop = workshop(&definition, &script, &hall);
            workshop.invocation = invocation;
            let job = finish(&workshop, 1).await;
            let failure = failure(&workshop, &job);
            assert_eq!(failure.class, class, "{name}: {failure:?}");
            assert_eq!(script.calls(), model_calls, "{name}: model calls");
            assert_eq!(hall.done.borrow().len(), tool_calls, "{name}: tool calls");
            let shown = entries(&workshop, &job).iter().any(|entry| {
                matches!(entry, longhaul::engine::Entry::Emitted { id, data }
                    if id.name == "limit reached" && data["limit"] == json!(limit))
            });
            assert!(shown, "{name}: the events show which limit it was\n{}", workshop.story(&job));
            if class == ErrorClass::LoopDetected {
                let last = told(script.asked.borrow().last().unwrap());
                assert!(last[0].2 && last[0].1.contains("in a row"), "{name}: the model is told first: {last:?}");
            }
            assert!(failure.partial.is_some(), "{name}: partial work is kept");
        }
    }
}

/// The same arguments, written differently.
fn poll(turn: usize) -> Value {
    if turn.is_multiple_of(2) { json!({"id": 7, "more": null}) } else { json!({"more": null, "id": 7}) }
}
