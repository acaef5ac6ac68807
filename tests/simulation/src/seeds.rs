//! Worlds by seed: jobs of every kind, in which everything goes wrong at once.
//!
//! A seed draws the faults of store, queue and far end, deaths and standstills of workers, wrong clocks, deployments in
//! mid-run, and what people do: approve, reject, cancel, mend and replay, also from an earlier step.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use longhaul::engine::entry::Edit;
use longhaul::engine::ids::{Seq, SignalKey};
use longhaul::engine::journal::{Ending, KeyKind};
use longhaul::engine::{Entry, ErrorClass, JobId, JobState, Journal, StepKey};
use longhaul::outside::{self, OutsideError, TakenIn};
use longhaul::store::JobRef;
use longhaul_sim::workshop::{Skew, Workshop, killed};
use longhaul_sim::{Moment, Sim, Snapshot};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::agents::{Deployed, registry};
use crate::audit::{Acknowledged, Evidence, audit};
use crate::far_end::FarEnd;
use crate::jobs::{Kind, SETTLING, Says, order};
use crate::plan::{Deployment, Person, Plan, Replay, seconds};
use crate::turns::{End, run, virtually};

/// How much a clock may be wrong.
const SKEW_MAX_SECONDS: u64 = 90;

/// What a seed comes to.
#[derive(Debug)]
pub struct Ended {
    /// What happened, one line each; empty unless it was asked for.
    pub trace: Vec<String>,
    /// What is stored.
    pub snapshot: Snapshot,
    /// How often the far end was asked, by key.
    pub asked: BTreeMap<String, u32>,
    acknowledged: Vec<Acknowledged>,
    deaths: u64,
    blocked: u64,
    jobs: Vec<(JobId, Kind)>,
}

/// What was met in some worlds: a check that meets nothing proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Met {
    /// Jobs that completed, children included.
    pub completed: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Claims of any kind.
    pub claims: u64,
    /// Claims over a session that had died, or seemed to have.
    pub takeovers: u64,
    /// Attempts that failed and were made again.
    pub retries: u64,
    /// Jobs that were opened again.
    pub replays: u64,
    /// Jobs that were found BLOCKED under a wrong deployment.
    pub blocked: u64,
    /// At-most-once effects that a crash cut off.
    pub interrupted: u64,
}

impl Met {
    /// What one world has met.
    #[must_use]
    pub fn in_world(ended: &Ended) -> Self {
        let mut met = Self { blocked: ended.blocked, ..Self::default() };
        for job in ended.snapshot.jobs.values() {
            match job.progress.state {
                JobState::Completed => met.completed += 1,
                JobState::Failed => met.failed += 1,
                JobState::Cancelled => met.cancelled += 1,
                JobState::Pending
                | JobState::Processing { .. }
                | JobState::Waiting { .. }
                | JobState::Blocked { .. } => {}
            }
        }
        for entry in ended.snapshot.journals.values().flatten().flat_map(|batch| &batch.entries) {
            match entry {
                Entry::Claimed { takeover, .. } => {
                    met.claims += 1;
                    met.takeovers += u64::from(*takeover);
                }
                Entry::AttemptFailed { .. } => met.retries += 1,
                Entry::Replayed { .. } => met.replays += 1,
                Entry::StepFailed { failure, .. } if failure.class == ErrorClass::Interrupted => met.interrupted += 1,
                _ => {}
            }
        }
        met
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            cancelled: self.cancelled + other.cancelled,
            claims: self.claims + other.claims,
            takeovers: self.takeovers + other.takeovers,
            retries: self.retries + other.retries,
            replays: self.replays + other.replays,
            blocked: self.blocked + other.blocked,
            interrupted: self.interrupted + other.interrupted,
        }
    }

    /// Whether everything was met at least once.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.completed > 0
            && self.failed > 0
            && self.cancelled > 0
            && self.takeovers > 0
            && self.retries > 0
            && self.replays > 0
            && self.blocked > 0
            && self.interrupted > 0
    }
}

/// Runs the world of a seed and writes its trace down if that is asked for.
///
/// # Panics
/// When a job does not come to an end.
#[must_use]
pub fn world(seed: u64, traced: bool) -> Ended {
    virtually(world_in_time(seed, traced))
}

async fn world_in_time(seed: u64, traced: bool) -> Ended {
    let plan = Plan::of(seed);
    let far_end = FarEnd::new(seed, plan.manners);
    let sim = Sim::new(seed, plan.faults.clone());
    if traced {
        sim.record_trace();
    }
    let mut workshop = Workshop::new(sim, registry(&far_end, Deployed::Right));
    workshop.invocation = plan.invocation;
    // By the seed and the invocation alone, so that they are the same each time.
    let dice_of = move |what: u64, number: u64| StdRng::seed_from_u64(seed ^ (what << 56) ^ (number << 32));
    let (deaths_upto, freezes_upto, skewed) = (plan.deaths_upto, plan.freezes_upto, plan.skewed);
    workshop.crashes = Rc::new(move |invocation| {
        let dice = &mut dice_of(1, invocation);
        let moment = if dice.random_bool(0.5) { Moment::Before } else { Moment::After };
        (invocation < deaths_upto && dice.random_bool(0.6)).then(|| killed(dice.random_range(1..30), moment))
    });
    workshop.freezes = Rc::new(move |invocation| {
        let dice = &mut dice_of(2, invocation);
        (invocation < freezes_upto && dice.random_bool(0.6)).then(|| (dice.random_range(1..30), seconds(dice, 10..400)))
    });
    workshop.skews = Rc::new(move |worker| {
        let dice = &mut dice_of(3, worker);
        let by = Duration::from_millis(dice.random_range(0..=SKEW_MAX_SECONDS * 1_000));
        match (skewed, dice.random_bool(0.5)) {
            (false, _) => Skew::Ahead(Duration::ZERO),
            (true, true) => Skew::Ahead(by),
            (true, false) => Skew::Behind(by),
        }
    });
    let people = async {
        let submitted = plan.jobs.iter().enumerate().map(async |(number, (kind, person))| {
            let job = workshop.submit(order(&workshop, *kind, number)).await;
            let acknowledged = attend(&workshop, &job, *kind, person).await;
            (job.job, *kind, acknowledged)
        });
        let (attended, blocked) = tokio::join!(join_all(submitted), deploy(&workshop, &far_end, &plan));
        workshop.clock.sleep(SETTLING).await;
        (attended, blocked)
    };
    let (attended, blocked) = workshop.run(plan.workers, people).await;
    let (mut jobs, mut acknowledged) = (Vec::new(), Vec::new());
    for (job, kind, told) in attended {
        jobs.push((job, kind));
        acknowledged.extend(told);
    }
    Ended {
        trace: workshop.sim.trace(),
        snapshot: workshop.sim.snapshot(),
        asked: far_end.asked(),
        acknowledged,
        deaths: deaths_upto + freezes_upto,
        blocked,
        jobs,
    }
}

/// Deploys other agents for a while. How many jobs are blocked by that in the end.
async fn deploy(workshop: &Workshop, far_end: &Rc<FarEnd>, plan: &Plan) -> u64 {
    let Some(Deployment { deployed, after, lasts }) = plan.deployment else { return 0 };
    workshop.clock.sleep(after).await;
    if deployed == Deployed::Changed {
        // A job that began under the careless change would rightly stay with it.
        let first = StepKey::at("", 0);
        let has_begun = |job: JobId| {
            let batches = workshop.sim.snapshot().journals.remove(&job).unwrap_or_default();
            Journal::read(batches).is_ok_and(|journal| journal.ending().is_some() || journal.step(&first).is_some())
        };
        let of_agent = |snapshot: &Snapshot| -> Vec<JobId> {
            let everything = snapshot.jobs.values().filter(|job| job.order.agent.name.as_str() == "everything");
            everything.map(|job| job.order.id).collect()
        };
        let expected = plan.jobs.iter().filter(|(kind, _)| matches!(kind, Kind::Everything { .. })).count();
        loop {
            let jobs = of_agent(&workshop.sim.snapshot());
            if jobs.len() == expected && jobs.into_iter().all(has_begun) {
                break;
            }
            workshop.clock.sleep(Duration::from_secs(1)).await;
        }
    }
    workshop.deploy(registry(far_end, deployed));
    workshop.clock.sleep(lasts).await;
    let jobs = workshop.sim.snapshot().jobs;
    let blocked = jobs.values().filter(|job| matches!(job.progress.state, JobState::Blocked { .. })).count();
    workshop.deploy(registry(far_end, Deployed::Right));
    u64::try_from(blocked).unwrap_or(u64::MAX)
}

/// Does what people do with a job, and waits until it has ended for good.
async fn attend(workshop: &Workshop, job: &JobRef, kind: Kind, person: &Person) -> Vec<Acknowledged> {
    let mut acknowledged = Vec::new();
    workshop.clock.sleep(person.after).await;
    answer(workshop, job, kind, person.says, "answer", &mut acknowledged).await;
    if person.cancels {
        let key: SignalKey = "cancel".parse().unwrap();
        let taken = until_taken(workshop, async || {
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            outside::cancel(&store, job, key.clone(), "ada".into(), None, now).await
        });
        told(taken.await, job, KeyKind::Cancel, &key, &mut acknowledged);
    }
    workshop.ended(job).await;
    for (number, replay) in person.replays.iter().enumerate() {
        workshop.clock.sleep(replay.after).await;
        if replayed(workshop, job, kind, *replay, number, &mut acknowledged).await {
            // Whatever the job waits for by now, it is said again.
            answer(workshop, job, kind, Says::Yes, &format!("answer-{number}"), &mut acknowledged).await;
        }
        workshop.ended(job).await;
    }
    acknowledged
}

async fn answer(
    workshop: &Workshop,
    job: &JobRef,
    kind: Kind,
    says: Says,
    key: &str,
    acknowledged: &mut Vec<Acknowledged>,
) {
    let Some(payload) = kind.answer(says) else { return };
    let key: SignalKey = key.parse().unwrap();
    let taken = until_taken(workshop, async || {
        let (store, now) = (workshop.sim.handle(), workshop.clock.now());
        let name = "approval".parse().unwrap();
        outside::signal(&store, job, name, key.clone(), payload.clone(), "ada".into(), now).await
    });
    told(taken.await, job, KeyKind::Signal, &key, acknowledged);
}

/// Replays a job that ended without a result. Whether it was taken in.
async fn replayed(
    workshop: &Workshop,
    job: &JobRef,
    kind: Kind,
    replay: Replay,
    number: usize,
    acknowledged: &mut Vec<Acknowledged>,
) -> bool {
    let key: SignalKey = format!("replay-{number}").parse().unwrap();
    let from = replay.from_permille.map(|permille| Seq(1 + workshop.journal(job).next().0 * permille / 1_000));
    let edit = Edit { input: replay.mends.then(|| kind.order(true).1), budget: None, ..Edit::default() };
    let taken = until_taken(workshop, async || {
        let (store, now) = (workshop.sim.handle(), workshop.clock.now());
        outside::replay(&store, job, key.clone(), "bob".into(), from, edit.clone(), now).await
    });
    told(taken.await, job, KeyKind::Replay, &key, acknowledged)
}

/// Asks until there is an answer, as a client does. None: what was asked is not possible any more.
async fn until_taken(workshop: &Workshop, ask: impl AsyncFn() -> Result<TakenIn, OutsideError>) -> Option<TakenIn> {
    for _ in 0..1_000 {
        match ask().await {
            Ok(taken) => return Some(taken),
            Err(OutsideError::Ended | OutsideError::NotReplayable) => return None,
            Err(OutsideError::Store(_)) => workshop.clock.sleep(Duration::from_secs(1)).await,
            Err(
                other @ (OutsideError::NoJob
                | OutsideError::OtherRequest
                | OutsideError::Full
                | OutsideError::NoPosition
                | OutsideError::Repeats { .. }
                | OutsideError::ThreadBusy { .. }
                | OutsideError::ThreadFull
                | OutsideError::Journal(_)),
            ) => panic!("not taken in: {other}"),
        }
    }
    panic!("a store that never answers")
}

fn told(
    taken: Option<TakenIn>,
    job: &JobRef,
    kind: KeyKind,
    key: &SignalKey,
    acknowledged: &mut Vec<Acknowledged>,
) -> bool {
    let Some(taken) = taken else { return false };
    acknowledged.push(Acknowledged { job: job.job, kind, key: key.clone(), seq: taken.seq });
    true
}

/// What the shipped agents come to when nothing goes wrong.
#[derive(Debug)]
pub struct Clean(BTreeMap<(Kind, Says), End>);

impl Clean {
    /// Runs each of them once.
    #[must_use]
    pub fn run() -> Self {
        Self(Kind::shipped().into_iter().map(|(kind, says)| ((kind, says), run(kind, says, None).end)).collect())
    }

    /// Whether a result is one that the agent gives, whatever the person said.
    fn has(&self, kind: Kind, output: &Value) -> bool {
        let end = End::Completed(output.clone());
        self.0.iter().any(|((of, _), clean)| *of == kind && *clean == end)
    }
}

/// Reads what a world has come to.
///
/// # Errors
/// The first promise that was broken.
pub fn verdict(ended: &Ended, clean: &Clean) -> Result<(), String> {
    let Ended { snapshot, asked, acknowledged, deaths, .. } = ended;
    audit(&Evidence { snapshot, asked, acknowledged, deaths: *deaths })?;
    for (job, kind) in &ended.jobs {
        let batches = snapshot.journals.get(job).cloned().unwrap_or_default();
        let edited = batches
            .iter()
            .flat_map(|batch| &batch.entries)
            .any(|entry| matches!(entry, Entry::Replayed { edit, .. } if edit.input.is_some()));
        if let Ok(journal) = Journal::read(batches)
            && let Some(Ending::Completed { output }) = journal.ending()
            && !is_right(*kind, output, *job, edited, clean)
        {
            return Err(format!("job {job}: {kind:?} came to {output}"));
        }
    }
    Ok(())
}

fn is_right(kind: Kind, output: &Value, job: JobId, edited: bool, clean: &Clean) -> bool {
    match kind {
        Kind::Research | Kind::Compliance { .. } | Kind::Steps { fails: false } => clean.has(kind, output),
        Kind::Steps { fails: true } => edited && clean.has(kind, output),
        Kind::Mended => edited && *output == json!("plan"),
        Kind::Parent => *output == json!([4, -1, 25]),
        Kind::Everything { .. } => {
            let answers = [json!("yes"), json!("no"), json!("the wait \"approval\" timed out")];
            output["read"] == json!([10, 20, 30])
                && output["paid"].is_boolean()
                && answers.contains(&output["answer"])
                && output["url"] == json!(format!("published/{job}"))
        }
    }
}
