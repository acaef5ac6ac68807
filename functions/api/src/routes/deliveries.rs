//! Deliveries of a job's events to its webhook: the log, and another delivery.

use axum::extract::{FromRequestParts, RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use longhaul::engine::{Delivery, Job, Seq};
use longhaul::store::JobRef;
use longhaul_aws::AwsStore;
use longhaul_wire::deliveries::{DeliveryList, DeliveryView, delivery_seq, reported};
use longhaul_wire::problem::ProblemBody;
use longhaul_wire::{Event, Problem, Scope, limits};

use crate::answer::{Refused, json};
use crate::extract::{Called, JobPath, path_parameter};
use crate::parameters::Parameters;
use crate::service::{Service, now};
use crate::watch;

/// Looks at a delivery that others write at the same moment.
const WRITE_TRIES_MAX: usize = 4;

/// The delivery that the address names, as it is written there.
#[derive(Debug, Clone)]
pub(super) struct DeliveryPath(String);

impl<S: Send + Sync> FromRequestParts<S> for DeliveryPath {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        Ok(Self(path_parameter(parts, state, "delivery").await))
    }
}

/// Lists the deliveries of a job's events to its webhook, with the last tries of each.
#[utoipa::path(
    get, path = "/v1/jobs/{id}/deliveries", tag = "jobs", operation_id = "listDeliveries",
    params(
        ("id" = uuid::Uuid, Path, description = "The job"),
        ("after" = Option<u64>, Query, description = "Only events behind this position; `next` of the last page"),
        ("limit" = Option<u64>, Query, minimum = 1, maximum = 100, description = "Deliveries of a page, by default 50"),
    ),
    responses(
        (status = 200, description = "A page, by the events' positions.", body = DeliveryList),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    RawQuery(query): RawQuery,
) -> Result<Response, Refused> {
    called.0.require(Scope::Read)?;
    let mut parameters = Parameters::of(query.as_deref())?;
    let after = parameters.number("after", 0, u64::MAX)?.unwrap_or(0);
    let size = parameters.page_size(limits::DELIVERIES_PAGE_DEFAULT, limits::DELIVERIES_PAGE_MAX)?;
    parameters.end()?;
    let reference = called.job(job);
    watch::item(service.store(), &reference).await?;
    let page = service.store().deliveries(&reference, Seq(after), size).await?;
    let next = page.deliveries.last().filter(|_| page.more).map(|last| last.seq.0);
    let deliveries = page.deliveries.iter().map(|delivery| DeliveryView::of(job, delivery)).collect();
    Ok(json(StatusCode::OK, &DeliveryList { deliveries, next }))
}

/// The delivery of an event that the job reports and whose delivery was never ordered, because the stream was given up on
/// there, or is kept no longer; none when there is no such event.
async fn never_ordered(store: &AwsStore, item: &Job, seq: Seq) -> Result<Option<Delivery>, Refused> {
    if item.order.webhook.is_none() || seq < Seq::FIRST {
        return Ok(None);
    }
    let batches = store.journal_part(item.order.id, seq, 1).await?;
    let mut events = batches.iter().flat_map(|batch| Event::of_batch(item.order.id, batch));
    let event = events.find(|event| event.sequence.0 == seq.0);
    let event = event.filter(|event| reported(&item.order.webhook_events, event));
    Ok(event.map(|event| Delivery::ordered(seq, event.kind.as_str().to_owned(), now())))
}

/// Takes back that a webhook had said that it wants no more. Before the delivery is ordered, which would not be made
/// otherwise; and only for one that can be.
async fn wanted_again(store: &AwsStore, job: &JobRef) -> Result<(), Refused> {
    if store.webhook_gone(job).await? {
        store.set_webhook_gone(job, false, now()).await?;
    }
    Ok(())
}

/// Delivers an event once more, whatever became of it before. A webhook that had said that it wants no more is asked
/// again, and so are later events of the job. An event that the job reports and that was never delivered is delivered now.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/deliveries/{delivery}/resend", tag = "jobs", operation_id = "resendDelivery",
    params(
        ("id" = uuid::Uuid, Path, description = "The job"),
        ("delivery" = String, Path, description = "The delivery's id"),
    ),
    responses(
        (status = 202, description = "It is tried at once.", body = DeliveryView),
        (status = "default", description = "A problem.", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn resend(
    State(service): State<Service>,
    called: Called,
    JobPath(job): JobPath,
    DeliveryPath(id): DeliveryPath,
) -> Result<Response, Refused> {
    called.0.require(Scope::Operate)?;
    service.refuse_while_erasing(&called.0.tenant).await?;
    let (store, reference) = (service.store(), called.job(job));
    let item = watch::item(store, &reference).await?;
    let unknown = || Refused(Problem::NoSuchDelivery { delivery: id.clone() });
    let seq = delivery_seq(job, &id).ok_or_else(unknown)?;
    for _ in 0..WRITE_TRIES_MAX {
        let Some(stored) = store.delivery(&reference, seq).await? else {
            let ordered = never_ordered(store, &item, seq).await?.ok_or_else(unknown)?;
            wanted_again(store, &reference).await?;
            store.order_delivery(&reference, &ordered).await?;
            store.send_delivery(&reference, seq, std::time::Duration::ZERO).await?;
            return Ok(json(StatusCode::ACCEPTED, &DeliveryView::of(job, &ordered)));
        };
        wanted_again(store, &reference).await?;
        let again = stored.delivery.ordered_again(now());
        if store.write_delivery(&reference, &again, stored.seen).await?.is_some() {
            store.send_delivery(&reference, seq, std::time::Duration::ZERO).await?;
            return Ok(json(StatusCode::ACCEPTED, &DeliveryView::of(job, &again)));
        }
    }
    Err(Refused(Problem::Unavailable { retry_after: std::time::Duration::from_secs(1) }))
}
