//! Calls of tools: which are carried out, what the model is told, what is cut.

use longhaul::{ErrorClass, StepError};
use longhaul_agent::Invoked;
use longhaul_llm::{ModelError, ModelErrorKind};
use longhaul_sim::Moment;
use longhaul_sim::workshop::killed;
use serde_json::{Value, json};

use crate::room::{
    Hall, Script, bytes_of, calls, definition, echo, failure, finish, result, run, says, told, turn_of, workshop,
};

#[tokio::test(start_paused = true)]
async fn f02_names_that_name_nothing() {
    let case: Value = serde_json::from_str(include_str!("../faults/F02/reply.json")).unwrap();
    let asked: Vec<(String, String, Value)> = case["choices"][0]["message"]["tool_calls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| {
            let function = &call["function"];
            let arguments = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
            (call["id"].as_str().unwrap().to_owned(), function["name"].as_str().unwrap().to_owned(), arguments)
        })
        .collect();
    let ids: Vec<String> = asked.iter().map(|(id, ..)| id.clone()).collect();
    let script = Script::new(move |_, request| match turn_of(request) {
        0 => {
            let named: Vec<(&str, Value)> = asked.iter().map(|(_, name, it)| (name.as_str(), it.clone())).collect();
            let mut reply = calls(&named)?;
            for (call, id) in reply.message.tool_calls.iter_mut().zip(&ids) {
                call.id.clone_from(id);
            }
            Ok(reply)
        }
        _ => says("done"),
    });
    // `admin_delete` exists: another agent has it. This one does not.
    let hall = Hall::new(echo);
    let (workshop, job) = run(&definition(&["get_weather"], json!({})), &script, &hall).await;
    assert_eq!(result(&workshop, &job), json!("done"));
    assert_eq!(hall.counts().into_iter().collect::<Vec<_>>(), [("get_weather".to_owned(), 1)]);
    let asked = script.asked.borrow();
    let told = told(&asked[1]);
    for (id, text, is_error) in &told {
        assert_eq!(*is_error, id != "x2", "{id}: {text}");
        if *is_error {
            assert!(text.contains("get_weather") && !text.contains("admin_delete"), "{id}: {text}");
        }
    }
    assert_eq!(told.iter().map(|(id, ..)| id.as_str()).collect::<Vec<_>>(), ["x1", "x2", "x3", "x4", "x5"]);
    // What goes back is what servers take: names of letters, digits, `_` and `-`.
    for call in asked[1].messages.iter().flat_map(|message| &message.tool_calls) {
        let takes = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        assert!(!call.name.is_empty() && call.name.chars().all(takes), "{:?}", call.name);
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_are_told_to_the_model() {
    let mut definition = definition(&["set"], json!({}));
    definition["tools"][0]["input_schema"] = json!({
        "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
    });
    let script = Script::new(|_, request| match turn_of(request) {
        0 => calls(&[("set", json!({"n": "many"})), ("set", json!("no object")), ("set", json!({"n": 1}))]),
        _ => says("done"),
    });
    let hall = Hall::new(echo);
    run(&definition, &script, &hall).await;
    assert_eq!(hall.count("set"), 1);
    let told = told(&script.asked.borrow()[1]);
    assert_eq!(told.iter().map(|(.., is_error)| *is_error).collect::<Vec<_>>(), [true, true, false]);
}

/// A16: one of three fails, the others' results stand; and with the worker killed before the failing one is done.
#[tokio::test(start_paused = true)]
async fn a16_one_of_three_calls_fails() {
    let case: Value = serde_json::from_str(include_str!("../faults/A16/anthropic_three_tools.json")).unwrap();
    let blocks: Vec<Value> = case["content"].as_array().unwrap().iter().skip(1).cloned().collect();
    // A worker dies at each of its calls in turn, and once at none.
    for crash in std::iter::once(None).chain((6..14).map(Some)) {
        let asked = blocks.clone();
        let script = Script::new(move |_, request| match turn_of(request) {
            0 => {
                let named: Vec<(&str, Value)> =
                    asked.iter().map(|block| (block["name"].as_str().unwrap(), block["input"].clone())).collect();
                let mut reply = calls(&named)?;
                for (call, block) in reply.message.tool_calls.iter_mut().zip(&asked) {
                    call.id = block["id"].as_str().unwrap().to_owned();
                }
                Ok(reply)
            }
            _ => says("done"),
        });
        let hall = Hall::new(|_, event| match event["arguments"]["city"].as_str() {
            Some("Atlantis") => Err(StepError::new(ErrorClass::Transient, "")),
            _ => Ok(Invoked::Answered(json!({"celsius": 11}))),
        });
        let mut workshop = workshop(&definition(&["weather"], json!({})), &script, &hall);
        if let Some(call) = crash {
            workshop.crashes = std::rc::Rc::new(move |worker| (worker == 0).then(|| killed(call, Moment::After)));
        }
        let job = finish(&workshop, 2).await;
        assert_eq!(result(&workshop, &job), json!("done"), "{crash:?}");
        let told = told(script.asked.borrow().last().unwrap());
        let ids: Vec<&str> = told.iter().map(|(id, ..)| id.as_str()).collect();
        assert_eq!(ids, ["toolu_1", "toolu_2", "toolu_3"], "{crash:?}");
        assert_eq!(told.iter().map(|(.., is_error)| *is_error).collect::<Vec<_>>(), [false, true, false], "{crash:?}");
        assert!(!told[1].1.trim().is_empty(), "{crash:?}: a failure has words");
        // Each journaled outcome was paid for once: cities that have an outcome are not asked for again.
        let story = workshop.story(&job);
        assert_eq!(story.matches("step_completed").count(), 2 + 2, "{crash:?}\n{story}");
        let done = hall.done.borrow();
        let count = |city: &str| done.iter().filter(|(_, event)| event["arguments"]["city"] == json!(city)).count();
        assert!(count("Oslo") <= 2 && count("Lima") <= 2, "{crash:?}");
        if crash.is_none() {
            assert_eq!((count("Oslo"), count("Atlantis"), count("Lima")), (1, 3, 1));
        }
    }
}

/// The kill variant of A16: dead between the good outcomes and the failing one's, only that one is called again.
#[tokio::test(start_paused = true)]
async fn a16_killed_before_the_last_outcome() {
    let script = Script::new(|_, request| match turn_of(request) {
        0 => calls(&[("oslo", json!({})), ("atlantis", json!({})), ("lima", json!({}))]),
        _ => says("done"),
    });
    let hall = Hall::new(|function, event| match function {
        "atlantis" => Err(StepError::new(ErrorClass::Transient, "no such city")),
        _ => echo(function, event),
    });
    let mut workshop = workshop(&definition(&["oslo", "atlantis", "lima"], json!({})), &script, &hall);
    // Short enough that the waits between Atlantis' attempts each end an invocation.
    workshop.invocation = std::time::Duration::from_secs(8);
    let job = finish(&workshop, 1).await;
    assert_eq!(result(&workshop, &job), json!("done"));
    let counts: Vec<(String, usize)> = hall.counts().into_iter().collect();
    let expected = [("atlantis", 3), ("lima", 1), ("oslo", 1)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(counts, expected);
    assert!(workshop.sim.job(job.job).unwrap().progress.epoch.0 >= 3, "several workers took part");
}

/// The same with a worker that is really killed, at each of its calls to the store: what stands in the journal is not called
/// again, whatever is.
#[tokio::test(start_paused = true)]
async fn a16_killed_at_every_call() {
    let mut between = 0;
    for call in 1..=14 {
        let script = Script::new(|_, request| match turn_of(request) {
            0 => calls(&[("oslo", json!({})), ("atlantis", json!({})), ("lima", json!({}))]),
            _ => says("done"),
        });
        let hall = Hall::new(|function, event| match function {
            "atlantis" => Err(StepError::new(ErrorClass::Invalid, "")),
            _ => echo(function, event),
        });
        // Atlantis is away for longer than the others take.
        let mut definition = definition(&["oslo", "atlantis", "lima"], json!({}));
        definition["approval"] = json!(["atlantis"]);
        let mut workshop = workshop(&definition, &script, &hall);
        workshop.crashes = std::rc::Rc::new(move |worker| (worker == 0).then(|| killed(call, Moment::Before)));
        let job = workshop
            .run(2, async {
                let job = workshop.submit(workshop.order("agent", json!({}))).await;
                let signal = crate::crashes::awaited(&workshop, &job, "approval").await;
                workshop.clock.sleep(std::time::Duration::from_secs(60)).await;
                crate::crashes::send(&workshop, &job, &signal, json!("approved")).await;
                workshop.ended(&job).await;
                job
            })
            .await;
        assert_eq!(result(&workshop, &job), json!("done"), "call {call}");
        let story = workshop.story(&job);
        let at = |words: &str| story.lines().position(|line| line.contains(words));
        let outcome = |city: &str| at(&format!(r#""name":"{city}","kind":"effect""#));
        let before = |one: Option<usize>, other: Option<usize>| one.zip(other).is_some_and(|(one, other)| one < other);
        let takeover = at(r#""takeover":true"#);
        if before(outcome("oslo"), takeover) && before(outcome("lima"), takeover) {
            between += 1;
            assert_eq!((hall.count("oslo"), hall.count("lima")), (1, 1), "call {call}\n{story}");
        }
        assert!(hall.counts().values().all(|count| *count <= 2), "call {call}: {:?}", hall.counts());
        let asked = script.asked.borrow();
        let told = told(asked.last().unwrap());
        assert_eq!(told.iter().map(|(id, ..)| id.as_str()).collect::<Vec<_>>(), ["call_0", "call_1", "call_2"]);
        assert!(told[1].2 && !told[1].1.is_empty(), "a failure without words is told in words: {told:?}");
    }
    assert!(between > 0, "some kill fell between the outcomes");
}

/// F03: outputs larger than the window. The model's server refuses what is above 120 KB.
#[tokio::test(start_paused = true)]
async fn f03_outputs_larger_than_the_window() {
    type Form = (&'static str, usize, fn() -> String);
    let forms: [Form; 3] = [
        ("3 MB of text", 1, || "line of the report\n".repeat(3 * 1024 * 1024 / 19)),
        ("3 results of 700 KB", 3, || "word ".repeat(700 * 1024 / 5)),
        ("a line of 2 MB", 1, || "x".repeat(2 * 1024 * 1024)),
    ];
    for (name, number, output) in forms {
        let script = Script::new(move |_, request| {
            if bytes_of(request) > 120_000 {
                return Err(ModelError::new(ModelErrorKind::ContextOverflow, "prompt is too long"));
            }
            match turn_of(request) {
                0 => calls(&vec![("fetch", json!({})); number]),
                1 => calls(&[("read_more", json!({"handle": "t0.0", "offset": 1_000_000 % (700 * 1024)}))]),
                _ => says("done"),
            }
        });
        let hall = Hall::new(move |_, _| Ok(Invoked::Answered(json!(output()))));
        let mut definition = definition(&["fetch"], json!({"context": {"window_tokens": 32_000}}));
        definition["limits"] = json!({"repeats_max": 10});
        let (workshop, job) = run(&definition, &script, &hall).await;
        assert_eq!(result(&workshop, &job), json!("done"), "{name}");
        let asked = script.asked.borrow();
        let sizes: Vec<usize> = asked.iter().map(bytes_of).collect();
        assert!(sizes.iter().filter(|size| **size > 120_000).count() <= 1, "{name}: {sizes:?}");
        assert!(told(&asked[1])[0].1.contains("[cut: "), "{name}: the cut is marked");
        assert!(told(&asked[2])[0].1.starts_with("[bytes "), "{name}: {}", &told(&asked[2])[0].1[..60]);
        assert_eq!(hall.count("fetch"), number, "{name}");
    }
}

/// A server whose window is smaller than the definition says: one refusal, then a smaller request, never the same twice.
#[tokio::test(start_paused = true)]
async fn f03_an_overflow_makes_the_request_smaller() {
    let script = Script::new(|_, request| {
        if bytes_of(request) > 30_000 {
            return Err(ModelError::new(ModelErrorKind::ContextOverflow, "prompt is too long"));
        }
        match turn_of(request) {
            turn @ 0..6 => calls(&[("fetch", json!({"page": turn}))]),
            _ => says("done"),
        }
    });
    let hall = Hall::new(|_, _| Ok(Invoked::Answered(json!("text ".repeat(2_000)))));
    let definition = definition(&["fetch"], json!({"context": {"window_tokens": 32_000}}));
    let (workshop, job) = run(&definition, &script, &hall).await;
    assert_eq!(result(&workshop, &job), json!("done"));
    let asked = script.asked.borrow();
    let sizes: Vec<usize> = asked.iter().map(bytes_of).collect();
    assert!(sizes.iter().filter(|size| **size > 30_000).count() <= 2, "{sizes:?}");
    for pair in asked.windows(2) {
        assert_ne!(pair[0].messages, pair[1].messages, "never the same request twice");
    }
}

/// What cannot get smaller ends the job instead of asking for ever.
#[tokio::test(start_paused = true)]
async fn an_overflow_that_nothing_helps_against_ends() {
    let script = Script::new(|_, _| Err(ModelError::new(ModelErrorKind::ContextOverflow, "prompt is too long")));
    let hall = Hall::new(echo);
    let (workshop, job) = run(&definition(&[], json!({})), &script, &hall).await;
    assert_eq!(failure(&workshop, &job).class, ErrorClass::ContextOverflow);
    assert_eq!(script.calls(), 1);
}
