//! The SDK clients: one of each in a process, made when first used, over one shared HTTP client.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::retry::{ClassifyRetry, RetryAction};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_smithy_runtime_api::client::http::HttpConnectorSettings;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::orchestrator::OrchestratorError;

use crate::config::{AccessKey, Aws, Config};
use crate::connector::SharedConnections;
use crate::counts::CallCounts;
use crate::credentials::RoleCredentials;
use crate::signed::{self, Answer, Call, CallError};

/// Tries of one call, the first included. A conditional write knows its own echo, so that repeating it is safe.
const TRIES_MAX: u32 = 4;
/// Wait before the second try, at the most; it doubles. DynamoDB answers in milliseconds, so a second would be long.
const RETRY_WAIT_FIRST_MS: u64 = 50;
/// The longest wait between tries.
const RETRY_WAIT_MAX_MS: u64 = 1_000;
/// Time to reach a server of the same region.
const CONNECT_SECONDS_MAX: u64 = 2;
/// Time for one try: fifty times what a slow DynamoDB write takes, so that a lost packet costs no more than this.
pub(crate) const TRY_SECONDS_MAX: u64 = 3;
/// Time for a call with all its tries: with the first try of [`crate::first_try`] below the silence after which a session
/// counts as dead.
const CALL_SECONDS_MAX: u64 = 10;
/// Time for one try of a transfer from or to S3: the largest payload on a slow link.
const TRANSFER_TRY_SECONDS_MAX: u64 = 15;
/// Time for a transfer with all its tries.
const TRANSFER_SECONDS_MAX: u64 = 45;

/// The clients of one process.
#[derive(Debug)]
pub struct Clients {
    aws: Aws,
    shared: SdkConfig,
    counts: CallCounts,
    connections: SharedConnections,
    role: Arc<RoleCredentials>,
    dynamodb: OnceLock<aws_sdk_dynamodb::Client>,
    sqs: OnceLock<aws_sdk_sqs::Client>,
    s3: OnceLock<aws_sdk_s3::Client>,
}

impl Clients {
    /// Prepares the clients. With a region and credentials in the environment, as on Lambda, this does no input or
    /// output; otherwise the SDK's own search is made.
    pub async fn load(config: &Config) -> Self {
        let aws = config.aws.clone();
        let connections = SharedConnections::default();
        let shared = match (&aws.region, &aws.access_key) {
            (Some(region), Some(key)) => SdkConfig::builder()
                .behavior_version(BehaviorVersion::latest())
                .region(Region::new(region.clone()))
                .credentials_provider(SharedCredentialsProvider::new(credentials(key)))
                .http_client(connections.clone())
                .retry_config(retries())
                .timeout_config(timeouts(TRY_SECONDS_MAX, CALL_SECONDS_MAX))
                .build(),
            (Some(_) | None, _) => {
                let mut loader = aws_config::defaults(BehaviorVersion::latest())
                    .http_client(connections.clone())
                    .retry_config(retries())
                    .timeout_config(timeouts(TRY_SECONDS_MAX, CALL_SECONDS_MAX));
                if let Some(region) = &aws.region {
                    loader = loader.region(Region::new(region.clone()));
                }
                Box::pin(loader.load()).await
            }
        };
        let role = Arc::new(RoleCredentials::new(shared.credentials_provider()));
        Self {
            aws,
            shared,
            counts: CallCounts::default(),
            connections,
            role,
            dynamodb: OnceLock::new(),
            sqs: OnceLock::new(),
            s3: OnceLock::new(),
        }
    }

    /// How many calls were made.
    #[must_use]
    pub const fn counts(&self) -> &CallCounts {
        &self.counts
    }

    /// The credentials of this process's role.
    #[must_use]
    pub const fn role(&self) -> &Arc<RoleCredentials> {
        &self.role
    }

    /// The address of a service for which there is no SDK here, without a stroke at its end.
    pub(crate) fn endpoint(&self, service: &'static str) -> Result<String, NoRegion> {
        let elsewhere = match service {
            "secretsmanager" => &self.aws.secrets_manager_url,
            "ssm" => &self.aws.ssm_url,
            "lambda" => &self.aws.lambda_url,
            _ => &None,
        };
        if let Some(url) = elsewhere {
            return Ok(url.trim_end_matches('/').to_owned());
        }
        let region = self.shared.region().ok_or(NoRegion { service })?;
        let domain = if region.as_ref().starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        Ok(format!("https://{service}.{region}.{domain}"))
    }

    /// The address of the table's service; none where only the SDK knows it.
    pub(crate) fn table_endpoint(&self) -> Option<String> {
        if let Some(url) = &self.aws.dynamodb_url {
            return Some(url.trim_end_matches('/').to_owned());
        }
        let wished = self.shared.endpoint_url().is_some()
            || self.shared.use_fips().unwrap_or_default()
            || self.shared.use_dual_stack().unwrap_or_default();
        let region = self.shared.region()?.as_ref();
        // Partitions with domains of their own.
        let apart = region.contains("-iso") || region.starts_with("eusc-");
        if wished || apart { None } else { self.endpoint("dynamodb").ok() }
    }

    /// Makes a call that no SDK makes, once and within `limit`.
    pub(crate) async fn send_signed(&self, operation: &str, call: Call, limit: Duration) -> Result<Answer, CallError> {
        self.counts.count(operation);
        self.send_uncounted(call, limit).await
    }

    pub(crate) async fn send_uncounted(&self, call: Call, limit: Duration) -> Result<Answer, CallError> {
        let credentials = self.role.get().await.map_err(CallError::Credentials)?;
        let settings =
            HttpConnectorSettings::builder().connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX)).build();
        let connector = self.connections.connector(&settings);
        let region = self.shared.region().map_or("us-east-1", AsRef::as_ref);
        signed::send(&connector, &credentials, region, call, limit).await
    }

    pub(crate) fn dynamodb(&self) -> &aws_sdk_dynamodb::Client {
        self.dynamodb.get_or_init(|| {
            let mut config = aws_sdk_dynamodb::config::Builder::from(&self.shared)
                .interceptor(self.counts.clone())
                .retry_classifier(TransactionConflicts::<PutItemError>::of_operation())
                .retry_classifier(TransactionConflicts::<UpdateItemError>::of_operation())
                .retry_classifier(TransactionConflicts::<DeleteItemError>::of_operation());
            config.set_endpoint_url(self.aws.dynamodb_url.clone());
            aws_sdk_dynamodb::Client::from_conf(config.build())
        })
    }

    pub(crate) fn sqs(&self) -> &aws_sdk_sqs::Client {
        self.sqs.get_or_init(|| {
            let mut config = aws_sdk_sqs::config::Builder::from(&self.shared).interceptor(self.counts.clone());
            config.set_endpoint_url(self.aws.sqs_url.clone());
            aws_sdk_sqs::Client::from_conf(config.build())
        })
    }

    pub(crate) fn s3(&self) -> &aws_sdk_s3::Client {
        self.s3.get_or_init(|| {
            let mut config = aws_sdk_s3::config::Builder::from(&self.shared)
                .timeout_config(timeouts(TRANSFER_TRY_SECONDS_MAX, TRANSFER_SECONDS_MAX))
                .interceptor(self.counts.clone());
            if self.aws.s3_url.is_some() {
                // A server on the loopback has no host names of its own for buckets.
                config = config.force_path_style(true);
            }
            config.set_endpoint_url(self.aws.s3_url.clone());
            aws_sdk_s3::Client::from_conf(config.build())
        })
    }

    /// A client of the WebSocket gateway at `endpoint`. It makes one try a message: the caller decides what a slow
    /// watcher is worth.
    pub(crate) fn gateway(&self, endpoint: &str) -> aws_sdk_apigatewaymanagement::Client {
        let config = aws_sdk_apigatewaymanagement::config::Builder::from(&self.shared)
            .retry_config(RetryConfig::disabled())
            .endpoint_url(endpoint)
            .interceptor(self.counts.clone());
        aws_sdk_apigatewaymanagement::Client::from_conf(config.build())
    }
}

/// A service's address cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no AWS region is configured, so that nobody knows where {service} is")]
pub(crate) struct NoRegion {
    service: &'static str,
}

fn credentials(key: &AccessKey) -> Credentials {
    Credentials::new(
        key.id.clone(),
        key.secret.reveal(),
        key.session_token.as_ref().map(|token| token.reveal().to_owned()),
        None,
        "environment",
    )
}

/// For a call whose first try was made without the SDK.
pub(crate) fn later_tries() -> aws_sdk_dynamodb::config::Builder {
    aws_sdk_dynamodb::config::Builder::new().retry_config(retries().with_max_attempts(TRIES_MAX - 1))
}

fn retries() -> RetryConfig {
    RetryConfig::standard()
        .with_max_attempts(TRIES_MAX)
        .with_initial_backoff(Duration::from_millis(RETRY_WAIT_FIRST_MS))
        .with_max_backoff(Duration::from_millis(RETRY_WAIT_MAX_MS))
}

fn timeouts(try_seconds: u64, call_seconds: u64) -> TimeoutConfig {
    TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(CONNECT_SECONDS_MAX))
        .operation_attempt_timeout(Duration::from_secs(try_seconds))
        .operation_timeout(Duration::from_secs(call_seconds))
        .build()
}

/// A plain write that meets a transaction under way is refused, which the SDK takes for final. It has changed nothing, and
/// a submission to a thread is such a transaction: a worker's write must not fail by it.
#[derive(Debug)]
struct TransactionConflicts<E>(PhantomData<E>);

impl<E> TransactionConflicts<E> {
    const fn of_operation() -> Self {
        Self(PhantomData)
    }
}

impl<E> ClassifyRetry for TransactionConflicts<E>
where
    E: ProvideErrorMetadata + std::error::Error + Debug + Send + Sync + 'static,
{
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let error = context.output_or_error().and_then(Result::err);
        let error = error.and_then(OrchestratorError::as_operation_error).and_then(|error| error.downcast_ref::<E>());
        match error.and_then(ProvideErrorMetadata::code) {
            Some("TransactionConflictException") => RetryAction::transient_error(),
            Some(_) | None => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "transaction conflicts"
    }
}
