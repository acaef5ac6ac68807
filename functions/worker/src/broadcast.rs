//! What running steps say, sent straight to the people who watch the job.
//!
//! Deltas do not go through the store: they are gathered for a moment, so that a token is not a message, and posted to
//! each subscriber of the job. Whatever fails here is let go of: a watcher who missed a piece sees so by its offset, and
//! the step's outcome has the whole.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use longhaul::engine::{JobId, StepKey, Timestamp};
use longhaul::{Audience, Clock, Delta};
use longhaul_aws::connections::Subscriber;
use longhaul_aws::push::Push;
use longhaul_aws::telemetry::chain;
use longhaul_aws::{AwsStore, Config};
use longhaul_wire::socket::{DeltaBody, ServerMessage};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::outbox::Outbox;

/// How long pieces are gathered: often enough to look like typing, seldom enough that a message carries a few words.
const GATHERED_MS: u64 = 150;
/// How long a job's subscribers are taken to be the same: who has just come sees deltas within this time.
const SUBSCRIBERS_KEPT_MS: u64 = 2_000;
/// Characters of one message: with escapes it stays under the 32 KB of the gateway's frame.
const MESSAGE_CHARS_MAX: usize = 4_000;
/// Jobs whose subscribers are looked up at once: a process drives hundreds, and the last of them is to be in time, too.
const LOOKUPS_AT_ONCE: usize = 16;

/// A step's pieces that nobody was sent yet, joined.
struct Gathered {
    delta: Delta,
    /// The offset at which the next piece continues it.
    end: u64,
}

/// Who watches a job, as of some moment.
struct Watched {
    subscribers: Rc<[Subscriber]>,
    since: Instant,
}

/// The sending end for deltas.
pub struct Broadcast {
    store: AwsStore,
    outbox: Outbox,
    gathered: RefCell<BTreeMap<(JobId, StepKey), Vec<Gathered>>>,
    watched: RefCell<BTreeMap<JobId, Watched>>,
    told: Notify,
}

impl Audience for Broadcast {
    fn hear(&self, delta: Delta) {
        let end = delta.offset.saturating_add(chars(&delta.text));
        let mut gathered = self.gathered.borrow_mut();
        match gathered.entry((delta.job.job, delta.step.clone())) {
            Entry::Occupied(mut of_step) => {
                let goes_on = of_step.get_mut().last_mut().filter(|last| continues(last, &delta));
                match goes_on {
                    Some(last) => {
                        last.delta.text.push_str(&delta.text);
                        last.end = end;
                    }
                    // It begins anew: what was gathered of the old text need not be sent any more.
                    None if delta.offset == 0 => {
                        of_step.insert(vec![Gathered { delta, end }]);
                    }
                    None => of_step.get_mut().push(Gathered { delta, end }),
                }
            }
            Entry::Vacant(place) => {
                place.insert(vec![Gathered { delta, end }]);
            }
        }
        self.told.notify_one();
    }

    fn heard_out(&self, job: JobId, step: &StepKey) {
        let mut gathered = self.gathered.borrow_mut();
        let key = (job, step.clone());
        // What begins here was not begun to be shown: the step was faster than a person looks. Otherwise its end is shown.
        if gathered.get(&key).and_then(|pieces| pieces.first()).is_some_and(|first| first.delta.offset == 0) {
            gathered.remove(&key);
        }
    }
}

impl Broadcast {
    /// The broadcast of a deployment; none where the worker is not told of a gateway.
    #[must_use]
    pub fn of(store: &AwsStore, config: &Config) -> Option<Rc<Self>> {
        let endpoint = config.push_endpoint().ok()?;
        Some(Rc::new(Self {
            store: store.clone(),
            outbox: Outbox::new(Push::new(store.clients(), endpoint)),
            gathered: RefCell::default(),
            watched: RefCell::default(),
            told: Notify::new(),
        }))
    }

    /// Sends what is heard for as long as this is polled: it never returns.
    pub async fn send_on(&self, clock: &Clock) -> ! {
        // What an earlier invocation could not send is over: the process may have been frozen for hours since.
        self.gathered.borrow_mut().clear();
        self.outbox.clear();
        tokio::select! {
            never = self.gather(clock) => never,
            never = self.outbox.send() => never,
        }
    }

    /// Puts what is heard into the outbox, round after round.
    async fn gather(&self, clock: &Clock) -> ! {
        loop {
            self.told.notified().await;
            tokio::time::sleep(Duration::from_millis(GATHERED_MS)).await;
            let gathered = self.gathered.take();
            let mut by_job: BTreeMap<JobId, Vec<Delta>> = BTreeMap::new();
            for Gathered { delta, .. } in gathered.into_values().flatten() {
                by_job.entry(delta.job.job).or_default().push(delta);
            }
            let heard: Vec<(Rc<[Subscriber]>, Vec<Delta>)> = stream::iter(by_job)
                .map(|(job, deltas)| async move { (self.subscribers(job).await, deltas) })
                .buffered(LOOKUPS_AT_ONCE)
                .collect()
                .await;
            let mut messages = Vec::new();
            for (subscribers, deltas) in heard {
                messages.extend(deltas.into_iter().flat_map(|delta| self.addressed(&subscribers, delta, clock.now())));
            }
            self.outbox.take(messages);
        }
    }

    async fn subscribers(&self, job: JobId) -> Rc<[Subscriber]> {
        let fresh = |watched: &Watched| watched.since.elapsed() < Duration::from_millis(SUBSCRIBERS_KEPT_MS);
        if let Some(watched) = self.watched.borrow().get(&job).filter(|watched| fresh(watched)) {
            return Rc::clone(&watched.subscribers);
        }
        let subscribers: Rc<[Subscriber]> = match self.store.subscribers(job).await {
            Ok(subscribers) => subscribers.into(),
            Err(error) => {
                tracing::debug!(%job, error = %chain(&error), "who hears its deltas was not looked up");
                Rc::new([])
            }
        };
        let mut watched = self.watched.borrow_mut();
        watched.retain(|_, watched| fresh(watched));
        watched.insert(job, Watched { subscribers: Rc::clone(&subscribers), since: Instant::now() });
        subscribers
    }

    /// Who is sent what of a step's text.
    fn addressed(&self, subscribers: &[Subscriber], delta: Delta, now: Timestamp) -> Vec<(String, Rc<str>)> {
        let listening: Vec<&Subscriber> = subscribers
            .iter()
            .filter(|subscriber| subscriber.tenant == delta.job.tenant)
            .filter(|subscriber| subscriber.token_expires_at > now)
            .filter(|subscriber| !self.outbox.passes_over(&subscriber.connection))
            .collect();
        if listening.is_empty() {
            return Vec::new();
        }
        let texts = messages(delta);
        listening
            .into_iter()
            .flat_map(|listener| texts.iter().map(|text| (listener.connection.clone(), Rc::clone(text))))
            .collect()
    }
}

/// Whether a piece stands right behind what was gathered.
fn continues(gathered: &Gathered, delta: &Delta) -> bool {
    gathered.delta.epoch == delta.epoch
        && gathered.delta.attempt == delta.attempt
        && gathered.end == delta.offset
        && delta.offset > 0
}

fn chars(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

/// A step's gathered text as messages that fit into a frame.
fn messages(delta: Delta) -> Vec<Rc<str>> {
    let Delta { job, epoch, step, name, attempt, mut offset, text } = delta;
    let mut rest = text.chars().peekable();
    let mut texts = Vec::new();
    loop {
        let piece: String = rest.by_ref().take(MESSAGE_CHARS_MAX).collect();
        let said = chars(&piece);
        let body = DeltaBody {
            job: job.job,
            epoch: epoch.0,
            step: step.clone(),
            name: name.clone(),
            attempt,
            offset,
            text: piece,
        };
        match serde_json::to_string(&ServerMessage::delta(body)) {
            Ok(text) => texts.push(text.into()),
            Err(error) => tracing::error!(%error, "a delta cannot be written as JSON"),
        }
        offset = offset.saturating_add(said);
        if rest.peek().is_none() {
            return texts;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use longhaul::engine::ids::Epoch;
    use longhaul::store::JobRef;
    use serde_json::Value;

    use super::*;

    fn delta(offset: u64, text: &str) -> Delta {
        let job =
            JobRef { tenant: "acme".parse().unwrap(), job: "0192f0c1-0000-7000-8000-000000000001".parse().unwrap() };
        Delta {
            job,
            epoch: Epoch(2),
            step: StepKey::at("", 3),
            name: "draft".to_owned(),
            attempt: 1,
            offset,
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_long_text_is_cut_where_frames_end_and_each_piece_says_where_it_stands() {
        // Each of these characters takes six bytes in JSON, the worst case.
        let text = "\u{1}".repeat(MESSAGE_CHARS_MAX + 3);
        let sent: Vec<Value> =
            messages(delta(10, &text)).iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        let offsets: Vec<u64> = sent.iter().map(|message| message["delta"]["offset"].as_u64().unwrap()).collect();
        assert_eq!(offsets, [10, 10 + MESSAGE_CHARS_MAX as u64]);
        let joined: String = sent.iter().map(|message| message["delta"]["text"].as_str().unwrap()).collect();
        assert_eq!(joined, text);
        assert!(messages(delta(0, &text)).iter().all(|text| text.len() < 32 * 1024));
        assert_eq!(messages(delta(0, "")).len(), 1, "taking back is a message of its own");
    }

    #[test]
    fn what_goes_on_and_what_begins_anew() {
        let gathered = Gathered { delta: delta(0, "abc"), end: 3 };
        assert!(continues(&gathered, &delta(3, "d")));
        assert!(!continues(&gathered, &delta(5, "d")), "a hole");
        assert!(!continues(&gathered, &delta(0, "d")), "anew");
        assert!(!continues(&gathered, &Delta { attempt: 2, ..delta(3, "d") }));
        assert!(!continues(&gathered, &Delta { epoch: Epoch(3), ..delta(3, "d") }));
    }
}
