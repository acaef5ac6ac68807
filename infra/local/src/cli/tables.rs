//! Jobs and journals as tables for people.

use comfy_table::{ContentArrangement, Table, presets};
use longhaul_engine::job::Status;
use longhaul_wire::agents::AgentView;
use longhaul_wire::deliveries::{DeliveryFailure, DeliveryList, DeliveryStatus};
use longhaul_wire::jobs::{DeadLetterList, JobList, Usage};
use longhaul_wire::journal::EntryView;
use longhaul_wire::schedules::{ScheduleList, ScheduleView};
use longhaul_wire::{AgentCard, JobView};
use serde_json::Value;

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    table
}

fn tokens(usage: &Usage) -> u64 {
    usage.input_tokens.saturating_add(usage.output_tokens)
}

/// What model calls cost by the deployment's table of prices, which may not have all prices.
pub(super) fn cost_of(usage: &Usage) -> String {
    cost(tokens(usage), usage.money_micros, usage.unpriced_tokens)
}

/// The same out of its parts.
pub(super) fn cost(tokens: u64, money_micros: u64, unpriced_tokens: u64) -> String {
    match (money_micros, unpriced_tokens) {
        (0, 0) if tokens == 0 => "-".to_owned(),
        // Known, and nothing: the stand-in is no model that anybody is paid for.
        (0, 0) => "$0".to_owned(),
        (0, _) => "unknown".to_owned(),
        (micros, 0) => dollars(micros),
        (micros, _) => format!(">={}", dollars(micros)),
    }
}

/// Millionths of a dollar: cents, or as many digits as a small amount has.
fn dollars(micros: u64) -> String {
    let (whole, rest) = (micros / 1_000_000, micros % 1_000_000);
    if whole > 0 {
        return format!("${whole}.{:02}", rest / 10_000);
    }
    let digits = format!("{rest:06}");
    let kept = digits.trim_end_matches('0');
    format!("$0.{kept:0<2}")
}

/// A length of time in milliseconds, as people read it.
pub(super) fn duration(millis: i64) -> String {
    let millis = millis.max(0);
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis} ms"),
        1..=59 => format!("{seconds}.{} s", millis % 1_000 / 100),
        60..=3_599 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A list of jobs.
pub(super) fn jobs(list: &JobList) -> String {
    if list.jobs.is_empty() {
        return "no jobs".to_owned();
    }
    let mut table = table(&["ID", "AGENT", "STATUS", "SUBMITTED", "STEPS", "TOKENS", "COST", "LABELS"]);
    for job in &list.jobs {
        // The list counts when a status changes or now and then; the job itself counts as it goes.
        let counted = |count: u64| match (job.status, count) {
            (Status::Processing, 0) => "…".to_owned(),
            (Status::Processing, count) => format!("{count}+"),
            (_, count) => count.to_string(),
        };
        let labels: Vec<String> = job.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let running = job.status == Status::Processing && tokens(&job.usage) == 0;
        table.add_row([
            job.id.to_string(),
            job.agent.clone(),
            job.status.as_str().to_owned(),
            job.submitted_at.clone(),
            counted(job.steps),
            counted(tokens(&job.usage)),
            if running { "…".to_owned() } else { cost_of(&job.usage) },
            plain(&Value::String(labels.join(" "))),
        ]);
    }
    table.to_string()
}

/// The deliveries of a job's events to its webhook, with the last try of each.
pub(super) fn deliveries(list: &DeliveryList) -> String {
    if list.deliveries.is_empty() {
        return "no deliveries".to_owned();
    }
    let mut table = table(&["DELIVERY", "EVENT", "STATUS", "TRIES", "LAST TRY", "NEXT TRY"]);
    for delivery in &list.deliveries {
        let status = match (delivery.status, delivery.failure) {
            (DeliveryStatus::Pending, _) => "PENDING",
            (DeliveryStatus::Delivered, _) => "DELIVERED",
            (DeliveryStatus::Failed, None) => "FAILED",
            (DeliveryStatus::Failed, Some(DeliveryFailure::TriesUsed)) => "FAILED: tries used",
            (DeliveryStatus::Failed, Some(DeliveryFailure::Gone)) => "FAILED: wants no more",
            (DeliveryStatus::Failed, Some(DeliveryFailure::AddressRefused)) => "FAILED: address refused",
        };
        let last = delivery.attempts.last().map(|made| match (made.status, &made.reason) {
            (Some(status), _) => format!("{status} {}", made.excerpt.as_deref().unwrap_or_default()),
            (None, Some(reason)) => reason.clone(),
            (None, None) => "no answer".to_owned(),
        });
        table.add_row([
            delivery.id.clone(),
            delivery.kind.clone(),
            status.to_owned(),
            delivery.tries.to_string(),
            plain(&Value::String(last.unwrap_or_default().trim_end().to_owned())),
            delivery.next_try_at.clone().unwrap_or_default(),
        ]);
    }
    table.to_string()
}

/// A list of agents.
pub(super) fn agents(agents: &[AgentCard]) -> String {
    let mut table = table(&["AGENT", "SIGNALS", "DESCRIPTION"]);
    for agent in agents {
        let signals: Vec<&str> = agent.signals.iter().map(|signal| signal.as_str()).collect();
        table.add_row([
            agent.reference().to_string(),
            signals.join(", "),
            plain(&Value::String(agent.description.clone())),
        ]);
    }
    table.to_string()
}

/// An agent with its definition.
///
/// # Errors
/// When JSON cannot be written, which data of the API always can.
pub(super) fn agent(view: &AgentView) -> Result<String, serde_json::Error> {
    let card = &view.card;
    let signals: Vec<&str> = card.signals.iter().map(|signal| signal.as_str()).collect();
    let mut lines = vec![format!("agent       {}", card.reference()), format!("does        {}", card.description)];
    if !signals.is_empty() {
        lines.push(format!("waits for   {}", signals.join(", ")));
    }
    if let (Some(at), Some(by)) = (&view.created_at, &view.created_by) {
        lines.push(format!("saved       {at} by {by}"));
    }
    if let Some(digest) = &view.digest {
        lines.push(format!("digest      {digest}"));
    }
    lines.push(format!("input       {}", serde_json::to_string_pretty(&card.input_schema)?));
    if let Some(definition) = &view.definition {
        lines.push(format!("definition  {}", serde_json::to_string_pretty(definition)?));
    }
    Ok(super::output::plain(&lines.join("\n")))
}

/// A list of schedules.
pub(super) fn schedules(list: &ScheduleList) -> String {
    let ScheduleList { schedules, unreadable } = list;
    if schedules.is_empty() && unreadable.is_empty() {
        return "no schedules".to_owned();
    }
    let mut table = table(&["SCHEDULE", "CRON", "TIME ZONE", "AGENT", "NEXT", "LAST"]);
    for view in schedules {
        table.add_row([
            view.name.clone(),
            view.schedule.cron.clone(),
            view.schedule.time_zone.clone(),
            view.schedule.job.agent.clone(),
            next_firing(view),
            last_firing(view),
        ]);
    }
    for one in unreadable {
        let nothing = String::new;
        table.add_row([
            one.name.clone(),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            format!("unreadable: {}", one.detail),
        ]);
    }
    super::output::plain(&table.to_string())
}

/// A schedule.
pub(super) fn schedule(view: &ScheduleView) -> String {
    let lines = [
        format!("schedule   {}", view.name),
        format!("cron       {} ({})", view.schedule.cron, view.schedule.time_zone),
        format!("next       {}", next_firing(view)),
        format!("last       {}", last_firing(view)),
        format!("agent      {}", view.schedule.job.agent),
        format!("input      {}", view.schedule.job.input),
        format!("saved      {} by {}", view.changed_at, view.changed_by),
    ];
    super::output::plain(&lines.join("\n"))
}

fn next_firing(view: &ScheduleView) -> String {
    match (&view.next_at, view.schedule.paused) {
        (Some(next), _) => next.clone(),
        (None, true) => "paused".to_owned(),
        (None, false) => "never".to_owned(),
    }
}

fn last_firing(view: &ScheduleView) -> String {
    let Some(last) = &view.last else { return "-".to_owned() };
    let came_to = match (&last.job, &last.error) {
        (Some(job), _) => format!("job {job}"),
        (None, error) => format!("no job: {}", error.as_deref().unwrap_or_default()),
    };
    format!("{}, {came_to}", last.time)
}

/// A list of dead letters.
pub(super) fn dead_letters(list: &DeadLetterList) -> String {
    if list.dead_letters.is_empty() {
        return "no dead letters".to_owned();
    }
    let mut table = table(&["ID", "AGENT", "FAILED", "CLASS", "WHY"]);
    for job in &list.dead_letters {
        let (class, why) = job
            .failure
            .as_ref()
            .map_or_else(Default::default, |failure| (failure.class.clone(), failure.message.clone()));
        table.add_row([job.id.to_string(), job.agent.clone(), job.updated_at.clone(), class, why]);
    }
    table.to_string()
}

/// A job with its story.
pub(super) fn story(job: &JobView, journal: &[EntryView]) -> String {
    let mut lines = vec![
        format!("job       {}", job.id),
        format!("agent     {}", job.agent),
        format!("status    {}", job.status.as_str()),
        format!("submitted {} by {}", job.submitted_at, plain(&Value::String(job.submitted_by.clone()))),
        format!("used      {} steps, {} + {} tokens", job.steps, job.usage.input_tokens, job.usage.output_tokens),
        format!("cost      {}", cost_of(&job.usage)),
    ];
    if let Some(model) = &job.model {
        lines.push(format!("model     {model}, by a replay"));
    }
    if let Some(instructions) = &job.instructions {
        lines.push(format!("told      {instructions}"));
    }
    if let Some(input) = &job.input {
        lines.push(format!("input     {input}"));
    }
    if let Some(fork) = &job.forked_from {
        lines.push(format!("fork of   {}, from position {}", fork.job, fork.position));
    }
    if let Some(at) = &job.imported_at {
        lines.push(format!("imported  {at}; no worker drives it (longhaul jobs step {})", job.id));
    }
    if let Some(failure) = &job.failure {
        lines.push(format!("failed    {}: {}", failure.class, failure.message));
        lines.extend(failure.causes.iter().map(|cause| format!("          because: {cause}")));
        let messages = failure.sent.as_ref().and_then(|sent| sent.get("messages")).and_then(Value::as_array);
        for message in messages.into_iter().flatten() {
            let part = |name: &str| message.get(name).and_then(Value::as_str).unwrap_or_default();
            lines.push(format!("sent      {}: {}", part("role"), part("text")));
        }
    }
    if let Some(blocked) = &job.blocked {
        lines.push(format!("blocked   recorded {}, attempted {}", blocked.recorded, blocked.attempted));
    }
    if let Some(waiting) = &job.waiting {
        let until = waiting.until.as_deref().map(|until| format!(" until {until}")).unwrap_or_default();
        lines.push(format!("waits     {} {}{until}", waiting.signals.join(", "), waiting.children.join(", ")));
    }
    lines.push(String::new());
    lines.push(entries(journal));
    super::output::plain(&lines.join("\n"))
}

/// Entries of a journal.
pub(super) fn entries(journal: &[EntryView]) -> String {
    let mut table = table(&["SEQ", "AT", "ENTRY", "STEP", "NAME", "WHAT"]);
    for view in journal {
        let field = |name: &str| view.entry.get(name).map(plain).unwrap_or_default();
        table.add_row([
            view.seq.to_string(),
            view.at.clone(),
            field("type"),
            field("step"),
            field("name"),
            what(&view.entry),
        ]);
    }
    super::output::plain(&table.to_string())
}

/// What an entry holds besides its place, cut to a line or two.
fn what(entry: &Value) -> String {
    const SHOWN_MAX: usize = 240;
    let shown = ["failure", "output", "data", "payload", "edit", "on", "end", "takeover", "reason"];
    let parts = shown.iter().filter_map(|name| entry.get(name).map(|value| format!("{name}: {}", plain(value))));
    let whole = parts.collect::<Vec<_>>().join("  ");
    let mut cut: String = whole.chars().take(SHOWN_MAX).collect();
    if whole.chars().count() > SHOWN_MAX {
        cut.push('…');
    }
    cut
}

fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_says_what_it_does_not_know() {
        let rows = [
            (0, 0, 0, "-"),
            (9, 1_234, 0, "$0.001234"),
            (9, 12_345_678, 0, "$12.34"),
            (9, 500_000, 0, "$0.50"),
            (9, 0, 0, "$0"),
            (9, 0, 9, "unknown"),
            (9, 5, 2, ">=$0.000005"),
        ];
        for (tokens, money_micros, unpriced_tokens, expected) in rows {
            assert_eq!(cost(tokens, money_micros, unpriced_tokens), expected);
        }
    }
}
