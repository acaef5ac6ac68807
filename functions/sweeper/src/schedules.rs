//! Schedules whose time has come: each submits its job, once, on the terms on which its owner could.
//!
//! The job goes first, under an id that is made of the schedule and the time that it is for; then the schedule's next
//! time is written. A sweeper that dies between the two, and two sweepers at once, meet the job that is there already.

use std::time::Duration;

use futures::stream::{self, StreamExt};
use longhaul::engine::admission::{Known, Verdict};
use longhaul::engine::ids::ScheduleName;
use longhaul::engine::schedule::{Firing, decide};
use longhaul::engine::{JobId, TenantId, Timestamp, limits};
use longhaul::outside::{self, OutsideError, fresh_nonce};
use longhaul::store::{JobRef, Store, StoreError};
use longhaul_aws::AwsStore;
use longhaul_aws::dynamo::Schedule;
use longhaul_aws::telemetry::chain;
use longhaul_wire::schedules::{FiringView, ScheduleRequest, order};
use serde::Serialize;

/// Schedules that are looked at together.
const SCHEDULES_AT_ONCE: usize = 16;
/// How often what came of a firing is written beside others who write the schedule.
const SETTLE_TRIES_MAX: u32 = 4;

/// When a schedule is looked at again that only a later version can read.
const UNREADABLE_AGAIN: Duration = Duration::from_secs(3_600);

/// What the schedules of one sweep came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Fired {
    /// Schedules that submitted a job.
    pub submitted: u64,
    /// Schedules whose job was refused; each says why.
    pub refused: u64,
    /// Schedules that could not be looked after; the next sweep meets them again.
    pub failed: u64,
}

/// Fires what is due.
///
/// # Errors
/// Store errors, when nothing could be looked at.
pub async fn fire(store: &AwsStore, now: Timestamp) -> Result<Fired, StoreError> {
    let due = store.due_schedules(now, limits::SWEEP_SCHEDULES_MAX).await?;
    let looks = stream::iter(&due)
        .map(async |(tenant, name)| {
            let looked = look_after(store, tenant, name, now).await;
            if let Err(error) = &looked {
                tracing::error!(%tenant, schedule = %name, error = %chain(error), "a schedule was not looked after");
                // It will be the same at the next sweep, unlike a store that did not answer.
                if matches!(error, StoreError::Corrupt { .. } | StoreError::Newer { .. }) {
                    set_aside(store, tenant, name, now).await;
                }
            }
            looked
        })
        .buffer_unordered(SCHEDULES_AT_ONCE);
    let fired = looks.fold(Fired::default(), async |sum, looked| match looked {
        Ok(Some(FiringView { job: Some(_), .. })) => Fired { submitted: sum.submitted.saturating_add(1), ..sum },
        Ok(Some(_)) => Fired { refused: sum.refused.saturating_add(1), ..sum },
        Ok(None) => sum,
        Err(_) => Fired { failed: sum.failed.saturating_add(1), ..sum },
    });
    Ok(fired.await)
}

/// What becomes of a schedule behind a look at it.
struct After {
    next: Option<Timestamp>,
    again: Option<Timestamp>,
    last: FiringView,
}

/// What a submission came to.
enum Came {
    /// The job is there.
    Job(JobId),
    /// It will not be: this is why.
    Refused(String),
    /// There is no room for it now: this is why, and when it is tried again.
    Later(String, Duration),
}

/// Looks after one schedule. None: it is not due, or is no more.
async fn look_after(
    store: &AwsStore,
    tenant: &TenantId,
    name: &ScheduleName,
    now: Timestamp,
) -> Result<Option<FiringView>, StoreError> {
    // The index may lag; the item decides.
    let Some(schedule) = store.schedule(tenant, name).await? else { return Ok(None) };
    let Some(due) = schedule.next.filter(|next| schedule.again.unwrap_or(*next) <= now) else { return Ok(None) };
    let after = match ScheduleRequest::stored(&schedule.request) {
        Ok(request) => match request.timetable() {
            Ok(timetable) => {
                let Some(firing) = decide(&timetable, due, now) else { return Ok(None) };
                after(submit(store, &schedule, &request, firing.time, now).await?, firing, due, now)
            }
            // It was readable when it was saved: the database of time zones has changed. Its owner must look.
            Err(error) => {
                let why = format!("its timetable {error}");
                After { next: None, again: None, last: FiringView::new(due, now, Err(why)) }
            }
        },
        // A later version has saved it. It waits for that one, and stands in nobody's way.
        Err(error) => {
            tracing::error!(%tenant, schedule = %name, %error, "a schedule cannot be read by this version");
            let why = format!("it cannot be read by this version: {error}; it is tried again");
            let again = Some(now.plus(UNREADABLE_AGAIN));
            After { next: Some(due), again, last: FiringView::new(due, now, Err(why)) }
        }
    };
    let last = after.last.clone();
    tracing::info!(%tenant, schedule = %name, time = last.time, job = ?last.job, error = last.error, "a schedule fired");
    settle(store, schedule, after).await?;
    Ok(Some(last))
}

/// Has the next sweep meet a schedule behind all others that are due by then: those that nobody can look after, and be they
/// as many as one sweep fires, keep no other from firing.
async fn set_aside(store: &AwsStore, tenant: &TenantId, name: &ScheduleName, now: Timestamp) {
    let until = now.plus(Duration::from_millis(limits::SCHEDULE_AGAIN_MIN_MS));
    if let Err(error) = store.set_schedule_aside(tenant, name, until).await {
        tracing::warn!(%tenant, schedule = %name, error = %chain(&error), "a schedule was not set aside");
    }
}

fn after(came: Came, firing: Firing, due: Timestamp, now: Timestamp) -> After {
    let Firing { time, next } = firing;
    match came {
        Came::Job(job) => After { next, again: None, last: FiringView::new(time, now, Ok(job)) },
        Came::Refused(why) => After { next, again: None, last: FiringView::new(time, now, Err(why)) },
        Came::Later(why, wait) => {
            let again = now.plus(wait.max(Duration::from_millis(limits::SCHEDULE_AGAIN_MIN_MS)));
            let last = FiringView::new(time, now, Err(format!("{why}; it is tried again")));
            After { next: Some(due), again: Some(again), last }
        }
    }
}

/// Submits the job for a time, if its tenant may submit now.
async fn submit(
    store: &AwsStore,
    schedule: &Schedule,
    request: &ScheduleRequest,
    time: Timestamp,
    now: Timestamp,
) -> Result<Came, StoreError> {
    let tenant = &schedule.tenant;
    if store.erasure_under_way(tenant).await?.is_some() {
        return Ok(Came::Later("all data of the tenant is being erased".to_owned(), Duration::ZERO));
    }
    let order = match order(request, tenant, &schedule.name, time, now) {
        Ok(order) => order,
        Err(refused) => return Ok(Came::Refused(refused)),
    };
    let id = order.id;
    // Whoever submitted it may have died before the schedule said so: then it is there, and charged.
    if store.job(&JobRef { tenant: tenant.clone(), job: id }).await?.is_some() {
        return Ok(Came::Job(id));
    }
    if let Some(later) = charge(store, tenant, now).await? {
        return Ok(later);
    }
    match outside::submit(store, order).await {
        // Another order under its id: its owner has changed the schedule since it fired for this time.
        Ok(_) | Err(OutsideError::OtherRequest) => Ok(Came::Job(id)),
        Err(OutsideError::Store(error)) => Err(error),
        Err(refused) => Ok(Came::Refused(refused.to_string())),
    }
}

/// Writes one more submission into the tenant's book, if there is room for it. A firing can wait a moment, unlike a caller, so
/// that the book is read first and nothing comes through that is too much.
async fn charge(store: &AwsStore, tenant: &TenantId, now: Timestamp) -> Result<Option<Came>, StoreError> {
    let tenant_limits = *store.config().tenant_limits.of(tenant);
    let mut known = Known::default();
    known.written(0, store.used(tenant, now).await?, now);
    match known.admit(&tenant_limits, now) {
        Verdict::Refuse { limit, value, retry_after } => {
            let why = format!("the tenant is at its limit `{}` of {value}", limit.as_str());
            Ok(Some(Came::Later(why, retry_after)))
        }
        // What was read just now need not be asked for.
        Verdict::Admit { .. } | Verdict::Ask => {
            store.charge(tenant, 1, &tenant_limits, known.was_idle(now), now).await?;
            Ok(None)
        }
    }
}

/// Writes what comes next. Where its owner or another sweeper has written the schedule meanwhile, what they wrote holds, and
/// it is only told what came of this firing.
async fn settle(store: &AwsStore, schedule: Schedule, after: After) -> Result<(), StoreError> {
    let last = serde_json::to_string(&after.last)
        .map_err(|error| StoreError::Unavailable { action: "writing a firing as JSON", source: error.into() })?;
    let (tenant, name) = (schedule.tenant.clone(), schedule.name.clone());
    let (due, mut seen) = (schedule.next, schedule.mark);
    let mut written =
        Schedule { next: after.next, again: after.again, last: Some(last.clone()), mark: fresh_nonce(), ..schedule };
    for _ in 0..SETTLE_TRIES_MAX {
        if store.write_schedule(&written, Some(seen)).await? {
            return Ok(());
        }
        let Some(found) = store.schedule(&tenant, &name).await? else { return Ok(()) };
        let told = found.last.as_deref().and_then(|last| serde_json::from_str::<FiringView>(last).ok());
        // Times of one form, so that they sort as texts. Another sweeper's word on the same time is as good as ours, but for
        // one that had no job.
        let is_told = |told: FiringView| {
            told.time > after.last.time
                || (told.time == after.last.time && (told.job.is_some() || after.last.job.is_none()))
        };
        if told.is_some_and(is_told) {
            return Ok(());
        }
        let (next, again) = if found.next == due { (after.next, after.again) } else { (found.next, found.again) };
        seen = found.mark;
        written = Schedule { next, again, last: Some(last.clone()), mark: fresh_nonce(), ..found };
    }
    tracing::warn!(%tenant, schedule = %name, "a schedule fired and does not show it: others wrote it at the same time");
    Ok(())
}
