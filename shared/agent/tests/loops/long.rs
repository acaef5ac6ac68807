//! A long job: 300 steps and 2 MB of tool output inside a window of 32,000 tokens, at the same cost a step throughout.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use longhaul_agent::Invoked;
use longhaul_llm::{ModelError, ModelErrorKind, Role};
use serde_json::json;

use crate::room::{Hall, Script, bytes_of, calls, definition, entries, finish, result, says, workshop};

/// Tool calls of the job: with as many answers of the model, 300 steps.
const CALLS: usize = 150;

/// Bytes of each result: 2 MB in all.
const RESULT_BYTES: usize = 2 * 1024 * 1024 / CALLS;

fn bytes(workshop: &longhaul_sim::workshop::Workshop, job: &longhaul::store::JobRef) -> Vec<usize> {
    entries(workshop, job).iter().map(|entry| serde_json::to_string(entry).unwrap().len()).collect()
}

/// The processor's time that this thread has had.
fn processor_time() -> Duration {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(counts.split(' ').next().unwrap().parse().unwrap())
}

/// Runs the job, holds it to everything that can be counted, and gives how many times as long its last 50 steps took as
/// its first.
async fn a_long_job() -> f64 {
    let asked_at: Rc<RefCell<Vec<Duration>>> = Rc::default();
    let clock = Rc::clone(&asked_at);
    let done = Rc::new(RefCell::new(0_usize));
    let (largest, left_out) = (Rc::new(RefCell::new(0)), Rc::new(RefCell::new(false)));
    let (largest_seen, left_out_seen) = (Rc::clone(&largest), Rc::clone(&left_out));
    let script = Script::forgetful(move |_, request| {
        assert_eq!(request.messages[0].role, Role::System, "instructions stay");
        // A call never stands without its result.
        let made: usize = request.messages.iter().map(|message| message.tool_calls.len()).sum();
        let answered = request.messages.iter().filter(|message| message.role == Role::Tool).count();
        assert_eq!(made, answered);
        let size = bytes_of(request);
        let mut largest = largest_seen.borrow_mut();
        *largest = size.max(*largest);
        if request.messages.iter().any(|message| message.text().contains("left out to save room")) {
            *left_out_seen.borrow_mut() = true;
        }
        // What no tokenizer would take for more than the window: four bytes a token.
        if size > 32_000 * 4 {
            return Err(ModelError::new(ModelErrorKind::ContextOverflow, "prompt is too long"));
        }
        if request.messages[0].text().starts_with("You condense") {
            return says("Pages were read one after the other. None of them said anything new. Go on with the next.");
        }
        clock.borrow_mut().push(processor_time());
        let mut done = done.borrow_mut();
        *done += 1;
        if *done <= CALLS { calls(&[("page", json!({"number": *done}))]) } else { says("read it all") }
    });
    let hall = Hall::new(|_, event| {
        let number = event["arguments"]["number"].as_u64().unwrap();
        let line = format!("page {number}: nothing new under the sun, and no more of it than before.\n");
        Ok(Invoked::Answered(json!(line.repeat(RESULT_BYTES / line.len() + 1))))
    });
    let definition = definition(
        &["page"],
        json!({"context": {"window_tokens": 32_000, "tool_output_bytes_max": 16_384}, "limits": {"turns_max": 400}}),
    );
    let workshop = workshop(&definition, &script, &hall);
    let job = finish(&workshop, 1).await;
    assert_eq!(result(&workshop, &job), json!("read it all"), "{}", workshop.journal(&job).totals().steps);
    assert!(workshop.journal(&job).totals().steps >= 300);
    assert_eq!(hall.count("page"), CALLS);
    let largest = *largest.borrow();
    assert!(largest <= 32_000 * 4, "{largest} bytes");
    assert!(*left_out.borrow(), "results were left out");

    // What a step writes does not grow: the journal of the last 50 steps is as large as that of the first.
    let written = bytes(&workshop, &job);
    let outcomes: Vec<usize> = written.into_iter().filter(|size| *size > 100).collect();
    let (first, last): (usize, usize) =
        (outcomes.iter().skip(2).take(100).sum(), outcomes.iter().rev().skip(2).take(100).sum());
    assert!(last * 2 <= first * 3, "journal bytes: {first}, then {last}");

    // And what it takes does not: the processor's time of this thread between answers, which no other program's work makes
    // longer, over 25 turns (50 steps) early and late. The first 10 turns are left aside, in which the window fills.
    let times = asked_at.borrow();
    let spent = |from: usize, to: usize| times[to].saturating_sub(times[from]);
    let (first, last) = (spent(10, 35), spent(CALLS - 26, CALLS - 1));
    println!("50 steps: {first:?} at first, {last:?} at last");
    last.as_secs_f64() / first.as_secs_f64()
}

#[test]
fn three_hundred_steps_and_two_megabytes() {
    // A processor whose caches others fill is slower at times; what grows is slower each time.
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        ratios.push(runtime.block_on(a_long_job()));
        if ratios.last().is_some_and(|ratio| *ratio <= 1.5) {
            return;
        }
    }
    panic!("50 steps at the end take so many times what 50 at the beginning take: {ratios:?}");
}
