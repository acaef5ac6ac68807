//! A job's story as the live view shows it: its steps with their attempts and waits, folded out of its events.

use std::collections::BTreeMap;

use longhaul_wire::Event;
use longhaul_wire::events::EventType;
use longhaul_wire::socket::DeltaBody;
use serde_json::Value;

use super::output::line_of;

/// Characters of what a running step says that are kept: a screen of them.
const HEARD_CHARS_MAX: usize = 4_000;

/// How a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// An at-most-once step that acts.
    Acting,
    /// It failed and is tried again.
    Retrying,
    /// It waits for a time, a person or a child.
    Waiting,
    Done,
    Failed,
    /// Something that the agent shows.
    Shown,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) state: State,
    /// The position of its last entry.
    pub(super) seq: u64,
    pub(super) attempts: u64,
    /// Milliseconds since the Unix epoch.
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) tokens: u64,
    /// What is worth saying beside it: a failure, what it waits for.
    pub(super) note: String,
}

/// What a running step has said so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) name: String,
    pub(super) text: String,
    epoch: u64,
    attempt: u32,
}

/// The whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Story {
    pub(super) rows: Vec<Row>,
    pub(super) heard: BTreeMap<String, Heard>,
    pub(super) position: u64,
    pub(super) invocations: u64,
    pub(super) crashes: u64,
    pub(super) tokens: u64,
    pub(super) money_micros: u64,
    pub(super) unpriced_tokens: u64,
    /// The last thing that happened to the job as a whole.
    pub(super) last: String,
    pub(super) first_at: Option<i64>,
    pub(super) last_at: Option<i64>,
}

fn time_of(text: &str) -> i64 {
    text.parse::<jiff::Timestamp>().map_or(0, |at| at.as_millisecond())
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_u64).unwrap_or_default()
}

impl Story {
    /// Takes an event in.
    pub(super) fn take(&mut self, event: &Event) {
        let at = time_of(&event.time);
        self.position = event.sequence.0;
        self.first_at.get_or_insert(at);
        self.last_at = Some(self.last_at.map_or(at, |last| last.max(at)));
        self.count(event);
        let text = |field: &str| line_of(event.data.get(field));
        let failure = || line_of(event.data.get("failure").and_then(|failure| failure.get("message")));
        if let Some(key) = &event.subject {
            self.heard.remove(key);
        }
        match event.kind {
            EventType::AgentJobClaimed => {
                self.heard.clear();
                self.invocations = self.invocations.saturating_add(1);
                if event.data.get("takeover").and_then(Value::as_bool) == Some(true) {
                    self.crashes = self.crashes.saturating_add(1);
                    self.last = "taken over from a worker that died".to_owned();
                }
            }
            EventType::AgentStepStarted => self.step(event, at, State::Acting, String::new()),
            EventType::AgentStepCompleted => self.step(event, at, State::Done, String::new()),
            EventType::AgentAttemptFailed => self.step(event, at, State::Retrying, failure()),
            EventType::AgentStepFailed => self.step(event, at, State::Failed, failure()),
            EventType::AgentWaiting => {
                let on = event.data.get("on");
                let signal = line_of(on.and_then(|on| on.get("signal")));
                let child = line_of(on.and_then(|on| on.get("child")));
                let note = match (signal.as_str(), child.as_str()) {
                    ("", "") => "waits for its time".to_owned(),
                    ("", child) => format!("waits for the job {child}"),
                    (signal, _) => format!("waits for the signal {signal}"),
                };
                self.step(event, at, State::Waiting, note);
            }
            EventType::AgentWaitEnded => self.step(event, at, State::Done, String::new()),
            EventType::AgentProgress => self.step(event, at, State::Shown, text("value")),
            EventType::AgentSignalled => self.last = format!("signal {} from {}", text("signal"), text("by")),
            EventType::AgentCancelRequested => self.last = format!("{} asks that the job end", text("by")),
            EventType::AgentJobCompleted => self.last = "completed".to_owned(),
            EventType::AgentJobFailed => self.last = format!("failed: {}", failure()),
            EventType::AgentJobCancelled => self.last = format!("cancelled by {}", text("by")),
            EventType::AgentJobForked => {
                self.last = format!("keeps {} outcomes of job {}", text("kept"), text("job"));
            }
            EventType::AgentJobReplayed => {
                self.last = format!("replayed by {}", text("by"));
                self.forget(event.data.get("from").and_then(Value::as_u64));
            }
        }
    }

    fn count(&mut self, event: &Event) {
        let Some(usage) = event.data.get("usage") else { return };
        let of = |name: &str| number(usage.get(name));
        self.tokens = self.tokens.saturating_add(of("input_tokens")).saturating_add(of("output_tokens"));
        self.money_micros = self.money_micros.saturating_add(of("money_micros"));
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(of("unpriced_tokens"));
    }

    fn step(&mut self, event: &Event, at: i64, state: State, note: String) {
        let key = event.subject.clone().unwrap_or_default();
        let started = event.data.get("started_at").and_then(Value::as_str).map_or(at, time_of);
        let usage = event.data.get("usage");
        let tokens = ["input_tokens", "output_tokens"].map(|name| number(usage.and_then(|usage| usage.get(name))));
        let tokens = tokens.into_iter().fold(0_u64, u64::saturating_add);
        let index = self.rows.iter().position(|row| row.key == key).unwrap_or_else(|| {
            let name = line_of(event.data.get("name"));
            let fresh =
                Row { key, name, state, seq: 0, attempts: 0, from: started, to: at, tokens: 0, note: String::new() };
            self.rows.push(fresh);
            self.rows.len().saturating_sub(1)
        });
        if let Some(row) = self.rows.get_mut(index) {
            row.attempts = number(event.data.get("attempt")).max(row.attempts);
            row.tokens = row.tokens.saturating_add(tokens);
            row.from = row.from.min(started);
            (row.state, row.seq, row.to, row.note) = (state, event.sequence.0, at, note);
        }
    }

    /// A replay forgets outcomes: what failed, and what stands from its position on.
    fn forget(&mut self, from: Option<u64>) {
        let kept = |row: &Row| from.is_none_or(|from| row.seq < from);
        self.rows.retain(|row| !matches!(row.state, State::Failed | State::Retrying) && kept(row));
    }

    /// Takes a piece of what a running step says in.
    pub(super) fn hear(&mut self, delta: &DeltaBody) {
        let (epoch, attempt) = (delta.epoch, delta.attempt);
        // A piece that was overtaken by its step's end.
        let over = |row: &&Row| matches!(row.state, State::Done | State::Failed) && row.key == delta.step.as_str();
        if self.rows.iter().any(|row| over(&row)) {
            return;
        }
        let heard = self.heard.entry(delta.step.as_str().to_owned()).or_insert_with(|| Heard {
            name: line_of(Some(&Value::String(delta.name.clone()))),
            text: String::new(),
            epoch,
            attempt,
        });
        if (epoch, attempt) < (heard.epoch, heard.attempt) {
            return;
        }
        if delta.offset == 0 || (epoch, attempt) != (heard.epoch, heard.attempt) {
            heard.text.clear();
            (heard.epoch, heard.attempt) = (epoch, attempt);
        }
        let clean = delta.text.chars().filter(|c| !c.is_control() || *c == '\n');
        heard.text.extend(clean);
        let skipped = heard.text.chars().count().saturating_sub(HEARD_CHARS_MAX);
        if skipped > 0 {
            heard.text = heard.text.chars().skip(skipped).collect();
        }
    }
}
