//! What jobs cost on AWS, by service, beside what people would pick instead.
//!
//! The formula is that of docs/cost.md, whose figures a test holds to this. Intervals are the protocol's own limits, so
//! that a change of the protocol shows in its price.

mod prices;

use longhaul_engine::limits;

pub use prices::{PriceList, Prices, StackSize};

const MILLION: f64 = 1_000_000.0;
/// Writes of one unit to the index `due` when a due time changes: the old place and the new one.
const INDEX_MOVE: f64 = 2.0;
/// Bytes of one unit of writing.
const WRITE_UNIT_BYTES: f64 = 1_024.0;
/// Requests that a message costs: send, receive, delete.
const MESSAGE_REQUESTS: f64 = 3.0;

/// A job: what it does, and with how many others it shares the worker's invocation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Steps.
    pub steps: f64,
    /// Seconds from its first step to its last, nearly all of them waiting for a model.
    pub seconds: f64,
    /// Bytes that each step records.
    pub bytes: f64,
    /// Jobs that one invocation drives at the same time.
    pub together: f64,
    /// Who watches it.
    pub watchers: f64,
}

/// One line of a bill.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// For what.
    pub part: &'static str,
    /// US dollars.
    pub dollars: f64,
}

/// A design, and what it costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Bill {
    /// Whose bill it is.
    pub on: &'static str,
    /// Its lines.
    pub lines: Vec<Line>,
}

impl Bill {
    /// All of it, in US dollars.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.lines.iter().map(|line| line.dollars).sum()
    }
}

fn line(part: &'static str, dollars: f64) -> Line {
    Line { part, dollars }
}

/// Limits are far below where a float loses whole numbers.
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1_000.0
}

/// One job on Longhaul.
#[must_use]
pub fn longhaul(work: &Work, prices: &Prices, stack: &StackSize) -> Bill {
    let units = (work.bytes / WRITE_UNIT_BYTES).ceil().max(1.0);
    let invocations = (work.seconds / stack.invocation_seconds_max).ceil().max(1.0);
    let beats = work.seconds / seconds(limits::HEARTBEAT_INTERVAL_MS) / work.together;
    let peeks = work.seconds / seconds(limits::CANCEL_PEEK_INTERVAL_MS);
    let renewals = work.seconds / seconds(limits::LEASE_RENEWAL_INTERVAL_MS);
    let entries = work.steps + 1.0 + invocations;
    // Submission: the item, its places in three indexes, and its place by agent.
    let submit = 6.0;
    // A claim: item, due time, entry. A release at a deadline has no entry.
    let claims = invocations * (1.0 + INDEX_MOVE + 1.0) + (invocations - 1.0) * (1.0 + INDEX_MOVE);
    // The end: entry, item, out of `due`, moved in `search`.
    let end = 3.0 + INDEX_MOVE;
    let writes = submit + claims + work.steps * units + end + renewals * (1.0 + INDEX_MOVE) + beats;
    // Looks for a cancel; claims; who watches, at each entry; the api and the stream.
    let reads = peeks + invocations * 2.0 + entries + 4.0;
    // Continuations and watchdogs.
    let messages = 1.0 + (invocations - 1.0) + beats;
    let short = stack.short_invocation_seconds * prices.lambda_arm64_gb_second;
    let invocation = prices.lambda_requests_million / MILLION;
    let driving = work.seconds / work.together * stack.worker_memory_gb * prices.lambda_arm64_gb_second;
    let minutes = work.seconds / 60.0;
    Bill {
        on: "Longhaul",
        lines: vec![
            line("DynamoDB writes", writes * prices.dynamodb_write_units_million / MILLION),
            line("DynamoDB reads", reads * prices.dynamodb_read_units_million / MILLION),
            line("SQS (send, receive, delete)", messages * MESSAGE_REQUESTS * prices.sqs_requests_million / MILLION),
            line("Lambda: worker, driving", driving + invocations / work.together * invocation),
            line("Lambda: worker, watchdogs", beats * (short * stack.worker_memory_gb + invocation)),
            line("Lambda: api and websocket", (2.0 + entries) * (short * stack.other_memory_gb + invocation)),
            line("HTTP API", prices.http_api_requests_million / MILLION),
            line(
                "WebSocket",
                (entries * prices.websocket_messages_million + minutes * prices.websocket_minutes_million)
                    * work.watchers
                    / MILLION,
            ),
        ],
    }
}

/// The same job as a Lambda durable function: it waits for its model in its own invocation.
#[must_use]
pub fn durable_functions(work: &Work, prices: &Prices, stack: &StackSize) -> Bill {
    let driving = work.seconds * stack.worker_memory_gb * prices.lambda_arm64_gb_second;
    Bill {
        on: "Durable functions",
        lines: vec![
            line("operations", (work.steps + 1.0) * prices.durable_operations_million / MILLION),
            line("data written", work.steps * work.bytes / 1e9 * prices.durable_gb),
            line("Lambda: driving", driving + prices.lambda_requests_million / MILLION),
        ],
    }
}

/// The same job as a Standard workflow whose tasks are Lambda functions.
#[must_use]
pub fn step_functions(work: &Work, prices: &Prices, stack: &StackSize) -> Bill {
    let driving = work.seconds * stack.worker_memory_gb * prices.lambda_arm64_gb_second;
    Bill {
        on: "Step Functions",
        lines: vec![
            line("transitions", (work.steps + 2.0) * prices.state_transitions_million / MILLION),
            line("Lambda: driving", driving + work.steps * prices.lambda_requests_million / MILLION),
        ],
    }
}

/// What stands idle, in US dollars a month.
#[must_use]
pub fn idle(prices: &Prices, stack: &StackSize) -> Bill {
    let short = stack.short_invocation_seconds * prices.lambda_arm64_gb_second * stack.other_memory_gb;
    let sweep = short + prices.lambda_requests_million / MILLION;
    Bill {
        on: "Idle",
        lines: vec![
            line(
                "SQS: an empty queue is asked",
                stack.idle_queue_requests_month * prices.sqs_requests_million / MILLION,
            ),
            line("Lambda: sweeper", stack.sweeps_month * sweep),
            line("CloudWatch: alarms", stack.alarms * prices.alarm_month),
            line("CloudWatch: dashboard", stack.dashboards * prices.dashboard_month),
            line("CloudWatch: metrics", stack.metrics * prices.metric_month),
            line("CloudWatch: Contributor Insights", stack.insight_rules * prices.insight_rule_month),
        ],
    }
}

/// Logs of a job at `INFO`, in US dollars.
#[must_use]
pub fn logs(work: &Work, prices: &Prices, stack: &StackSize) -> f64 {
    work.steps * stack.log_kb_step * 1_024.0 / 1e9 * prices.log_gb
}

/// All three designs.
#[must_use]
pub fn bills(work: &Work, prices: &Prices, stack: &StackSize) -> [Bill; 3] {
    [longhaul(work, prices, stack), durable_functions(work, prices, stack), step_functions(work, prices, stack)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

    use super::*;

    const PAGE: &str = include_str!("../../../../docs/cost.md");
    const USUAL: Work = Work { steps: 10.0, seconds: 300.0, bytes: 2_000.0, together: 1.0, watchers: 1.0 };

    fn shipped() -> (PriceList, Prices) {
        let list = PriceList::shipped().unwrap();
        let prices = list.regions["us-east-1"].clone();
        (list, prices)
    }

    /// The rows of a job's table, as they stand in docs/cost.md: dollars a million jobs.
    fn rows(work: &Work) -> String {
        let (list, prices) = shipped();
        let mut rows = Vec::new();
        for bill in bills(work, &prices, &list.stack) {
            let whole = |dollars: f64| thousands((dollars * MILLION).round());
            rows.extend(
                bill.lines.iter().map(|line| format!("| {} | {} | {} |", bill.on, line.part, whole(line.dollars))),
            );
            rows.push(format!("| **{}** | **all** | **{}** |", bill.on, whole(bill.total())));
        }
        rows.join("\n")
    }

    fn thousands(number: f64) -> String {
        let digits = format!("{number:.0}");
        let places = digits.len();
        let mut text = String::new();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (places - place) % 3 == 0 {
                text.push(',');
            }
            text.push(digit);
        }
        text
    }

    #[test]
    fn the_page_says_what_the_formula_gives() {
        for work in [USUAL, Work { together: 10.0, ..USUAL }] {
            assert!(PAGE.contains(&rows(&work)), "docs/cost.md has not:\n{}", rows(&work));
        }
        let (list, prices) = shipped();
        assert!(PAGE.contains(&list.date), "the page names another day than the prices");
        for line in idle(&prices, &list.stack).lines {
            let shown = format!("{} ${:.2}", line.part, line.dollars);
            assert!(PAGE.replace('\n', " ").contains(&shown), "docs/cost.md has not: {shown}");
        }
    }

    #[test]
    fn a_step_is_one_write() {
        let (list, prices) = shipped();
        let writes = |steps| {
            let work = Work { steps, bytes: 1_024.0, ..USUAL };
            longhaul(&work, &prices, &list.stack).lines[0].dollars / prices.dynamodb_write_units_million * MILLION
        };
        assert!((writes(11.0) - writes(10.0) - 1.0).abs() < 1e-6);
    }
}
