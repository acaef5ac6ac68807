//! The clock → function: what EventBridge Scheduler does with a rate.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Mapping;
use crate::lambda::functions::Function;

/// A schedule that invokes a function again and again.
#[derive(Clone, Debug)]
pub struct ScheduleMapping {
    /// The schedule's name.
    pub name: String,
    /// The time from one invocation to the next; at least a millisecond.
    pub every: Duration,
    /// The time from the start to the first invocation.
    pub first_after: Duration,
    /// The function that is invoked.
    pub function: Function,
}

impl ScheduleMapping {
    /// Starts the clock. An invocation that takes longer than the interval does not hold up the next one; ticks that
    /// were missed because the machine slept are left out.
    #[must_use]
    pub fn start(self) -> Mapping {
        Mapping::start(|stop| self.run(stop))
    }

    async fn run(self, stop: CancellationToken) {
        let every = self.every.max(Duration::from_millis(1));
        let mut ticks = interval_at(Instant::now() + self.first_after, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let (function, event, schedule) = (self.function.clone(), self.event(Timestamp::now()), self.name.clone());
            tokio::spawn(async move {
                if let Err(error) = function.invoke(event, None).await {
                    // The next tick is the retry.
                    tracing::warn!(schedule, function = function.name(), %error, "a scheduled invocation failed");
                }
            });
        }
    }

    fn event(&self, at: Timestamp) -> String {
        let (region, account) = (self.function.region(), self.function.account());
        event(&self.name, region, account, at, Uuid::new_v4())
    }
}

fn event(name: &str, region: &str, account: &str, at: Timestamp, id: Uuid) -> String {
    json!({
        "version": "0",
        "id": id,
        "detail-type": "Scheduled Event",
        "source": "aws.scheduler",
        "account": account,
        "time": at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "region": region,
        "resources": [format!("arn:aws:scheduler:{region}:{account}:schedule/default/{name}")],
        // The scheduler sends text here, where other sources of events send an object.
        "detail": "{}",
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed assumption must fail the test")]

    use serde_json::Value;

    use super::*;

    #[test]
    fn events_have_the_shape_of_the_scheduler() {
        let at = Timestamp::from_second(1_656_806_400).unwrap();
        let built: Value = serde_json::from_str(&event("sweep", "us-east-1", "000000000000", at, Uuid::nil())).unwrap();
        let expected = json!({
            "version": "0",
            "id": "00000000-0000-0000-0000-000000000000",
            "detail-type": "Scheduled Event",
            "source": "aws.scheduler",
            "account": "000000000000",
            "time": "2022-07-03T00:00:00Z",
            "region": "us-east-1",
            "resources": ["arn:aws:scheduler:us-east-1:000000000000:schedule/default/sweep"],
            "detail": "{}",
        });
        assert_eq!(built, expected);
    }
}
