//! The first try of an append, without an SDK.
//!
//! A worker's step is one put. What an SDK does around a request (endpoint rules, interceptors, identities, a stack of
//! settings) takes several times as long as making, signing and reading it. So the first try is a request of our own. What
//! passes, a throttle, a failure, a broken connection, is asked again through the SDK with its waits and the tries that are
//! left: an append knows its own echo.

use std::time::Duration;

use crate::clients::{Clients, TRY_SECONDS_MAX};
use crate::signed::Call;

/// What DynamoDB answers at the most: an item of 400 KB as JSON, its binary parts as text.
const TABLE_ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
const TRY_TIME: Duration = Duration::from_secs(TRY_SECONDS_MAX);

/// Errors that pass, beside those that a status tells: AWS's own list of throttles and of what passes, as its SDKs have it
/// (`aws_runtime::retries::classifiers`), DynamoDB's own that may be tried again, and a plain write that met a transaction.
const PASSING: [&str; 18] = [
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "LimitExceededException",
    "PriorRequestNotComplete",
    "ProvisionedThroughputExceededException",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "RequestTimeout",
    "RequestTimeoutException",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "TransactionConflictException",
    "TransactionInProgressException",
];

/// What the table said to a conditional write.
pub(crate) enum Said {
    /// It is done.
    Done,
    /// The condition did not hold: the answer's body, with the item that stands there.
    Refused(Vec<u8>),
    /// It cannot be done, however often it is tried.
    Never(String),
}

impl Clients {
    /// Tries a conditional write of the table once. None where the SDK is to be asked.
    pub(crate) async fn try_write(&self, operation: &'static str, body: Vec<u8>) -> Option<Said> {
        let call = Call {
            service: "dynamodb",
            url: format!("{}/", self.table_endpoint()?),
            headers: vec![
                ("content-type", "application/x-amz-json-1.0".to_owned()),
                ("x-amz-target", format!("DynamoDB_20120810.{operation}")),
            ],
            body,
            answer_bytes_max: TABLE_ANSWER_BYTES_MAX,
        };
        let answer = match self.send_uncounted(call, TRY_TIME).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(operation, error = %crate::telemetry::chain(&error), "the first try came to nothing");
                return None;
            }
        };
        let (fault, message) = if answer.status == 200 { Default::default() } else { answer.fault() };
        let said = match (answer.status, fault.as_str()) {
            (200, _) => Said::Done,
            (400, "ConditionalCheckFailedException") => Said::Refused(answer.body),
            (500 | 502..=504, _) => return None,
            (_, fault) if PASSING.contains(&fault) => return None,
            (status, fault) => Said::Never(format!("the table answered {status} {fault}: {message}")),
        };
        // A call that is made again counts once: where the SDK makes it, it counts it.
        self.counts().count(operation);
        Some(said)
    }
}
