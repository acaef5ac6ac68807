//! What is in the stores of a data folder, taken out whole and put back: the table's items, the messages, the objects.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use longhaul_local::stores::StoresConfig;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The rest of a signature's form. The embedded stores look no further than that for the table and the queues.
const SIGNED: &str = "20260101/us-east-1/any/aws4_request, SignedHeaders=host;x-amz-date, Signature=0";

/// A call of DynamoDB or SQS by somebody with rights in the account.
pub(crate) async fn aws(endpoint: &str, target: &str, body: &Value) -> Value {
    let request = reqwest::Client::new()
        .post(endpoint)
        .header("x-amz-target", target)
        .header("content-type", "application/x-amz-json-1.0")
        .header("authorization", format!("AWS4-HMAC-SHA256 Credential=person/{SIGNED}"))
        .header("x-amz-date", "20260101T000000Z")
        .body(body.to_string());
    let answer = request.send().await.unwrap();
    let good = answer.status().is_success();
    let text = answer.text().await.unwrap();
    assert!(good, "{target}: {text}");
    serde_json::from_str(&text).unwrap_or(Value::Null)
}

/// What the stores hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shelves {
    /// Items as DynamoDB tells them.
    pub(crate) items: Vec<Value>,
    /// Bodies of continuations.
    pub(crate) messages: Vec<String>,
    /// Bodies of dead letters.
    pub(crate) dead_letters: Vec<String>,
    /// Files of the bucket by path, in Base64.
    pub(crate) objects: BTreeMap<String, String>,
}

/// Every message of a queue, in flight and delayed ones too, which nobody could receive.
fn messages(data: &Path, queue: &str) -> Vec<String> {
    let file = rusqlite::Connection::open(data.join("sqs.sqlite")).unwrap();
    let all = "SELECT body FROM messages JOIN queues ON queues.id = messages.queue WHERE queues.name = ?1 ORDER BY key";
    let mut rows = file.prepare(all).unwrap();
    rows.query_map([queue], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn objects(folder: &Path, root: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            objects(&path, root, found);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            found.insert(name, STANDARD.encode(fs::read(&path).unwrap()));
        }
    }
}

impl Shelves {
    /// Takes out what a stopped stack has left in its folder.
    pub(crate) async fn of(data: &Path) -> Self {
        let stores = longhaul_local::stores::start(StoresConfig::new(data)).await.unwrap();
        let scan = json!({"TableName": "longhaul", "ConsistentRead": true});
        let found = aws(stores.dynamodb.endpoint(), "DynamoDB_20120810.Scan", &scan).await;
        let items = found["Items"].as_array().unwrap().clone();
        stores.shutdown().await;
        let (messages, dead_letters) = (messages(data, "longhaul-jobs"), messages(data, "longhaul-dead-letters"));
        let mut files = BTreeMap::new();
        objects(&data.join("s3"), &data.join("s3"), &mut files);
        Self { items, messages, dead_letters, objects: files }
    }

    /// Puts everything into a folder on which no stack has worked.
    pub(crate) async fn put(&self, data: &Path) {
        for (name, file) in &self.objects {
            let path = data.join("s3").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, STANDARD.decode(file).unwrap()).unwrap();
        }
        let stores = longhaul_local::stores::start(StoresConfig::new(data)).await.unwrap();
        for item in &self.items {
            let put = json!({"TableName": "longhaul", "Item": item});
            aws(stores.dynamodb.endpoint(), "DynamoDB_20120810.PutItem", &put).await;
        }
        for (queue, bodies) in [(&stores.sqs.jobs, &self.messages), (&stores.sqs.dead_letters, &self.dead_letters)] {
            for body in bodies {
                let send = json!({"QueueUrl": stores.sqs.sqs.queue_url(queue), "MessageBody": body, "MessageGroupId": "local"});
                aws(&stores.sqs.endpoint, "AmazonSQS.SendMessage", &send).await;
            }
        }
        stores.shutdown().await;
    }

    /// How many entries of this type a job's journal has.
    pub(crate) fn entries(&self, job: &str, kind: &str) -> usize {
        let mut count = 0;
        for item in self.of_job(job) {
            let text = match (item["entries"]["S"].as_str(), item["entries_z"]["B"].as_str()) {
                (Some(text), _) => text.as_bytes().to_vec(),
                (None, Some(packed)) => zstd::decode_all(&*STANDARD.decode(packed).unwrap()).unwrap(),
                // The job's own item, or entries in the bucket.
                (None, None) => continue,
            };
            let entries: Vec<Value> = serde_json::from_slice(&text).unwrap();
            count += entries.iter().filter(|entry| entry["type"] == kind).count();
        }
        count
    }

    /// The items of a job.
    pub(crate) fn of_job(&self, job: &str) -> Vec<&Value> {
        let partition = format!("JOB#{job}");
        self.items.iter().filter(|item| item["PK"]["S"] == *partition).collect()
    }
}
