//! Threads at work: a submission takes its place in the line, and whoever leaves the line calls up the next.
//!
//! What may happen is decided by `longhaul_engine::thread`; a job's own worker asks for its turn in `drive::turn`.

use std::time::Duration;

use longhaul_engine::ids::Seq;
use longhaul_engine::job::JobState;
use longhaul_engine::journal::FoldError;
use longhaul_engine::thread::{Joining, Line, LineWrite, OnBusy, Place, Thread, join};
use longhaul_engine::{Job, JobId, Journal, Timestamp, limits};

use crate::drive::DriveError;
use crate::outside::{OutsideError, call_up, fresh_nonce};
use crate::store::{Continuation, InLine, JobRef, LineWritten, Store, StoreError, Submit, ThreadRef};

/// Submits a job of a thread: the job and its place are stored together, or neither.
pub(crate) async fn submit<S: Store>(store: &S, job: &Job, thread: &Thread) -> Result<Submit, OutsideError> {
    let at = ThreadRef { tenant: job.order.tenant.clone(), thread: thread.id.clone() };
    let mut line = store.line(&at).await?;
    loop {
        let busy = match thread.on_busy {
            OnBusy::Reject => first_open(store, &at, &line).await?,
            OnBusy::Enqueue | OnBusy::Interrupt => None,
        };
        let now = job.order.submitted_at;
        let refused = match join(&line, job.order.id, thread.on_busy, busy, fresh_nonce(), now) {
            Joining::Join(write) => match store.submit_in_line(job, &at, &write).await? {
                InLine::Submit(submit) => return Ok(submit),
                InLine::Refused(found) => {
                    line = found;
                    continue;
                }
            },
            Joining::Busy { by } => OutsideError::ThreadBusy { by },
            Joining::Full => OutsideError::ThreadFull,
        };
        // A submission that is sent again finds its job, whatever is in the line by now: most of all itself.
        let itself = JobRef { tenant: at.tenant, job: job.order.id };
        return match store.job(&itself).await? {
            Some(stored) => Ok(Submit::Exists(Box::new(stored))),
            None => Err(refused),
        };
    }
}

/// The first job of a line whose item has not ended. Those before it will be taken out by whoever stands behind them.
async fn first_open<S: Store>(store: &S, at: &ThreadRef, line: &Line) -> Result<Option<JobId>, StoreError> {
    for place in &line.places {
        match seen(store, &JobRef { tenant: at.tenant.clone(), job: place.job }).await? {
            Some(job) if !job.progress.state.is_terminal() => return Ok(Some(place.job)),
            Some(_) | None => {}
        }
    }
    Ok(None)
}

/// A job of a line; none when it has expired, was erased, or cannot be read: nobody will drive that one, and neither a
/// thread nor another job's end must stand still for it.
async fn seen<S: Store>(store: &S, job: &JobRef) -> Result<Option<Job>, StoreError> {
    match store.job(job).await {
        Err(error @ StoreError::Corrupt { .. }) => {
            tracing::error!(job = %job.job, %error, "a job cannot be read; its thread goes on without it");
            Ok(None)
        }
        read => read,
    }
}

/// Whether the turn of a place is over. An item that has not ended is looked after by itself, so that its journal needs
/// no look; an item that has ended may have been opened again meanwhile.
///
/// # Errors
/// Store errors, and a journal of a newer version.
pub(crate) async fn is_over<S: Store>(store: &S, at: &ThreadRef, place: Place) -> Result<bool, DriveError> {
    let reference = JobRef { tenant: at.tenant.clone(), job: place.job };
    match seen(store, &reference).await? {
        None => return Ok(true),
        Some(job) if !job.progress.state.is_terminal() => return Ok(false),
        Some(_) => {}
    }
    match Journal::read(store.journal(place.job, Seq::FIRST).await?) {
        Ok(journal) => Ok(place.is_over(journal.replays(), journal.ending().is_some())),
        Err(source @ FoldError::Newer { .. }) => Err(DriveError::Journal { job: place.job, source }),
        Err(error) => {
            // Nobody can drive it any more, and a thread must not stand still for that.
            tracing::error!(job = %place.job, %error, "a job's journal cannot be read; its thread goes on without it");
            Ok(true)
        }
    }
}

/// Makes a write of a line, and calls up the job that has its turn by it, unless that is `but` (who knows already).
/// None: it went through; otherwise the line as it is.
pub(crate) async fn write<S: Store>(
    store: &S,
    at: &ThreadRef,
    line: &Line,
    write: &LineWrite,
    but: JobId,
    now: Timestamp,
) -> Result<Option<Line>, StoreError> {
    match store.write_line(at, write).await? {
        LineWritten::Refused(found) => Ok(Some(found)),
        LineWritten::Written => {
            if write.places.first() != line.places.first() {
                call(store, at, &write.places, but, now).await?;
            }
            Ok(None)
        }
    }
}

/// Calls up the first job of these places that has not ended, unless it is `but`. Its due time is moved nearer first,
/// should the message be lost. It takes out itself what is over in front of it.
pub(crate) async fn call<S: Store>(
    store: &S,
    at: &ThreadRef,
    places: &[Place],
    but: JobId,
    now: Timestamp,
) -> Result<(), StoreError> {
    for place in places.iter().take_while(|place| place.job != but) {
        let reference = JobRef { tenant: at.tenant.clone(), job: place.job };
        let job = match seen(store, &reference).await {
            Ok(Some(job)) => job,
            Ok(None) => continue,
            // A newer worker drives it, and needs no more than the message.
            Err(StoreError::Newer { .. }) => {
                call_up(store, &Continuation::job(reference)).await;
                break;
            }
            Err(error) => return Err(error),
        };
        if job.progress.state.is_terminal() {
            continue;
        }
        let soon = now.plus(Duration::from_millis(limits::CONTINUATION_DUE_MS));
        if let (JobState::Pending, Some(seen)) = (&job.progress.state, job.progress.due)
            && seen > soon
        {
            // Refused, somebody else has moved it, or the job is claimed by now.
            store.move_due(&reference, seen, soon).await?;
        }
        call_up(store, &Continuation::of(&job.order)).await;
        break;
    }
    Ok(())
}
