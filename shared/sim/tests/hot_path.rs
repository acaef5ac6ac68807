//! What the hot path costs, by something that is the same on every machine: allocations.
//!
//! Instructions would be the better count, and need valgrind, which not everybody has (docs/performance.md tells how to
//! count them). Allocations are what the drive loop and the fold spend most of their time with, and who adds a copy of the
//! history to a step sees it here at once. A bound is a tenth over what was counted when it was set; raise it only with
//! a reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use allocation_counter::{AllocationInfo, measure};
use longhaul::engine::entry::{Batch, Entry, StepId, StepKind};
use longhaul::engine::ids::{Nonce, Seq};
use longhaul::engine::{Journal, StepKey, Timestamp};
use longhaul::{Ctx, Registry, Usage};
use longhaul_sim::Sim;
use longhaul_sim::workshop::{DAWN, Workshop};
use serde_json::{Value, json};
use uuid::Uuid;

/// Bytes of a step's result.
const RESULT_BYTES: usize = 1_000;

/// The outcome of a step that says a kilobyte, as it stands in the journal at `at`.
fn checkpoint(at: u64) -> Batch {
    let name = format!("step {at}");
    let id = StepId { key: StepKey::at("", at), name, kind: StepKind::Effect, branch: None };
    let output = json!({"text": "x".repeat(RESULT_BYTES), "usage": {"input_tokens": 120, "output_tokens": 200}});
    let entry = Entry::StepCompleted { id, attempt: 1, started_at: DAWN, output, usage: Usage::default(), look: false };
    Batch::new(
        Seq(at),
        Nonce::from_uuid(Uuid::from_u128(u128::from(at))),
        Timestamp::from_millis(DAWN.as_millis() + at),
        vec![entry],
    )
}

fn check(what: &str, of: &AllocationInfo, count_max: u64, bytes_max: u64) {
    println!("{what}: {} allocations, {} bytes", of.count_total, of.bytes_total);
    assert!(of.count_total <= count_max, "{what}: {} allocations, at most {count_max}", of.count_total);
    assert!(of.bytes_total <= bytes_max, "{what}: {} bytes, at most {bytes_max}", of.bytes_total);
}

#[test]
fn a_checkpoint_is_written_with_few_copies() {
    let batch = checkpoint(1);
    let mut text = String::new();
    let of = measure(|| text = serde_json::to_string(&batch.entries).unwrap());
    check("encoding a checkpoint of 1 KB", &of, 4, 3_900);
    let of = measure(|| drop(serde_json::from_str::<Vec<Entry>>(&text).unwrap()));
    check("decoding it", &of, 19, 4_800);
}

#[test]
fn five_hundred_entries_are_read_without_copying_them() {
    let batches: Vec<Batch> = (1..=500).map(checkpoint).collect();
    let mut journal = Journal::default();
    let of = measure(|| journal = Journal::read(batches).unwrap());
    assert_eq!(journal.totals().steps, 500);
    check("folding 500 entries", &of, 640, 211_000);
}

/// All allocations of a job of so many steps of a kilobyte, from its submission to its end, those of the store in memory
/// among them.
fn job_of(steps: u64) -> AllocationInfo {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    measure(|| {
        runtime.block_on(async {
            let mut registry = Registry::default();
            let agent = async move |ctx: &mut Ctx, _: Value| {
                for number in 0..steps {
                    ctx.step(&format!("step {number}"), async || Ok("x".repeat(RESULT_BYTES))).await?;
                }
                Ok(steps)
            };
            registry.add("agent", 1, agent).unwrap();
            let workshop = Workshop::new(Sim::faultless(), registry);
            let ended = workshop.run(1, async {
                let job = workshop.submit(workshop.order("agent", json!(null))).await;
                workshop.ended(&job).await
            });
            tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
        });
    })
}

#[test]
fn a_step_costs_the_same_however_long_the_journal_is() {
    let [short, middle, long] = [100, 200, 300].map(job_of);
    let step = |more: &AllocationInfo, less: &AllocationInfo| AllocationInfo {
        count_total: (more.count_total - less.count_total) / 100,
        bytes_total: (more.bytes_total - less.bytes_total) / 100,
        ..AllocationInfo::default()
    };
    let (early, late) = (step(&middle, &short), step(&long, &middle));
    check("a step of a short job", &early, 40, 12_000);
    check("a step of a long job", &late, 40, 12_000);
    assert!(late.count_total <= early.count_total + 2, "{} and {}", early.count_total, late.count_total);
}
