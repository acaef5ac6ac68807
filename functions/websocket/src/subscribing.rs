//! A new subscription: first what has happened, then what happens.

use longhaul_aws::telemetry::chain;
use std::time::Duration;

use longhaul::engine::{Batch, JobId, Seq};
use longhaul::store::{JobRef, Store, StoreError};
use longhaul_aws::connections::{Asked, Connection, Wish};
use longhaul_wire::socket::ServerMessage;
use longhaul_wire::{Event, Problem};

use crate::clients::{Refusal, unavailable};
use crate::delivery::Delivered;
use crate::{Time, WebSocket};

/// How long one subscription may take to catch up. The gateway waits 29 s for the function and then tells the client
/// of an error, while the function would go on.
const CATCH_UP_SECONDS_MAX: u64 = 25;

impl WebSocket {
    /// Subscribes a connection to a job and sends it everything behind `after`.
    ///
    /// The subscription is written before the journal is read: whatever is appended between the two is sent by both
    /// sides, and by position a client takes it once. The other way round it would be sent by neither.
    ///
    /// The answer comes behind those events and names the last of them: everything up to there has been sent, and what
    /// follows is behind it.
    ///
    /// What is asked here may be overtaken by what the client asks later. The answer tells what holds.
    pub(crate) async fn subscribe(
        &self,
        connection: &Connection,
        job: JobId,
        wish: Wish,
        asked_ms: u64,
        time: Time,
    ) -> Result<ServerMessage, Refusal> {
        let reference = JobRef { tenant: connection.tenant.clone(), job };
        let failed = |error: StoreError| not_done(&reference, &error);
        if self.store.job(&reference).await.map_err(failed)?.is_none() {
            return Err(Refusal::about(job, Problem::NoSuchJob { job: job.to_string() }));
        }
        let after = wish.after.0;
        if self.store.ask(connection, &reference, Asked::to_hear(wish, asked_ms)).await.map_err(failed)?.is_none() {
            return Ok(ServerMessage::Unsubscribed { job });
        }
        let (let_in, batches) =
            futures::join!(self.refuse_while_erasing(&reference.tenant), self.store.journal(job, Seq(after).plus(1)));
        if let Err(problem) = let_in {
            self.store.forget_subscription(&connection.id, job).await.map_err(failed)?;
            return Err(Refusal::about(job, problem));
        }
        let batches = batches.map_err(failed)?;
        let limit = time.left().min(Duration::from_secs(CATCH_UP_SECONDS_MAX));
        match tokio::time::timeout(limit, self.catch_up(&connection.id, job, after, &batches)).await {
            Ok(CaughtUp::To(last)) => match self.store.asked_last(&connection.id, job).await.map_err(failed)? {
                Some(_) => Ok(ServerMessage::Subscribed { job, after: last }),
                None => Ok(ServerMessage::Unsubscribed { job }),
            },
            Ok(CaughtUp::Closed) => Err(Refusal::Closed),
            // A subscription with a hole in front would never be whole again. The client asks anew with what it has.
            Ok(CaughtUp::TooSlow) | Err(_) => {
                self.store.ask(connection, &reference, Asked::no_more(asked_ms)).await.map_err(failed)?;
                Err(Refusal::about(job, unavailable()))
            }
        }
    }

    /// Ends a connection's subscription to a job; what holds then.
    pub(crate) async fn unsubscribe(
        &self,
        connection: &Connection,
        job: JobId,
        asked_ms: u64,
    ) -> Result<ServerMessage, Refusal> {
        let reference = JobRef { tenant: connection.tenant.clone(), job };
        let failed = |error: StoreError| not_done(&reference, &error);
        // Only a job that is there can be subscribed to later than this: of no other anything need be remembered.
        if self.store.order_without_input(&reference).await.map_err(failed)?.is_none() {
            self.store.forget_subscription(&connection.id, job).await.map_err(failed)?;
            return Ok(ServerMessage::Unsubscribed { job });
        }
        match self.store.ask(connection, &reference, Asked::no_more(asked_ms)).await.map_err(failed)? {
            None => Ok(ServerMessage::Unsubscribed { job }),
            Some(later) => Ok(ServerMessage::Subscribed { job, after: later.after.0 }),
        }
    }

    /// Sends the events of a journal behind `after`, in order.
    async fn catch_up(&self, connection: &str, job: JobId, after: u64, batches: &[Batch]) -> CaughtUp {
        let mut last = after;
        for batch in batches {
            for event in Event::of_batch(job, batch) {
                let seq = event.sequence.0;
                if seq <= last {
                    continue;
                }
                match self.tell(connection, &ServerMessage::event(event)).await {
                    Delivered::Done => last = seq,
                    Delivered::Closed => return CaughtUp::Closed,
                    Delivered::GivenUp => return CaughtUp::TooSlow,
                }
            }
        }
        CaughtUp::To(last)
    }
}

fn not_done(job: &JobRef, error: &StoreError) -> Refusal {
    tracing::error!(tenant = %job.tenant, job = %job.job, error = %chain(error), "what a client asked was not done");
    Refusal::about(job.job, unavailable())
}

/// How far a new subscriber has been brought.
enum CaughtUp {
    /// Everything up to here has been sent.
    To(u64),
    /// It is gone.
    Closed,
    /// It takes too long.
    TooSlow,
}
