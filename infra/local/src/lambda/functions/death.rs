//! Word of the deaths of function processes, for those who have something to clear up after them.

use std::convert::Infallible;
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

/// How long an invocation waits for the followers of a death, all together. Longer than any database write on the same
/// machine takes, short against every recovery time that is promised.
const NOTED_WITHIN: Duration = Duration::from_secs(2);

/// A function process has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceDeath {
    /// The function.
    pub function: String,
    /// The process id that it had.
    pub pid: u32,
    /// The invocations that died with it.
    pub request_ids: Vec<String>,
    /// What ended it.
    pub cause: DeathCause,
}

/// What ended a function process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathCause {
    /// It exited by itself or somebody else's signal ended it.
    Exited(ExitStatus),
    /// It was killed because its invocation overran the function's timeout.
    TimedOut,
    /// It was killed because it could not start, or not in time.
    InitFailed,
    /// It was killed because nobody needed it.
    Idle,
    /// It was killed because the stack is going down.
    Shutdown,
}

/// A death, and the invocation's wait for you: the error is held back until this value is dropped.
#[derive(Debug)]
pub struct DeathNotice {
    /// What happened.
    pub death: InstanceDeath,
    _held: oneshot::Sender<Infallible>,
}

/// The followers of deaths.
#[derive(Debug, Default)]
pub(super) struct Deaths {
    followers: Mutex<Vec<mpsc::UnboundedSender<DeathNotice>>>,
}

impl Deaths {
    pub(super) fn subscribe(&self) -> mpsc::UnboundedReceiver<DeathNotice> {
        let (follower, notices) = mpsc::unbounded_channel();
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).push(follower);
        notices
    }

    /// Tells all followers and waits until they have taken note.
    pub(super) async fn announce(&self, death: &InstanceDeath) {
        let mut waits = Vec::new();
        self.followers.lock().unwrap_or_else(PoisonError::into_inner).retain(|follower| {
            let (held, noted) = oneshot::channel();
            let notice = DeathNotice { death: death.clone(), _held: held };
            waits.push(noted);
            follower.send(notice).is_ok()
        });
        let all = async {
            for noted in waits {
                // The sender carries nothing and is only ever dropped.
                let _dropped = noted.await;
            }
        };
        if tokio::time::timeout(NOTED_WITHIN, all).await.is_err() {
            tracing::warn!(function = death.function, pid = death.pid, "a follower of process deaths is too slow");
        }
    }
}
