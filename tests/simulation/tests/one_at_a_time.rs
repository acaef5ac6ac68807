//! Every call of every worker goes wrong in turn, and every message, for each agent that ships.
//!
//! A clean run counts its calls and messages. Then the job is run once for each of them and for each way in which it can go
//! wrong, and must come to what it came to when nothing did.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use longhaul_sim::{CallMishap, Death, MessageMishap, Moment, Planned};
use longhaul_simulation::audit::{Evidence, audit};
use longhaul_simulation::jobs::{Kind, Says};
use longhaul_simulation::turns::{Ran, run};

/// Ways in which any call goes wrong.
const CALLS: [CallMishap; 3] = [
    CallMishap::Dies(Moment::Before, Death::Hang),
    CallMishap::FailsBefore,
    // Longer than a session's silence and shorter than an invocation: another worker takes over, then this one wakes.
    CallMishap::Freezes(Duration::from_secs(100)),
];

/// Ways in which a write goes wrong beside those.
const WRITES: [CallMishap; 4] = [
    CallMishap::Dies(Moment::After, Death::Hang),
    CallMishap::FailsAfter,
    CallMishap::Repeats,
    CallMishap::Late(Duration::from_secs(40)),
];

const MESSAGES: [MessageMishap; 4] = [
    MessageMishap::Lost,
    MessageMishap::Doubled(Duration::ZERO),
    MessageMishap::Doubled(Duration::from_secs(45)),
    MessageMishap::Late(Duration::from_secs(200)),
];

fn is_read(call: &str) -> bool {
    matches!(call, "job" | "journal" | "batch_at" | "due" | "last_beat")
}

/// Everything that can be planned for a run that made these calls and sent so many messages.
fn plans(clean: &Ran) -> Vec<Planned> {
    let mut plans = Vec::new();
    for (number, call) in (1..).zip(&clean.calls) {
        let writes: &[CallMishap] = if is_read(call) { &[] } else { &WRITES };
        plans.extend(CALLS.iter().chain(writes).map(|mishap| Planned::Call(number, *mishap)));
    }
    for number in 1..=clean.messages {
        plans.extend(MESSAGES.map(|mishap| Planned::Message(number, mishap)));
    }
    plans
}

fn check(kind: Kind, says: Says) {
    let clean = run(kind, says, None);
    let plans = plans(&clean);
    for planned in &plans {
        let ran = std::panic::catch_unwind(|| run(kind, says, Some(*planned)));
        let ran = ran.unwrap_or_else(|_| panic!("{kind:?} {says:?} with {planned:?}"));
        let told = || format!("{kind:?} {says:?} with {planned:?}");
        let evidence =
            Evidence { snapshot: &ran.snapshot, asked: &ran.asked, acknowledged: &ran.acknowledged, deaths: 1 };
        audit(&evidence).unwrap_or_else(|broken| panic!("{}: {broken}", told()));
        assert_eq!(ran.end, clean.end, "{}", told());
        assert_eq!(ran.outputs, clean.outputs, "{}", told());
        assert_eq!(ran.tickets, clean.tickets, "{}", told());
        let keys = |ran: &Ran| ran.asked.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&ran), keys(&clean), "{}", told());
        let more = ran.asked.iter().filter(|(key, times)| **times > clean.asked[*key]).count();
        // What a crash cuts off is at most the branches that ran together.
        assert!(more <= 4, "{}: {more} keys were used more often", told());
    }
    println!("{kind:?} {says:?}: {} calls, {} messages, {} runs", clean.calls.len(), clean.messages, plans.len());
}

#[test]
fn research() {
    check(Kind::Research, Says::Nothing);
}

#[test]
fn compliance() {
    check(Kind::Compliance { approve: false }, Says::Nothing);
}

#[test]
fn compliance_with_a_person() {
    for says in [Says::Yes, Says::No, Says::Nothing] {
        check(Kind::Compliance { approve: true }, says);
    }
}

#[test]
fn agent_10() {
    check(Kind::Steps { fails: false }, Says::Nothing);
}

#[test]
fn agent_10_that_is_mended_and_replayed() {
    check(Kind::Steps { fails: true }, Says::Nothing);
}
