//! Budgets: reserved before each call, settled after it, over failed attempts, branches and children.

use longhaul::ErrorClass;
use longhaul_llm::{ModelError, ModelErrorKind, Prices};
use longhaul_sim::Sim;
use longhaul_sim::workshop::Workshop;
use serde_json::{Value, json};

use crate::room::{
    Hall, Script, add_with, calls, definition, echo, equipment, failure, finish, result, run, says, turn_of, usage,
};

const PRICES: &str = r#"{"read_on": "2026-11-29", "models": [
    {"names": ["scripted", "scripted-1"], "rates": {"input": "10.00", "output": "50.00"}}
]}"#;

fn counting() -> std::rc::Rc<Script> {
    Script::new(|_, request| calls(&[("act", json!({"n": turn_of(request)}))]))
}

/// What a budget says, and how many answers the model gives within it.
#[tokio::test(start_paused = true)]
async fn each_part_of_a_budget_ends_the_job() {
    let rows: [(Value, &str, usize); 4] = [
        // A turn uses 120 tokens and holds back what it may need: a bounded answer and its prompt.
        (json!({"tokens": 1_000}), "tokens", 8),
        (json!({"steps": 5}), "steps", 3),
        (json!({"wall_seconds": 5}), "5 s", 5),
        // 100 tokens at 10 and 20 at 50 a million: 2,000 micros a turn.
        (json!({"money_micros": 12_000}), "micros", 6),
    ];
    for (budget, word, turns) in rows {
        let mut definition = definition(&["act"], json!({ "budget": budget }));
        definition["models"] = json!([{"provider": "default", "output_tokens_max": 60}]);
        let (script, hall) = (counting(), Hall::new(echo));
        let mut registry = longhaul::Registry::default();
        let prices = Prices::none().overlaid(PRICES).unwrap();
        add_with(&mut registry, "agent", &definition, equipment(&script, &hall).with_prices(prices));
        let workshop = Workshop::new(Sim::faultless(), registry);
        let job = finish(&workshop, 1).await;
        let failure = failure(&workshop, &job);
        assert_eq!(failure.class, ErrorClass::Budget, "{budget}: {failure:?}");
        assert!(failure.message.contains(word), "{budget}: {failure:?}");
        let asked = script.calls();
        assert!(asked <= turns && asked > 0, "{budget}: {asked} turns");
        let partial = failure.partial.unwrap();
        assert!(partial["turns"].as_u64().unwrap() > 0, "{budget}: partial work is kept: {partial}");
        let totals = *workshop.journal(&job).totals();
        let limit = |name: &str| budget.get(name).and_then(Value::as_u64).unwrap_or(u64::MAX);
        assert!(totals.usage.tokens() <= limit("tokens"), "{budget}: {totals:?}");
        assert!(totals.usage.money_micros <= limit("money_micros"), "{budget}: {totals:?}");
        assert!(totals.steps <= limit("steps"), "{budget}: {totals:?}");
        assert_eq!(totals.usage.money_micros, 2_000 * u64::try_from(asked).unwrap(), "{budget}");
    }
}

/// A price that is not known is said, never taken for nothing.
#[tokio::test(start_paused = true)]
async fn a_model_without_a_price() {
    let (script, hall) = (counting(), Hall::new(echo));
    let (workshop, job) =
        run(&definition(&["act"], json!({"budget": {"money_micros": 1_000_000}})), &script, &hall).await;
    let failure = failure(&workshop, &job);
    assert_eq!((failure.class, script.calls()), (ErrorClass::Budget, 0), "nothing is asked");
    assert!(failure.message.contains("price"), "{failure:?}");
    let script = Script::new(|_, _| says("done"));
    let (workshop, job) = run(&definition(&[], json!({})), &script, &hall).await;
    let usage = workshop.journal(&job).totals().usage;
    assert_eq!((usage.money_micros, usage.unpriced_tokens), (0, 120), "without a budget it is counted as unpriced");
}

/// Attempts that failed were paid for, too.
#[tokio::test(start_paused = true)]
async fn tokens_of_failed_attempts_count() {
    let script = Script::new(|number, _| match number {
        0 | 1 => Err(ModelError::new(ModelErrorKind::Transient, "cut").with_usage(usage())),
        _ => says("done"),
    });
    let (workshop, job) = run(&definition(&[], json!({})), &script, &Hall::new(echo)).await;
    assert_eq!(result(&workshop, &job), json!("done"));
    assert_eq!(workshop.journal(&job).totals().usage.tokens(), 3 * 120);
}

/// Children get a part of what is left and cannot pass it together; what they use is their parent's use.
#[tokio::test(start_paused = true)]
async fn children_stay_within_their_parents_budget() {
    let mut parent = definition(&[], json!({"budget": {"tokens": 2_000, "steps": 40}}));
    parent["models"] = json!([{"provider": "default", "output_tokens_max": 60}]);
    parent["tools"] = json!([{
        "kind": "run_agent", "name": "delegate", "description": "Delegates.", "agent": "greedy", "version": 1,
        "input_schema": {"type": "object"},
    }]);
    let boss = Script::new(|_, request| match turn_of(request) {
        0 => calls(&(0..4).map(|part| ("delegate", json!({ "part": part }))).collect::<Vec<_>>()),
        _ => says("enough"),
    });
    let greedy = counting();
    let hall = Hall::new(echo);
    let mut child = definition(&["act"], json!({}));
    child["models"] = json!([{"provider": "default", "output_tokens_max": 60}]);
    let mut registry = longhaul::Registry::default();
    add_with(&mut registry, "agent", &parent, equipment(&boss, &hall));
    add_with(&mut registry, "greedy", &child, equipment(&greedy, &hall));
    let workshop = Workshop::new(Sim::faultless(), registry);
    let job = finish(&workshop, 2).await;
    let totals = *workshop.journal(&job).totals();
    assert!(totals.usage.tokens() <= 2_000, "{totals:?}");
    assert!(totals.steps <= 40, "{totals:?}");
    assert!(greedy.calls() >= 4, "each child had its part: {}", greedy.calls());
    let spent = u64::try_from(greedy.calls() + boss.calls()).unwrap() * 120;
    assert_eq!(totals.usage.tokens(), spent, "all of it is counted in the parent");
}

/// A job does not wait past its time for a person either; what it had come to is kept.
#[tokio::test(start_paused = true)]
async fn nobody_is_waited_for_past_the_jobs_time() {
    let fields = json!({"approval": ["act"], "approval_wait_seconds": 86_400, "budget": {"wall_seconds": 3_600}});
    let script = Script::new(|_, _| {
        let mut reply = calls(&[("act", json!({}))])?;
        reply.message.content = longhaul_llm::Message::assistant("I would act.").content;
        Ok(reply)
    });
    let hall = Hall::new(echo);
    let workshop = crate::room::workshop(&definition(&["act"], fields), &script, &hall);
    let job = finish(&workshop, 1).await;
    let failure = failure(&workshop, &job);
    assert_eq!((failure.class, hall.done.borrow().len()), (ErrorClass::Budget, 0), "{failure:?}");
    assert_eq!(failure.partial.unwrap()["said"], json!("I would act."));
    let item = workshop.sim.job(job.job).unwrap();
    let took = item.order.submitted_at.until(item.progress.updated_at).as_secs();
    assert!((3_600..=3_603).contains(&took), "{took} s");
}

/// A provider that pauses in the middle of tools of its own gets its message back as it was, and goes on; each such turn
/// counts, so one that pauses for ever comes to an end.
#[tokio::test(start_paused = true)]
async fn a_paused_answer_goes_on() {
    let paused = |text: &str| {
        let mut reply = says(text)?;
        reply.finish = longhaul_llm::Finish::Paused;
        Ok(reply)
    };
    let script = Script::new(move |_, request| match turn_of(request) {
        turn @ 0..2 => paused(&format!("searching {turn}")),
        _ => says("found"),
    });
    let (workshop, job) = run(&definition(&[], json!({})), &script, &Hall::new(echo)).await;
    assert_eq!(result(&workshop, &job), json!("found"));
    let asked = script.asked.borrow().clone();
    assert_eq!(asked.len(), 3);
    let last: Vec<String> = asked[2].messages.iter().skip(2).map(longhaul_llm::Message::text).collect();
    assert_eq!(last, ["searching 0", "searching 1"], "sent back as they were, with nothing between and behind them");
    assert_eq!(workshop.journal(&job).totals().usage.tokens(), 3 * 120);
    let script = Script::new(move |_, _| paused("still searching"));
    let (workshop, job) = run(&definition(&[], json!({"limits": {"turns_max": 5}})), &script, &Hall::new(echo)).await;
    let failure = failure(&workshop, &job);
    assert_eq!((failure.class, script.calls()), (ErrorClass::Budget, 5), "{failure:?}");
}

/// The branches of one answer hold back together what they may need: their children never pass what is left.
#[tokio::test(start_paused = true)]
async fn a_budget_that_is_used_up_in_mid_branch_keeps_what_the_others_did() {
    // Five calls side by side are five steps; the budget has room for the turn and two of them.
    let script = Script::new(|_, _| calls(&(0..5).map(|n| ("act", json!({ "n": n }))).collect::<Vec<_>>()));
    let hall = Hall::new(echo);
    let (workshop, job) = run(&definition(&["act"], json!({"budget": {"steps": 3}})), &script, &hall).await;
    let failure = failure(&workshop, &job);
    assert_eq!(failure.class, ErrorClass::Budget, "{failure:?}");
    assert_eq!(hall.count("act"), 2, "what there was room for ran");
    let totals = *workshop.journal(&job).totals();
    assert_eq!(totals.steps, 3, "and is recorded: {totals:?}");
    assert!(failure.partial.is_some());
}
