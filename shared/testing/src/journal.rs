//! A journal as text: stable between runs, read by people, compared line by line.
//!
//! Times, sessions and marks of writes differ between runs without meaning anything, so they are left out; a wait shows
//! how long it may last. What a step brought stands below it as JSON, in one line when it is short.

use longhaul::Usage;
use longhaul::engine::entry::{Batch, StepId, WaitEnd, WaitFor};
use longhaul::engine::{Entry, Failure, Timestamp};
use serde::Serialize;
use serde_json::Value;

/// Longest JSON that stands in one line.
const LINE_CHARS_MAX: usize = 100;

/// A journal's text, ending in a line's end.
pub(crate) fn text(batches: &[Batch]) -> String {
    let mut page = Page::default();
    for batch in batches {
        for (seq, entry) in (batch.at.0..).zip(&batch.entries) {
            page.entry(seq, entry, batch.written_at);
        }
    }
    page.0
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, seq: u64, what: &str) {
        self.0.push_str(&format!("{seq:>3}  {what}\n"));
    }

    fn below(&mut self, name: &str, value: &impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or_default();
        let short = value.to_string();
        let shown = if short.chars().count() <= LINE_CHARS_MAX || !(value.is_object() || value.is_array()) {
            short
        } else {
            serde_json::to_string_pretty(&value).unwrap_or(short).replace('\n', "\n     ")
        };
        self.0.push_str(&format!("     {name}: {shown}\n"));
    }

    fn used(&mut self, usage: &Usage) {
        if *usage == Usage::default() {
            return;
        }
        let money = if usage.unpriced_tokens > 0 {
            format!("{} of them without a known price", usage.unpriced_tokens)
        } else {
            format!("{} micros", usage.money_micros)
        };
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        self.0.push_str(&format!("     used: {input} tokens in, {output} out; {money}\n"));
    }

    fn failure(&mut self, failure: &Failure) {
        self.below("failure", failure);
    }

    fn entry(&mut self, seq: u64, entry: &Entry, written_at: Timestamp) {
        match entry {
            Entry::Claimed { epoch, session: _, takeover, beside: _ } => {
                let how = if *takeover { ", taken over from a worker that died" } else { "" };
                self.line(seq, &format!("claimed, epoch {}{how}", epoch.0));
            }
            Entry::StepStarted { id } => self.line(seq, &format!("{} begins", step(id))),
            Entry::StepCompleted { id, attempt, started_at: _, output, usage, look: _ } => {
                self.line(seq, &format!("{} completed{}", step(id), at_attempt(*attempt)));
                self.used(usage);
                self.below("output", output);
            }
            Entry::AttemptFailed { id, attempt, started_at: _, failure, retry_at, usage } => {
                let wait = written_at.until(*retry_at);
                let next = format!("attempt {attempt} failed, the next in {} ms", wait.as_millis());
                self.line(seq, &format!("{} {next}", step(id)));
                self.used(usage);
                self.failure(failure);
            }
            Entry::StepFailed { id, attempt, started_at: _, failure, usage } => {
                self.line(seq, &format!("{} failed{}", step(id), at_attempt(*attempt)));
                self.used(usage);
                self.failure(failure);
            }
            Entry::Waiting { id, on, until } => {
                let most = until.map(|until| format!(", {} s at most", written_at.until(until).as_secs()));
                let most = most.unwrap_or_default();
                let on = match on {
                    WaitFor::Time => "its time".to_owned(),
                    WaitFor::Signal { signal } => format!("the signal {signal}"),
                    WaitFor::Child { child: _, budget: _ } => "its child".to_owned(),
                };
                self.line(seq, &format!("{} waits for {on}{most}", step(id)));
            }
            Entry::WaitEnded { id, end } => {
                let how = match end {
                    WaitEnd::Time => "by its time".to_owned(),
                    WaitEnd::Signal { signal_seq } => format!("by entry {signal_seq}"),
                };
                self.line(seq, &format!("{} ended {how}", step(id)));
            }
            Entry::Emitted { id, data } => {
                self.line(seq, &format!("{} shown", step(id)));
                self.below("data", data);
            }
            Entry::Signalled { signal, key: _, payload, by } => {
                self.line(seq, &format!("signal {signal} by {by}"));
                self.below("payload", payload);
            }
            other => self.outer(seq, other),
        }
    }

    /// Entries that are about the job and not about a step.
    fn outer(&mut self, seq: u64, entry: &Entry) {
        match entry {
            Entry::CancelRequested { key: _, by, reason } => {
                self.line(seq, &format!("cancel asked for by {by}"));
                self.below("reason", reason);
            }
            Entry::Completed { output } => {
                self.line(seq, "completed");
                self.below("output", output);
            }
            Entry::Failed { failure } => {
                self.line(seq, "failed");
                self.failure(failure);
            }
            Entry::Cancelled { by, reason } => {
                self.line(seq, &format!("cancelled by {by}"));
                self.below("reason", reason);
            }
            Entry::Replayed { key: _, by, from, edit } => {
                self.line(seq, &format!("replayed by {by}"));
                self.below("from", from);
                self.below("edit", edit);
            }
            other => self.below("entry", &Value::from(format!("{other:?}"))),
        }
    }
}

fn step(id: &StepId) -> String {
    format!("{} {} \"{}\"", id.key, id.kind.as_str(), id.name)
}

fn at_attempt(attempt: u32) -> String {
    if attempt > 1 { format!(" at attempt {attempt}") } else { String::new() }
}
