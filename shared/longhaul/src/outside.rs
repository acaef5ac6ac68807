//! What comes to a job from outside its worker: submission, signals, cancels, replays.
//!
//! All of them write to the same journal as the worker, by the same conditional put (protocol rules 6, 9 and 15). The
//! api calls these functions, and so does the worker for its child jobs.

use std::time::Duration;

use longhaul_engine::append::{OnConflict, on_outside_conflict};
use longhaul_engine::entry::Edit;
use longhaul_engine::ids::{Nonce, Seq, SignalKey, SignalName};
use longhaul_engine::job::{JobWrite, Order, Origin, Progress};
use longhaul_engine::journal::{Ending, FoldError};
use longhaul_engine::{Batch, Entry, Job, JobId, JobState, Journal, Timestamp, limits};
use serde_json::Value;
use uuid::Uuid;

use crate::store::{Append, Continuation, JobRef, Store, StoreError, Submit, Woken, Write};
use crate::thread;

/// Why something from outside was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// No such job of this tenant.
    #[error("there is no such job")]
    NoJob,
    /// The idempotency key was given for something else before.
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
    /// The journal of the job to be forked has no such position or step.
    #[error("the job has no such position or step")]
    NoPosition,
    /// A fork would do again what may happen once at most.
    #[error("effects that may happen once at most would be done again: {}", effects.join(", "))]
    Repeats {
        /// Their names.
        effects: Vec<String>,
    },
    /// Another job of the thread has not ended, and the submission would not wait.
    #[error("job {by} of the thread has not ended")]
    ThreadBusy {
        /// The job in the way.
        by: JobId,
    },
    /// Too many jobs of the thread have not ended.
    #[error("{} jobs of the thread have not ended", limits::THREAD_PLACES_MAX)]
    ThreadFull,
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
/// [`OutsideError::OtherRequest`] when the id is taken by a different order; [`OutsideError::ThreadBusy`] and
/// [`OutsideError::ThreadFull`] of its thread; store errors.
pub async fn submit<S: Store>(store: &S, order: Order) -> Result<Accepted, OutsideError> {
    let job = Job::accepted(order, fresh_nonce());
    let submitted = match &job.order.thread {
        None => store.submit(&job).await?,
        Some(thread) => Box::pin(thread::submit(store, &job, thread)).await?,
    };
    match submitted {
        Submit::Created => {
            call_up(store, &Continuation::of(&job.order)).await;
            Ok(Accepted { job, existed: false })
        }
        Submit::Exists(stored) => {
            if !stored.order.asks_the_same(&job.order) {
                return Err(OutsideError::OtherRequest);
            }
            if stored.progress.state == JobState::Pending {
                call_up(store, &Continuation::of(&stored.order)).await;
            }
            let existed = stored.last_write != job.last_write;
            Ok(Accepted { job: *stored, existed })
        }
    }
}

/// Sends a continuation for what stands already. That it could not be sent is no reason to tell the caller that nothing
/// was done, since a repeated call would then do it twice: the job is due, and the sweeper sends instead.
pub(crate) async fn call_up<S: Store>(store: &S, continuation: &Continuation) {
    if let Err(error) = store.send(continuation, Duration::ZERO).await {
        tracing::warn!(?continuation, %error, "the continuation was not sent; the sweeper will send one");
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
/// [`OutsideError::NoJob`], [`OutsideError::Ended`], [`OutsideError::OtherRequest`] when the key came with another
/// signal or payload before, store errors.
pub async fn signal<S: Store>(
    store: &S,
    job: &JobRef,
    signal: SignalName,
    key: SignalKey,
    payload: Value,
    by: String,
    now: Timestamp,
) -> Result<TakenIn, OutsideError> {
    take_in(store, job, Entry::Signalled { signal, key, payload, by }, now).await
}

/// Asks a job that has not ended to end. The same key is taken in once.
///
/// # Errors
/// [`OutsideError::NoJob`], [`OutsideError::Ended`], [`OutsideError::OtherRequest`] when the key came with another reason
/// before, store errors.
pub async fn cancel<S: Store>(
    store: &S,
    job: &JobRef,
    key: SignalKey,
    by: String,
    reason: Option<String>,
    now: Timestamp,
) -> Result<TakenIn, OutsideError> {
    take_in(store, job, Entry::CancelRequested { key, by, reason }, now).await
}

async fn take_in<S: Store>(store: &S, job: &JobRef, entry: Entry, now: Timestamp) -> Result<TakenIn, OutsideError> {
    let stored = store.job(job).await?.ok_or(OutsideError::NoJob)?;
    let stands = write_outside(store, job, now, &entry, |journal| match journal.ending() {
        Some(_) => Err(OutsideError::Ended),
        None if !journal.has_room_for_requests() => Err(OutsideError::Full),
        None => Ok(Move::Append),
    })
    .await?;
    // Also when the key was known: the first call may have died before it woke the job.
    match store.wake(job, now).await {
        Ok(Woken::Open) => {}
        Ok(Woken::Ended) => reopen(store, job, now).await?,
        // Nobody comes to an ended item by its due time, so that the caller has to come again.
        Err(error) if stored.progress.state.is_terminal() => return Err(error.into()),
        // What was written stands: a look at the due time finds it.
        Err(error) => tracing::warn!(job = %job.job, %error, "the job was not woken; its due time will"),
    }
    call_up(store, &Continuation::of(&stored.order)).await;
    Ok(stands.taken_in())
}

/// Opens a failed or cancelled job again with the changes that a person made. Outcomes from `from` on are forgotten;
/// without it only failed ones are, so that the job goes on from its last good step.
///
/// # Errors
/// [`OutsideError::NoJob`], [`OutsideError::NotReplayable`] also when another replay, with other changes, has just opened the
/// job; [`OutsideError::NoPosition`] when the journal does not reach to `from`, [`OutsideError::OtherRequest`] when the key
/// came with other changes before, store errors.
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
    let imported = matches!(stored.order.origin, Origin::Imported(_));
    let entry = Entry::Replayed { key, by, from, edit };
    let append = |journal: &Journal| match from {
        Some(from) if from > journal.next() => Err(OutsideError::NoPosition),
        Some(_) | None => Ok(Move::Append),
    };
    let stands = write_outside(store, job, now, &entry, |journal| match journal.ending() {
        Some(Ending::Failed { .. } | Ending::Cancelled { .. }) => append(journal),
        // An earlier replay wrote its entry and died before it opened the job item: finish that one.
        None if stored.progress.state.is_terminal() => Ok(Move::Nothing),
        // One that came as a file is there to be tried out.
        Some(Ending::Completed { .. }) | None if imported => append(journal),
        Some(Ending::Completed { .. }) | None => Err(OutsideError::NotReplayable),
    })
    .await?;
    if matches!(stands, Stands::Known { over: true }) {
        // This very replay was made and has ended again: a late repetition opens nothing.
        return Ok(stands.taken_in());
    }
    // First the count, then the look: a worker that is about to write the old ending into the item is refused by the
    // count if the look came too early to see its write.
    match store.wake(job, now).await? {
        Woken::Open => {}
        Woken::Ended => reopen(store, job, now).await?,
    }
    call_up(store, &Continuation::of(&stored.order)).await;
    match stands {
        Stands::Written(_) | Stands::Known { .. } | Stands::Otherwise { same: true } => Ok(stands.taken_in()),
        // Whether that replay died halfway or is at work beside this one cannot be told: it is finished either way. But
        // what this caller wants to be changed is not, and must not be told that it is.
        Stands::Otherwise { same: false } => Err(OutsideError::NotReplayable),
    }
}

/// Brings a terminal job item in line with a journal that was opened again, whoever did so: one that died before it opened
/// the item leaves those waiting who send something to the journal. An item whose journal has ended stays as it is.
async fn reopen<S: Store>(store: &S, job: &JobRef, now: Timestamp) -> Result<(), OutsideError> {
    let mut stored = store.job(job).await?.ok_or(OutsideError::NoJob)?;
    while stored.progress.state.is_terminal() {
        let journal = Journal::read(store.journal(job.job, Seq::FIRST).await?)?;
        if journal.ending().is_some() {
            break;
        }
        let write = JobWrite {
            nonce: fresh_nonce(),
            last_write: stored.last_write,
            wakes: None,
            progress: Progress {
                state: JobState::Pending,
                attempts: 0,
                due: Some(now.plus(Duration::from_millis(limits::CONTINUATION_DUE_MS))),
                // Whoever claims the job from here on knows of the replay.
                tail: journal.next(),
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

/// What is done about a request from outside whose key is new.
enum Move {
    /// Its entry is appended.
    Append,
    /// Nothing: one of its kind stands already, under another key.
    Nothing,
}

/// What of a request stands in the journal.
#[derive(Debug, Clone, Copy)]
enum Stands {
    /// Its entry, written now.
    Written(Seq),
    /// Its entry, from before.
    Known {
        /// Whether the job has ended.
        over: bool,
    },
    /// One of its kind, under another key.
    Otherwise {
        /// Whether that one asks for the same.
        same: bool,
    },
}

impl Stands {
    const fn taken_in(self) -> TakenIn {
        match self {
            Self::Written(seq) => TakenIn { seq: Some(seq) },
            Self::Known { .. } | Self::Otherwise { .. } => TakenIn { seq: None },
        }
    }
}

/// Appends the entry of a request unless its key was taken in before, or `decide` says otherwise of the journal as it is;
/// decides again whenever somebody else was first.
async fn write_outside<S: Store>(
    store: &S,
    job: &JobRef,
    now: Timestamp,
    entry: &Entry,
    decide: impl Fn(&Journal) -> Result<Move, OutsideError>,
) -> Result<Stands, OutsideError> {
    let batches = store.journal(job.job, Seq::FIRST).await?;
    let mut earlier = Earlier::default().then(batches.iter().flat_map(|batch| &batch.entries), entry)?;
    let mut journal = Journal::read(batches)?;
    loop {
        if earlier.known {
            return Ok(Stands::Known { over: journal.ending().is_some() });
        }
        match decide(&journal)? {
            Move::Append => {}
            Move::Nothing => return Ok(Stands::Otherwise { same: earlier.last_replay_is_the_same }),
        }
        let batch = Batch::new(journal.next(), fresh_nonce(), now, vec![entry.clone()]);
        match store.append(job, &batch).await? {
            Append::Written => return Ok(Stands::Written(batch.at)),
            Append::Conflict(found) => match on_outside_conflict(batch.nonce, &found) {
                OnConflict::Own => return Ok(Stands::Written(batch.at)),
                OnConflict::Reconsider | OnConflict::Stop(_) => {
                    earlier = earlier.then(&found.entries, entry)?;
                    journal.take_in(*found)?;
                }
            },
        }
    }
}

/// What a journal's entries say about a request.
#[derive(Debug, Clone, Copy, Default)]
struct Earlier {
    /// Whether they hold the request itself, by its key.
    known: bool,
    /// Whether the last replay among them asks for the same, under whatever key.
    last_replay_is_the_same: bool,
}

impl Earlier {
    /// The same with the entries that follow.
    ///
    /// # Errors
    /// [`OutsideError::OtherRequest`] when the request's key stands there for another request of the kind.
    fn then<'a>(mut self, entries: impl IntoIterator<Item = &'a Entry>, request: &Entry) -> Result<Self, OutsideError> {
        for entry in entries {
            match repeats(entry, request) {
                None => {}
                Some(true) => return Ok(Self { known: true, ..self }),
                Some(false) => return Err(OutsideError::OtherRequest),
            }
            if let (
                Entry::Replayed { from, edit, key: _, by: _ },
                Entry::Replayed { from: from_now, edit: edit_now, key: _, by: _ },
            ) = (entry, request)
            {
                self.last_replay_is_the_same = from == from_now && edit == edit_now;
            }
        }
        Ok(self)
    }
}

/// Whether an entry asks for the same as a request that has its key; none when the key or the kind is another. Who asks
/// does not count, as for a submission: the key is the tenant's.
fn repeats(entry: &Entry, request: &Entry) -> Option<bool> {
    match (entry, request) {
        (
            Entry::Signalled { signal, key, payload, by: _ },
            Entry::Signalled { signal: signal_now, key: key_now, payload: payload_now, by: _ },
        ) => (key == key_now).then(|| signal == signal_now && payload == payload_now),
        (
            Entry::CancelRequested { key, by: _, reason },
            Entry::CancelRequested { key: key_now, by: _, reason: reason_now },
        ) => (key == key_now).then(|| reason == reason_now),
        (
            Entry::Replayed { key, by: _, from, edit },
            Entry::Replayed { key: key_now, by: _, from: from_now, edit: edit_now },
        ) => (key == key_now).then(|| from == from_now && edit == edit_now),
        // The same key may stand for one of each kind.
        _ => None,
    }
}
