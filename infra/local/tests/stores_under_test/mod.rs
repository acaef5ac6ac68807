//! The storage services in a folder of their own, and the AWS SDK clients that tests look through.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each test file uses its part, and a failed step of a test is a failed test"
)]

use std::collections::BTreeMap;
use std::path::Path;

use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use longhaul_local::stores::dynamodb::StreamRecord;
use longhaul_local::stores::{Stores, StoresConfig, start};
use serde_json::Value;

/// The services, and the folder that goes with them.
pub struct UnderTest {
    pub stores: Stores,
    pub folder: tempfile::TempDir,
}

/// Starts the services in a new folder.
pub async fn stores() -> UnderTest {
    let folder = tempfile::tempdir().unwrap();
    let stores = start(StoresConfig::new(folder.path())).await.unwrap();
    UnderTest { stores, folder }
}

/// Starts the services in a folder that may hold data.
pub async fn stores_in(folder: &Path) -> Stores {
    start(StoresConfig::new(folder)).await.unwrap()
}

/// Records of the stream as functions get them.
pub fn handed_over(records: &[StreamRecord]) -> Vec<Value> {
    records.iter().map(|record| serde_json::from_str(&record.json("us-east-1")).unwrap()).collect()
}

/// Where clients go and how they sign: of services in this process or in another.
pub struct Address {
    pub endpoint: String,
    pub access_key_id: String,
    pub secret_access_key: String,
}

impl Address {
    pub fn of(stores: &Stores, endpoint: &str) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            access_key_id: stores.credentials.access_key_id.clone(),
            secret_access_key: stores.credentials.secret_access_key.clone(),
        }
    }

    fn credentials(&self) -> Credentials {
        Credentials::new(&self.access_key_id, &self.secret_access_key, None, None, "test")
    }
}

pub fn sqs_client(address: &Address) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(address.credentials())
        .endpoint_url(&address.endpoint)
        .build();
    aws_sdk_sqs::Client::from_conf(config)
}

pub fn dynamodb_client(address: &Address) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(address.credentials())
        .endpoint_url(&address.endpoint)
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

pub fn s3_client(address: &Address) -> aws_sdk_s3::Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(address.credentials())
        .endpoint_url(&address.endpoint)
        .force_path_style(true)
        .build();
    aws_sdk_s3::Client::from_conf(config)
}

/// The SQS client of services under test.
pub fn sqs_of(stores: &Stores) -> aws_sdk_sqs::Client {
    sqs_client(&Address::of(stores, &stores.sqs.endpoint))
}

/// The error code that the service answered, or `ok`.
pub fn code<T, E: ProvideErrorMetadata>(outcome: Result<T, SdkError<E>>) -> String {
    match outcome {
        Ok(_) => "ok".to_owned(),
        Err(fault) => fault.code().unwrap_or("no code").to_owned(),
    }
}

/// A map of strings from pairs.
pub fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}
