//! Forks from outside: a new job out of any position of another one.

use longhaul_engine::entry::{Edit, StepId};
use longhaul_engine::fork::{self, Fork, Kept};
use longhaul_engine::ids::{Seq, StepKey};
use longhaul_engine::job::{Imported, Order, Origin};
use longhaul_engine::{Batch, Entry, Job, JobId, Journal, StepKind, Timestamp};

use crate::outside::{Accepted, OutsideError, submit};
use crate::store::{JobRef, Store};

/// Where a fork leaves the job that it is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkPoint {
    /// Behind its last good step: only failed outcomes are left out, as a replay does.
    LastGood,
    /// Before the entry at this position.
    Position(Seq),
    /// Before this step, which is done anew, and whatever came to its outcome behind it.
    Step(StepKey),
}

/// A fork that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkOrder {
    /// The fork's id.
    pub id: JobId,
    /// Where it leaves the other job.
    pub from: ForkPoint,
    /// What is changed.
    pub edit: Edit,
    /// Whether effects that were declared to happen once at most may be done again.
    pub repeat_effects: bool,
    /// W3C trace context of the request.
    pub traceparent: Option<String>,
    /// When it was asked for.
    pub now: Timestamp,
    /// The subject of the token that asked.
    pub by: String,
}

/// An accepted fork.
#[derive(Debug, Clone, PartialEq)]
pub struct Forked {
    /// The job.
    pub accepted: Accepted,
    /// Outcomes and signals that it keeps.
    pub kept: u64,
    /// Effects of the other job that it will do again.
    pub repeats: Vec<StepId>,
}

/// Makes a new job out of another: one write, as any submission. What it keeps is brought over by its first worker.
///
/// # Errors
/// [`OutsideError::NoJob`], [`OutsideError::NoPosition`], [`OutsideError::Repeats`] when an effect that may happen once
/// only would happen again, [`OutsideError::OtherRequest`] when the id is taken by a different order; store errors.
pub async fn fork<S: Store>(store: &S, source: &JobRef, asked: ForkOrder) -> Result<Forked, OutsideError> {
    match Box::pin(fork_once(store, source, &asked)).await {
        // The same request may have come a moment earlier, and the other job gone on between the two: this time its place
        // is found.
        Err(OutsideError::OtherRequest) => Box::pin(fork_once(store, source, &asked)).await,
        answered => answered,
    }
}

async fn fork_once<S: Store>(store: &S, source: &JobRef, asked: &ForkOrder) -> Result<Forked, OutsideError> {
    let found = store.job(source).await?.ok_or(OutsideError::NoJob)?;
    let batches = store.journal(source.job, Seq::FIRST).await?;
    let journal = Journal::read(batches.iter().cloned())?;
    let made = Box::pin(made(store, source, asked.id)).await?;
    let known = made.as_ref().map(|(known, _)| known);
    let fork = place(source, asked, known, &batches, &journal)?;
    let kept = fork::kept(&batches, &fork)?;
    let repeats = fork::repeats(&batches, &kept);
    // A fork that is there has been allowed, whatever the other job has done since: a repeated request is answered with it.
    if !asked.repeat_effects && known != Some(&fork) {
        let once = repeats.iter().filter(|id| id.kind == StepKind::EffectOnce);
        let once: Vec<String> = once.map(|id| id.name.clone()).collect();
        if !once.is_empty() {
            return Err(OutsideError::Repeats { effects: once });
        }
    }
    let mut wanted = order(journal.edited(&found.order), &fork, asked);
    if let Some((_, made)) = made.filter(|(known, made)| *known == fork && !made.asks_the_same(&wanted)) {
        wanted = earlier(&found, &batches)?
            .into_iter()
            .map(|source| order(source, &fork, asked))
            .find(|earlier| made.asks_the_same(earlier))
            .unwrap_or(wanted);
    }
    let accepted = Box::pin(submit(store, wanted)).await?;
    Ok(Forked { accepted, kept: count(&kept), repeats })
}

fn count(kept: &[Kept]) -> u64 {
    u64::try_from(kept.len()).unwrap_or(u64::MAX)
}

/// Where the fork begins. The other job may go on, so the place is made a position here, once: a request that is repeated
/// finds the place of its first time.
fn place(
    source: &JobRef,
    asked: &ForkOrder,
    known: Option<&Fork>,
    batches: &[Batch],
    journal: &Journal,
) -> Result<Fork, OutsideError> {
    let at = |at: Seq| Fork { job: source.job, at, without_failures: false };
    match &asked.from {
        ForkPoint::LastGood => match known.filter(|known| known.without_failures) {
            Some(known) => Ok(known.clone()),
            None => Ok(Fork { without_failures: true, ..at(journal.next()) }),
        },
        ForkPoint::Position(seq) if *seq >= Seq::FIRST && *seq <= journal.next() => Ok(at(*seq)),
        ForkPoint::Position(_) => Err(OutsideError::NoPosition),
        // The step may have been done anew since.
        ForkPoint::Step(step)
            if known.is_some_and(|known| !known.without_failures && stands_at(step, known.at, batches)) =>
        {
            known.cloned().ok_or(OutsideError::NoPosition)
        }
        ForkPoint::Step(step) => first_of(step, batches).map(at).ok_or(OutsideError::NoPosition),
    }
}

/// The fork that is there under this id already, of the same job: its place, and its order.
async fn made<S: Store>(store: &S, source: &JobRef, id: JobId) -> Result<Option<(Fork, Order)>, OutsideError> {
    let reference = JobRef { tenant: source.tenant.clone(), job: id };
    let order = store.job(&reference).await?.map(|job| job.order);
    Ok(order.and_then(|order| match &order.origin {
        Origin::Forked(fork) if fork.job == source.job => Some((fork.clone(), order)),
        Origin::Submitted | Origin::Forked(_) | Origin::Imported(_) => None,
    }))
}

/// What the other job was to do at any time: a replay may have changed it since a fork was made.
fn earlier(source: &Job, batches: &[Batch]) -> Result<Vec<Order>, OutsideError> {
    let mut journal = Journal::default();
    let mut orders = vec![source.order.clone()];
    for batch in batches {
        journal.take_in(batch.clone())?;
        if batch.entries.iter().any(|entry| matches!(entry, Entry::Replayed { .. })) {
            orders.push(journal.edited(&source.order));
        }
    }
    Ok(orders)
}

/// Whether an entry of this step stands at a position.
fn stands_at(step: &StepKey, at: Seq, batches: &[Batch]) -> bool {
    let entries = batches.iter().flat_map(|batch| (batch.at.0..).zip(&batch.entries));
    entries.filter(|(seq, _)| *seq == at.0).any(|(_, entry)| entry.step().is_some_and(|id| id.key == *step))
}

/// Where a step begins, behind the last replay that had it done again.
fn first_of(step: &StepKey, batches: &[Batch]) -> Option<Seq> {
    let (mut first, mut anew) = (None, true);
    for batch in batches {
        for (offset, entry) in (0_u64..).zip(&batch.entries) {
            let of_step = entry.step().is_some_and(|id| id.key == *step);
            if matches!(entry, Entry::Replayed { .. }) {
                // A step that is kept has no entry behind a replay; one that is done again has.
                anew = true;
            } else if of_step && anew {
                first = Some(batch.at.plus(offset));
                anew = false;
            }
        }
    }
    first
}

/// The fork's order, out of what the other job is to do.
fn order(mut order: Order, fork: &Fork, asked: &ForkOrder) -> Order {
    let Edit { input, budget, model, instructions } = asked.edit.clone();
    if let Some(input) = input {
        order.input = input;
    }
    if let Some(budget) = budget {
        order.budget = budget;
    }
    if matches!(order.origin, Origin::Imported(_)) {
        // Workers drive the fork: it must not stand in lists among those that nobody drives.
        order.labels.remove(Imported::LABEL);
    }
    order.overrides.model = model.or(order.overrides.model);
    order.overrides.instructions = instructions.or(order.overrides.instructions);
    Order {
        id: asked.id,
        origin: Origin::Forked(fork.clone()),
        // Whoever waits for the other job, or was to hear of its end, waits for that one.
        parent: None,
        webhook: None,
        webhook_events: Vec::new(),
        // A fork is tried beside the other job, not behind it.
        thread: None,
        traceparent: asked.traceparent.clone(),
        submitted_at: asked.now,
        submitted_by: asked.by.clone(),
        ..order
    }
}
