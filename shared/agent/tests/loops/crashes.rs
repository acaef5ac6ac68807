//! F05: crashes between a side effect and its checkpoint. F08: cancels in mid-call.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::entry::StepKind;
use longhaul::engine::job::Status;
use longhaul::engine::journal::Ending;
use longhaul::engine::{Entry, JobId};
use longhaul::outside;
use longhaul::store::JobRef;
use longhaul_agent::Invoked;
use longhaul_sim::Moment;
use longhaul_sim::workshop::{Workshop, killed};
use serde_json::{Value, json};

use crate::room::{
    Hall, Script, calls, definition, echo, entries, failure, finish, lambda, result, says, told, turn_of, workshop,
};

/// A till that charges once a key when it is given keys.
fn till() -> (Rc<Hall>, Rc<RefCell<BTreeMap<String, u64>>>) {
    let booked: Rc<RefCell<BTreeMap<String, u64>>> = Rc::default();
    let book = Rc::clone(&booked);
    let hall = Hall::new(move |_, event| {
        let key = event["idempotency_key"].as_str().unwrap().to_owned();
        let amount = event["arguments"]["amount"].as_u64().unwrap();
        let charged = *book.borrow_mut().entry(key).or_insert(amount);
        Ok(Invoked::Answered(json!({ "charged": charged })))
    });
    (hall, booked)
}

/// F05: the worker dies at every one of its calls to the store, on both sides of the call; the model's answer differs
/// whenever it is asked.
#[tokio::test(start_paused = true)]
async fn f05_a_crash_between_the_effect_and_its_checkpoint() {
    let case: Value = serde_json::from_str(include_str!("../faults/F05/matrix.json")).unwrap();
    for knows_keys in case["tool_supports_key"].as_array().unwrap() {
        let knows_keys = knows_keys.as_bool().unwrap();
        let effect = if knows_keys { "keyed" } else { "at_most_once" };
        let mut definition = definition(&[], json!({}));
        definition["tools"] = json!([lambda("charge_card", effect)]);
        for moment in [Moment::Before, Moment::After] {
            // From the claim to the last message: more calls than the job makes.
            for call in 1..=18 {
                let script = Script::new(|number, request| match turn_of(request) {
                    0 => calls(&[("charge_card", json!({"amount": 100 + number}))]),
                    _ => says("done"),
                });
                let (hall, booked) = till();
                let mut workshop = workshop(&definition, &script, &hall);
                workshop.crashes = Rc::new(move |worker| (worker == 0).then(|| killed(call, moment)));
                let job = finish(&workshop, 2).await;
                let at = format!("{effect}, killed {moment:?} call {call}");
                assert_eq!(result(&workshop, &job), json!("done"), "{at}");
                assert!(booked.borrow().len() <= 1, "{at}: booked {:?}", booked.borrow());
                let sent = hall.done.borrow();
                let keys: Vec<&Value> = sent.iter().map(|(_, event)| &event["idempotency_key"]).collect();
                assert!(keys.iter().all(|key| *key == keys[0]), "{at}: {keys:?}");
                let amounts: Vec<&Value> = sent.iter().map(|(_, event)| &event["arguments"]["amount"]).collect();
                assert!(amounts.iter().all(|amount| *amount == amounts[0]), "{at}: {amounts:?}");
                let told = told(script.asked.borrow().last().unwrap());
                if knows_keys {
                    assert_eq!(booked.borrow().len(), 1, "{at}");
                    assert!(!told[0].2, "{at}: {told:?}");
                } else {
                    assert!(sent.len() <= 1, "{at}: sent {} times", sent.len());
                    assert!(!told[0].2 || told[0].1.contains("outcome_unknown"), "{at}: {told:?}");
                    assert!(told[0].2 || sent.len() == 1, "{at}: {told:?}");
                }
            }
        }
    }
}

/// What a definition may say about a call that was cut off.
#[tokio::test(start_paused = true)]
async fn f05_what_follows_an_interruption_is_declared() {
    let crash_in_call = |definition: &Value, script: &Rc<Script>, hall: &Rc<Hall>| {
        let mut workshop = workshop(definition, script, hall);
        // The append behind `step_started`: the tool has acted, nobody knows.
        workshop.crashes = Rc::new(|worker| (worker == 0).then(|| killed(9, Moment::Before)));
        workshop
    };
    for policy in ["fail", "ask_person", "tell_model"] {
        let mut definition = definition(&[], json!({ "on_interrupted": policy }));
        definition["tools"] = json!([lambda("charge_card", "at_most_once")]);
        let script = Script::new(|_, request| match turn_of(request) {
            0 => calls(&[("charge_card", json!({"amount": 5}))]),
            _ => says("done"),
        });
        let (hall, _) = till();
        let workshop = crash_in_call(&definition, &script, &hall);
        let job = workshop
            .run(2, async {
                let job = workshop.submit(workshop.order("agent", json!({}))).await;
                if policy == "ask_person" {
                    let signal = awaited(&workshop, &job, "interrupted").await;
                    send(&workshop, &job, &signal, json!("it was charged, receipt 17")).await;
                }
                workshop.ended(&job).await;
                job
            })
            .await;
        assert_eq!(hall.count("charge_card"), 1, "{policy}\n{}", workshop.story(&job));
        match policy {
            "fail" => assert_eq!(failure(&workshop, &job).class, longhaul::ErrorClass::Interrupted),
            "ask_person" => {
                let told = told(script.asked.borrow().last().unwrap());
                assert!(told[0].1.contains("receipt 17"), "{told:?}");
            }
            _ => {
                let told = told(script.asked.borrow().last().unwrap());
                assert!(told[0].1.contains("outcome_unknown"), "{told:?}");
            }
        }
    }
}

/// The signal that a job waits for, once it does: the one whose name begins so.
pub(crate) async fn awaited(workshop: &Workshop, job: &JobRef, about: &str) -> String {
    loop {
        let found = entries(workshop, job).into_iter().rev().find_map(|entry| match entry {
            Entry::Emitted { id: _, data } => {
                data["signal"].as_str().filter(|signal| signal.starts_with(about)).map(str::to_owned)
            }
            _ => None,
        });
        if let Some(signal) = found {
            return signal;
        }
        workshop.clock.sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) async fn send(workshop: &Workshop, job: &JobRef, signal: &str, payload: Value) {
    static NUMBER: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let key = format!("test-{number}").parse().unwrap();
    let now = workshop.clock.now();
    let store = workshop.sim.handle();
    let sent = outside::signal(&store, job, signal.parse().unwrap(), key, payload, "ada".to_owned(), now);
    sent.await.unwrap();
}

async fn cancel(workshop: &Workshop, job: &JobRef, key: &str) -> Result<(), outside::OutsideError> {
    let now = workshop.clock.now();
    outside::cancel(&workshop.sim.handle(), job, key.parse().unwrap(), "ada".to_owned(), None, now).await.map(|_| ())
}

/// When a cancel comes, in milliseconds after the submission, what has been called by then, and what is known in the end.
struct Cancel {
    name: &'static str,
    after_ms: u64,
    model_calls: usize,
    finished: usize,
    tool_takes: u64,
    tool_calls: usize,
    /// Whether the tool's outcome is recorded.
    known: bool,
    /// Seconds in which the job must have ended.
    within: u64,
}

const CANCELS: [Cancel; 4] = [
    Cancel {
        name: "(e) while queued",
        after_ms: 0,
        model_calls: 0,
        finished: 0,
        tool_takes: 8,
        tool_calls: 0,
        known: false,
        within: 2,
    },
    Cancel {
        name: "(a) in the model's call",
        after_ms: 1_000,
        model_calls: 1,
        finished: 0,
        tool_takes: 8,
        tool_calls: 0,
        known: false,
        within: 2,
    },
    Cancel {
        name: "(d) in the tool's call",
        after_ms: 61_000,
        model_calls: 1,
        finished: 1,
        tool_takes: 8,
        tool_calls: 1,
        known: true,
        within: 8,
    },
    Cancel {
        name: "(d) in the call of a tool that takes too long",
        after_ms: 61_000,
        model_calls: 1,
        finished: 1,
        tool_takes: 60,
        tool_calls: 1,
        known: false,
        within: 12,
    },
];

#[tokio::test(start_paused = true)]
async fn f08_a_cancel_in_mid_call() {
    for row in CANCELS {
        let mut definition = definition(&[], json!({}));
        definition["tools"] = json!([lambda("act", "at_most_once")]);
        let script = Script::taking(Duration::from_secs(60), |_, request| match turn_of(request) {
            0 => calls(&[("act", json!({}))]),
            _ => says("done"),
        });
        let hall = Hall::taking(Duration::from_secs(row.tool_takes), echo);
        let workshop = workshop(&definition, &script, &hall);
        let job = workshop.submit(workshop.order("agent", json!({}))).await;
        if row.after_ms == 0 {
            cancel(&workshop, &job, "first").await.unwrap();
        }
        workshop
            .run(1, async {
                if row.after_ms > 0 {
                    workshop.clock.sleep(Duration::from_millis(row.after_ms)).await;
                    cancel(&workshop, &job, "first").await.unwrap();
                    // (f) twice: the same answer.
                    cancel(&workshop, &job, "first").await.unwrap();
                }
                let asked_at = workshop.clock.now();
                let ended = workshop.ended(&job).await;
                assert_eq!(ended.progress.state.status(), Status::Cancelled, "{}", row.name);
                let took = asked_at.until(workshop.clock.now());
                assert!(took <= Duration::from_secs(row.within), "{}: {took:?}", row.name);
                // (g) after the end.
                assert!(cancel(&workshop, &job, "second").await.is_err(), "{}", row.name);
                workshop.clock.sleep(Duration::from_secs(120)).await;
            })
            .await;
        assert_eq!(script.calls(), row.model_calls, "{}", row.name);
        assert_eq!(*script.finished.borrow(), row.finished, "{}: the call was dropped", row.name);
        assert_eq!(hall.done.borrow().len(), row.tool_calls, "{}", row.name);
        let entries = entries(&workshop, &job);
        let ends = entries.iter().filter(|entry| entry.is_terminal()).count();
        assert_eq!(ends, 1, "{}", row.name);
        let known = entries.iter().any(|entry| matches!(entry, Entry::StepCompleted { id, .. } if id.name == "act"));
        assert_eq!(known, row.known, "{}: {}", row.name, workshop.story(&job));
        // What the model was asked is paid for, also where its answer was not waited for.
        let spent = workshop.journal(&job).totals().usage.tokens();
        assert_eq!(spent > 0, row.model_calls > 0, "{}: {spent} tokens", row.name);
    }
}

/// (b), (c) and (h): cancels at many times against a short job. Whatever came first counts, once, everywhere.
#[tokio::test(start_paused = true)]
async fn f08_cancels_at_any_time() {
    let definition = definition(&["act"], json!({}));
    let mut seen = BTreeMap::new();
    for number in 0..500_u64 {
        let script = Script::taking(Duration::from_millis(300), |_, request| match turn_of(request) {
            0 => calls(&[("act", json!({}))]),
            _ => says("done"),
        });
        let hall = Hall::new(echo);
        let workshop = workshop(&definition, &script, &hall);
        let mut order = workshop.order("agent", json!({}));
        order.id = JobId::of_key(&order.tenant, &number.to_string());
        workshop
            .run(1, async {
                let job = workshop.submit(order).await;
                workshop.clock.sleep(Duration::from_millis(number * 2)).await;
                let asked = cancel(&workshop, &job, "c").await;
                let ended = workshop.ended(&job).await.progress.state.status();
                let journal = workshop.journal(&job);
                let said = match journal.ending() {
                    Some(Ending::Completed { .. }) => Status::Completed,
                    Some(Ending::Cancelled { .. }) => Status::Cancelled,
                    other => panic!("{number}: {other:?}"),
                };
                assert_eq!(ended, said, "{number}: item and journal agree");
                assert!(asked.is_ok() || ended == Status::Completed, "{number}: refused only behind the end");
                let ends = entries(&workshop, &job).iter().filter(|entry| entry.is_terminal()).count();
                assert_eq!(ends, 1, "{number}");
                *seen.entry(format!("{ended:?}")).or_insert(0) += 1;
            })
            .await;
    }
    assert!(seen.len() == 2, "both ends were met: {seen:?}");
}

/// A call that is never made twice is marked before it acts.
#[tokio::test(start_paused = true)]
async fn effects_are_recorded_as_declared() {
    let mut definition = definition(&[], json!({}));
    definition["tools"] = json!([lambda("a", "idempotent"), lambda("b", "keyed"), lambda("c", "at_most_once")]);
    let script = Script::new(|_, request| match turn_of(request) {
        0 => calls(&[("a", json!({})), ("b", json!({})), ("c", json!({}))]),
        _ => says("done"),
    });
    let hall = Hall::new(echo);
    let workshop = workshop(&definition, &script, &hall);
    let job = finish(&workshop, 1).await;
    let kinds: BTreeMap<String, StepKind> = entries(&workshop, &job)
        .into_iter()
        .filter_map(|entry| match entry {
            Entry::StepCompleted { id, .. } => Some((id.name, id.kind)),
            _ => None,
        })
        .collect();
    assert_eq!(kinds["a"], StepKind::Step);
    assert_eq!(kinds["b"], StepKind::Effect);
    assert_eq!(kinds["c"], StepKind::EffectOnce);
    let with_key: Vec<bool> =
        hall.done.borrow().iter().map(|(_, event)| event.get("idempotency_key").is_some()).collect();
    assert_eq!(with_key, [false, true, true]);
}
