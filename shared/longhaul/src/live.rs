//! What a step says while it runs: pieces of a streamed answer, shown live and never stored.
//!
//! A person who waits for a long answer should see it grow. The pieces do not go through the journal, since they are
//! worth nothing once the step's outcome stands there, and a write for each would cost more than the answer. So they
//! may be lost, and an attempt that is thrown away leaves them void: each piece says of which epoch and attempt it is,
//! and where in that attempt's text it stands, so that whoever shows them can begin anew and sees a hole.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use longhaul_engine::entry::StepId;
use longhaul_engine::ids::Epoch;
use longhaul_engine::job::Overrides;
use longhaul_engine::{JobId, StepKey, limits};

use crate::shared::Shared;
use crate::step::EffectKey;
use crate::store::JobRef;

/// A piece of what a running step says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The job.
    pub job: JobRef,
    /// The claim under which the step runs: pieces of an older one are void.
    pub epoch: Epoch,
    /// The step.
    pub step: StepKey,
    /// Its name.
    pub name: String,
    /// The attempt: pieces of an earlier one are void.
    pub attempt: u32,
    /// Where in the attempt's text the piece stands, in characters. 0 begins it, or begins it anew.
    pub offset: u64,
    /// The piece.
    pub text: String,
}

/// Whoever shows deltas to people. It must take them without waiting: a slow watcher delays no step.
pub trait Audience {
    /// Takes a piece.
    fn hear(&self, delta: Delta);

    /// A step says nothing more, and its outcome will have the whole: nobody needs to begin showing its pieces now.
    fn heard_out(&self, job: JobId, step: &StepKey);
}

/// Who hears the steps of one job, under one claim.
pub(crate) struct Voice {
    pub(crate) audience: Rc<dyn Audience>,
    pub(crate) job: JobRef,
    pub(crate) epoch: Epoch,
}

/// A step that may speak.
struct Speaker {
    name: String,
    attempt: u32,
    offset: u64,
}

/// The steps of an invocation that run, and who hears them.
#[derive(Default)]
pub(crate) struct Stage {
    voice: Option<Voice>,
    speakers: RefCell<BTreeMap<StepKey, Speaker>>,
}

impl Stage {
    pub(crate) fn new(voice: Option<Voice>) -> Self {
        Self { voice, speakers: RefCell::default() }
    }

    /// Lets a step speak until the mark is dropped.
    pub(crate) fn enter(shared: &Rc<Shared>, id: &StepId, attempt: u32) -> OnStage {
        let speaker = Speaker { name: id.name.clone(), attempt, offset: 0 };
        shared.stage.speakers.borrow_mut().insert(id.key.clone(), speaker);
        OnStage(Rc::clone(shared), id.key.clone())
    }

    /// Takes back what a step has said: a piece of nothing at the beginning voids the others.
    fn begin_anew(&self, key: &StepKey) {
        if let Some(speaker) = self.speakers.borrow_mut().get_mut(key) {
            speaker.offset = 0;
        }
        self.say(key, "");
    }

    fn say(&self, key: &StepKey, text: &str) {
        let Some(voice) = &self.voice else { return };
        let mut speakers = self.speakers.borrow_mut();
        // A body that goes on behind its own step's end has nothing to say any more.
        let Some(speaker) = speakers.get_mut(key) else { return };
        let said = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        let offset = speaker.offset;
        speaker.offset = offset.saturating_add(said);
        // What nobody could be shown in reasonable time is not passed on; the offset says that it was said.
        if speaker.offset > limits::DELTA_CHARS_MAX {
            return;
        }
        voice.audience.hear(Delta {
            job: voice.job.clone(),
            epoch: voice.epoch,
            step: key.clone(),
            name: speaker.name.clone(),
            attempt: speaker.attempt,
            offset,
            text: text.to_owned(),
        });
    }
}

/// The mark of a step that may speak.
pub(crate) struct OnStage(Rc<Shared>, StepKey);

impl Drop for OnStage {
    fn drop(&mut self) {
        let stage = &self.0.stage;
        let spoke = stage.speakers.borrow_mut().remove(&self.1).is_some_and(|speaker| speaker.offset > 0);
        if let Some(voice) = stage.voice.as_ref().filter(|_| spoke) {
            voice.audience.heard_out(voice.job.job, &self.1);
        }
    }
}

/// An effect's way to show what it has so far. Taken from the context before the effect, used in its body.
#[derive(Clone)]
pub struct Live(pub(crate) Rc<Shared>);

impl Live {
    /// What a person has the job's agent use instead of what it brings.
    #[must_use]
    pub fn overrides(&self) -> &Overrides {
        &self.0.order.overrides
    }

    /// Shows more of the running effect's text. Nothing happens when nobody listens.
    pub fn say(&self, effect: &EffectKey, text: &str) {
        if !text.is_empty() {
            self.0.stage.say(effect.step(), text);
        }
    }

    /// W3C trace context that the effect's calls carry, as [`crate::Ctx::traceparent`].
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.0.traceparent()
    }

    /// Returns when the job has been cancelled. A body that awaits it beside its work can end at once with an error that
    /// says what the work had cost by then; one that does not is dropped.
    pub async fn cancelled(&self) {
        self.0.until_closing().await;
    }

    /// Takes back what the running effect has said so far.
    pub fn begin_anew(&self, effect: &EffectKey) {
        self.0.stage.begin_anew(effect.step());
    }
}
