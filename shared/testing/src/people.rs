//! People who answer: a signal for each wait that a test has foreseen.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use longhaul::engine::entry::WaitFor;
use longhaul::engine::journal::StepState;
use longhaul::outside;
use longhaul::store::JobRef;
use longhaul_sim::workshop::Workshop;
use serde_json::Value;

/// A word that is given when the job waits for it.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    /// How the signal's name begins.
    pub(crate) signal: String,
    pub(crate) payload: Value,
    /// How long the person takes.
    pub(crate) after: Duration,
}

/// The words that are still to be given, in order.
pub(crate) struct People(RefCell<VecDeque<Word>>);

impl People {
    pub(crate) fn new(words: Vec<Word>) -> Self {
        Self(RefCell::new(words.into()))
    }

    /// Gives words as the job comes to wait for them. Does not end.
    pub(crate) async fn answer(&self, workshop: &Workshop, job: &JobRef) {
        let mut answered = BTreeSet::new();
        loop {
            let changed = workshop.sim.changed();
            let waits = awaited(workshop, job);
            for (step, signal) in waits {
                if answered.contains(&step) {
                    continue;
                }
                let Some(word) = self.next_for(&signal) else { continue };
                let key = format!("word-{}", answered.len());
                answered.insert(step);
                workshop.clock.sleep(word.after).await;
                let (Ok(name), Ok(key)) = (signal.parse(), key.parse()) else { continue };
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                // A job that has ended meanwhile takes no word any more; its journal shows it.
                let _ended = outside::signal(&store, job, name, key, word.payload, "person".to_owned(), now).await;
            }
            changed.await;
        }
    }

    fn next_for(&self, signal: &str) -> Option<Word> {
        let mut words = self.0.borrow_mut();
        let place = words.iter().position(|word| signal.starts_with(&word.signal))?;
        words.remove(place)
    }

    /// The signals of words that nobody has waited for.
    pub(crate) fn left(&self) -> Vec<String> {
        self.0.borrow().iter().map(|word| word.signal.clone()).collect()
    }
}

/// The open waits for signals: the step and the signal's name.
fn awaited(workshop: &Workshop, job: &JobRef) -> Vec<(String, String)> {
    let journal = workshop.journal(job);
    let waits = journal.steps().filter_map(|record| match &record.state {
        StepState::Waiting { on: WaitFor::Signal { signal }, .. } => {
            Some((record.id.key.to_string(), signal.to_string()))
        }
        _ => None,
    });
    waits.collect()
}
