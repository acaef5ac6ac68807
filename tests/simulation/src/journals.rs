//! Journals on paper: what an agent wrote once, kept in a file, so that today's code can be held to it.
//!
//! A file is JSON lines: the order first, then the batches as they stood in the store. Their random marks are replaced by
//! numbers, so that a new recording of the same run is the same file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul::Registry;
use longhaul::engine::job::Order;
use longhaul::engine::{AgentRef, Batch, Entry, Nonce, limits};
use longhaul::store::{Append, Store};
use longhaul_sim::workshop::Workshop;
use longhaul_sim::{CallMishap, Death, Moment, Planned, Sim};

use crate::far_end::{FarEnd, Manners};
use crate::jobs::{Kind, Says};
use crate::turns::{Ran, run, run_before, virtually};

/// An order and the journal of its job.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The order.
    pub order: Order,
    /// The journal, whole.
    pub batches: Vec<Batch>,
}

/// What a recording is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Nothing went wrong.
    Clean,
    /// Attempts failed, a worker died, and whatever else the agent can meet.
    Eventful,
}

impl Course {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Clean, Self::Eventful];

    fn as_str(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Eventful => "eventful",
        }
    }
}

/// The folder of the recordings that were written under a version of the protocol.
#[must_use]
pub fn folder(protocol: u32) -> PathBuf {
    Path::new("journals").join(format!("protocol-{protocol}"))
}

/// The file of a recording.
#[must_use]
pub fn file(agent: &AgentRef, course: Course) -> String {
    format!("{}-{}-{}.jsonl", agent.name, agent.version, course.as_str())
}

impl Recording {
    /// The recording as lines.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut lines = vec![serde_json::to_string(&self.order).expect("an order is JSON")];
        lines.extend(self.batches.iter().map(|batch| serde_json::to_string(batch).expect("a batch is JSON")));
        lines.join("\n") + "\n"
    }

    /// Reads lines.
    ///
    /// # Errors
    /// Which line today's code does not understand.
    pub fn read(lines: &str) -> Result<Self, String> {
        let mut numbered = lines.lines().zip(1..);
        let (order, _) = numbered.next().ok_or("an empty file")?;
        let order = serde_json::from_str(order).map_err(|error| format!("line 1: {error}"))?;
        let batches = numbered
            .map(|(line, number)| serde_json::from_str(line).map_err(|error| format!("line {number}: {error}")));
        Ok(Self { order, batches: batches.collect::<Result<_, String>>()? })
    }

    /// The jobs of a run: the one that was submitted, and its children.
    fn of(ran: &Ran) -> Vec<Self> {
        let mut recordings = Vec::new();
        for (id, job) in &ran.snapshot.jobs {
            let mut batches = ran.snapshot.journals.get(id).cloned().unwrap_or_default();
            for (batch, number) in batches.iter_mut().zip(1_u32..) {
                let nonce = format!("\"00000000-0000-4000-8000-{number:012}\"");
                batch.nonce = serde_json::from_str::<Nonce>(&nonce).expect("a UUID");
            }
            recordings.push(Self { order: job.order.clone(), batches });
        }
        recordings
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.batches.iter().flat_map(|batch| &batch.entries)
    }

    /// Whether an attempt failed and a worker died.
    fn is_eventful(&self) -> bool {
        let retried = self.entries().any(|entry| matches!(entry, Entry::AttemptFailed { .. }));
        let taken_over = self.entries().any(|entry| matches!(entry, Entry::Claimed { takeover: true, .. }));
        // A parent's only effect comes last, and what its children met stands in their journals.
        let name = self.order.agent.name.as_str();
        taken_over && (retried || matches!(name, "parent" | "child" | "mended"))
    }
}

/// Makes a recording of an agent's current version.
///
/// # Panics
/// When nobody has said by which job the agent is shown.
#[must_use]
pub fn record(agent: &AgentRef, course: Course) -> Recording {
    let (kind, says) = match (agent.name.as_str(), course) {
        ("research", _) => (Kind::Research, Says::Nothing),
        ("compliance", Course::Clean) => (Kind::Compliance { approve: false }, Says::Nothing),
        ("compliance", Course::Eventful) => (Kind::Compliance { approve: true }, Says::Yes),
        ("agent-10", Course::Clean) => (Kind::Steps { fails: false }, Says::Nothing),
        ("agent-10", Course::Eventful) => (Kind::Steps { fails: true }, Says::Nothing),
        ("everything", Course::Clean) => (Kind::Everything { flaky: 0 }, Says::Nothing),
        ("everything", Course::Eventful) => (Kind::Everything { flaky: 2 }, Says::Yes),
        ("parent" | "child", _) => (Kind::Parent, Says::Nothing),
        ("mended", _) => (Kind::Mended, Says::Nothing),
        (name, _) => panic!("say by which job {name} is recorded"),
    };
    let of_agent = |ran: &Ran| Recording::of(ran).into_iter().filter(|it| it.order.agent == *agent && it.ends_well());
    match course {
        Course::Clean => of_agent(&run(kind, says, None)).next().expect("a journal"),
        Course::Eventful => {
            let manners =
                Manners { latency_max: Duration::from_secs(3), answer_lost_permille: 150, turned_away_permille: 150 };
            // The first world by number in which everything is met that the recording is to show.
            let worlds = (0..200).flat_map(|seed| (8..40).step_by(3).map(move |call| (seed, call)));
            let mut eventful = worlds.filter_map(|(seed, call)| {
                let dies = Planned::Call(call, CallMishap::Dies(Moment::After, Death::Hang));
                let ran = run_before(kind, says, Some(dies), &FarEnd::new(seed, manners));
                of_agent(&ran).find(Recording::is_eventful)
            });
            eventful.next().expect("a world in which it all happens")
        }
    }
}

impl Recording {
    fn ends_well(&self) -> bool {
        matches!(self.entries().last(), Some(Entry::Completed { .. }))
    }

    /// What was written at the very end.
    #[must_use]
    pub fn ending(&self) -> Option<&Entry> {
        self.entries().last().filter(|entry| entry.is_terminal())
    }
}

/// Lets today's code drive the job of a recording from all of its journal but the end. What it then writes.
///
/// # Errors
/// What today's code makes of the journal instead of ending the job.
pub fn replayed(
    recording: &Recording,
    far_end: &std::rc::Rc<FarEnd>,
    registry: Registry,
) -> Result<Vec<Entry>, String> {
    virtually(async {
        let workshop = Workshop::new(Sim::faultless(), registry);
        let store = workshop.sim.handle();
        let reference = workshop.submit(recording.order.clone()).await;
        let mut batches = recording.batches.clone();
        if let Some(last) = batches.last_mut() {
            let _ending = last.entries.pop();
        }
        batches.retain(|batch| !batch.entries.is_empty());
        let kept = batches.len();
        for batch in &batches {
            match store.append(&reference, batch).await {
                Ok(Append::Written) => {}
                other => return Err(format!("not written: {other:?}")),
            }
        }
        let is_over = |job: &longhaul::engine::Job| {
            use longhaul::engine::JobState::{Blocked, Cancelled, Completed, Failed, Pending, Processing, Waiting};
            match job.progress.state {
                Completed | Failed | Cancelled | Blocked { .. } | Waiting { .. } => true,
                Pending | Processing { .. } => false,
            }
        };
        let job = workshop.run(1, workshop.until(&reference, is_over)).await;
        if !job.progress.state.is_terminal() {
            return Err(format!("{:?}", job.progress.state));
        }
        if !far_end.asked().is_empty() {
            return Err(format!("it was asked again: {:?}", far_end.asked()));
        }
        let journal = workshop.sim.snapshot().journals.remove(&reference.job).unwrap_or_default();
        Ok(journal.into_iter().skip(kept).flat_map(|batch| batch.entries).collect())
    })
}

/// The version of the protocol that recordings are made under.
#[must_use]
pub const fn protocol() -> u32 {
    limits::PROTOCOL_VERSION_PLAIN
}
