//! A dead letter that a person sent back with the console's "start DLQ redrive": they want the job to go on.
//!
//! The letter's own key makes one replay of however many deliveries, and says in the journal that it came by this way.

use longhaul::engine::Timestamp;
use longhaul::engine::entry::Edit;
use longhaul::engine::job::{JobState, Origin};
use longhaul::outside::{self, OutsideError};
use longhaul::store::{JobRef, Store};
use longhaul_aws::sqs::DeadLetter;

/// Who replayed, as the journal tells it: the console does not say which person it was.
const BY: &str = "queue redrive";

/// Replays the job of a dead letter from its last good step. One that has gone on or ended otherwise since is left
/// alone: the letter is old news.
pub(crate) async fn replay<S: Store>(
    store: &S,
    job: &JobRef,
    letter: &DeadLetter,
    now: Timestamp,
) -> Result<(), OutsideError> {
    let Some(stored) = store.job(job).await? else {
        tracing::warn!("a dead letter whose job is gone");
        return Ok(());
    };
    if matches!(stored.order.origin, Origin::Imported(_)) {
        tracing::info!("a dead letter of an imported job, which no worker drives");
        return Ok(());
    }
    match stored.progress.state {
        // `outside::replay` would open a cancelled job as well. Whoever cancelled it came after the letter.
        JobState::Completed | JobState::Cancelled => {
            tracing::info!("a dead letter whose job has ended otherwise since");
            return Ok(());
        }
        // The item may lag behind a failure that stands in the journal: that decides.
        JobState::Failed
        | JobState::Pending
        | JobState::Processing { .. }
        | JobState::Waiting { .. }
        | JobState::Blocked { .. } => {}
    }
    let replayed =
        outside::replay(store, job, letter.replay_key.clone(), BY.to_owned(), None, Edit::default(), now).await;
    match replayed {
        Ok(taken) => {
            tracing::info!(seq = taken.seq.map(|seq| seq.0), "replayed by queue redrive");
            Ok(())
        }
        Err(
            OutsideError::NoJob
            | OutsideError::NotReplayable
            | OutsideError::Ended
            | OutsideError::OtherRequest
            | OutsideError::NoPosition
            | OutsideError::Repeats { .. }
            | OutsideError::ThreadBusy { .. }
            | OutsideError::ThreadFull,
        ) => {
            tracing::info!("a dead letter whose job has gone on since");
            Ok(())
        }
        Err(error @ (OutsideError::Full | OutsideError::Store(_) | OutsideError::Journal(_))) => Err(error),
    }
}
