//! A job's events as a person reads them: a line a step, and a bar where the number of branches is known.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use longhaul_wire::Event;
use longhaul_wire::events::EventType;
use longhaul_wire::socket::DeltaBody;
use serde_json::Value;

use super::output::{line_of, say};

/// Characters of a step's last words beside the spinner: one line of a narrow terminal.
const HEARD_CHARS_MAX: usize = 48;

/// Shows events on standard error.
pub(super) struct Progress {
    terminal: Option<Terminal>,
}

/// What is drawn below the lines on a terminal.
struct Terminal {
    all: MultiProgress,
    spinner: ProgressBar,
    bars: BTreeMap<String, ProgressBar>,
    /// The end of what the step says that spoke last, and which step, claim and attempt that is.
    heard: (String, String, u64, u32),
}

impl Progress {
    /// Lines, and live bars below them when standard error is a terminal.
    pub(super) fn new() -> Self {
        let terminal = std::io::stderr().is_terminal().then(|| {
            let all = MultiProgress::new();
            let spinner = all.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}") {
                spinner.set_style(style);
            }
            spinner.set_message("working");
            spinner.enable_steady_tick(Duration::from_millis(120));
            Terminal { all, spinner, bars: BTreeMap::new(), heard: Default::default() }
        });
        Self { terminal }
    }

    /// A line of its own.
    pub(super) fn say(&self, line: &str) {
        match &self.terminal {
            Some(terminal) if terminal.all.println(line).is_ok() => {}
            Some(_) | None => say(line),
        }
    }

    /// An event.
    pub(super) fn show(&mut self, event: &Event) {
        self.say(&line(event));
        if let Some(terminal) = &mut self.terminal {
            terminal.spinner.set_message("working");
            terminal.follow(event);
        }
    }

    /// A piece of what a running step says: the last words of it stand beside the spinner.
    pub(super) fn hear(&mut self, delta: &DeltaBody) {
        if let Some(terminal) = &mut self.terminal {
            terminal.hear(delta);
        }
    }

    /// Takes the bars away.
    pub(super) fn finish(self) {
        if let Some(terminal) = self.terminal {
            terminal.spinner.finish_and_clear();
            for bar in terminal.bars.values() {
                bar.finish_and_clear();
            }
        }
    }
}

impl Terminal {
    fn hear(&mut self, delta: &DeltaBody) {
        let (text, step, epoch, attempt) = &mut self.heard;
        if (delta.epoch, delta.attempt) < (*epoch, *attempt) && step == delta.step.as_str() {
            return;
        }
        if delta.offset == 0 || step != delta.step.as_str() || (*epoch, *attempt) != (delta.epoch, delta.attempt) {
            text.clear();
            delta.step.as_str().clone_into(step);
            (*epoch, *attempt) = (delta.epoch, delta.attempt);
        }
        text.push_str(&delta.text);
        let skipped = text.chars().count().saturating_sub(HEARD_CHARS_MAX);
        *text = text.chars().skip(skipped).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let name: String = delta.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.spinner.set_message(format!("{name}: …{text}"));
    }

    /// A fan-out whose number of branches is known gets a bar of its own.
    fn follow(&mut self, event: &Event) {
        let of = event.data.get("branch").and_then(|branch| branch.get("of")).and_then(Value::as_u64);
        let fan_out = event.subject.as_deref().and_then(|key| key.split_once('[')).map(|(key, _)| key.to_owned());
        let (Some(of), Some(fan_out)) = (of, fan_out) else { return };
        let bar = self.bars.entry(fan_out).or_insert_with(|| {
            let bar = self.all.insert_before(&self.spinner, ProgressBar::new(of));
            if let Ok(style) = ProgressStyle::with_template("  {bar:32.cyan/dim} {pos}/{len} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        bar.set_message(text(event, "name"));
        if event.kind == EventType::AgentStepCompleted {
            bar.inc(1);
        }
        if bar.position() >= of {
            bar.finish_and_clear();
        }
    }
}

/// An event as a line.
fn line(event: &Event) -> String {
    let name = text(event, "name");
    let failure = || line_of(event.data.get("failure").and_then(|failure| failure.get("message")));
    match event.kind {
        EventType::AgentJobClaimed => {
            let epoch = event.data.get("epoch").and_then(Value::as_u64).unwrap_or_default();
            match event.data.get("takeover").and_then(Value::as_bool) {
                Some(true) => format!("↻ taken over from a worker that died (invocation {epoch})"),
                Some(false) | None if epoch > 1 => format!("↻ goes on in a new invocation ({epoch})"),
                Some(false) | None => "▶ a worker has the job".to_owned(),
            }
        }
        EventType::AgentStepStarted => format!("  … {name} begins, at most once"),
        EventType::AgentStepCompleted => format!("✓ {:>9}  {name}{}{}", duration(event), attempt(event), tokens(event)),
        EventType::AgentAttemptFailed => {
            format!(
                "! {:>9}  {name}{}: {}; again at {}",
                duration(event),
                attempt(event),
                failure(),
                text(event, "retry_at")
            )
        }
        EventType::AgentStepFailed => format!("✗ {:>9}  {name}{}: {}", duration(event), attempt(event), failure()),
        EventType::AgentWaiting => match event.data.get("on").and_then(|on| on.get("signal")).and_then(Value::as_str) {
            Some(signal) => {
                format!("… waits for the signal \"{signal}\" (longhaul jobs signal ID {signal} --payload …)")
            }
            None => format!("… {name} waits"),
        },
        EventType::AgentWaitEnded => format!("✓ {name}: the wait has ended"),
        EventType::AgentProgress => format!("· {name}: {}", line_of(event.data.get("value"))),
        EventType::AgentSignalled => format!("→ signal {} from {}", text(event, "signal"), text(event, "by")),
        EventType::AgentCancelRequested => format!("→ {} asks that the job end", text(event, "by")),
        EventType::AgentJobCompleted => "■ completed".to_owned(),
        EventType::AgentJobFailed => format!("■ failed: {}", failure()),
        EventType::AgentJobCancelled => format!("■ cancelled by {}", text(event, "by")),
        EventType::AgentJobReplayed => format!("▶ replayed by {}", text(event, "by")),
        EventType::AgentJobForked => format!("▶ keeps {} outcomes of job {}", text(event, "kept"), text(event, "job")),
    }
}

fn text(event: &Event, field: &str) -> String {
    line_of(event.data.get(field))
}

fn duration(event: &Event) -> String {
    let millis = event.data.get("duration_ms").and_then(Value::as_u64).unwrap_or_default();
    format!("{}.{:01} s", millis / 1_000, millis % 1_000 / 100)
}

fn attempt(event: &Event) -> String {
    match event.data.get("attempt").and_then(Value::as_u64) {
        Some(attempt) if attempt > 1 => format!(" (attempt {attempt})"),
        Some(_) | None => String::new(),
    }
}

fn tokens(event: &Event) -> String {
    let of = |name| event.data.get("usage").and_then(|usage| usage.get(name)).and_then(Value::as_u64).unwrap_or(0);
    match of("input_tokens").saturating_add(of("output_tokens")) {
        0 => String::new(),
        sum => format!("  {sum} tokens"),
    }
}
