//! What comes to a job from outside its worker: submission, signals, cancels, replays.
//!
//! All of them write to the same journal as the worker, by the same conditional put (protocol rules 6, 9 and 15). The
//! api calls these functions, and so does the worker for its child jobs.

use std::time::Duration;

use longhaul_engine::append::{OnConflict, on_outside_conflict};
use longhaul_engine::entry::Edit;
use longhaul_engine::ids::{Nonce, Seq, SignalKey, SignalName};
use longhaul_engine::job::{JobWrite, Order, Progress};
use longhaul_engine::journal::{Ending, FoldError, KeyKind};
use longhaul_engine::{Batch, Entry, Job, JobState, Journal, Timestamp, limits};
use serde_json::Value;
use uuid::Uuid;

use crate::store::{Append, Continuation, JobRef, Store, StoreError, Submit, Write};

/// Why something from outside was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// No such job of this tenant.
    #[error("there is no such job")]
    NoJob,
    /// The idempotency key belongs to a job that asked for something else.
    #[error("this idempotency key was used for a different request")]
    OtherRequest,
    /// The job has ended.
    #[error("the job has ended")]
    Ended,
    /// The job has taken in as much as it can.
    #[error("the job has taken in as many requests as a journal can hold")]
    Full,
    /// Only a job that failed or was cancelled can be replayed.
    #[error("only a job that FAILED or was CANCELLED can be replayed")]
    NotReplayable,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] FoldError),
}

/// A fresh mark for a write.
#[must_use]
pub fn fresh_nonce() -> Nonce {
    Nonce::from_uuid(Uuid::new_v4())
}

/// An accepted submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The job.
    pub job: Job,
    /// Whether it was there before this call.
    pub existed: bool,
}

/// Submits a job: one write, then one continuation. A repeated submission finds the first one, and sends again while
/// nobody has claimed the job, in case the first call died between write and send.
///
/// # Errors
/// [`OutsideError::OtherRequest`] when the id is taken by a different order; store errors.
pub async fn submit<S: Store>(store: &S, order: Order) -> Result<Accepted, OutsideError> {
    let job = Job::accepted(order, fresh_nonce());
    let reference = JobRef { tenant: job.order.tenant.clone(), job: job.order.id };
    match store.submit(&job).await? {
        Submit::Created => {
            call_up(store, &reference).await;
            Ok(Accepted { job, existed: false })
        }
        Submit::Exists(stored) => {
            if !stored.order.asks_the_same(&job.order) {
                return Err(OutsideError::OtherRequest);
            }
            if stored.progress.state == JobState::Pending {
                call_up(store, &reference).await;
            }
            let existed = stored.last_write != job.last_write;
            Ok(Accepted { job: *stored, existed })
        }
    }
}

/// Sends a continuation for what stands already. That it could not be sent is no reason to tell the caller that nothing
/// was done, since a repeated call would then do it twice: the job is due, and the sweeper sends instead.
async fn call_up<S: Store>(store: &S, job: &JobRef) {
    if let Err(error) = store.send(&Continuation::job(job.clone()), Duration::ZERO).await {
        tracing::warn!(job = %job.job, %error, "the continuation was not sent; the sweeper will send one");
    }
}

/// What was written, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenIn {
    /// Its position; none when its key had been taken in before.
    pub seq: Option<Seq>,
}

/// Sends a signal to a job that has not ended. The same key is taken in once.
///
/// # Errors
/// [`OutsideError::NoJob`], [`OutsideError::Ended`], store errors.
pub async fn signal<S: Store>(
    store: &S,
    job: &JobRef,
    signal: SignalName,
    key: SignalKey,
    payload: Value,
    by: String,
    now: Timestamp,
) -> Result<TakenIn, OutsideError> {
    let entry = Entry::Signalled { signal, key: key.clone(), payload, by };
    take_in(store, job, (KeyKind::Signal, &key), entry, now).await
}

/// Asks a job that has not ended to end.
///
/// # Errors
/// [`OutsideError::NoJob`], [`OutsideError::Ended`], store errors.
pub async fn cancel<S: Store>(
    store: &S,
    job: &JobRef,
    key: SignalKey,
    by: String,
    reason: Option<String>,
    now: Timestamp,
) -> Result<TakenIn, OutsideError> {
    let entry = Entry::CancelRequested { key: key.clone(), by, reason };
    take_in(store, job, (KeyKind::Cancel, &key), entry, now).await
}

async fn take_in<S: Store>(
    store: &S,
    job: &JobRef,
    (kind, key): (KeyKind, &SignalKey),
    entry: Entry,
    now: Timestamp,
) -> Result<TakenIn, OutsideError> {
    store.job(job).await?.ok_or(OutsideError::NoJob)?;
    let (seq, _) = write_outside(store, job, now, |journal| {
        if journal.has_key(kind, key) {
            return Ok(None);
        }
        match journal.ending() {
            Some(_) => Err(OutsideError::Ended),
            None if !journal.has_room_for_requests() => Err(OutsideError::Full),
            None => Ok(Some(entry.clone())),
        }
    })
    .await?;
    // Also when the key was known: the first call may have died before it woke the job. And when it fails, what was
    // written stands: a look at the due time finds it.
    if let Err(error) = store.wake(job, now).await {
        tracing::warn!(job = %job.job, %error, "the job was not woken; its due time will");
    }
    call_up(store, job).await;
    Ok(TakenIn { seq })
}

/// Opens a failed or cancelled job again with the changes that a person made. Outcomes from `from` on are forgotten;
/// without it only failed ones are, so that the job goes on from its last good step.
///
/// # Errors
/// [`OutsideError::NoJob`], [`OutsideError::NotReplayable`], store errors.
pub async fn replay<S: Store>(
    store: &S,
    job: &JobRef,
    key: SignalKey,
    by: String,
    from: Option<Seq>,
    edit: Edit,
    now: Timestamp,
) -> Result<TakenIn, OutsideError> {
    let stored = store.job(job).await?.ok_or(OutsideError::NoJob)?;
    let (seq, over) = write_outside(store, job, now, |journal| {
        if journal.has_key(KeyKind::Replay, &key) {
            return Ok(None);
        }
        match journal.ending() {
            Some(Ending::Failed { .. } | Ending::Cancelled { .. }) => {
                Ok(Some(Entry::Replayed { key: key.clone(), by: by.clone(), from, edit: edit.clone() }))
            }
            // An earlier replay wrote its entry and died before it opened the job item: finish that one.
            None if stored.progress.state.is_terminal() => Ok(None),
            Some(Ending::Completed { .. }) | None => Err(OutsideError::NotReplayable),
        }
    })
    .await?;
    if seq.is_none() && over {
        // This very replay was made and has ended again: a late repetition opens nothing.
        return Ok(TakenIn { seq: None });
    }
    // First the count, then the look: a worker that is about to write the old ending into the item is refused by the
    // count if the look came too early to see its write.
    store.wake(job, now).await?;
    reopen(store, job, now).await?;
    call_up(store, job).await;
    Ok(TakenIn { seq })
}

/// Brings a terminal job item in line with a journal that was opened again.
async fn reopen<S: Store>(store: &S, job: &JobRef, now: Timestamp) -> Result<(), OutsideError> {
    let mut stored = store.job(job).await?.ok_or(OutsideError::NoJob)?;
    while stored.progress.state.is_terminal() {
        let write = JobWrite {
            nonce: fresh_nonce(),
            last_write: stored.last_write,
            wakes: None,
            progress: Progress {
                state: JobState::Pending,
                attempts: 0,
                due: Some(now.plus(Duration::from_millis(limits::CONTINUATION_DUE_MS))),
                updated_at: now,
                ..stored.progress.clone()
            },
        };
        match store.write_job(job, &write).await? {
            Write::Written { .. } => break,
            Write::Refused(other) => stored = *other,
        }
    }
    Ok(())
}

/// Appends what `decide` makes of the journal as it is, deciding again whenever somebody else was first. The position;
/// without one, whether the job has ended.
async fn write_outside<S: Store>(
    store: &S,
    job: &JobRef,
    now: Timestamp,
    decide: impl Fn(&Journal) -> Result<Option<Entry>, OutsideError>,
) -> Result<(Option<Seq>, bool), OutsideError> {
    let mut journal = Journal::read(store.journal(job.job, Seq::FIRST).await?)?;
    loop {
        let Some(entry) = decide(&journal)? else { return Ok((None, journal.ending().is_some())) };
        let batch = Batch::new(journal.next(), fresh_nonce(), now, vec![entry]);
        match store.append(job, &batch).await? {
            Append::Written => return Ok((Some(batch.at), false)),
            Append::Conflict(found) => match on_outside_conflict(batch.nonce, &found) {
                OnConflict::Own => return Ok((Some(batch.at), false)),
                OnConflict::Reconsider | OnConflict::Stop(_) => journal.take_in(*found)?,
            },
        }
    }
}
