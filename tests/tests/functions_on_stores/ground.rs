//! What the functions stand on: a table, two queues and a bucket of their own for each test.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::engine::ids::JobId;
use longhaul::engine::job::Order;
use longhaul::engine::{AgentRef, Entry, Job, JobState, Seq, Timestamp};
use longhaul::outside;
use longhaul::store::{JobRef, Store, StoreError};
use longhaul_aws::{AwsStore, Config};
use longhaul_local::stores::sqs::{QueueDepth, QueueName};
use longhaul_local::stores::{Stores, StoresConfig};
use longhaul_tests::stage::AwsStage;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The stores of one test.
pub(crate) struct Ground {
    pub(crate) stores: Stores,
    pub(crate) store: AwsStore,
    environment: BTreeMap<&'static str, String>,
    folder: TempDir,
}

impl Ground {
    pub(crate) async fn lay() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stores = longhaul_local::stores::start(StoresConfig::new(folder.path())).await.unwrap();
        let environment = AwsStage::environment(&stores);
        let store = connect(&environment).await;
        Self { stores, store, environment, folder }
    }

    /// A store with some variables changed.
    pub(crate) async fn store_with(&self, changes: &[(&'static str, String)]) -> AwsStore {
        let mut environment = self.environment.clone();
        environment.extend(changes.iter().cloned());
        connect(&environment).await
    }

    /// A store that nobody answers.
    pub(crate) async fn deaf_store(&self) -> AwsStore {
        self.store_with(&[("AWS_ENDPOINT_URL_DYNAMODB", deaf_endpoint())]).await
    }

    /// A call of the table without our client: what it cannot read or would never write.
    async fn call(&self, action: &str, body: &Value) -> Value {
        let call = reqwest::Client::new()
            .post(self.stores.dynamodb.endpoint())
            .header("x-amz-target", format!("DynamoDB_20120810.{action}"))
            .header("content-type", "application/x-amz-json-1.0")
            .header("x-amz-date", "20260101T000000Z")
            .header(
                "authorization",
                "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0",
            )
            .body(body.to_string());
        let response = call.send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert!(status.is_success(), "{action}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Every item of the table as DynamoDB tells it.
    pub(crate) async fn items(&self) -> Vec<Value> {
        let asked = json!({ "TableName": self.stores.dynamodb.table(), "ConsistentRead": true });
        let answer = self.call("Scan", &asked).await;
        assert!(answer["LastEvaluatedKey"].is_null(), "one page holds it all");
        answer["Items"].as_array().unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// Makes a job's item one that nobody can read.
    pub(crate) async fn spoil(&self, job: &JobRef) {
        self.change((&format!("JOB#{}", job.job), "JOB"), "status", json!({ "S": "NEVER HEARD OF" })).await;
        assert!(matches!(self.store.job(job).await, Err(StoreError::Corrupt { .. })));
    }

    /// Removes a job with all that it has.
    pub(crate) async fn remove_job(&self, job: &JobRef) {
        let key = json!({ "PK": { "S": format!("JOB#{}", job.job) }, "SK": { "S": "JOB" } });
        self.call("DeleteItem", &json!({ "TableName": self.stores.dynamodb.table(), "Key": key })).await;
        assert!(self.store.forget(job.job).await.unwrap(), "nothing of it is there");
    }

    /// Gives an attribute of an item another value, past our client.
    pub(crate) async fn change(&self, (partition, sort): (&str, &str), attribute: &str, value: Value) {
        let asked = json!({
            "TableName": self.stores.dynamodb.table(),
            "Key": { "PK": { "S": partition }, "SK": { "S": sort } },
            "UpdateExpression": "SET #attribute = :value",
            "ConditionExpression": "attribute_exists(PK)",
            "ExpressionAttributeNames": { "#attribute": attribute },
            "ExpressionAttributeValues": { ":value": value },
        });
        self.call("UpdateItem", &asked).await;
    }

    /// The paths of all objects, without what the server notes of them beside.
    pub(crate) fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![self.folder.path().join("s3")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false if entry.file_name().to_string_lossy().starts_with('.') => {}
                    false => found.push(entry.path().display().to_string()),
                }
            }
        }
        found
    }

    pub(crate) async fn submit(&self, order: Order) -> JobRef {
        let accepted = outside::submit(&self.store, order).await.unwrap();
        JobRef { tenant: accepted.job.order.tenant, job: accepted.job.order.id }
    }

    pub(crate) async fn job(&self, job: &JobRef) -> Job {
        self.store.job(job).await.unwrap().expect("the job")
    }

    pub(crate) async fn state(&self, job: &JobRef) -> JobState {
        self.job(job).await.progress.state
    }

    pub(crate) async fn entries(&self, job: &JobRef) -> Vec<Entry> {
        let batches = self.store.journal(job.job, Seq::FIRST).await.unwrap();
        batches.into_iter().flat_map(|batch| batch.entries).collect()
    }

    /// Receives up to `count` messages of the queue of continuations as the event by which Lambda hands them over.
    pub(crate) async fn batch(&self, count: usize) -> Value {
        let queue = self.stores.sqs.jobs.clone();
        let mut records = Vec::new();
        while records.len() < count {
            records.push(self.record_from(&queue).await.expect("another message"));
        }
        json!({ "Records": records })
    }

    /// Takes the next message of a queue, as Lambda's record of it.
    pub(crate) async fn record_from(&self, queue: &QueueName) -> Option<Value> {
        let sqs = &self.stores.sqs.sqs;
        let message = sqs.receive(queue, 1, PATIENCE, None).await.unwrap().into_iter().next()?;
        sqs.delete(queue, std::slice::from_ref(&message.receipt)).await.unwrap();
        Some(json!({
            "messageId": message.message_id,
            "receiptHandle": message.receipt.as_str(),
            "body": message.body,
            "attributes": message.system_attributes(),
            "messageAttributes": {},
            "md5OfBody": message.md5_of_body(),
            "eventSource": "aws:sqs",
            "eventSourceARN": sqs.queue_arn(queue),
            "awsRegion": self.stores.region,
        }))
    }

    /// How many messages the queue of continuations has.
    pub(crate) async fn depth(&self) -> QueueDepth {
        self.stores.sqs.sqs.depth(&self.stores.sqs.jobs).await.unwrap()
    }
}

async fn connect(environment: &BTreeMap<&'static str, String>) -> AwsStore {
    AwsStore::connect(Config::from_lookup(|name| environment.get(name).cloned()).unwrap()).await
}

/// An address where nobody listens: a port that was free a moment ago.
pub(crate) fn deaf_endpoint() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// The machine's time.
pub(crate) fn now() -> Timestamp {
    longhaul::Clock::of_machine().now()
}

/// The deadline of an invocation that has this long, in milliseconds since the Unix epoch.
pub(crate) fn deadline_in(time: Duration) -> u64 {
    now().plus(time).as_millis()
}

/// A request id as Lambda makes them.
pub(crate) fn request_id() -> String {
    Uuid::new_v4().to_string()
}

/// An order of `agent` that nobody has heard of before.
pub(crate) fn order(tenant: &str, agent: &str, input: Value) -> Order {
    Order {
        tenant: tenant.parse().unwrap(),
        id: JobId::from_uuid(Uuid::now_v7()),
        agent: AgentRef { name: agent.parse().unwrap(), version: 1 },
        input,
        budget: Default::default(),
        webhook: None,
        webhook_events: Vec::new(),
        labels: BTreeMap::new(),
        parent: None,
        origin: Default::default(),
        thread: None,
        overrides: Default::default(),
        priority: Default::default(),
        traceparent: None,
        submitted_at: now(),
        submitted_by: "ada".to_owned(),
    }
}
