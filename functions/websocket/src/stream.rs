//! What was written into journals, as the table's stream brings it: pushed to whoever watches, ordered to be delivered
//! where the caller wants to hear of it, and cleared away when a job's time is over. A new job gets its places in the
//! index by which it is found.

use longhaul_aws::telemetry::chain;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::dynamodb::{self, EventRecord};
use aws_lambda_events::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use futures::stream::{self, StreamExt};
use longhaul::engine::{TenantId, Timestamp};
use longhaul::store::{JobRef, StoreError};
use longhaul_aws::AwsStore;
use longhaul_aws::connections::Subscriber;
use longhaul_aws::dynamo::StreamedBatch;
use longhaul_wire::Event;

use crate::delivery::Delivered;
use crate::{Time, WebSocket};

/// Records that are read at a time: large ones are fetched from the bucket, into a small function's memory.
const RECORDS_AT_ONCE: usize = 4;
/// Jobs whose subscribers are looked up at a time.
const JOBS_AT_ONCE: usize = 16;
/// Connections that are sent to at a time.
const CONNECTIONS_AT_ONCE: usize = 64;
/// Time for all that one connection gets of a batch. The stream goes on only when the batch is done with, so one slow
/// watcher must not make the others wait for long.
const CONNECTION_SECONDS_MAX: u64 = 5;

/// A record that must be brought again, by its number in the stream: the store failed, and nobody was told.
type Again = String;

/// What one record came to.
enum Read {
    /// A batch of a journal, with the record's number.
    Batch(StreamedBatch, Option<Again>),
    /// Nothing that anybody watches, or nothing that can be read.
    Nothing,
    /// The store failed.
    Again(Option<Again>),
}

/// The batches of one job, in order, as they are sent.
pub(crate) struct News {
    pub(crate) job: JobRef,
    pub(crate) events: Vec<(Event, Arc<str>)>,
    /// The first record.
    pub(crate) first: Option<Again>,
}

/// What one connection is sent.
struct Outbox {
    /// The events as JSON, in order.
    events: Vec<Arc<str>>,
    /// Whether it takes several in one message, as it last said.
    together: bool,
    /// Until when it may be sent anything.
    token_expires_at: Timestamp,
}

impl WebSocket {
    /// Handles a batch of the stream. What a subscriber, a webhook or an unreadable record does never fails it; only a
    /// store that does not answer has records brought again, from the first one that was not dealt with.
    pub(crate) async fn stream_batch(&self, batch: dynamodb::Event, time: Time) -> DynamoDbEventResponse {
        let order: Vec<Option<Again>> = batch.records.iter().map(number).collect();
        let mut again = BTreeSet::new();
        let mut news: BTreeMap<JobRef, News> = BTreeMap::new();
        let mut reads = stream::iter(batch.records).map(|record| self.read(record)).buffered(RECORDS_AT_ONCE);
        while let Some(read) = reads.next().await {
            match read {
                Read::Batch(streamed, number) => collect(&mut news, streamed, number),
                Read::Nothing => {}
                Read::Again(number) => again.extend(number),
            }
        }
        let news: Vec<News> = news.into_values().collect();
        let (unread, unordered, uncounted) =
            futures::join!(self.push_all(&news, time), self.order_deliveries(&news, time), self.note_ends(&news));
        again.extend(unread.into_iter().chain(unordered).chain(uncounted));
        let mut answer = DynamoDbEventResponse::default();
        // Lambda goes back to the first of them and brings everything from there on again.
        if let Some(first) = order.into_iter().flatten().find(|number| again.contains(number)) {
            let mut failure = DynamoDbBatchItemFailure::default();
            failure.item_identifier = Some(first);
            answer.batch_item_failures.push(failure);
        }
        answer
    }

    async fn read(&self, record: EventRecord) -> Read {
        let number = number(&record);
        match record.event_name.as_str() {
            "INSERT" if AwsStore::names_a_job(&record.change.keys) => {
                match self.store.make_findable(record.change.new_image).await {
                    Ok(_) => Read::Nothing,
                    Err(error) => unread(&error, number),
                }
            }
            "INSERT" => match self.store.streamed_batch(record.change.new_image).await {
                Ok(Some(streamed)) => Read::Batch(streamed, number),
                Ok(None) => Read::Nothing,
                Err(error) => unread(&error, number),
            },
            "REMOVE" => match AwsStore::removed_job(record.change.keys) {
                Some(job) => match self.store.forget(job).await {
                    Ok(_) => Read::Nothing,
                    Err(error) => unread(&error, number),
                },
                None => Read::Nothing,
            },
            // Journals only grow; everything else that changes is nobody's news.
            _ => Read::Nothing,
        }
    }

    /// Pushes news to all who watch; the records whose watchers could not be looked up.
    async fn push_all(&self, news: &[News], time: Time) -> Vec<Again> {
        let mut again = Vec::new();
        let mut outboxes: BTreeMap<String, Outbox> = BTreeMap::new();
        let mut looks = stream::iter(news)
            .map(async |news| (news, self.store.subscribers(news.job.job).await))
            .buffered(JOBS_AT_ONCE);
        while let Some((news, subscribers)) = looks.next().await {
            match subscribers {
                Ok(subscribers) => subscribers.iter().for_each(|subscriber| address(&mut outboxes, news, subscriber)),
                Err(error) => {
                    tracing::error!(
                        tenant = %news.job.tenant, job = %news.job.job, error = %chain(&error),
                        "the job's subscribers were not looked up"
                    );
                    again.extend(news.first.clone());
                }
            }
        }
        // Connections side by side, but each one's messages one after the other: their order is the journal's.
        stream::iter(outboxes)
            .for_each_concurrent(CONNECTIONS_AT_ONCE, async |(connection, outbox)| {
                let limit = time.left().min(Duration::from_secs(CONNECTION_SECONDS_MAX));
                if tokio::time::timeout(limit, self.send_all(&connection, outbox, time.now())).await.is_err() {
                    tracing::warn!(connection, "a watcher is too slow and is left to catch up by itself");
                }
            })
            .await;
        again
    }

    async fn send_all(&self, connection: &str, outbox: Outbox, now: Timestamp) {
        if outbox.token_expires_at <= now {
            self.send_away(connection, None, None).await;
            return;
        }
        for text in messages(&outbox.events, outbox.together) {
            match self.deliver(connection, &text).await {
                Delivered::Done => {}
                // By the next event that it gets, or by asking, the watcher sees that it missed some.
                Delivered::Closed | Delivered::GivenUp => return,
            }
        }
    }

    /// Notes in the books of tenants how many of their jobs have ended; the records that must come again.
    async fn note_ends(&self, news: &[News]) -> Vec<Again> {
        let mut ended: BTreeMap<&TenantId, (u64, Vec<Again>)> = BTreeMap::new();
        for news in news {
            let count = news.events.iter().filter(|(event, _)| event.is_end()).count();
            if count > 0 {
                let (ends, records) = ended.entry(&news.job.tenant).or_default();
                *ends = ends.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
                records.extend(news.first.clone());
            }
        }
        let mut again = Vec::new();
        for (tenant, (ends, records)) in ended {
            if let Err(error) = self.store.note_ends(tenant, ends).await {
                tracing::error!(%tenant, ends, error = %chain(&error), "ends of jobs were not noted");
                again.extend(records);
            }
        }
        again
    }
}

/// A record's number in the stream.
fn number(record: &EventRecord) -> Option<Again> {
    record.change.sequence_number.clone()
}

/// What to do about a record that the store could not make anything of.
fn unread(error: &StoreError, number: Option<Again>) -> Read {
    let number_shown = number.as_deref().unwrap_or_default();
    tracing::error!(record = number_shown, error = %chain(error), "a record of the stream was not read");
    match error {
        StoreError::Unavailable { .. } => Read::Again(number),
        // It will not get better: the others go on, and watchers see by the positions that one is missing.
        StoreError::Newer { .. } | StoreError::Corrupt { .. } | StoreError::Missing { .. } => Read::Nothing,
    }
}

fn collect(news: &mut BTreeMap<JobRef, News>, streamed: StreamedBatch, number: Option<Again>) {
    let StreamedBatch { job, batch } = streamed;
    let news = news.entry(job.clone()).or_insert_with(|| News { job, events: Vec::new(), first: number });
    for event in Event::of_batch(news.job.job, &batch) {
        match serde_json::to_string(&event) {
            Ok(text) => news.events.push((event, text.into())),
            Err(error) => tracing::error!(event = event.id, %error, "an event cannot be written as JSON"),
        }
    }
}

/// Puts news into the outbox of a subscriber.
fn address(outboxes: &mut BTreeMap<String, Outbox>, news: &News, subscriber: &Subscriber) {
    if subscriber.tenant != news.job.tenant {
        // Subscribing checks this; a second lock on the door that must not open.
        tracing::error!(job = %news.job.job, "a subscription of another tenant was passed over");
        return;
    }
    let behind = news.events.iter().filter(|(event, _)| event.sequence > subscriber.after);
    let mut events = behind.map(|(_, text)| Arc::clone(text)).peekable();
    if events.peek().is_none() {
        return;
    }
    let outbox = outboxes.entry(subscriber.connection.clone()).or_insert_with(|| Outbox {
        events: Vec::new(),
        together: true,
        token_expires_at: subscriber.token_expires_at,
    });
    outbox.together &= subscriber.together;
    outbox.events.extend(events);
}

/// Events as messages: each its own, or as many together as a frame holds.
fn messages(events: &[Arc<str>], together: bool) -> Vec<String> {
    /// Bytes of the events of one message: what is left of a frame of 32 KB.
    const TOGETHER_BYTES_MAX: usize = longhaul_wire::limits::EVENT_BYTES_MAX;
    let mut messages = Vec::new();
    let mut rest = events;
    while let Some(first) = rest.first() {
        let mut bytes = 0;
        let fits = |event: &&Arc<str>| {
            bytes += event.len() + 1;
            bytes <= TOGETHER_BYTES_MAX
        };
        let count = if together { rest.iter().take_while(fits).count().max(1) } else { 1 };
        let (now, later) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        messages.push(match now {
            [_, _, ..] => format!(r#"{{"type":"events","events":[{}]}}"#, now.join(",")),
            _ => format!(r#"{{"type":"event","event":{first}}}"#),
        });
        rest = later;
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_go_together_as_far_as_a_frame_holds_them() {
        let (small, large) = (r#"{"a":1}"#.to_owned(), format!(r#"{{"a":"{}"}}"#, "x".repeat(20_000)));
        // The events, and how many are in each message to who takes them together.
        let rows: [(&[&str], &[usize]); 5] = [
            (&[], &[]),
            (&[&small], &[1]),
            (&[&small, &small, &small], &[3]),
            (&[&small, &large, &large, &small], &[2, 2]),
            (&[&large, &large], &[1, 1]),
        ];
        for (events, wanted) in rows {
            let events: Vec<Arc<str>> = events.iter().map(|event| Arc::from(*event)).collect();
            let sent = messages(&events, true);
            let count = |text: &String| text.matches(r#""a":"#).count();
            assert_eq!(sent.iter().map(count).collect::<Vec<_>>(), wanted);
            assert!(sent.iter().all(|text| text.len() < 32 * 1_024));
            assert!(sent.iter().all(|text| serde_json::from_str::<serde_json::Value>(text).is_ok()));
            assert_eq!(messages(&events, false).len(), events.len());
        }
    }
}
