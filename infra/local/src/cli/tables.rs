//! Jobs and journals as tables for people.

use comfy_table::{ContentArrangement, Table, presets};
use longhaul_wire::jobs::{DeadLetterList, JobList, Usage};
use longhaul_wire::journal::EntryView;
use longhaul_wire::{AgentCard, JobView};
use serde_json::Value;

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    table
}

/// A list of jobs.
pub(super) fn jobs(list: &JobList) -> String {
    if list.jobs.is_empty() {
        return "no jobs".to_owned();
    }
    let mut table = table(&["ID", "AGENT", "STATUS", "SUBMITTED", "STEPS", "TOKENS"]);
    for job in &list.jobs {
        table.add_row([
            job.id.to_string(),
            job.agent.clone(),
            job.status.as_str().to_owned(),
            job.submitted_at.clone(),
            job.steps.to_string(),
            job.usage.input_tokens.saturating_add(job.usage.output_tokens).to_string(),
        ]);
    }
    table.to_string()
}

/// What a job has cost, in the price table's currency. What has no known price is said and never counted as nothing.
pub(super) fn cost(usage: &Usage) -> String {
    let (whole, micros) = (usage.money_micros / 1_000_000, usage.money_micros % 1_000_000);
    match usage.unpriced_tokens {
        0 => format!("cost {whole}.{micros:06}"),
        unpriced => format!("cost {whole}.{micros:06} and {unpriced} tokens without a known price"),
    }
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
        format!(
            "used      {} steps, {} + {} tokens, {}",
            job.steps,
            job.usage.input_tokens,
            job.usage.output_tokens,
            cost(&job.usage)
        ),
    ];
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
            (0, 0, "cost 0.000000"),
            (1_234, 0, "cost 0.001234"),
            (12_000_000, 0, "cost 12.000000"),
            (5, 120, "cost 0.000005 and 120 tokens without a known price"),
        ];
        for (money_micros, unpriced_tokens, expected) in rows {
            assert_eq!(cost(&Usage { money_micros, unpriced_tokens, ..Usage::default() }), expected);
        }
    }
}
