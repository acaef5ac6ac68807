//! Runs a reader of hostile files on a thread of its own, so that its panic or endless loop stays its own.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::limits::READER_STACK_BYTES;

/// How a guarded reader can fail beyond what it reports itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// It panicked; the message went to standard error under the thread's name.
    Panicked,
    /// It did not answer in time. Its thread cannot be stopped and runs on until it ends by itself.
    TimedOut,
    /// The system gave no thread.
    NoThread,
}

/// The outcome of `work`, run on a thread named after the file it reads, waiting no longer than `at_most`.
pub(super) fn guarded<T: Send + 'static>(
    name: &str,
    at_most: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = sync_channel(1);
    // A NUL in a thread's name is refused by the system.
    let label = format!("reading {}", name.replace('\0', ""));
    let spawned = thread::Builder::new().name(label).stack_size(READER_STACK_BYTES).spawn(move || {
        // The receiver is gone when the caller has given up waiting: then nobody wants the outcome.
        let _ = sender.send(work());
    });
    if spawned.is_err() {
        return Err(Failure::NoThread);
    }
    receiver.recv_timeout(at_most).map_err(|error| match error {
        RecvTimeoutError::Timeout => Failure::TimedOut,
        // A sender that is dropped without having sent was unwound by a panic.
        RecvTimeoutError::Disconnected => Failure::Panicked,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)] // The panic is the thing under test.

    use super::*;

    #[test]
    fn a_reader_that_panics_or_hangs_is_an_outcome_for_the_caller() {
        let at_most = Duration::from_secs(20);
        assert_eq!(guarded("good", at_most, || 7), Ok(7));
        assert_eq!(guarded("bad\0name", at_most, || -> u8 { panic!("expected in this test") }), Err(Failure::Panicked));
        let (hold, held) = sync_channel::<()>(0);
        let outcome = guarded("slow", Duration::from_millis(20), move || held.recv().is_ok());
        assert_eq!(outcome, Err(Failure::TimedOut));
        drop(hold);
    }
}
