//! The agent's own future: polled by the drive loop, beside whatever else is awaited.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul_engine::journal::Ending;
use longhaul_engine::{ErrorClass, Failure};
use serde_json::Value;

use crate::error::Result as AgentResult;
use crate::shared::Shared;

/// The agent's own future, and how it ended if it did while something else was awaited.
pub(super) struct Driven {
    future: LocalBoxFuture<'static, AgentResult<Value>>,
    ended: Option<Ending>,
}

impl Driven {
    pub(super) fn new(future: LocalBoxFuture<'static, AgentResult<Value>>) -> Self {
        Self { future, ended: None }
    }

    /// Polls the agent once. A panic in it is its own failure and no other job's.
    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.ended.is_some() {
            return;
        }
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| self.future.poll_unpin(cx)));
        self.ended = match polled {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(Ok(output))) => Some(Ending::Completed { output }),
            Ok(Poll::Ready(Err(error))) => Some(Ending::Failed { failure: error.into_failure() }),
            Err(panic) => {
                let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
                let message = format!("the agent's code panicked: {said}");
                Some(Ending::Failed { failure: Failure::new(ErrorClass::Terminal, message) })
            }
        };
    }

    /// Polls until the agent has ended, asks for something, or rests with nothing running.
    pub(super) async fn until_something(&mut self, shared: &Shared) -> Polled {
        poll_fn(|cx| {
            self.poll(cx);
            if let Some(ending) = self.ended.take() {
                return Poll::Ready(Polled::Ended(ending));
            }
            if !shared.requests.borrow().is_empty() {
                return Poll::Ready(Polled::Requested);
            }
            let resting = shared.halted().is_some() || !shared.rests().is_empty();
            let closed = shared.is_closing() && !shared.is_settling();
            if (shared.is_idle() && resting) || closed { Poll::Ready(Polled::Resting) } else { Poll::Pending }
        })
        .await
    }

    /// Awaits `work` while the agent's other branches go on.
    pub(super) async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.poll(cx);
            Poll::Pending
        })
        .await
    }
}

/// Where polling the agent came to.
pub(super) enum Polled {
    /// It has ended.
    Ended(Ending),
    /// It asks for something.
    Requested,
    /// Nothing runs, and it rests or was halted.
    Resting,
    /// It has run for a while without asking for anything.
    Quiet,
    /// The invocation ends.
    OutOfTime,
}
