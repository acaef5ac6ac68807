//! The auditor: reads everything that is stored and everything that the far end was asked, and says which promise was
//! broken.

use std::collections::BTreeMap;

use longhaul::engine::entry::StepId;
use longhaul::engine::ids::SignalKey;
use longhaul::engine::journal::{Ending, KeyKind};
use longhaul::engine::limits::{CLAIM_ATTEMPTS_MAX, CRASHES_MAX};
use longhaul::engine::retry::RetryPolicy;
use longhaul::engine::{Batch, Entry, Epoch, ErrorClass, Failure, Job, JobId, JobState, Journal, Seq, StepKind};
use longhaul_sim::Snapshot;
use longhaul_sim::workshop::story;

use crate::agents::CHANGED_RAN;

/// What was taken in from outside, by the answer that its sender got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    /// The job.
    pub job: JobId,
    /// What.
    pub kind: KeyKind,
    /// Its idempotency key.
    pub key: SignalKey,
    /// Where it stands, if the sender was told.
    pub seq: Option<Seq>,
}

/// What a world has come to.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// What is stored.
    pub snapshot: &'a Snapshot,
    /// How often the far end was asked, by key.
    pub asked: &'a BTreeMap<String, u32>,
    /// What was acknowledged to people.
    pub acknowledged: &'a [Acknowledged],
    /// How many workers died or stood still.
    pub deaths: u64,
}

/// One entry with its place and its author.
struct Written<'a> {
    at: Seq,
    author: u64,
    entry: &'a Entry,
}

/// Reads the evidence.
///
/// # Errors
/// The first promise that was broken, with the job's story.
pub fn audit(evidence: &Evidence<'_>) -> Result<(), String> {
    let snapshot = evidence.snapshot;
    for (id, job) in &snapshot.jobs {
        let batches = snapshot.journals.get(id).map_or(&[] as &[Batch], Vec::as_slice);
        audit_job(evidence, job, batches).map_err(|broken| format!("job {id}: {broken}\n{}", story(snapshot, *id)))?;
    }
    if let Some(orphan) = snapshot.journals.keys().find(|id| !snapshot.jobs.contains_key(id)) {
        return Err(format!("a journal without a job: {orphan}"));
    }
    if evidence.asked.contains_key(CHANGED_RAN) {
        return Err(CHANGED_RAN.to_owned());
    }
    match snapshot.messages {
        0 => Ok(()),
        left => Err(format!("{left} messages are left in the queue")),
    }
}

fn audit_job(evidence: &Evidence<'_>, job: &Job, batches: &[Batch]) -> Result<(), String> {
    let journal = Journal::read(batches.to_vec()).map_err(|error| format!("the journal cannot be read: {error}"))?;
    let entries = written(evidence.snapshot, job.order.id, batches);
    item_agrees(job, &journal)?;
    fenced(&entries)?;
    nothing_acknowledged_is_lost(evidence, job.order.id, &entries)?;
    if let Some(Ending::Failed { failure }) = journal.ending() {
        failed_with_reason(failure, &entries, evidence.deaths)?;
        let letters = evidence.snapshot.dead_letters.iter();
        if !letters.clone().any(|letter| letter.job.job == job.order.id && letter.failure == *failure) {
            return Err("a failed job is not among the dead letters".to_owned());
        }
    }
    let asked = evidence.asked.iter().filter_map(|(key, times)| {
        let (of_job, step) = key.split_once('/')?;
        (of_job == job.order.id.to_string()).then_some((step, *times))
    });
    for (step, times) in asked {
        effect_is_bounded(step, times, &entries)?;
    }
    Ok(())
}

fn written<'a>(snapshot: &Snapshot, job: JobId, batches: &'a [Batch]) -> Vec<Written<'a>> {
    let of_batch = |batch: &'a Batch| {
        let author = snapshot.authors.get(&(job, batch.at)).copied().unwrap_or_default();
        (0..).zip(&batch.entries).map(move |(index, entry)| Written { at: batch.at.plus(index), author, entry })
    };
    batches.iter().flat_map(of_batch).collect()
}

/// The job item says what the journal says, and nobody needs to look after the job any more.
fn item_agrees(job: &Job, journal: &Journal) -> Result<(), String> {
    let agrees = match (journal.ending(), &job.progress.state) {
        (Some(Ending::Completed { .. }), JobState::Completed)
        | (Some(Ending::Failed { .. }), JobState::Failed)
        | (Some(Ending::Cancelled { .. }), JobState::Cancelled) => true,
        (_, _) => false,
    };
    if !agrees {
        return Err(format!("{:?} under the ending {:?}", job.progress.state, journal.ending()));
    }
    match job.progress.due {
        Some(due) => Err(format!("it has ended and is still due at {due:?}")),
        None => Ok(()),
    }
}

/// After `claimed{e}` nothing enters that was written by the driver of an epoch under e. Whose entry it is, the world
/// knows from the handle that wrote it: each invocation has one, and drives a job under one claim.
fn fenced(entries: &[Written<'_>]) -> Result<(), String> {
    let mut claim: Option<(Epoch, u64)> = None;
    for Written { at, author, entry } in entries {
        match entry {
            Entry::Claimed { epoch, .. } => {
                if claim.is_some_and(|(highest, _)| *epoch <= highest) {
                    return Err(format!("epoch {} at {at} does not rise", epoch.0));
                }
                claim = Some((*epoch, *author));
            }
            Entry::Signalled { .. } | Entry::CancelRequested { .. } | Entry::Replayed { .. } => {}
            // Written by a claimer that must not read the journal, so without a `claimed` of its own.
            Entry::Failed { failure } if failure.class == ErrorClass::WorkerLost => {}
            Entry::StepStarted { .. }
            | Entry::StepCompleted { .. }
            | Entry::AttemptFailed { .. }
            | Entry::StepFailed { .. }
            | Entry::Waiting { .. }
            | Entry::WaitEnded { .. }
            | Entry::Emitted { .. }
            | Entry::Forked { .. }
            | Entry::Completed { .. }
            | Entry::Failed { .. }
            | Entry::Cancelled { .. } => {
                if claim.is_none_or(|(_, driver)| driver != *author) {
                    return Err(format!("the entry at {at} was written by {author}, who does not hold {claim:?}"));
                }
            }
        }
    }
    Ok(())
}

fn nothing_acknowledged_is_lost(evidence: &Evidence<'_>, job: JobId, entries: &[Written<'_>]) -> Result<(), String> {
    for told in evidence.acknowledged.iter().filter(|told| told.job == job) {
        let found: Vec<Seq> = entries
            .iter()
            .filter(|written| match written.entry {
                Entry::Signalled { key, .. } => told.kind == KeyKind::Signal && *key == told.key,
                Entry::CancelRequested { key, .. } => told.kind == KeyKind::Cancel && *key == told.key,
                Entry::Replayed { key, .. } => told.kind == KeyKind::Replay && *key == told.key,
                _ => false,
            })
            .map(|written| written.at)
            .collect();
        if found.len() != 1 || told.seq.is_some_and(|seq| found != [seq]) {
            return Err(format!("{told:?} stands at {found:?}"));
        }
    }
    Ok(())
}

/// Crashes and faults alone never fail a job, but for as many crashes in a row as the contract names, and as many failed
/// attempts.
fn failed_with_reason(failure: &Failure, entries: &[Written<'_>], deaths: u64) -> Result<(), String> {
    match failure.class {
        ErrorClass::WorkerLost => worker_lost_with_reason(entries, deaths),
        ErrorClass::Refused | ErrorClass::Invalid => Ok(()),
        // A child that its parent's first end had cancelled ended when the parent was open again.
        ErrorClass::Terminal if failure.message.contains("cancelled") => Ok(()),
        class if class.is_retryable() => {
            let last_attempt = entries.iter().rev().find_map(|written| match written.entry {
                Entry::StepFailed { attempt, .. } => Some(*attempt),
                _ => None,
            });
            match last_attempt {
                Some(attempt) if attempt >= RetryPolicy::default().attempts_max => Ok(()),
                other => Err(format!("given up after attempt {other:?}: {failure:?}")),
            }
        }
        _ => Err(format!("failed without reason: {failure:?}")),
    }
}

fn worker_lost_with_reason(entries: &[Written<'_>], deaths: u64) -> Result<(), String> {
    let (mut in_row, mut highest, mut driver) = (0_u32, 0_u64, 0_u64);
    for written in entries {
        match written.entry {
            Entry::Claimed { epoch, takeover, .. } => {
                in_row = match (takeover, epoch.0 == highest + 1) {
                    (true, true) => in_row + 1,
                    (true, false) => 1,
                    (false, _) => 0,
                };
                (highest, driver) = (epoch.0, written.author);
            }
            Entry::StepCompleted { .. }
            | Entry::AttemptFailed { .. }
            | Entry::StepFailed { .. }
            | Entry::Waiting { .. }
            | Entry::WaitEnded { .. }
            | Entry::Emitted { .. }
            | Entry::Forked { .. }
            | Entry::Replayed { .. } => in_row = 0,
            Entry::StepStarted { .. }
            | Entry::Signalled { .. }
            | Entry::CancelRequested { .. }
            | Entry::Completed { .. }
            | Entry::Failed { .. }
            | Entry::Cancelled { .. } => {}
        }
    }
    // Deaths before anything could be appended leave no entry; whoever counted them has not claimed in the journal either.
    let unread = entries.last().is_some_and(|end| end.author != driver);
    match (in_row >= CRASHES_MAX, unread) {
        (true, _) => Ok(()),
        (false, true) if deaths > u64::from(CLAIM_ATTEMPTS_MAX) => Ok(()),
        (false, true | false) => Err(format!("lost after {in_row} crashes in a row, of {deaths} deaths in all")),
    }
}

/// Whether an entry speaks about a step, and whether it ends an attempt of it.
fn about(entry: &Entry) -> Option<(&StepId, bool)> {
    match entry {
        Entry::StepCompleted { id, .. } | Entry::AttemptFailed { id, .. } | Entry::StepFailed { id, .. } => {
            Some((id, true))
        }
        Entry::StepStarted { id }
        | Entry::Waiting { id, .. }
        | Entry::WaitEnded { id, .. }
        | Entry::Emitted { id, .. } => Some((id, false)),
        _ => None,
    }
}

/// The runs of an effect: one for each recorded attempt, one more for each claim since the effect could begin, one that
/// the job's end cut off, and one for each replay. An effect that is made at most once: one for each replay from before
/// it, and one.
fn effect_is_bounded(step: &str, times: u32, entries: &[Written<'_>]) -> Result<(), String> {
    let replays = count(entries, |written| matches!(written.entry, Entry::Replayed { .. }));
    let of_step = |written: &&Written<'_>| about(written.entry).is_some_and(|(id, _)| id.key.as_str() == step);
    let once =
        entries.iter().filter(of_step).any(|it| about(it.entry).is_some_and(|(id, _)| id.kind == StepKind::EffectOnce));
    let allowed = if once {
        1 + count(entries, |it| matches!(it.entry, Entry::Replayed { from: Some(_), .. }))
    } else {
        let attempts =
            entries.iter().filter(of_step).filter(|it| about(it.entry).is_some_and(|(_, ends)| ends)).count();
        let begins = entries
            .iter()
            .filter(|it| about(it.entry).is_some_and(|(id, _)| is_behind(step, id.key.as_str())))
            .map(|it| it.at)
            .next();
        // Without an outcome of its own, or forgotten by a replay: to the end.
        let outcome = |it: &&Written<'_>| matches!(it.entry, Entry::StepCompleted { .. } | Entry::StepFailed { .. });
        let over = entries.iter().rev().filter(of_step).find(outcome).map(|it| it.at).filter(|_| replays == 0);
        let claims = count(entries, |it| {
            matches!(it.entry, Entry::Claimed { .. })
                && begins.is_none_or(|begins| it.at > begins)
                && over.is_none_or(|over| it.at < over)
        });
        // The first claim is the one under which the first attempt was made anyway.
        let first = usize::from(begins.is_none());
        attempts + claims.saturating_sub(first) + replays + usize::from(over.is_none())
    };
    if times as usize > allowed {
        return Err(format!("the effect of step {step} ran {times} times, allowed are {allowed}"));
    }
    Ok(())
}

fn count(entries: &[Written<'_>], like: impl Fn(&Written<'_>) -> bool) -> usize {
    entries.iter().filter(|written| like(written)).count()
}

/// Whether the step at `key` can begin only behind one at `other`: that stands right before it, or before the fan-out
/// around it.
fn is_behind(key: &str, other: &str) -> bool {
    let (scope, position) = key.rsplit_once('.').map_or(("", key), |(scope, position)| (scope, position));
    let Ok(position) = position.parse::<u64>() else { return false };
    if position == 0 {
        // The first of its branch begins when the fan-out does.
        return scope.rsplit_once('[').is_some_and(|(fan_out, _)| is_behind(fan_out, other));
    }
    let before = if scope.is_empty() { format!("{}", position - 1) } else { format!("{scope}.{}", position - 1) };
    other == before || other.strip_prefix(&before).is_some_and(|rest| rest.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::is_behind;

    #[test]
    fn steps_stand_behind_each_other() {
        for (key, other, expected) in [
            ("3", "2", true),
            ("3", "2[0].1", true),
            ("3", "1", false),
            ("3", "22", false),
            ("3[1].0", "2", true),
            ("3[1].1", "3[1].0", true),
            ("3[1].1", "3[0].0", false),
            ("3[1].1", "3[1].0[4].2", true),
            ("0", "0", false),
            ("12", "1", false),
        ] {
            assert_eq!(is_behind(key, other), expected, "{key} {other}");
        }
    }
}
