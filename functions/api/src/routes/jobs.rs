//! Jobs, their lists and their journals.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use futures::{StreamExt, TryStreamExt};
use http::StatusCode;
use longhaul::engine::job::Status;
use longhaul::engine::journal::Ending;
use longhaul::engine::{Batch, JobId, Seq, Timestamp};
use longhaul::store::{JobRef, Store};
use longhaul_aws::AwsStore;
use longhaul_aws::dynamo::{Cursor, JobFilter, JobSummary as Listed};
use longhaul_wire::jobs::{DeadLetterList, JobList, JobSummary, Links};
use longhaul_wire::journal::JournalView;
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::text::{parse_rfc3339, rfc3339};
use longhaul_wire::{JobView, Problem, Scope, agents, limits};

use crate::answer::{Refused, json};
use crate::extract::{Called, JobPath};
use crate::pages::List;
use crate::parameters::Parameters;
use crate::service::Service;
use crate::watch::{self, Seen};

/// Dead letters read at a time: a page takes a few round trips and not fifty.
const READS_AT_ONCE: usize = 8;

/// Shows a job with its result, failure or open waits.
#[utoipa::path(
    get, path = "/v1/jobs/{id}", tag = "jobs", operation_id = "getJob",
    params(("id" = uuid::Uuid, Path, description = "The job")),
    responses(
        (status = 200, description = "The job.", body = JobView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn get(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let seen = Seen::read(service.store(), &called.job(job)).await?;
    Ok(json(StatusCode::OK, &seen.view_in_line(service.store()).await?))
}

/// Shows a job's journal: every entry, whole.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/journal", tag = "jobs", operation_id = "getJournal",
    params(
        ("id" = uuid::Uuid, Path, description = "The job"),
        ("after" = Option<u64>, Query, description = "Only entries behind this position; `next` of the last page"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 1000, description = "Entries of a page, by default 200"),
    ),
    responses(
        (status = 200, description = "Entries in order.", body = JournalView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn journal(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let mut parameters = Parameters::of(query.as_deref())?;
    let after = parameters.number("after", 0, u64::MAX)?.unwrap_or(0);
    let size = parameters.page_size(limits::JOURNAL_PAGE_ENTRIES_DEFAULT, limits::JOURNAL_PAGE_ENTRIES_MAX)?;
    parameters.end()?;
    watch::item(service.store(), &called.job(job)).await?;
    // One more than the page holds tells whether anything follows.
    let batches = service.store().journal_part(job, Seq(after).plus(1), size.saturating_add(1)).await?;
    Ok(json(StatusCode::OK, &JournalView::page(job, &batches, after, size)))
}

/// Lists jobs, newest first. Every filter is looked up and none is scanned for; one answer looks at 1,000 jobs at most.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", operation_id = "listJobs",
    params(
        ("status" = Option<String>, Query, description = "Only jobs that stand so, such as WAITING"),
        ("agent" = Option<String>, Query, description = "Only jobs of this agent, by `name` or `name@version`"),
        ("label" = Option<String>, Query, description = "Only jobs with this label, as NAME=VALUE"),
        ("thread" = Option<String>, Query, description = "Only jobs of this thread"),
        ("since" = Option<String>, Query, description = "Only jobs submitted at this time or later (RFC 3339)"),
        ("until" = Option<String>, Query, description = "Only jobs submitted before this time (RFC 3339)"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 200, description = "Jobs of a page, by default 50"),
        ("cursor" = Option<String>, Query, description = "`next` of the last page"),
    ),
    responses(
        (status = 200, description = "A page. It may be empty and still have a `next`.", body = JobList),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(service): State<Service>,
    called: Called,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let mut parameters = Parameters::of(query.as_deref())?;
    let filter = filter(&mut parameters)?;
    let size = parameters.page_size(limits::JOBS_PAGE_DEFAULT, limits::JOBS_PAGE_MAX)?;
    let cursor = parameters.text("cursor");
    parameters.end()?;
    let list = List::new(&called.0.tenant, "jobs", &format!("{filter:?}"));
    let cursor = list.inner(cursor.as_deref(), Cursor::of_jobs)?;
    let page = service.store().list_jobs(&called.0.tenant, &filter, cursor, size).await?;
    let jobs = page.jobs.into_iter().map(summary).collect();
    Ok(json(StatusCode::OK, &JobList { jobs, next: page.next.map(|next| list.cursor(&next)) }))
}

fn filter(parameters: &mut Parameters) -> Result<JobFilter, Problem> {
    let status = parameters.text("status").map(|text| status(&text)).transpose()?;
    let label = parameters.text("label").map(|text| {
        let parts = text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        parts.ok_or_else(|| Problem::parameter("label", "must be NAME=VALUE"))
    });
    let thread = parameters.text("thread");
    let (since, until) = (time(parameters, "since")?, time(parameters, "until")?);
    if since.zip(until).is_some_and(|(since, until)| since >= until) {
        return Err(Problem::parameter("until", "must be later than `since`"));
    }
    let (agent, version) = match parameters.text("agent") {
        Some(text) => match agents::reference(&text) {
            Some((name, version)) => (Some(name.to_string()), version),
            // What no agent is called has no jobs.
            None => (Some(text), None),
        },
        None => (None, None),
    };
    Ok(JobFilter { status, agent, version, label: label.transpose()?, thread, since, until })
}

fn time(parameters: &mut Parameters, name: &str) -> Result<Option<Timestamp>, Problem> {
    let Some(text) = parameters.text(name) else { return Ok(None) };
    let wrong = || Problem::parameter(name, "must be a time such as 2026-01-31T08:00:00Z");
    parse_rfc3339(&text).map(Some).ok_or_else(wrong)
}

fn status(text: &str) -> Result<Status, Problem> {
    let found = Status::ALL.into_iter().find(|status| status.as_str().eq_ignore_ascii_case(text));
    let known = || Status::ALL.map(Status::as_str).join(", ");
    found.ok_or_else(|| Problem::parameter("status", format!("must be one of {}", known())))
}

fn summary(job: Listed) -> JobSummary {
    JobSummary {
        id: job.id,
        agent: job.agent.to_string(),
        status: job.status,
        submitted_at: rfc3339(job.submitted_at),
        updated_at: rfc3339(job.updated_at),
        submitted_by: job.submitted_by,
        labels: job.labels,
        thread: job.thread.map(String::from),
        usage: job.totals.usage.into(),
        steps: job.totals.steps,
        links: Links::of(job.id),
    }
}

/// Lists failed jobs that wait for a person to edit and replay them.
#[utoipa::path(
    get, path = "/v1/dead-letters", tag = "jobs", operation_id = "listDeadLetters",
    params(
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 50, description = "Jobs of a page, by default 20"),
        ("cursor" = Option<String>, Query, description = "`next` of the last page"),
    ),
    responses(
        (status = 200, description = "A page, the latest failure first.", body = DeadLetterList),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn dead_letters(
    State(service): State<Service>,
    called: Called,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let mut parameters = Parameters::of(query.as_deref())?;
    let size = parameters.page_size(limits::DEAD_LETTERS_PAGE_DEFAULT, limits::DEAD_LETTERS_PAGE_MAX)?;
    let cursor = parameters.text("cursor");
    parameters.end()?;
    let list = List::new(&called.0.tenant, "dead-letters", "");
    let cursor = list.inner(cursor.as_deref(), Cursor::of_dead_letters)?;
    let page = service.store().dead_letters(&called.0.tenant, cursor, size).await?;
    let read = page.jobs.into_iter().map(|job| dead_letter(service.store(), called.job(job.id)));
    let found: Vec<Option<JobView>> = futures::stream::iter(read).buffered(READS_AT_ONCE).try_collect().await?;
    let dead_letters = found.into_iter().flatten().collect();
    Ok(json(StatusCode::OK, &DeadLetterList { dead_letters, next: page.next.map(|next| list.cursor(&next)) }))
}

/// A failed job with its failure; none when it has expired or was replayed since it was listed.
async fn dead_letter(store: &AwsStore, job: JobRef) -> Result<Option<JobView>, Refused> {
    let Some(item) = store.job(&job).await? else { return Ok(None) };
    // The end is the last entry, and the item knows where that is; a journal may have thousands before it.
    let last = Seq(item.progress.tail.0.saturating_sub(1).max(Seq::FIRST.0));
    let ending = ending(&store.journal(job.job, last).await?);
    match ending {
        Some(ending @ Ending::Failed { .. }) => Ok(Some(JobView::of_item(&item).ended(ending))),
        Some(Ending::Completed { .. } | Ending::Cancelled { .. }) => Ok(None),
        None => whole_dead_letter(store, &job).await,
    }
}

/// The same by the whole journal, for an item that does not know its end.
async fn whole_dead_letter(store: &AwsStore, job: &JobRef) -> Result<Option<JobView>, Refused> {
    let seen = Seen::read(store, job).await?;
    let mut view = seen.view();
    view.input = None;
    Ok(Some(view).filter(|view| view.status == Status::Failed))
}

/// How a job ended whose last batches these are; none when they do not hold its end, or a replay behind it.
fn ending(batches: &[Batch]) -> Option<Ending> {
    let last = batches.last()?.entries.last()?;
    Ending::of_entry(last.clone())
}

/// Where the job stands, for a problem that says so.
pub(super) async fn status_of(store: &AwsStore, called: &Called, job: JobId) -> Option<Status> {
    Seen::read(store, &called.job(job)).await.ok().map(|seen| seen.view().status)
}
