//! What things cost: a file of prices with its date, since prices are data that change without us.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The file that is shipped.
const SHIPPED: &str = include_str!("prices.json");

/// The prices of some regions on a day, and what of the stack is paid for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PriceList {
    /// The day on which the prices were looked up.
    pub date: String,
    /// Prices by region.
    pub regions: BTreeMap<String, Prices>,
    /// What is in the stack.
    pub stack: StackSize,
}

/// Prices of one region, in US dollars.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// DynamoDB on demand: a million units of writing, of 1 KB each.
    pub dynamodb_write_units_million: f64,
    /// A million units of consistent reading, of 4 KB each.
    pub dynamodb_read_units_million: f64,
    /// SQS, standard queues: a million requests.
    pub sqs_requests_million: f64,
    /// Lambda on arm64: a gigabyte of memory for a second.
    pub lambda_arm64_gb_second: f64,
    /// Lambda: a million invocations.
    pub lambda_requests_million: f64,
    /// HTTP API: a million requests.
    pub http_api_requests_million: f64,
    /// WebSocket API: a million messages of up to 32 KB.
    pub websocket_messages_million: f64,
    /// WebSocket API: a million minutes of connections.
    pub websocket_minutes_million: f64,
    /// Lambda durable functions: a million operations.
    pub durable_operations_million: f64,
    /// Lambda durable functions: a gigabyte of written data.
    pub durable_gb: f64,
    /// Step Functions, Standard: a million transitions.
    pub state_transitions_million: f64,
    /// CloudWatch: a gigabyte of logs taken in.
    pub log_gb: f64,
    /// CloudWatch: an alarm for a month.
    pub alarm_month: f64,
    /// CloudWatch: a dashboard for a month.
    pub dashboard_month: f64,
    /// CloudWatch: a metric of our own for a month.
    pub metric_month: f64,
    /// CloudWatch: a rule of Contributor Insights for a month.
    pub insight_rule_month: f64,
}

/// What of the stack is paid for. A test holds it to `template.yaml`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackSize {
    /// Memory of the worker.
    pub worker_memory_gb: f64,
    /// Memory of each other function.
    pub other_memory_gb: f64,
    /// How long a short invocation takes: an answer, a push, a watchdog.
    pub short_invocation_seconds: f64,
    /// The longest invocation of the worker.
    pub invocation_seconds_max: f64,
    /// Alarms.
    pub alarms: f64,
    /// Dashboards.
    pub dashboards: f64,
    /// Metrics of our own.
    pub metrics: f64,
    /// Rules of Contributor Insights.
    pub insight_rules: f64,
    /// Requests by which the event source asks an empty queue in a month.
    pub idle_queue_requests_month: f64,
    /// Sweeps of a month.
    pub sweeps_month: f64,
    /// Log lines of a step at `INFO`, in kilobytes.
    pub log_kb_step: f64,
}

impl PriceList {
    /// Reads a list.
    ///
    /// # Errors
    /// When the text is none.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The list that comes with the program.
    ///
    /// # Errors
    /// Never, as a test sees to.
    pub fn shipped() -> Result<Self, serde_json::Error> {
        Self::parse(SHIPPED)
    }
}
