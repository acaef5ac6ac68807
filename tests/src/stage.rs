//! What a scenario is played on: a store, and the far end of its queues.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

use longhaul::store::{Continuation, JobRef, Store};
use longhaul_aws::sqs::Incoming;
use longhaul_aws::{AwsStore, Config};
use longhaul_engine::Failure;
use longhaul_local::stores::sqs::{QueueName, Sqs};
use longhaul_local::stores::{Stores, StoresConfig};
use longhaul_sim::{Sim, SimStore};
use tempfile::TempDir;

/// A store with nothing in it, and the far end of its queues.
pub trait Stage: Send + Sync + Sized {
    /// The store.
    type Store: Store + Clone + Send + Sync + 'static;

    /// Sets the stage up.
    fn set_up() -> impl Future<Output = Self> + Send;

    /// The store, for one worker.
    fn store(&self) -> Self::Store;

    /// Receives the next continuation and removes it from the queue.
    fn next_message(&self) -> impl Future<Output = Continuation> + Send;

    /// Whether the queue has nothing to give at this moment.
    fn is_queue_silent(&self) -> impl Future<Output = bool> + Send;

    /// Receives the next dead letter.
    fn next_dead_letter(&self) -> impl Future<Output = (JobRef, Failure)> + Send;
}

/// Memory and virtual time.
#[derive(Debug)]
pub struct SimStage {
    /// The world.
    pub sim: Sim,
}

impl Stage for SimStage {
    type Store = SimStore;

    async fn set_up() -> Self {
        Self { sim: Sim::faultless() }
    }

    fn store(&self) -> SimStore {
        self.sim.handle()
    }

    async fn next_message(&self) -> Continuation {
        let message = self.sim.next_message().await;
        let continuation = message.continuation.clone();
        message.acknowledge();
        continuation
    }

    async fn is_queue_silent(&self) -> bool {
        tokio::time::timeout(Duration::ZERO, self.sim.next_message()).await.is_err()
    }

    async fn next_dead_letter(&self) -> (JobRef, Failure) {
        let letter = self.sim.snapshot().dead_letters.first().expect("a dead letter").clone();
        (letter.job, letter.failure)
    }
}

/// DynamoDB, SQS and S3 of the embedded stack, spoken to by the AWS SDKs.
#[derive(Debug)]
pub struct AwsStage {
    /// The store.
    pub store: AwsStore,
    /// The servers.
    pub stores: Stores,
    folder: TempDir,
}

/// How long a scenario waits for a message that must come.
const MESSAGE_WAIT: Duration = Duration::from_secs(20);

impl AwsStage {
    /// The environment of a function on this stage.
    #[must_use]
    pub fn environment(stores: &Stores) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("LONGHAUL_TABLE", stores.dynamodb.table().to_owned()),
            ("LONGHAUL_QUEUE_URL", stores.sqs.sqs.queue_url(&stores.sqs.jobs)),
            ("LONGHAUL_DEAD_LETTER_QUEUE_URL", stores.sqs.sqs.queue_url(&stores.sqs.dead_letters)),
            ("LONGHAUL_WEBHOOK_QUEUE_URL", stores.sqs.sqs.queue_url(&stores.sqs.webhooks)),
            ("LONGHAUL_BUCKET", stores.s3.bucket.clone()),
            ("AWS_REGION", stores.region.clone()),
            ("AWS_ACCESS_KEY_ID", stores.credentials.access_key_id.clone()),
            ("AWS_SECRET_ACCESS_KEY", stores.credentials.secret_access_key.clone()),
            ("AWS_ENDPOINT_URL_DYNAMODB", stores.dynamodb.endpoint().to_owned()),
            ("AWS_ENDPOINT_URL_SQS", stores.sqs.endpoint.clone()),
            ("AWS_ENDPOINT_URL_S3", stores.s3.endpoint.clone()),
        ])
    }

    /// The folder that the servers keep their files in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Receives and removes one message's body, waiting up to `wait`.
    async fn receive(&self, queue: &QueueName, wait: Duration) -> Option<String> {
        let sqs: &Sqs = &self.stores.sqs.sqs;
        let message = sqs.receive(queue, 1, wait, None).await.unwrap().into_iter().next()?;
        sqs.delete(queue, std::slice::from_ref(&message.receipt)).await.unwrap();
        Some(message.body)
    }
}

impl Stage for AwsStage {
    type Store = AwsStore;

    async fn set_up() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stores = longhaul_local::stores::start(StoresConfig::new(folder.path())).await.unwrap();
        let environment = Self::environment(&stores);
        let config = Config::from_lookup(|name| environment.get(name).cloned()).unwrap();
        Self { store: AwsStore::connect(config).await, stores, folder }
    }

    fn store(&self) -> AwsStore {
        self.store.clone()
    }

    async fn next_message(&self) -> Continuation {
        let body = self.receive(&self.stores.sqs.jobs, MESSAGE_WAIT).await.expect("a message");
        Incoming::parse(&body).unwrap().continuation
    }

    async fn is_queue_silent(&self) -> bool {
        self.receive(&self.stores.sqs.jobs, Duration::ZERO).await.is_none()
    }

    async fn next_dead_letter(&self) -> (JobRef, Failure) {
        let body = self.receive(&self.stores.sqs.dead_letters, MESSAGE_WAIT).await.expect("a dead letter");
        let incoming = Incoming::parse(&body).unwrap();
        let longhaul::store::About::Job(job) = incoming.continuation.about else { panic!("it is about no job") };
        (job, incoming.redriven.expect("its story").failure)
    }
}
