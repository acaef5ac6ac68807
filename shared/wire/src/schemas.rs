//! OpenAPI schemas of types that the engine owns: taken from the engine's own lists, so that they cannot drift.

use longhaul_engine::job::{Priority, Status};
use longhaul_engine::thread::OnBusy;
use utoipa::openapi::KnownFormat;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Schema, SchemaFormat, SchemaType, Type};

use crate::events::EventType;

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::String))
}

/// A job's status.
pub(crate) fn status() -> Schema {
    text()
        .enum_values(Some(Status::ALL.map(Status::as_str)))
        .description(Some("Where the job stands. COMPLETED, FAILED and CANCELLED are ends; a replay opens them again."))
        .into()
}

/// A time.
pub(crate) fn time() -> Schema {
    text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime))).into()
}

/// What an event is about.
pub(crate) fn event_type() -> Schema {
    known_event_type().description(Some("What happened; readers skip types that they do not know.")).into()
}

fn known_event_type() -> ObjectBuilder {
    text().enum_values(Some(EventType::ALL.iter().map(|kind| kind.as_str())))
}

/// What a submission asks for where its thread is busy.
pub(crate) fn on_busy() -> Schema {
    let all = [OnBusy::Enqueue, OnBusy::Reject, OnBusy::Interrupt];
    text()
        .enum_values(Some(all.map(|on_busy| serde_json::to_value(on_busy).unwrap_or_default())))
        .description(Some(
            "What happens where another job of the thread has not ended: `enqueue` (without it) waits for the turn, `reject` \
             refuses the submission, `interrupt` cancels all that is in front of it.",
        ))
        .into()
}

/// Whether somebody waits for a job.
pub(crate) fn priority() -> Schema {
    text()
        .enum_values(Some(Priority::ALL.map(|priority| serde_json::to_value(priority).unwrap_or_default())))
        .description(Some(
            "Whether somebody waits for the job: `interactive` jobs stand beside their tenant's other jobs in the queue, not \
             behind them; `normal` without it. Child jobs have that of their parent.",
        ))
        .into()
}

/// Types of events that a webhook wants.
pub(crate) fn event_types() -> Schema {
    ArrayBuilder::new()
        .items(known_event_type())
        .max_items(Some(longhaul_engine::limits::WEBHOOK_EVENTS_MAX))
        .description(Some("The types of events that are reported; without them the job's end alone is."))
        .into()
}
