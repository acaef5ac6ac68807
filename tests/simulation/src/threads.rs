//! Threads by seed: several submissions to each, crashes, doubles, lost messages, cancels, replays.
//!
//! What is stored tells in which order entries came, over all journals together. So an auditor that knows nothing of lines
//! and places can say whether two jobs of a thread ever went at once, and whether they went in the order in which their
//! submissions were answered.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures::future::join_all;
use longhaul::engine::entry::Edit;
use longhaul::engine::journal::Ending;
use longhaul::engine::thread::{OnBusy, Thread};
use longhaul::engine::{Batch, Entry, JobId, JobState, Journal, Seq};
use longhaul::outside::{self, OutsideError};
use longhaul::store::JobRef;
use longhaul_sim::workshop::{Workshop, killed};
use longhaul_sim::{CallFaults, Faults, Moment, QueueFaults, Sim, Snapshot};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::agents::{Deployed, registry};
use crate::audit::{Evidence, audit};
use crate::far_end::{FarEnd, Manners};
use crate::jobs::{Kind, SETTLING, order};
use crate::turns::virtually;

/// What was met in some worlds: a check that meets nothing proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Met {
    /// Jobs that waited for another's end before their first claim.
    pub waited: u64,
    /// Submissions that were refused because the thread was busy.
    pub refused: u64,
    /// Jobs that were cancelled by a later one.
    pub interrupted: u64,
    /// Jobs that were cancelled before their turn.
    pub cancelled_in_line: u64,
    /// Turns that a replayed job took.
    pub turns_of_replays: u64,
    /// Claims over a session that had died, or seemed to have.
    pub takeovers: u64,
}

impl Met {
    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            waited: self.waited + other.waited,
            refused: self.refused + other.refused,
            interrupted: self.interrupted + other.interrupted,
            cancelled_in_line: self.cancelled_in_line + other.cancelled_in_line,
            turns_of_replays: self.turns_of_replays + other.turns_of_replays,
            takeovers: self.takeovers + other.takeovers,
        }
    }

    /// Whether everything was met at least once.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        self.waited > 0
            && self.refused > 0
            && self.interrupted > 0
            && self.cancelled_in_line > 0
            && self.turns_of_replays > 0
            && self.takeovers > 0
    }
}

/// One submission and what its sender does with the job.
#[derive(Debug, Clone, Copy)]
struct Sent {
    kind: Kind,
    on_busy: OnBusy,
    after: Duration,
    cancelled_after: Option<Duration>,
    replayed_after: Option<Duration>,
}

/// Somebody who submits to one thread, the next job when the last one was answered.
#[derive(Debug, Clone)]
struct Client {
    thread: u32,
    sent: Vec<Sent>,
}

/// What a client was answered, in order; none for a refusal.
type Answered = Vec<Option<JobId>>;

fn seconds(dice: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_secs(dice.random_range(range))
}

fn permille(dice: &mut StdRng, max: u32) -> u32 {
    if dice.random_bool(0.5) { 0 } else { dice.random_range(0..max) }
}

fn sent(dice: &mut StdRng) -> Sent {
    Sent {
        kind: match dice.random_range(0..6) {
            0 => Kind::Mended,
            1 => Kind::Steps { fails: true },
            2 => Kind::Parent,
            3 => Kind::Everything { flaky: dice.random_range(0..3) },
            _ => Kind::Steps { fails: false },
        },
        on_busy: match dice.random_range(0..8) {
            0 => OnBusy::Reject,
            1 => OnBusy::Interrupt,
            _ => OnBusy::Enqueue,
        },
        after: seconds(dice, 0..40),
        cancelled_after: dice.random_bool(0.2).then(|| seconds(dice, 0..200)),
        replayed_after: dice.random_bool(0.7).then(|| seconds(dice, 0..200)),
    }
}

fn clients(dice: &mut StdRng) -> Vec<Client> {
    let threads = dice.random_range(1..3);
    (0..dice.random_range(1..4))
        .map(|_| Client {
            thread: dice.random_range(0..threads),
            sent: (0..dice.random_range(1..5)).map(|_| sent(dice)).collect(),
        })
        .collect()
}

fn faults(dice: &mut StdRng) -> Faults {
    Faults {
        calls: CallFaults {
            fail_before_permille: permille(dice, 60),
            fail_after_permille: permille(dice, 60),
            repeat_permille: permille(dice, 200),
            late_permille: permille(dice, 40),
            late_max: seconds(dice, 1..90),
            latency: Duration::ZERO..=Duration::from_millis(dice.random_range(0..400)),
        },
        queue: QueueFaults {
            lose_permille: permille(dice, 200),
            duplicate_permille: permille(dice, 300),
            delay_max: seconds(dice, 0..40),
            visibility: seconds(dice, 30..900),
        },
    }
}

/// Runs the world of a seed and audits it. With `LONGHAUL_TRACE` in the environment what is broken is told with its story.
///
/// # Errors
/// The first promise that was broken.
///
/// # Panics
/// When a job does not come to an end.
pub fn check(seed: u64) -> Result<Met, String> {
    let (found, trace) = world(seed, std::env::var_os("LONGHAUL_TRACE").is_some());
    found.map_err(|broken| format!("{broken}\n{}", trace.join("\n")))
}

/// What the audit of a seed's world says, and, where it is to be traced, what happened in it.
///
/// # Panics
/// When a job does not come to an end.
pub fn world(seed: u64, traced: bool) -> (Result<Met, String>, Vec<String>) {
    virtually(world_in_time(seed, traced))
}

async fn world_in_time(seed: u64, traced: bool) -> (Result<Met, String>, Vec<String>) {
    let dice = &mut StdRng::seed_from_u64(seed ^ 0x7468_7265_6164);
    let far_end = FarEnd::new(
        seed,
        Manners { latency_max: seconds(dice, 1..20), answer_lost_permille: 0, turned_away_permille: 0 },
    );
    let sim = Sim::new(seed, faults(dice));
    if traced {
        sim.record_trace();
    }
    let mut workshop = Workshop::new(sim, registry(&far_end, Deployed::Right));
    workshop.invocation = seconds(dice, 20..900);
    let (deaths, freezes, workers) = (dice.random_range(0..8), dice.random_range(0..4), dice.random_range(2..5));
    workshop.crashes = Rc::new(move |number| {
        let dice = &mut StdRng::seed_from_u64(seed ^ (1 << 56) ^ (number << 32));
        let moment = if dice.random_bool(0.5) { Moment::Before } else { Moment::After };
        (number < deaths && dice.random_bool(0.6)).then(|| killed(dice.random_range(1..30), moment))
    });
    workshop.freezes = Rc::new(move |number| {
        let dice = &mut StdRng::seed_from_u64(seed ^ (2 << 56) ^ (number << 32));
        (number < freezes && dice.random_bool(0.6)).then(|| (dice.random_range(1..30), seconds(dice, 10..400)))
    });
    let clients = clients(dice);
    let people = async {
        let work = clients.iter().enumerate().map(|(number, client)| serve(&workshop, number, client));
        let answered: Vec<Answered> = join_all(work).await;
        workshop.clock.sleep(SETTLING).await;
        answered
    };
    let answered = workshop.run(workers, people).await;
    let snapshot = workshop.sim.snapshot();
    let found = look(&snapshot, &answered).and_then(|met| {
        let evidence =
            Evidence { snapshot: &snapshot, asked: &far_end.asked(), acknowledged: &[], deaths: deaths + freezes };
        audit(&evidence).map(|()| met)
    });
    (found, workshop.sim.trace())
}

/// Submits a client's jobs, one when the last was answered, and does with each what it does.
async fn serve(workshop: &Workshop, client: usize, plan: &Client) -> Answered {
    let mut jobs = Vec::new();
    for (number, sent) in plan.sent.iter().enumerate() {
        workshop.clock.sleep(sent.after).await;
        let mut order = order(workshop, sent.kind, client * 100 + number);
        let id = format!("thread-{}", plan.thread).parse().unwrap();
        order.thread = Some(Thread { id, on_busy: sent.on_busy });
        let accepted = loop {
            match outside::submit(&workshop.sim.handle(), order.clone()).await {
                Ok(accepted) => break Some(accepted.job.order.id),
                Err(OutsideError::ThreadBusy { .. }) => break None,
                Err(OutsideError::Store(_)) => workshop.clock.sleep(Duration::from_millis(100)).await,
                Err(other) => panic!("not submitted: {other}"),
            }
        };
        jobs.push((accepted, *sent));
    }
    let attended = jobs.iter().filter_map(|(job, sent)| Some(attend(workshop, (*job)?, *sent)));
    join_all(attended).await;
    jobs.into_iter().map(|(job, _)| job).collect()
}

/// Cancels a job or not, waits for its end, replays it or not.
async fn attend(workshop: &Workshop, job: JobId, sent: Sent) {
    let reference = JobRef { tenant: "acme".parse().unwrap(), job };
    if let Some(after) = sent.cancelled_after {
        workshop.clock.sleep(after).await;
        let by = || "ada".to_owned();
        asked(workshop, async || {
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            outside::cancel(&store, &reference, "cancel".parse().unwrap(), by(), None, now).await.map(|_| ())
        })
        .await;
    }
    // What waits for a person gets its answer; others leave it.
    asked(workshop, async || {
        let (store, now) = (workshop.sim.handle(), workshop.clock.now());
        let (name, key) = ("approval".parse().unwrap(), "answer".parse().unwrap());
        outside::signal(&store, &reference, name, key, "yes".into(), "ada".into(), now).await.map(|_| ())
    })
    .await;
    let ended = workshop.ended(&reference).await;
    if let (JobState::Failed | JobState::Cancelled, Some(after)) = (ended.progress.state, sent.replayed_after) {
        workshop.clock.sleep(after).await;
        let edit = Edit { input: Some(sent.kind.order(true).1), budget: None, ..Edit::default() };
        asked(workshop, async || {
            let (store, now) = (workshop.sim.handle(), workshop.clock.now());
            let key = "mended".parse().unwrap();
            let edit = edit.clone();
            outside::replay(&store, &reference, key, "bob".into(), None, edit, now).await.map(|_| ())
        })
        .await;
        workshop.ended(&reference).await;
    }
}

async fn asked(workshop: &Workshop, ask: impl AsyncFn() -> Result<(), OutsideError>) {
    for _ in 0..1_000 {
        match ask().await {
            Err(OutsideError::Store(_)) => workshop.clock.sleep(Duration::from_secs(1)).await,
            Ok(()) | Err(_) => return,
        }
    }
    panic!("a store that never answers")
}

/// A turn that a job has had: from its first claim to its end, in the order of all entries.
#[derive(Debug, Clone, Copy)]
struct Went {
    job: JobId,
    replays: u32,
    from: usize,
    to: usize,
}

/// Reads what is stored.
fn look(snapshot: &Snapshot, answered: &[Answered]) -> Result<Met, String> {
    let mut met = Met::default();
    let places: BTreeMap<(JobId, Seq), usize> =
        snapshot.appended.iter().enumerate().map(|(number, at)| (*at, number)).collect();
    let mut threads: BTreeMap<String, Vec<Went>> = BTreeMap::new();
    for (id, job) in &snapshot.jobs {
        let batches = snapshot.journals.get(id).map_or(&[] as &[Batch], Vec::as_slice);
        let Some(thread) = &job.order.thread else { continue };
        let turns = turns(*id, batches, &places, &mut met)?;
        threads.entry(thread.id.to_string()).or_default().extend(turns);
    }
    for (thread, turns) in &mut threads {
        turns.sort_by_key(|went| went.from);
        if let Some(pair) = turns.windows(2).find(|pair| pair[1].from < pair[0].to) {
            return Err(format!("two of {thread} at once: {pair:?}"));
        }
        met.waited += u64::try_from(turns.windows(2).filter(|pair| pair[1].from > pair[0].to).count()).unwrap_or(0);
        met.turns_of_replays += u64::try_from(turns.iter().filter(|went| went.replays > 0).count()).unwrap_or(0);
    }
    for client in answered {
        met.refused += u64::try_from(client.iter().filter(|job| job.is_none()).count()).unwrap_or(0);
        let begun = |job: &JobId| {
            threads.values().flatten().find(|went| went.job == *job && went.replays == 0).map(|went| went.from)
        };
        let order: Vec<usize> = client.iter().flatten().filter_map(begun).collect();
        if !order.is_sorted() {
            return Err(format!("not in the order of submission: {client:?} began at {order:?}"));
        }
    }
    // A worker that stood still while its job ended may have taken a place for it. Who comes behind looks and takes it out.
    for place in snapshot.lines.values().flat_map(|line| &line.places) {
        let batches = snapshot.journals.get(&place.job).cloned().unwrap_or_default();
        let journal = Journal::read(batches).map_err(|error| error.to_string())?;
        if !place.is_over(journal.replays(), journal.ending().is_some()) {
            return Err(format!("all have ended, and {place:?} is not over"));
        }
    }
    Ok(met)
}

/// The turns of a job in which its agent may have run.
fn turns(
    job: JobId,
    batches: &[Batch],
    places: &BTreeMap<(JobId, Seq), usize>,
    met: &mut Met,
) -> Result<Vec<Went>, String> {
    let journal = Journal::read(batches.to_vec()).map_err(|error| format!("{job}: {error}"))?;
    let (mut turns, mut from, mut worked, mut replays) = (Vec::new(), None, false, 0);
    for batch in batches {
        let at = places.get(&(job, batch.at)).copied().ok_or_else(|| format!("{job}: no place of {}", batch.at))?;
        for entry in &batch.entries {
            match entry {
                Entry::Claimed { takeover, .. } => {
                    from = from.or(Some(at));
                    met.takeovers += u64::from(*takeover);
                }
                Entry::Signalled { .. } => {}
                Entry::CancelRequested { key, .. } => {
                    met.interrupted += u64::from(key.as_str().starts_with("interrupted-by:"));
                }
                Entry::Replayed { .. } => (from, worked, replays) = (None, false, replays + 1),
                Entry::Cancelled { .. } if !worked => met.cancelled_in_line += u64::from(journal.replays() == 0),
                Entry::Completed { .. } | Entry::Failed { .. } | Entry::Cancelled { .. } => {
                    turns.extend(from.map(|from| Went { job, replays, from, to: at }));
                }
                Entry::StepStarted { .. }
                | Entry::StepCompleted { .. }
                | Entry::AttemptFailed { .. }
                | Entry::StepFailed { .. }
                | Entry::Waiting { .. }
                | Entry::WaitEnded { .. }
                | Entry::Emitted { .. }
                | Entry::Forked { .. } => worked = true,
            }
        }
    }
    match journal.ending() {
        Some(Ending::Completed { .. } | Ending::Failed { .. } | Ending::Cancelled { .. }) => Ok(turns),
        None => Err(format!("{job} has not ended")),
    }
}
