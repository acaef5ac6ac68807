//! What each kind of event says, cut to what fits a frame.

use longhaul_engine::entry::{StepId, WaitEnd, WaitFor};
use longhaul_engine::{Entry, Failure, StepKey, Timestamp, Usage};
use serde_json::{Map, Value, json};

use crate::limits;
use crate::text::{json_prefix, rfc3339};

/// The step that an entry is about.
pub(super) fn subject(entry: &Entry) -> Option<String> {
    match entry {
        Entry::StepStarted { id }
        | Entry::StepCompleted { id, .. }
        | Entry::AttemptFailed { id, .. }
        | Entry::StepFailed { id, .. }
        | Entry::Waiting { id, .. }
        | Entry::WaitEnded { id, .. }
        | Entry::Emitted { id, .. } => Some(short(id.key.as_str())),
        Entry::Failed { failure } => failure.step.as_ref().map(|step| short(step.as_str())),
        Entry::Claimed { .. }
        | Entry::Signalled { .. }
        | Entry::CancelRequested { .. }
        | Entry::Completed { .. }
        | Entry::Cancelled { .. }
        | Entry::Replayed { .. }
        | Entry::Forked { .. } => None,
    }
}

/// What an entry's event says.
pub(super) fn of(entry: &Entry, written_at: Timestamp) -> Map<String, Value> {
    let data = Data::default();
    match entry {
        Entry::Claimed { epoch, session, takeover, beside: _ } => {
            data.with("epoch", json!(epoch)).with("session", json!(session)).with("takeover", json!(takeover))
        }
        Entry::StepStarted { id } => data.step(id),
        Entry::StepCompleted { id, attempt, started_at, output, usage, look: _ } => {
            data.step(id).attempt(*attempt, *started_at, written_at).value("output", output).usage(usage)
        }
        Entry::AttemptFailed { id, attempt, started_at, failure, retry_at, usage } => data
            .step(id)
            .attempt(*attempt, *started_at, written_at)
            .failure(failure)
            .usage(usage)
            .with("retry_at", json!(rfc3339(*retry_at))),
        Entry::StepFailed { id, attempt, started_at, failure, usage } => {
            data.step(id).attempt(*attempt, *started_at, written_at).failure(failure).usage(usage)
        }
        Entry::Waiting { id, on, until } => data.step(id).wait(on).with("until", json!(until.map(rfc3339))),
        Entry::WaitEnded { id, end } => data.step(id).wait_end(end),
        Entry::Emitted { id, data: shown } => data.step(id).value("value", shown),
        Entry::Signalled { signal, key: _, payload, by } => {
            data.with("signal", json!(signal)).text("by", by).value("payload", payload)
        }
        Entry::CancelRequested { key: _, by, reason } => data.text("by", by).reason(reason.as_deref()),
        Entry::Completed { output } => data.value("result", output),
        Entry::Failed { failure } => data.failure(failure),
        Entry::Cancelled { by, reason } => data.text("by", by).reason(reason.as_deref()),
        Entry::Replayed { key: _, by, from, edit } => {
            let data = data.text("by", by).with("from", json!(from));
            let data = match &edit.input {
                Some(input) => data.value("input", input),
                None => data,
            };
            let data = match &edit.budget {
                Some(budget) => data.with("budget", json!(budget)),
                None => data,
            };
            let data = match &edit.model {
                Some(model) => data.text("model", model),
                None => data,
            };
            match &edit.instructions {
                Some(instructions) => data.text("instructions", instructions),
                None => data,
            }
        }
        Entry::Forked { job, at, kept } => data.with("job", json!(job)).with("at", json!(at)).with("kept", json!(kept)),
    }
    .0
}

/// The fields of an event's data while they are put together.
#[derive(Default)]
struct Data(Map<String, Value>);

impl Data {
    fn with(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    fn text(self, name: &str, text: &str) -> Self {
        self.with(name, Value::String(short(text)))
    }

    fn reason(self, reason: Option<&str>) -> Self {
        match reason {
            Some(reason) => self.text("reason", reason),
            None => self,
        }
    }

    fn step(self, id: &StepId) -> Self {
        let data = self.text("name", &id.name).with("kind", json!(id.kind));
        match id.branch {
            Some(branch) => data.with("branch", json!(branch)),
            None => data,
        }
    }

    fn attempt(self, attempt: u32, started_at: Timestamp, written_at: Timestamp) -> Self {
        let duration_ms = u64::try_from(written_at.since(started_at).as_millis()).unwrap_or(u64::MAX);
        self.with("attempt", json!(attempt))
            .with("started_at", json!(rfc3339(started_at)))
            .with("duration_ms", json!(duration_ms))
    }

    fn usage(self, usage: &Usage) -> Self {
        if usage.is_zero() { self } else { self.with("usage", json!(usage)) }
    }

    fn wait(self, on: &WaitFor) -> Self {
        self.with("on", json!(on))
    }

    fn wait_end(self, end: &WaitEnd) -> Self {
        self.with("end", json!(end))
    }

    fn failure(self, failure: &Failure) -> Self {
        let Failure { class, message, causes, step, partial, sent: _ } = failure;
        let kept: Vec<String> = causes.iter().take(limits::EVENT_CAUSES_MAX).map(|cause| short(cause)).collect();
        let (message, cut) = json_prefix(message, limits::EVENT_VALUE_BYTES_MAX / 2);
        let cut = cut || kept.iter().ne(causes.iter());
        let mut shown = Map::new();
        shown.insert("class".into(), json!(class));
        shown.insert("message".into(), json!(message));
        if !kept.is_empty() {
            shown.insert("causes".into(), json!(kept));
        }
        if let Some(step) = step.as_ref().map(StepKey::as_str).map(short) {
            shown.insert("step".into(), json!(step));
        }
        let data = self.with("failure", Value::Object(shown));
        let data = match partial {
            Some(partial) => data.value("partial", partial),
            None => data,
        };
        if cut { data.with("truncated", json!(true)) } else { data }
    }

    /// A value of any size: whole, or the beginning of its JSON as a text and the number of bytes that it has.
    fn value(self, name: &str, value: &Value) -> Self {
        // Values have text keys: writing them down cannot fail.
        let whole = serde_json::to_string(value).unwrap_or_default();
        if whole.len() <= limits::EVENT_VALUE_BYTES_MAX {
            return self.with(name, value.clone());
        }
        // A text is shown without its quotes and escapes.
        let shown = value.as_str().unwrap_or(&whole);
        let (beginning, _) = json_prefix(shown, limits::EVENT_VALUE_BYTES_MAX);
        self.with(name, json!(beginning)).with("truncated", json!(true)).with("bytes", json!(whole.len()))
    }
}

/// A short text as it is, a long one cut.
fn short(text: &str) -> String {
    json_prefix(text, limits::EVENT_TEXT_BYTES_MAX).0.to_owned()
}
