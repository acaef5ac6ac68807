//! What a journal says of questions to models, and of looks at what is made elsewhere.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use longhaul_engine::budget::{self, Budget, HeldBack};
use longhaul_engine::entry::{Batch, Edit, StepId, WaitEnd};
use longhaul_engine::ids::Nonce;
use longhaul_engine::job::Usage;
use longhaul_engine::{Entry, Journal, Seq, StepKey, StepKind, Timestamp};
use serde_json::json;

const NOW: Timestamp = Timestamp::from_millis(1_769_846_400_000);

fn journal(entries: Vec<Entry>) -> Journal {
    Journal::read([Batch::new(Seq::FIRST, Nonce::from_uuid(uuid::Uuid::from_u128(1)), NOW, entries)]).unwrap()
}

fn replayed(edit: Edit) -> Entry {
    Entry::Replayed { key: "r".parse().unwrap(), by: "ada".to_owned(), from: None, edit }
}

fn failed() -> Entry {
    let failure = longhaul_engine::Failure::new(longhaul_engine::ErrorClass::Refused, "no");
    Entry::Failed { failure }
}

#[test]
fn only_an_edit_of_the_question_asks_anew() {
    let edit = Edit::default;
    for (name, edit, anew) in [
        ("nothing", edit(), false),
        ("the budget", Edit { budget: Some(Budget::default()), ..edit() }, false),
        ("the input", Edit { input: Some(json!({})), ..edit() }, true),
        ("the model", Edit { model: Some("m".to_owned()), ..edit() }, true),
        ("the instructions", Edit { instructions: Some("i".to_owned()), ..edit() }, true),
    ] {
        let one = journal(vec![failed(), replayed(edit.clone())]);
        assert_eq!(one.asks_anew(), u32::from(anew), "{name}");
        // It stays so behind replays that change nothing more.
        let two = journal(vec![failed(), replayed(edit), failed(), replayed(Edit::default())]);
        assert_eq!(two.asks_anew(), u32::from(anew), "{name}");
    }
}

fn step(position: u64, kind: StepKind) -> StepId {
    StepId { key: StepKey::at("", position), name: "model look".to_owned(), kind, branch: None }
}

fn waited(position: u64) -> Entry {
    Entry::WaitEnded { id: step(position, StepKind::Sleep), end: WaitEnd::Time }
}

fn looked(position: u64, look: bool) -> Entry {
    let (id, usage) = (step(position, StepKind::Step), Usage::default());
    Entry::StepCompleted { id, attempt: 1, started_at: NOW, output: json!({}), usage, look }
}

#[test]
fn a_look_and_the_wait_before_it_use_up_no_budget_of_steps() {
    let looks = journal(vec![looked(0, false), waited(1), looked(2, true), waited(3), looked(4, true)]);
    assert_eq!((looks.totals().steps, looks.steps().count()), (1, 5), "they stand in the journal all the same");
    let held = HeldBack::for_step(0, None);
    for (steps, allowed) in [(1, false), (2, true)] {
        let budget = Budget { steps: Some(steps), ..Budget::default() };
        assert_eq!(budget::check(&budget, looks.totals(), held, NOW, NOW).is_ok(), allowed, "{steps}");
    }
    // Those that an earlier build has written are counted, as they were.
    let before = journal(vec![looked(0, false), waited(1), looked(2, false)]);
    assert_eq!(before.totals().steps, 3);
}

#[test]
fn a_look_is_written_down_only_where_it_is_one() {
    let text = |look| serde_json::to_value(looked(2, look)).unwrap();
    assert_eq!(text(true)["look"], json!(true));
    assert_eq!(text(false).get("look"), None, "as builds before wrote it");
    assert_eq!(serde_json::from_value::<Entry>(text(false)).unwrap(), looked(2, false));
}
