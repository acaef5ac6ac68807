//! The processes of one function, and who may use which.
//!
//! A function whose processes work on one invocation at a time gets as many processes as it has invocations. One whose
//! processes work on several fills the first of them a little before it starts another, so that a quiet stack has one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::Platform;
use super::process::{Ending, Instance};

/// The longest and shortest distance between two looks for idle processes.
const LOOK_MIN: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_secs(5);

/// A process that works on several invocations has its equal started when it has this part of what it can have.
const FULL_ENOUGH: usize = 4;

#[derive(Debug)]
pub(super) struct Pool {
    /// One permit for each invocation that may run at once.
    turns: Arc<Semaphore>,
    per_process: usize,
    processes_max: usize,
    members: Mutex<Members>,
    /// Says that a process has more room than before, or that there is one more or less.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Members {
    living: BTreeMap<u64, Member>,
    /// Processes that were started and have not asked for work.
    starting: usize,
}

#[derive(Debug)]
struct Member {
    instance: Arc<Instance>,
    /// Whether it has asked for work.
    up: bool,
    /// How many invocations it was given.
    load: usize,
    /// Whether it is not to be given more beside what it has, as long as others can be had.
    alone: bool,
    /// When it last got or gave back an invocation.
    since: Instant,
}

/// How an invocation comes by a process.
#[derive(Debug)]
pub(super) enum Place {
    /// This one has room, and it was taken.
    Warm(Arc<Instance>),
    /// It starts one. The place for it is kept until [`Pool::started`].
    Start,
    /// It waits for a change.
    Wait,
}

impl Pool {
    pub(super) fn new(max_concurrency: usize, per_process: usize) -> Self {
        let per_process = per_process.max(1);
        Self {
            turns: Arc::new(Semaphore::new(max_concurrency.min(Semaphore::MAX_PERMITS))),
            per_process,
            processes_max: max_concurrency.div_ceil(per_process).max(1),
            members: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most `patience` for the right to run one invocation; nothing when there is none to be had.
    pub(super) async fn turn(&self, patience: Duration) -> Option<OwnedSemaphorePermit> {
        if let Ok(turn) = Arc::clone(&self.turns).try_acquire_owned() {
            return Some(turn);
        }
        if patience.is_zero() {
            return None;
        }
        tokio::time::timeout(patience, Arc::clone(&self.turns).acquire_owned()).await.ok()?.ok()
    }

    /// A place for an invocation; one that is to be `alone` shares its process with no other where that can be had.
    pub(super) async fn place(&self, alone: bool) -> Place {
        loop {
            // Asked for before the look, so that no change falls between.
            let changed = self.changed.notified();
            let place = self.members().place(alone, self.per_process, self.processes_max);
            match place {
                Place::Wait => changed.await,
                place @ (Place::Warm(_) | Place::Start) => return place,
            }
        }
    }

    /// A process that [`Place::Start`] asked for has come up and works on its first invocation; none: it did not.
    pub(super) fn started(&self, instance: Option<&Arc<Instance>>, alone: bool) {
        let mut members = self.members();
        members.starting = members.starting.saturating_sub(1);
        if let Some(member) = instance.and_then(|instance| members.living.get_mut(&instance.number())) {
            member.up = true;
            member.take(alone);
        }
        drop(members);
        self.changed.notify_waiters();
    }

    /// Counts in a process that was just started.
    pub(super) fn add(&self, instance: &Arc<Instance>) {
        let member = Member { instance: Arc::clone(instance), up: false, load: 0, alone: false, since: Instant::now() };
        self.members().living.insert(instance.number(), member);
    }

    /// Gives back a process after its invocation.
    pub(super) fn give_back(&self, instance: &Arc<Instance>) {
        if let Some(member) = self.members().living.get_mut(&instance.number()) {
            member.load = member.load.saturating_sub(1);
            // Whose invocation has ended is not known where it was shared: it may be a neighbour's.
            member.alone &= member.load > 0;
            member.since = Instant::now();
        }
        self.changed.notify_waiters();
    }

    /// Counts out a process that has ended.
    pub(super) fn remove(&self, instance: &Instance) {
        self.members().living.remove(&instance.number());
        self.changed.notify_waiters();
    }

    /// All living processes, oldest first.
    pub(super) fn instances(&self) -> Vec<Arc<Instance>> {
        self.members().living.values().map(|member| Arc::clone(&member.instance)).collect()
    }

    fn take_idle_longer_than(&self, age: Duration) -> Vec<Arc<Instance>> {
        let mut members = self.members();
        let idle = |member: &&mut Member| member.up && member.load == 0 && member.since.elapsed() >= age;
        let mut old = Vec::new();
        for member in members.living.values_mut().filter(idle) {
            // Out of everybody's reach from here on.
            member.up = false;
            old.push(Arc::clone(&member.instance));
        }
        old
    }
}

impl Members {
    fn place(&mut self, alone: bool, per_process: usize, processes_max: usize) -> Place {
        let processes = self.living.values().filter(|member| member.up).count() + self.starting;
        let may_start = per_process == 1 || processes < processes_max;
        // What is to be alone, or finds nobody who moves, may have processes beyond the usual number, but not without end.
        let may_start_beyond = per_process == 1 || processes < processes_max.saturating_mul(2);
        // Where no more processes can be had, one that is held alone is shared all the same: else a few events that come
        // again would shut everybody out for as long as they run.
        let open =
            |member: &&mut Member| member.up && (!member.alone || !may_start_beyond) && member.load < per_process;
        let mut open: Vec<&mut Member> = self.living.values_mut().filter(open).collect();
        // The least busy first, and of equals the one that worked last, so that the others can go.
        open.sort_by_key(|member| (member.alone, member.load, std::cmp::Reverse(member.since)));
        // A process that was stopped would take work in and let it lie.
        let candidate = open.into_iter().find(|member| per_process == 1 || !member.instance.stands_still());
        let start = match &candidate {
            Some(member) if member.load == 0 => false,
            Some(_) if alone => may_start_beyond,
            Some(member) => member.load >= per_process / FULL_ENOUGH && may_start && self.starting == 0,
            // One that is about to come up will have room for those who wait now.
            None => may_start_beyond && (self.starting == 0 || per_process == 1),
        };
        match candidate {
            _ if start => {
                self.starting += 1;
                Place::Start
            }
            Some(member) => {
                let whole = alone && member.load == 0;
                Place::Warm(member.take(whole))
            }
            None => Place::Wait,
        }
    }
}

impl Member {
    fn take(&mut self, alone: bool) -> Arc<Instance> {
        self.load += 1;
        self.alone |= alone;
        self.since = Instant::now();
        Arc::clone(&self.instance)
    }
}

/// Ends processes that have been idle for too long, as long as the platform lives.
pub(super) async fn end_idle(platform: Weak<Platform>) {
    loop {
        let pause = {
            let Some(platform) = platform.upgrade() else { return };
            for state in platform.states() {
                for instance in state.pool.take_idle_longer_than(platform.config.idle_after) {
                    instance.end(Ending::Idle);
                }
            }
            (platform.config.idle_after / 4).clamp(LOOK_MIN, LOOK_MAX)
        };
        tokio::time::sleep(pause).await;
    }
}
