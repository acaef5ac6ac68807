//! The books of a running stack, read from outside of the functions: the table, the queues, and the requests that the
//! model server counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use longhaul::store::{JobRef, Store, StoreError};
use longhaul_aws::{AwsStore, Config, ConfigError};
use longhaul_engine::{JobId, Seq, TenantId, Timestamp, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::audit::{Expected, Finding, JobBooks, audit};
use crate::rehearsal::RequestRecord;
use crate::stack::Addresses;

/// Jobs whose books are read at the same time.
const READS_AT_ONCE: usize = 8;
/// Later than any due time.
const FAR_FUTURE: Timestamp = Timestamp::from_millis(253_402_300_799_000);
/// Jobs of one shard that are counted.
const OPEN_MAX: usize = 100_000;
/// How often a stack that comes to rest is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long dead letters that were read stay invisible: longer than reading all of them takes.
const LETTER_HIDDEN_SECONDS: u32 = 120;
/// The queues' names and the account in their addresses.
const JOBS_QUEUE: &str = "longhaul-jobs";
const DEAD_LETTERS: &str = "longhaul-dead-letters";
const ACCOUNT: &str = "000000000000";

/// Why the books cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BooksError {
    /// The stack's own settings.
    #[error("the stack's addresses are no settings of a store")]
    Config(#[from] ConfigError),
    /// The table.
    #[error("the table cannot be read")]
    Store(#[from] StoreError),
    /// A server of the stack.
    #[error("a server of the stack does not answer")]
    Http(#[from] reqwest::Error),
    /// A server of the stack answers something else than it should.
    #[error("{what} answered with what is no answer of it")]
    Strange {
        /// Which.
        what: &'static str,
    },
    /// The stack has a real model, whose requests nobody counts.
    #[error("effects can only be audited with the stand-in model, which counts what it is asked")]
    NoRehearsal,
}

/// Messages of a queue, by what can be done with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Depth {
    /// Can be received now.
    pub visible: u64,
    /// Sent with a delay that is not over.
    pub delayed: u64,
    /// Received and not yet done with.
    pub in_flight: u64,
}

/// What an audit of everything came to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Jobs that were accepted.
    pub jobs: u64,
    /// Steps with an outcome.
    pub steps: u64,
    /// Requests that the model server counted.
    pub asked: u64,
    /// Of those, repetitions that the contract allows: after a claim, or another attempt.
    pub asked_again: u64,
    /// Claims of jobs whose session before had died.
    pub takeovers: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl Verdict {
    /// How many findings are such.
    pub fn count(&self, such: impl Fn(&Finding) -> bool) -> u64 {
        self.findings.iter().filter(|finding| such(finding)).count() as u64
    }
}

/// A stack whose books are read.
#[derive(Debug, Clone)]
pub struct Books {
    store: AwsStore,
    http: reqwest::Client,
    sqs: String,
    rehearsal: Option<String>,
}

impl Books {
    /// The books of the stack that listens at these addresses.
    ///
    /// # Errors
    /// [`BooksError::Config`].
    pub async fn open(addresses: &Addresses) -> Result<Self, BooksError> {
        let queue = |name: &str| format!("{}/{ACCOUNT}/{name}", addresses.sqs);
        let config = Config::from_lookup(|name| match name {
            "LONGHAUL_TABLE" | "LONGHAUL_BUCKET" => Some("longhaul".to_owned()),
            "LONGHAUL_QUEUE_URL" => Some(queue(JOBS_QUEUE)),
            "LONGHAUL_DEAD_LETTER_QUEUE_URL" => Some(queue(DEAD_LETTERS)),
            "AWS_ENDPOINT_URL_DYNAMODB" => Some(addresses.dynamodb.clone()),
            "AWS_ENDPOINT_URL_SQS" => Some(addresses.sqs.clone()),
            "AWS_REGION" => Some("us-east-1".to_owned()),
            // The table's engine takes any signature.
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("auditor".to_owned()),
            _ => None,
        })?;
        Ok(Self {
            store: AwsStore::connect(config).await,
            http: reqwest::Client::new(),
            sqs: addresses.sqs.clone(),
            rehearsal: addresses.rehearsal.as_ref().map(|base| base.trim_end_matches("/v1").to_owned()),
        })
    }

    /// Jobs that have not ended: those that are due some time.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn open_jobs(&self) -> Result<Vec<JobRef>, BooksError> {
        let mut open = Vec::new();
        for shard in 0..limits::DUE_SHARDS {
            open.extend(self.store.due(shard, FAR_FUTURE, OPEN_MAX).await?);
        }
        Ok(open)
    }

    /// How many messages the queue of continuations has.
    ///
    /// # Errors
    /// [`BooksError::Http`], [`BooksError::Strange`].
    pub async fn queue(&self) -> Result<Depth, BooksError> {
        let names = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesDelayed",
            "ApproximateNumberOfMessagesNotVisible",
        ];
        let asked = json!({"QueueUrl": format!("{}/{ACCOUNT}/{JOBS_QUEUE}", self.sqs), "AttributeNames": names});
        let answer = self.ask_sqs("GetQueueAttributes", &asked).await?;
        let number = |name: &str| {
            let text = answer.get("Attributes").and_then(|all| all.get(name)).and_then(Value::as_str);
            text.and_then(|text| text.parse().ok()).ok_or(BooksError::Strange { what: "the queue" })
        };
        let [visible, delayed, in_flight] = names.map(number);
        Ok(Depth { visible: visible?, delayed: delayed?, in_flight: in_flight? })
    }

    /// The jobs of the dead letters. They come back when the auditor's receive has run out.
    ///
    /// # Errors
    /// [`BooksError::Http`], [`BooksError::Strange`].
    pub async fn dead_letters(&self) -> Result<BTreeSet<JobId>, BooksError> {
        let asked = json!({
            "QueueUrl": format!("{}/{ACCOUNT}/{DEAD_LETTERS}", self.sqs),
            "MaxNumberOfMessages": 10, "VisibilityTimeout": LETTER_HIDDEN_SECONDS,
        });
        let mut jobs = BTreeSet::new();
        loop {
            let answer = self.ask_sqs("ReceiveMessage", &asked).await?;
            let messages = answer.get("Messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if messages.is_empty() {
                return Ok(jobs);
            }
            for message in messages {
                let body = message.get("Body").and_then(Value::as_str).unwrap_or_default();
                let letter: Letter =
                    serde_json::from_str(body).map_err(|_| BooksError::Strange { what: "the dead-letter queue" })?;
                jobs.insert(letter.job);
            }
        }
    }

    /// Sends all dead letters back into their queue, as a person does by the console's "start DLQ redrive". How many.
    ///
    /// # Errors
    /// [`BooksError::Http`], [`BooksError::Strange`].
    pub async fn redrive(&self) -> Result<u64, BooksError> {
        let source = json!({"SourceArn": format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{DEAD_LETTERS}")});
        self.ask_sqs("StartMessageMoveTask", &source).await?;
        loop {
            let answer = self.ask_sqs("ListMessageMoveTasks", &source).await?;
            let latest = answer.pointer("/Results/0").ok_or(BooksError::Strange { what: "the dead-letter queue" })?;
            match latest.get("Status").and_then(Value::as_str) {
                Some("COMPLETED") => {
                    let moved = latest.get("ApproximateNumberOfMessagesMoved").and_then(Value::as_u64);
                    return moved.ok_or(BooksError::Strange { what: "the dead-letter queue" });
                }
                Some("RUNNING") => tokio::time::sleep(LOOK).await,
                Some(_) | None => return Err(BooksError::Strange { what: "the dead-letter queue" }),
            }
        }
    }

    /// How often the model server was asked for each step of each job.
    ///
    /// # Errors
    /// [`BooksError::NoRehearsal`], [`BooksError::Http`], [`BooksError::Strange`].
    pub async fn asked(&self) -> Result<BTreeMap<JobId, BTreeMap<String, u64>>, BooksError> {
        let base = self.rehearsal.as_ref().ok_or(BooksError::NoRehearsal)?;
        let requests: Vec<RequestRecord> =
            self.http.get(format!("{base}/rehearsal/requests")).send().await?.error_for_status()?.json().await?;
        let mut asked: BTreeMap<JobId, BTreeMap<String, u64>> = BTreeMap::new();
        for request in requests {
            let key = request.idempotency_key.unwrap_or_default();
            let parsed = key.split_once('/').and_then(|(job, step)| Some((job.parse::<JobId>().ok()?, step)));
            let (job, step) = parsed.ok_or(BooksError::Strange { what: "a caller of the model" })?;
            *asked.entry(job).or_default().entry(step.to_owned()).or_default() += 1;
        }
        Ok(asked)
    }

    /// Waits until no job is open and the queue is empty, its delayed messages too, but not longer than `patience`.
    /// Whether that came. A stack that is too busy to answer in time has not come to rest.
    ///
    /// # Errors
    /// [`BooksError`], when the stack gives no answer at the end either, or a wrong one.
    pub async fn at_rest(&self, patience: Duration) -> Result<bool, BooksError> {
        let give_up_at = Instant::now() + patience;
        loop {
            let in_time = Instant::now() < give_up_at;
            match self.rests().await {
                Ok(false) | Err(BooksError::Store(StoreError::Unavailable { .. })) if in_time => {}
                rests => return rests,
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn rests(&self) -> Result<bool, BooksError> {
        Ok(self.open_jobs().await?.is_empty() && self.queue().await? == Depth::default())
    }

    /// The books of one job.
    ///
    /// # Errors
    /// [`BooksError::Store`].
    pub async fn of_job(&self, job: &JobRef, asked: BTreeMap<String, u64>) -> Result<JobBooks, BooksError> {
        let item = self.store.job(job).await?;
        let journal = self.store.journal(job.job, Seq::FIRST).await?;
        Ok(JobBooks { job: job.job, item, journal, asked })
    }

    /// Audits every accepted job of a tenant, the queues and the index. Call it when the stack is at rest. `look` is
    /// shown the books of each job.
    ///
    /// # Errors
    /// [`BooksError`], when the stack gives no answer.
    pub async fn audit(
        &self,
        tenant: &TenantId,
        accepted: &BTreeMap<JobId, Expected>,
        mut look: impl FnMut(&JobBooks),
    ) -> Result<Verdict, BooksError> {
        let mut asked = self.asked().await?;
        let mut verdict = Verdict { jobs: accepted.len() as u64, ..Verdict::default() };
        verdict.asked = asked.values().flat_map(BTreeMap::values).sum();
        let reads = accepted.iter().map(|(job, expected)| {
            let of_job = asked.remove(job).unwrap_or_default();
            let reference = JobRef { tenant: tenant.clone(), job: *job };
            async move { Ok::<_, BooksError>((self.of_job(&reference, of_job).await?, *expected)) }
        });
        let reads: Vec<_> = reads.collect();
        let mut reads = stream::iter(reads).buffer_unordered(READS_AT_ONCE);
        let mut failed = BTreeSet::new();
        while let Some((books, expected)) = reads.try_next().await? {
            let audited = audit(&books, expected);
            verdict.steps += audited.steps;
            verdict.asked_again += audited.asked_again;
            verdict.takeovers += audited.takeovers;
            verdict.findings.extend(audited.findings);
            if books.item.as_ref().is_some_and(|item| item.progress.state == longhaul_engine::JobState::Failed) {
                failed.insert(books.job);
            }
            look(&books);
        }
        let strange =
            asked.into_keys().map(|job| Finding::Left { what: format!("effects of {job}, which nobody submitted") });
        verdict.findings.extend(strange);
        verdict.findings.extend(self.leftovers(&failed).await?);
        Ok(verdict)
    }

    async fn leftovers(&self, failed: &BTreeSet<JobId>) -> Result<Vec<Finding>, BooksError> {
        let mut left = Vec::new();
        let queue = self.queue().await?;
        if queue != Depth::default() {
            left.push(format!("the queue is not empty: {queue:?}"));
        }
        let due = self.open_jobs().await?;
        if !due.is_empty() {
            left.push(format!("{} jobs are in the due index", due.len()));
        }
        let letters = self.dead_letters().await?;
        left.extend(letters.difference(failed).map(|job| format!("a dead letter of {job}, which has not failed")));
        left.extend(failed.difference(&letters).map(|job| format!("{job} failed and has no dead letter")));
        Ok(left.into_iter().map(|what| Finding::Left { what }).collect())
    }

    async fn ask_sqs(&self, action: &str, request: &Value) -> Result<Value, BooksError> {
        let call = self.http.post(&self.sqs).header("x-amz-target", format!("AmazonSQS.{action}"));
        let call = call.header("content-type", "application/x-amz-json-1.0").body(request.to_string());
        let text = call.send().await?.error_for_status()?.text().await?;
        serde_json::from_str(&text).map_err(|_| BooksError::Strange { what: "the queue" })
    }
}

/// Of a dead letter, the job.
#[derive(Deserialize)]
struct Letter {
    job: JobId,
}
