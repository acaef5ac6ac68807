//! One job in a world in which one thing goes wrong, or nothing.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use longhaul::engine::entry::Edit;
use longhaul::engine::journal::{Ending, KeyKind};
use longhaul::engine::{Batch, Entry, Failure, JobState, Journal};
use longhaul::outside;
use longhaul::store::JobRef;
use longhaul_sim::workshop::Workshop;
use longhaul_sim::{Faults, Planned, QueueFaults, Sim, Snapshot};
use serde_json::Value;

use crate::agents::{Deployed, registry};
use crate::audit::Acknowledged;
use crate::far_end::{FarEnd, Manners};
use crate::jobs::{Kind, SETTLING, Says, order};

/// How a job ended, as far as two runs can be compared.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// With this result.
    Completed(Value),
    /// With a failure of this class and message.
    Failed(Failure),
    /// By a cancel.
    Cancelled,
}

/// What a run came to.
#[derive(Debug)]
pub struct Ran {
    /// How the job ended.
    pub end: End,
    /// The outputs of its steps, by key.
    pub outputs: BTreeMap<String, Value>,
    /// The job's journal.
    pub journal: Vec<Batch>,
    /// What is stored.
    pub snapshot: Snapshot,
    /// How often the far end was asked, by key.
    pub asked: BTreeMap<String, u32>,
    /// The tickets that were opened, by key.
    pub tickets: BTreeMap<String, Value>,
    /// What people were told.
    pub acknowledged: Vec<Acknowledged>,
    /// The workers' calls, in order.
    pub calls: Vec<&'static str>,
    /// How many messages were sent.
    pub messages: u64,
}

/// Runs `world` in virtual time.
pub fn virtually<T>(world: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(world)
}

/// Runs a job of this kind, mended and replayed where it fails by design, with one thing going wrong if one is planned.
#[must_use]
pub fn run(kind: Kind, says: Says, planned: Option<Planned>) -> Ran {
    run_before(kind, says, planned, &FarEnd::new(0, MANNERS))
}

/// The far end's manners while one thing goes wrong: it takes its time.
pub const MANNERS: Manners =
    Manners { latency_max: Duration::from_secs(3), answer_lost_permille: 0, turned_away_permille: 0 };

/// Like [`run`], before another far end.
#[must_use]
pub fn run_before(kind: Kind, says: Says, planned: Option<Planned>, far_end: &Rc<FarEnd>) -> Ran {
    virtually(run_in_time(kind, says, planned, far_end))
}

async fn run_in_time(kind: Kind, says: Says, planned: Option<Planned>, far_end: &Rc<FarEnd>) -> Ran {
    // Shorter than in the template, so that what a dead worker held comes back within the time that is waited.
    let queue = QueueFaults { visibility: Duration::from_secs(1_000), ..QueueFaults::default() };
    let sim = Sim::new(0, Faults { queue, ..Faults::default() });
    if let Some(planned) = planned {
        sim.plan(planned);
    }
    let workshop = Workshop::new(sim, registry(far_end, Deployed::Right));
    let mut acknowledged = Vec::new();
    let told = &mut acknowledged;
    let job = workshop
        .run(2, async {
            let job = workshop.submit(order(&workshop, kind, 0)).await;
            if let Some(answer) = kind.answer(says) {
                let waits = |job: &longhaul::engine::Job| {
                    matches!(job.progress.state, JobState::Waiting { .. }) || job.progress.state.is_terminal()
                };
                // Whoever reads the emitted question answers; a job that waits for something else keeps the answer.
                workshop.until(&job, waits).await;
                let (store, now) = (workshop.sim.handle(), workshop.clock.now());
                let key = "answer".parse().unwrap();
                let name = "approval".parse().unwrap();
                let taken =
                    outside::signal(&store, &job, name, key, answer, "ada".into(), now).await.expect("taken in");
                told.push(Acknowledged {
                    job: job.job,
                    kind: KeyKind::Signal,
                    key: "answer".parse().unwrap(),
                    seq: taken.seq,
                });
            }
            workshop.ended(&job).await;
            if kind.fails_at_first() {
                let seq = replay(&workshop, &job, kind).await;
                told.push(Acknowledged { job: job.job, kind: KeyKind::Replay, key: "mended".parse().unwrap(), seq });
                workshop.ended(&job).await;
            }
            workshop.clock.sleep(SETTLING).await;
            job
        })
        .await;
    ran(&workshop, far_end, &job, acknowledged)
}

async fn replay(workshop: &Workshop, job: &JobRef, kind: Kind) -> Option<longhaul::engine::Seq> {
    let edit = Edit { input: Some(kind.order(true).1), budget: None, ..Edit::default() };
    let (store, now) = (workshop.sim.handle(), workshop.clock.now());
    let taken = outside::replay(&store, job, "mended".parse().unwrap(), "bob".into(), None, edit, now).await;
    taken.expect("taken in").seq
}

fn ran(workshop: &Workshop, far_end: &Rc<FarEnd>, job: &JobRef, acknowledged: Vec<Acknowledged>) -> Ran {
    let snapshot = workshop.sim.snapshot();
    let journal = snapshot.journals.get(&job.job).cloned().unwrap_or_default();
    let read = Journal::read(journal.clone()).expect("a journal");
    let end = match read.ending() {
        Some(Ending::Completed { output }) => End::Completed(output.clone()),
        Some(Ending::Failed { failure }) => End::Failed(failure.clone()),
        Some(Ending::Cancelled { .. }) => End::Cancelled,
        None => panic!("the job has not ended:\n{}", workshop.story(job)),
    };
    let outputs = journal.iter().flat_map(|batch| &batch.entries).filter_map(|entry| match entry {
        Entry::StepCompleted { id, output, .. } => Some((id.key.to_string(), output.clone())),
        _ => None,
    });
    Ran {
        end,
        outputs: outputs.collect(),
        journal: journal.clone(),
        asked: far_end.asked(),
        tickets: far_end.tickets(),
        acknowledged,
        calls: workshop.sim.worker_calls(),
        messages: workshop.sim.messages(),
        snapshot,
    }
}
