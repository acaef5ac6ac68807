//! What a budget allows: what is held back beside what is used, and what of it one of several takers may have.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use longhaul_engine::Timestamp;
use longhaul_engine::budget::{self, Budget, Exhausted, HeldBack};
use longhaul_engine::job::{Totals, Usage};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

const fn held(tokens: u64, money_micros: u64, steps: u64, unpriced: bool) -> HeldBack {
    HeldBack { tokens, money_micros, steps, unpriced }
}

fn used(tokens: u64, money_micros: u64, steps: u64) -> Totals {
    Totals { usage: Usage { input_tokens: tokens, money_micros, ..Usage::default() }, steps }
}

#[test]
fn what_a_step_holds_back() {
    let rows = [
        (0, None, held(0, 0, 1, false)),
        (10, None, held(10, 0, 1, true)),
        (0, Some(7), held(0, 7, 1, false)),
        (10, Some(7), held(10, 7, 1, false)),
    ];
    for (tokens, micros, expected) in rows {
        assert_eq!(HeldBack::for_step(tokens, micros), expected, "{tokens} tokens at {micros:?}");
    }
}

#[test]
fn what_is_held_back_adds_up_and_is_given_back() {
    let (one, other) = (held(10, 7, 1, false), held(5, 3, 2, true));
    for both in [one.plus(other), other.plus(one)] {
        assert_eq!(both, held(15, 10, 3, true));
    }
    assert_eq!(one.plus(other).minus(other), one);
    assert_eq!(other.plus(one).minus(one), other);
    assert_eq!(one.plus(one).minus(one), one);
}

#[test]
fn what_the_budget_of_money_allows() {
    let budget = Budget { money_micros: Some(100), ..Budget::default() };
    let tokens_alone = Budget { tokens: Some(100), ..Budget::default() };
    let rows = [
        (budget, 50, held(0, 50, 1, false), Ok(())),
        (budget, 50, held(0, 51, 1, false), Err(Exhausted::Money { limit: 100, used: 50, reserved: 51 })),
        (budget, 100, held(0, 0, 1, false), Err(Exhausted::Money { limit: 100, used: 100, reserved: 0 })),
        (budget, 0, held(10, 0, 1, true), Err(Exhausted::Unpriced { limit: 100 })),
        (tokens_alone, 0, held(10, 0, 1, true), Ok(())),
    ];
    for (budget, spent, held, expected) in rows {
        assert_eq!(budget::check(&budget, &used(0, spent, 0), held, NOW, NOW), expected, "{spent} spent, {held:?}");
    }
}

#[test]
fn what_one_of_several_takers_may_have() {
    let budget = Budget { tokens: Some(100), money_micros: Some(1_000), steps: Some(20), wall_seconds: Some(60) };
    let share = |totals: Totals, held: HeldBack, shares: u64, age: u64| {
        budget.share(&totals, held, shares, NOW, NOW.plus(Duration::from_secs(age)))
    };
    let of = |tokens, money, steps, wall| {
        Ok(Budget { tokens: Some(tokens), money_micros: Some(money), steps: Some(steps), wall_seconds: Some(wall) })
    };
    let none = held(0, 0, 0, false);
    let rows = [
        (used(0, 0, 0), none, 0, 0, of(100, 1_000, 20, 60)),
        (used(0, 0, 0), none, 2, 0, of(50, 500, 10, 60)),
        (used(40, 400, 4), held(20, 200, 2, false), 2, 45, of(20, 200, 7, 15)),
        (used(99, 0, 0), none, 2, 0, Err(Exhausted::Tokens { limit: 100, used: 99, reserved: 0 })),
        (used(0, 999, 0), none, 2, 0, Err(Exhausted::Money { limit: 1_000, used: 999, reserved: 0 })),
        (used(0, 0, 19), none, 2, 0, Err(Exhausted::Steps { limit: 20 })),
        (used(0, 0, 0), none, 2, 60, Err(Exhausted::Wall { limit: 60 })),
    ];
    for (totals, held, shares, age, expected) in rows {
        assert_eq!(share(totals, held, shares, age), expected, "{totals:?}, {held:?}, {shares} takers at {age} s");
    }
    assert_eq!(budget.ends_at(NOW), Some(NOW.plus(Duration::from_secs(60))));
    assert!(Budget::default().is_unbounded() && !budget.is_unbounded());
}
