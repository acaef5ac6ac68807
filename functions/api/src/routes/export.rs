//! A job as a file.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use http::header::CONTENT_DISPOSITION;
use longhaul::engine::Seq;
use longhaul_wire::export::{EntryPart, Export};
use longhaul_wire::journal::JournalView;
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::text::json_prefix;
use longhaul_wire::{Problem, Scope, limits};

use crate::answer::{Refused, json, with_header};
use crate::definitions;
use crate::extract::{Called, JobPath, PositionPath};
use crate::parameters::Parameters;
use crate::service::{Service, now};
use crate::watch;

/// Exports a job as one JSON file: what it was asked, its agent's definition and its journal, large values included.
///
/// An answer without `next` is the whole file. With it, the next part is that of `after`, whose `journal` goes behind this
/// one's; an entry that is `truncated` is fetched from `/v1/jobs/{id}/journal/{position}`. `longhaul jobs export` does both.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/export", tag = "jobs", operation_id = "exportJob",
    params(
        ("id" = uuid::Uuid, Path, description = "The job"),
        ("after" = Option<u64>, Query, description = "Only entries behind this position; `next` of the last part"),
    ),
    responses(
        (status = 200, description = "The file, or a part of it.", body = Export),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn export(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let mut parameters = Parameters::of(query.as_deref())?;
    let after = parameters.number("after", 0, u64::MAX)?.unwrap_or(0);
    parameters.end()?;
    let reference = called.job(job);
    let item = watch::item(service.store(), &reference).await?;
    let entries_max = limits::JOURNAL_PAGE_ENTRIES_MAX;
    let batches = service.store().journal_part(job, Seq(after).plus(1), entries_max.saturating_add(1)).await?;
    let page = JournalView::page(job, &batches, after, entries_max);
    let definition = definitions::source(&service, &reference.tenant, &item.order.agent).await?;
    let export = Export::new(&item.order, item.progress.state.status(), definition, page, now());
    let name = format!("attachment; filename=\"job-{job}.json\"");
    Ok(with_header(json(StatusCode::OK, &export), CONTENT_DISPOSITION, &name))
}

/// Gives an entry that is larger than a page, part by part.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/journal/{position}", tag = "jobs", operation_id = "getEntry",
    params(
        ("id" = uuid::Uuid, Path, description = "The job"),
        ("position" = u64, Path, description = "The entry's position"),
        ("offset" = Option<u64>, Query, description = "Bytes of the entry's JSON to pass over; `next` of the last part"),
    ),
    responses(
        (status = 200, description = "A part of the entry's JSON.", body = EntryPart),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn entry(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    PositionPath(seq): PositionPath,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let mut parameters = Parameters::of(query.as_deref())?;
    let offset = parameters.number("offset", 0, u64::MAX)?.unwrap_or(0);
    parameters.end()?;
    watch::item(service.store(), &called.job(job)).await?;
    let absent = || Problem::parameter("position", "is no position of this journal");
    let batches = service.store().journal_part(job, seq, 1).await?;
    let batch = batches.first().filter(|batch| batch.at <= seq && seq < batch.next()).ok_or_else(absent)?;
    let place = usize::try_from(seq.0.saturating_sub(batch.at.0)).unwrap_or(usize::MAX);
    let entry = batch.entries.get(place).ok_or_else(absent)?;
    let text = serde_json::to_string(entry).map_err(|_| Problem::Internal)?;
    let wrong = || Problem::parameter("offset", "is not `next` of a part of this entry");
    let rest = usize::try_from(offset).ok().and_then(|offset| text.get(offset..)).ok_or_else(wrong)?;
    let (part, more) = json_prefix(rest, limits::ENTRY_PART_BYTES_MAX);
    let next = offset.saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
    let part = EntryPart { seq, text: part.to_owned(), next: more.then_some(next) };
    Ok(json(StatusCode::OK, &part))
}
