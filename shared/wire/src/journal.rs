//! A job's journal as callers read it: every entry, whole.

use longhaul_engine::{Batch, Entry, JobId, Seq};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::limits;
use crate::schemas;
use crate::text::rfc3339;

/// One entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EntryView {
    /// Its position, from 1.
    #[schema(value_type = u64, minimum = 1)]
    pub seq: Seq,
    /// When it was written, by the writer's clock.
    #[schema(schema_with = schemas::time)]
    pub at: String,
    /// What was written: `type` tells the entry's kind (`step_completed`, `waiting` …), the rest is that kind's own.
    #[schema(value_type = Object, example = json!({ "type": "claimed", "epoch": 1, "session": "s-1", "takeover": false }))]
    pub entry: Value,
    /// Whether the entry is larger than a page and only its kind is shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl EntryView {
    fn of(seq: Seq, at: &str, entry: &Entry) -> Self {
        // The engine's entries are plain data with text keys: writing them down cannot fail.
        let value = serde_json::to_value(entry).unwrap_or_default();
        Self { seq, at: at.to_owned(), entry: value, truncated: false }
    }

    fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |text| text.len())
    }

    /// The entry's kind and step, for an entry that no page can hold.
    fn without_contents(self) -> Self {
        let kept = ["type", "step", "name", "kind", "branch", "attempt"];
        let entry = match self.entry {
            Value::Object(fields) => {
                fields.into_iter().filter(|(name, _)| kept.contains(&name.as_str())).collect::<serde_json::Map<_, _>>()
            }
            _ => serde_json::Map::new(),
        };
        Self { entry: Value::Object(entry), truncated: true, ..self }
    }
}

/// A page of a journal, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(title = "Journal")]
pub struct JournalView {
    /// The job.
    #[schema(value_type = uuid::Uuid)]
    pub job: JobId,
    /// The entries behind `after`.
    pub entries: Vec<EntryView>,
    /// The parameter `after` of the next page; none when this one reaches the journal's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

impl JournalView {
    /// The page of at most `entries_max` entries behind position `after`, out of batches that hold it.
    #[must_use]
    pub fn page(job: JobId, batches: &[Batch], after: u64, entries_max: usize) -> Self {
        let mut entries: Vec<EntryView> = Vec::new();
        let mut bytes = 0_usize;
        for (seq, at, entry) in positions(batches).filter(|(seq, _, _)| seq.0 > after) {
            let mut view = EntryView::of(seq, &at, entry);
            let mut size = view.bytes();
            if size > limits::JOURNAL_PAGE_BYTES_MAX {
                view = view.without_contents();
                size = view.bytes();
            }
            if entries.len() >= entries_max || bytes.saturating_add(size) > limits::JOURNAL_PAGE_BYTES_MAX {
                let next = entries.last().map(|last| last.seq.0);
                return Self { job, entries, next };
            }
            bytes = bytes.saturating_add(size);
            entries.push(view);
        }
        Self { job, entries, next: None }
    }
}

/// Every entry of some batches with its position and time.
fn positions(batches: &[Batch]) -> impl Iterator<Item = (Seq, String, &Entry)> {
    batches.iter().flat_map(|batch| {
        let at = rfc3339(batch.written_at);
        (0_u64..).zip(&batch.entries).map(move |(offset, entry)| (batch.at.plus(offset), at.clone(), entry))
    })
}
