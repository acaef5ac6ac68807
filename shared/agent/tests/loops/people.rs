//! Waits for people: F06 (words that come early, late or for something else), F09 (long waits), F12 (what ran before).

use std::time::Duration;

use longhaul::engine::JobId;
use longhaul::engine::entry::Edit;
use longhaul::engine::job::Status;
use longhaul::engine::journal::{Ending, StepState};
use longhaul::outside;
use longhaul_llm::{ModelError, ModelErrorKind};
use longhaul_sim::Moment;
use longhaul_sim::workshop::killed;
use serde_json::{Value, json};

use crate::crashes::{awaited, send};
use crate::room::{Hall, Script, calls, definition, echo, entries, lambda, result, says, told, turn_of, workshop};

fn paying() -> Value {
    definition(&["pay"], json!({"approval": ["pay"], "approval_wait_seconds": 3_600}))
}

fn pays_once() -> std::rc::Rc<Script> {
    Script::new(|_, request| match turn_of(request) {
        0 => calls(&[("pay", json!({"amount": 7}))]),
        _ => says("done"),
    })
}

/// The signal that the job of [`pays_once`] waits for: the same in every job, since it names the call.
async fn signal_of_the_call() -> String {
    let (script, hall) = (pays_once(), Hall::new(echo));
    let workshop = workshop(&paying(), &script, &hall);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            awaited(&workshop, &job, "approval").await
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn f06_a_word_that_comes_before_the_wait() {
    let orders: Value = serde_json::from_str(include_str!("../faults/F06/orders.json")).unwrap();
    assert_eq!(orders.as_array().unwrap().len(), 5, "rows 1 and 2 here, 3 to 5 below");
    let signal = signal_of_the_call().await;
    for number in 0..200_u64 {
        let gap = [0, 5, 500][usize::try_from(number % 3).unwrap()];
        let (script, hall) = (pays_once(), Hall::new(echo));
        let workshop = workshop(&paying(), &script, &hall);
        let mut order = workshop.order("agent", json!({}));
        order.id = JobId::of_key(&order.tenant, &number.to_string());
        workshop
            .run(1, async {
                let job = workshop.submit(order).await;
                workshop.clock.sleep(Duration::from_millis(gap)).await;
                send(&workshop, &job, &signal, json!("approved")).await;
                let begun = workshop.clock.now();
                workshop.ended(&job).await;
                assert!(begun.until(workshop.clock.now()) < Duration::from_secs(10), "{number}: it went on at once");
                assert_eq!(result(&workshop, &job), json!("done"));
            })
            .await;
        assert_eq!(hall.count("pay"), 1, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn f06_cancelled_late_and_foreign_words() {
    let signal = signal_of_the_call().await;
    // Row 2: approved, then cancelled before the wait.
    let (script, hall) = (pays_once(), Hall::new(echo));
    let cancelled = workshop(&paying(), &script, &hall);
    cancelled
        .run(1, async {
            let job = cancelled.submit(cancelled.order("agent", json!({}))).await;
            send(&cancelled, &job, &signal, json!("approved")).await;
            let now = cancelled.clock.now();
            let store = cancelled.sim.handle();
            outside::cancel(&store, &job, "c".parse().unwrap(), "ada".to_owned(), None, now).await.unwrap();
            assert_eq!(cancelled.ended(&job).await.progress.state.status(), Status::Cancelled);
        })
        .await;
    assert_eq!(hall.count("pay"), 0);
    // Row 3: the time passes, then the word comes. Row 4: a word for another step.
    let (script, hall) = (pays_once(), Hall::new(echo));
    let late = workshop(&paying(), &script, &hall);
    late.run(1, async {
        let job = late.submit(late.order("agent", json!({}))).await;
        send(&late, &job, "approval:pay:000000000000", json!("approved")).await;
        late.ended(&job).await;
        let now = late.clock.now();
        let (name, key) = (signal.parse().unwrap(), "late".parse().unwrap());
        let sent = outside::signal(&late.sim.handle(), &job, name, key, json!("approved"), "ada".to_owned(), now).await;
        assert!(matches!(sent, Err(outside::OutsideError::Ended)), "{sent:?}");
        let told = told(script.asked.borrow().last().unwrap());
        assert!(told[0].2 && told[0].1.contains("Nobody has approved"), "{told:?}");
    })
    .await;
    assert_eq!(hall.count("pay"), 0);
}

/// Row 5: the word comes while the job waits and the continuation is lost; the sweeper finds the job.
#[tokio::test(start_paused = true)]
async fn f06_a_word_whose_message_is_lost() {
    let (script, hall) = (pays_once(), Hall::new(echo));
    let workshop = workshop(&paying(), &script, &hall);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            let signal = awaited(&workshop, &job, "approval").await;
            workshop.until(&job, |job| job.progress.state.status() == Status::Waiting).await;
            let store = workshop.sim.handle();
            // Signal, wake, then dead before the message.
            store.crash_at(killed(5, Moment::Before));
            let now = workshop.clock.now();
            let signal = outside::signal(
                &store,
                &job,
                signal.parse().unwrap(),
                "k".parse().unwrap(),
                json!("approved"),
                "ada".to_owned(),
                now,
            );
            let _lost = tokio::time::timeout(Duration::from_secs(1), signal).await;
            let begun = workshop.clock.now();
            workshop.ended(&job).await;
            assert!(begun.until(workshop.clock.now()) <= Duration::from_secs(3_600), "long before the wait's own end");
        })
        .await;
    assert_eq!(hall.count("pay"), 1, "{}", script.calls());
}

/// F12: changes asked for twice, then approved, a new worker after each: what was free ran once.
#[tokio::test(start_paused = true)]
async fn f12_what_ran_before_a_wait_does_not_run_again() {
    let definition = definition(&["log_note", "reserve_seat", "pay"], json!({"approval": ["pay"]}));
    let script = Script::new(|_, request| match turn_of(request) {
        0 => calls(&[("log_note", json!({})), ("reserve_seat", json!({})), ("pay", json!({"amount": 100}))]),
        turn @ 1..3 => calls(&[("pay", json!({"amount": 100 - turn * 10}))]),
        _ => says("done"),
    });
    let hall = Hall::new(echo);
    let workshop = workshop(&definition, &script, &hall);
    let job = workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            let mut seen = Vec::new();
            for word in ["changes", "changes", "approved"] {
                let signal = loop {
                    let signal = awaited(&workshop, &job, "approval").await;
                    if !seen.contains(&signal) {
                        break signal;
                    }
                    workshop.clock.sleep(Duration::from_millis(100)).await;
                };
                // The worker that waited is gone by now: each word is taken by another one.
                workshop.until(&job, |job| job.progress.state.status() == Status::Waiting).await;
                send(&workshop, &job, &signal, json!({"decision": word, "reason": "cheaper"})).await;
                seen.push(signal);
            }
            workshop.ended(&job).await;
            job
        })
        .await;
    assert_eq!(result(&workshop, &job), json!("done"));
    let counts: Vec<(String, usize)> = hall.counts().into_iter().collect();
    assert_eq!(
        counts,
        [("log_note", 1), ("pay", 1), ("reserve_seat", 1)].map(|(name, count)| (name.to_owned(), count))
    );
    let (_, paid) = hall.done.borrow().iter().find(|(name, _)| name == "pay").cloned().unwrap();
    assert_eq!(paid["arguments"]["amount"], json!(80), "the last proposal was approved");
    assert_eq!(script.calls(), 1 + 2 + 1, "one, one a change, and the last answer");
    let first = told(&script.asked.borrow()[1]);
    assert_eq!(first.len(), 3, "the results of one turn go back together");
    assert!(first[0].1.starts_with("log_note") && first[1].1.starts_with("reserve_seat"), "in order: {first:?}");
    assert!(first[2].1.contains("cheaper"), "{first:?}");
    assert!(workshop.sim.job(job.job).unwrap().progress.epoch.0 >= 4);
}

/// A question to a person, and their answer; nobody who answers.
#[tokio::test(start_paused = true)]
async fn a_person_is_asked() {
    for answers in [true, false] {
        let mut definition = definition(&[], json!({}));
        definition["tools"] =
            json!([{"kind": "ask_person", "name": "ask_legal", "description": "Asks.", "wait_seconds": 600}]);
        let script = Script::new(|_, request| match turn_of(request) {
            0 => calls(&[("ask_legal", json!({"question": "May we?"}))]),
            _ => says("done"),
        });
        let workshop = workshop(&definition, &script, &Hall::new(echo));
        workshop
            .run(1, async {
                let job = workshop.submit(workshop.order("agent", json!({}))).await;
                let signal = awaited(&workshop, &job, "answer").await;
                if answers {
                    send(&workshop, &job, &signal, json!("Yes, but in writing.")).await;
                }
                workshop.ended(&job).await;
            })
            .await;
        let told = told(script.asked.borrow().last().unwrap());
        assert_eq!(told[0].2, !answers, "{told:?}");
        assert!(!answers || told[0].1 == "Yes, but in writing.", "{told:?}");
    }
}

/// A person may change the arguments of the call that they approve: they are checked, the call is made with them, under the
/// same key, once; who changed what stands in the journal, and the model is told.
#[tokio::test(start_paused = true)]
async fn a_call_is_approved_with_other_arguments() {
    let mut definition = definition(&[], json!({"approval": ["pay"]}));
    let mut pay = lambda("pay", "keyed");
    pay["input_schema"] = json!({"type": "object", "properties": {"amount": {"type": "integer", "maximum": 100}},
        "required": ["amount"], "additionalProperties": false});
    definition["tools"] = json!([pay]);
    // In one invocation, and with another worker after each wait and crash.
    for invocation in [Duration::from_secs(900), Duration::from_millis(3_500)] {
        let (script, hall) = (pays_once(), Hall::new(echo));
        let mut workshop = workshop(&definition, &script, &hall);
        workshop.invocation = invocation;
        let job = workshop
            .run(1, async {
                let job = workshop.submit(workshop.order("agent", json!({}))).await;
                let signal = awaited(&workshop, &job, "approval").await;
                // What does not fit the tool is no word, and ends no wait.
                for unfit in [json!({"amount": 101}), json!({"amount": 5, "to": "me"}), json!({})] {
                    send(&workshop, &job, &signal, json!({"decision": "approved", "arguments": unfit})).await;
                }
                workshop.clock.sleep(Duration::from_secs(5)).await;
                assert_eq!(hall.count("pay"), 0);
                send(&workshop, &job, &signal, json!({"decision": "approved", "arguments": {"amount": 3}})).await;
                workshop.ended(&job).await;
                job
            })
            .await;
        let story = workshop.story(&job);
        assert_eq!(result(&workshop, &job), json!("done"), "{story}");
        let done = hall.done.borrow().clone();
        let paid: Vec<&Value> = done.iter().map(|(_, event)| &event["arguments"]["amount"]).collect();
        assert_eq!(paid, [&json!(3)], "{story}");
        let shown = |name: &str| {
            let emitted = entries(&workshop, &job).into_iter().filter_map(|entry| match entry {
                longhaul::engine::Entry::Emitted { id, data } if id.name == name => Some(data),
                _ => None,
            });
            emitted.collect::<Vec<_>>()
        };
        assert_eq!(shown("approval not understood").len(), 3, "{story}");
        let changes = shown("approved with changes");
        assert_eq!((&changes[0]["proposed"], &changes[0]["arguments"]), (&json!({"amount": 7}), &json!({"amount": 3})));
        assert!(story.contains(r#""by":"ada""#), "who said it: {story}");
        let told = told(script.asked.borrow().last().unwrap());
        assert!(told[0].1.contains(r#"with other arguments: {"amount":3}"#), "{told:?}");
    }
}

/// Row 4 in full: a word for a later call comes while an earlier one is at work; it is kept for its own and taken by no other.
#[tokio::test(start_paused = true)]
async fn f06_a_word_for_a_later_step() {
    let definition = definition(&["pay"], json!({"approval": ["pay"], "approval_wait_seconds": 3_600}));
    let script = || {
        Script::new(|_, request| match turn_of(request) {
            turn @ 0..2 => calls(&[("pay", json!({"amount": turn}))]),
            _ => says("done"),
        })
    };
    // The names that the two waits have in every such job.
    let mut names = Vec::new();
    let (first, hall) = (script(), Hall::new(echo));
    let scout = workshop(&definition, &first, &hall);
    scout
        .run(1, async {
            let job = scout.submit(scout.order("agent", json!({}))).await;
            for _ in 0..2 {
                let name = loop {
                    let name = awaited(&scout, &job, "approval").await;
                    if !names.contains(&name) {
                        break name;
                    }
                    scout.clock.sleep(Duration::from_millis(100)).await;
                };
                send(&scout, &job, &name, json!("approved")).await;
                names.push(name);
            }
            scout.ended(&job).await;
        })
        .await;
    let (second, hall) = (script(), Hall::new(echo));
    let workshop = workshop(&definition, &second, &hall);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({}))).await;
            send(&workshop, &job, &names[1], json!("approved")).await;
            awaited(&workshop, &job, "approval").await;
            workshop.clock.sleep(Duration::from_secs(60)).await;
            assert_eq!(hall.count("pay"), 0, "the first waits for its own word");
            send(&workshop, &job, &names[0], json!("approved")).await;
            workshop.ended(&job).await;
            assert_eq!(result(&workshop, &job), json!("done"));
        })
        .await;
    assert_eq!(hall.count("pay"), 2, "the second had its word already");
}

/// A replay that changes nothing of what is asked asks under the same key, so that nothing is paid twice; one that does
/// takes another key, and each such change one of its own.
#[tokio::test(start_paused = true)]
async fn a_key_changes_with_the_question_and_only_with_it() {
    let script = Script::new(|_, _| Err(ModelError::new(ModelErrorKind::Refused, "no")));
    let workshop = workshop(&definition(&[], json!({})), &script, &Hall::new(echo));
    let other = || Edit { instructions: Some("Do it well.".to_owned()), ..Edit::default() };
    let budget = longhaul::engine::budget::Budget { steps: Some(50), ..Default::default() };
    let richer = || Edit { budget: Some(budget), ..Edit::default() };
    let input = || Edit { input: Some(json!({"task": "another"})), ..Edit::default() };
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({"task": "the task"}))).await;
            for (number, edit) in
                [Edit::default(), richer(), other(), Edit::default(), input(), other()].iter().enumerate()
            {
                workshop.until(&job, |found| found.progress.state.status() == Status::Failed).await;
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                let key = format!("r{number}").parse().unwrap();
                outside::replay(&store, &job, key, "ada".into(), None, edit.clone(), now).await.unwrap();
            }
            workshop.until(&job, |found| found.progress.state.status() == Status::Failed).await;
        })
        .await;
    let asked = script.asked.borrow();
    let keys: Vec<_> = asked.iter().map(|request| request.idempotency_key.clone().unwrap()).collect();
    let same: Vec<bool> = keys.windows(2).map(|pair| pair[0] == pair[1]).collect();
    assert_eq!(same, [true, true, false, true, false, false], "{keys:#?}");
}

/// What a failed call had sent stands with its step, for the person who mends it; other words and another model of theirs
/// hold from the replay on, and what was answered before is kept.
#[tokio::test(start_paused = true)]
async fn a_person_mends_the_instructions_and_the_model() {
    let script = Script::new(|number, request| match number {
        0 => calls(&[("look", json!({"at": "it"}))]),
        1 => Err(ModelError::new(ModelErrorKind::Refused, "it is not allowed to say so")),
        _ => says(&format!("{} to {}", request.messages[0].text(), request.model)),
    });
    let hall = Hall::new(echo);
    let workshop = workshop(&definition(&["look"], json!({})), &script, &hall);
    workshop
        .run(1, async {
            let job = workshop.submit(workshop.order("agent", json!({"task": "the task"}))).await;
            workshop.ended(&job).await;
            let journal = workshop.journal(&job);
            let failed = journal.steps().find_map(|record| match &record.state {
                StepState::Failed { failure } => failure.sent.as_deref().cloned(),
                _ => None,
            });
            let sent = failed.expect("what was sent is kept");
            assert_eq!(sent["messages"][0], json!({"role": "system", "text": "Do it."}));
            assert_eq!(sent["messages"][2]["tool_calls"][0]["name"], "look");
            assert_eq!(sent["tools"], json!(["look", "read_more"]));
            let Some(Ending::Failed { failure }) = journal.ending() else { panic!("{}", workshop.story(&job)) };
            assert_eq!(failure.sent, None, "the job's end, its dead letter and its parent are told without it");
            let (instructions, model) = (Some("Do it well.".to_owned()), Some("another".to_owned()));
            let edit = Edit { instructions, model, ..Edit::default() };
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            outside::replay(&store, &job, "r1".parse().unwrap(), "ada".into(), None, edit, now).await.unwrap();
            workshop.until(&job, |found| found.progress.state.status() == Status::Completed).await;
            assert_eq!(result(&workshop, &job), json!("Do it well. to another"));
            assert_eq!((script.calls(), hall.counts()["look"]), (3, 1), "what had been answered is not asked again");
            let asked = script.asked.borrow();
            let keys: Vec<_> = asked.iter().map(|request| request.idempotency_key.clone().unwrap()).collect();
            assert_ne!(keys[1], keys[2], "under the first key a provider would give its first answer again");
            assert!(keys[2].starts_with(&keys[1]), "{keys:?}");
        })
        .await;
}
