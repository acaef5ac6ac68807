//! Everything that people do with jobs, once.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use futures::{SinkExt, StreamExt};
use longhaul_tests::program::{Stack, entries, wait_for};
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use crate::canaries::files;
use crate::outside::{Outside, large_text};
use crate::shelves::aws;

/// The variable that holds the key of the scripted model.
pub(crate) const KEY_VARIABLE: &str = "SCRIPTED_MODEL_KEY";

/// An agent that asks a person and then answers at length.
pub(crate) const CLERK: &str = r#"
name: clerk
description: Asks before it answers.
instructions: INSTRUCTIONS
models: [{ provider: script }]
tools:
  - { kind: ask_person, name: ask, description: Asks a person. }
input_schema: { type: object, properties: { material: { type: string } } }
output_schema: { type: object, properties: { text: { type: string } }, required: [text] }
"#;

/// A stack on which everything was done, and what was seen of it.
pub(crate) struct Everything {
    pub(crate) stack: Stack,
    pub(crate) outside: Outside,
    pub(crate) token: String,
    /// Every text that the API or the WebSocket API answered.
    pub(crate) answers: String,
    heard: Arc<Mutex<String>>,
}

/// What people bring of their own, which may be looked for afterwards.
pub(crate) struct Brought {
    /// The key of the scripted model.
    pub(crate) model_key: String,
    /// What stands in the address of a webhook.
    pub(crate) webhook_key: String,
    /// What webhooks are signed with, in Base64.
    pub(crate) webhook_secret: String,
    /// Further variables of the stack.
    pub(crate) variables: Vec<(String, String)>,
    /// A word that is no secret and stands in an input.
    pub(crate) word: String,
}

impl Everything {
    pub(crate) fn done(brought: &Brought) -> Self {
        let outside = Outside::start();
        let providers = json!({"script": {
            "wire": "chat", "model": "scripted", "base_url": format!("http://{}/v1", outside.address),
            "features": {"streaming": false}, "key_variable": KEY_VARIABLE,
        }});
        let mut variables = vec![
            ("LONGHAUL_PROVIDERS".to_owned(), providers.to_string()),
            (KEY_VARIABLE.to_owned(), brought.model_key.clone()),
            (
                "LONGHAUL_WEBHOOK_SECRETS".to_owned(),
                json!({"local": format!("whsec_{}", brought.webhook_secret)}).to_string(),
            ),
            // Everything that a deployment can be told to log.
            ("LONGHAUL_LOG".to_owned(), "debug".to_owned()),
            ("LONGHAUL_ERASURE_REST_SECONDS".to_owned(), "1".to_owned()),
        ];
        variables.extend(brought.variables.iter().cloned());
        let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
        let stack = Stack::up_with(&["--think-ms", "400", "--tokens-per-second", "40"], &variables);
        let token = stack.token("local");
        let mut all = Self { stack, outside, token, answers: String::new(), heard: Arc::default() };
        all.agents();
        all.a_schedule_is_saved();
        all.a_large_job_with_a_person(brought);
        all.a_job_that_is_watched_and_cancelled(brought);
        all.dead_letters();
        all.lists_and_pages();
        all.the_model_refuses_its_key();
        all.a_job_whose_time_is_over();
        all.a_watchers_token_expires();
        all.a_tenant_is_erased();
        all.the_schedule_has_fired();
        let heard = all.heard.lock().unwrap().clone();
        all.answers.push_str(&heard);
        all
    }

    /// A call of the API; what it answers, as JSON.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let url = format!("{}{path}", self.stack.address("api"));
        let mut request = reqwest::Client::new().request(method.parse().unwrap(), url).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let text = self.outside.runtime.block_on(async { request.send().await.unwrap().text().await.unwrap() });
        writeln!(self.answers, "{text}").unwrap();
        serde_json::from_str(&text).unwrap_or(Value::Null)
    }

    /// Reads a job's events as a stream, to its end.
    fn stream(&mut self, job: &str) {
        let url = format!("{}/v1/jobs/{job}/events", self.stack.address("api"));
        let request = reqwest::Client::new().get(url).bearer_auth(&self.token).header("accept", "text/event-stream");
        let text = self.outside.runtime.block_on(async { request.send().await.unwrap().text().await.unwrap() });
        assert!(text.contains("longhaul.AgentJobCompleted"), "{text}");
        writeln!(self.answers, "{text}").unwrap();
    }

    /// A call of DynamoDB or SQS by somebody with rights in the account.
    pub(crate) fn aws(&self, service: &str, target: &str, body: &Value) -> Value {
        self.outside.runtime.block_on(aws(&self.stack.address(service), target, body))
    }

    fn key(job: &str) -> Value {
        json!({"PK": {"S": format!("JOB#{job}")}, "SK": {"S": "JOB"}})
    }

    fn agents(&mut self) {
        for (name, instructions) in [("clerk", "Ask, then answer."), ("stranger", "Be refused.")] {
            let definition =
                CLERK.replace("INSTRUCTIONS", instructions).replace("name: clerk", &format!("name: {name}"));
            let path = self.stack.data().join(format!("{name}.yaml"));
            std::fs::write(&path, definition).unwrap();
            let applied = self.stack.run(&["agents", "apply", path.to_str().unwrap()]);
            assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
        }
        assert!(self.call("GET", "/v1/agents", None).to_string().contains("clerk"));
        assert_eq!(self.call("GET", "/v1/agents/clerk", None)["name"], "clerk");
    }

    /// A schedule of each minute, whose jobs have an input that is a claim check.
    fn a_schedule_is_saved(&mut self) {
        let material: String = large_text("").chars().take(20_000).collect();
        let job = json!({"agent": "clerk", "input": {"material": material}, "thread": "by-the-clock"});
        let schedule = json!({"cron": "* * * * *", "job": job});
        assert_eq!(self.call("PUT", "/v1/schedules/minutely", Some(&schedule))["name"], "minutely");
    }

    /// The minute has passed, and the sweeper has looked.
    fn the_schedule_has_fired(&mut self) {
        wait_for("the schedule's job", || {
            self.call("GET", "/v1/schedules/minutely", None).pointer("/last/job").is_some()
        });
        assert_eq!(self.call("DELETE", "/v1/schedules/minutely", None)["name"], "minutely");
        assert_eq!(self.call("GET", "/v1/schedules", None), json!({"schedules": []}));
    }

    /// A job whose input, signal and result are claim checks, which a person is asked in the middle of and the sweeper
    /// finds there, and whose end is reported.
    fn a_large_job_with_a_person(&mut self, brought: &Brought) {
        let webhook = format!("http://{}/hook?key={}", self.outside.address, brought.webhook_key);
        let input = json!({"material": large_text(&format!("{} ", brought.word))});
        let order = json!({"agent": "clerk", "input": input, "webhook": webhook});
        let job = self.call("POST", "/v1/jobs", Some(&order))["id"].as_str().unwrap().to_owned();
        self.watch(&job);
        wait_for("the question", || self.stack.show(&job)["job"]["status"] == "WAITING");
        let shown = self.stack.show(&job);
        let signal = entries(&shown, "waiting")[0]["on"]["signal"].as_str().unwrap().to_owned();

        // Its due time comes, and the sweeper looks at it.
        self.aws(
            "dynamodb",
            "DynamoDB_20120810.UpdateItem",
            &json!({
                "TableName": "longhaul", "Key": Self::key(&job), "UpdateExpression": "SET due_at = :now",
                "ExpressionAttributeValues": {":now": {"N": "1"}},
            }),
        );
        wait_for("the sweeper", || {
            let item = self.aws(
                "dynamodb",
                "DynamoDB_20120810.GetItem",
                &json!({
                    "TableName": "longhaul", "Key": Self::key(&job), "ConsistentRead": true,
                }),
            );
            item["Item"]["due_at"]["N"] != "1"
        });

        let payload = json!({"payload": "yes"});
        let taken = self.call("POST", &format!("/v1/jobs/{job}/signals/{signal}"), Some(&payload));
        assert_eq!(taken["job"], *job, "{taken}");
        let done = self.stack.ended(&job);
        assert_eq!(done["job"]["status"], "COMPLETED", "{}", done["job"]);
        wait_for("the report", || !self.outside.asked.lock().unwrap().webhooks.is_empty());
        for path in ["", "/events", "/journal", "/deliveries"] {
            self.call("GET", &format!("/v1/jobs/{job}{path}"), None);
        }
        self.stream(&job);
        let delivered = self.call("GET", &format!("/v1/jobs/{job}/deliveries"), None);
        let delivery = delivered["deliveries"][0]["id"].as_str().unwrap();
        // An event's id holds the job's, with a stroke between.
        let delivery = delivery.replace('/', "%2F");
        self.call("POST", &format!("/v1/jobs/{job}/deliveries/{delivery}/resend"), Some(&json!({})));
        std::fs::write(self.stack.data().join("large-job"), job).unwrap();
    }

    /// Watches a job in the background; what is heard is kept.
    fn watch(&self, job: &str) {
        self.watch_as(&self.token, job);
    }

    fn watch_as(&self, token: &str, job: &str) {
        let url = format!("{}?token={token}", self.stack.address("websocket"));
        let subscribe = json!({"action": "subscribe", "job": job, "after": 0}).to_string();
        let heard = Arc::clone(&self.heard);
        let (ready, subscribed) = std::sync::mpsc::channel();
        self.outside.runtime.spawn(async move {
            let (mut socket, _) = connect_async(url).await.unwrap();
            socket.send(Message::text(subscribe)).await.unwrap();
            while let Some(Ok(message)) = socket.next().await {
                if let Message::Text(text) = message {
                    heard.lock().unwrap().push_str(&text);
                    // Nobody waits any more behind the first one.
                    let _heard_before = ready.send(());
                }
            }
        });
        subscribed.recv_timeout(longhaul_tests::program::PATIENCE).expect("a message to the watcher");
    }

    fn a_job_that_is_watched_and_cancelled(&mut self, brought: &Brought) {
        let job = self.stack.submit("agent-10", &json!({"steps": 200}));
        self.watch(&job);
        wait_for("a piece of an answer", || self.heard.lock().unwrap().contains("\"delta\""));
        let cancelled = self.stack.run(&["jobs", "cancel", &job, "--reason", &brought.word]);
        assert!(cancelled.status.success());
        assert_eq!(self.stack.ended(&job)["job"]["status"], "CANCELLED");
        self.call("GET", &format!("/v1/jobs/{job}/journal"), None);
    }

    /// One dead letter is mended and replayed through the API, another is moved back by the queue's own redrive.
    fn dead_letters(&mut self) {
        let broken = json!({"steps": 2, "fail_at": 2});
        let mended = json!({"steps": 2, "fail_at": 2, "mended": true});
        let job = self.stack.submit("agent-10", &broken);
        assert_eq!(self.stack.ended(&job)["job"]["status"], "FAILED");
        self.call("GET", "/v1/dead-letters", None);
        let replayed = self.stack.json(&["dead-letters", "replay", &job, "--input", &mended.to_string(), "--json"]);
        assert_eq!(replayed["status"], "COMPLETED");

        let job = self.stack.submit("agent-10", &broken);
        assert_eq!(self.stack.ended(&job)["job"]["status"], "FAILED");
        // The queue named, since our letters were sent there and not moved by SQS, which knows no source of theirs.
        let arn = |queue: &str| format!("arn:aws:sqs:us-east-1:000000000000:{queue}");
        let redrive = json!({"SourceArn": arn("longhaul-dead-letters"), "DestinationArn": arn("longhaul-jobs")});
        self.aws("sqs", "AmazonSQS.StartMessageMoveTask", &redrive);
        wait_for("the redrive", || entries(&self.stack.show(&job), "replayed").len() == 1);
        assert_eq!(self.stack.ended(&job)["job"]["status"], "FAILED", "nobody has mended it");
    }

    fn lists_and_pages(&mut self) {
        assert!(self.call("GET", "/v1/jobs", None)["jobs"].as_array().unwrap().len() >= 4);
        for path in ["/v1/dead-letters", "/console/", "/openapi.json", "/healthz", "/v1/jobs?status=FAILED"] {
            self.call("GET", path, None);
        }
    }

    fn the_model_refuses_its_key(&mut self) {
        let job = self.stack.submit("stranger", &json!({}));
        let failed = self.stack.ended(&job);
        assert_eq!(failed["job"]["status"], "FAILED", "{}", failed["job"]);
        for path in ["", "/events", "/journal"] {
            self.call("GET", &format!("/v1/jobs/{job}{path}"), None);
        }
    }

    /// The table removes a job whose time is over; its journal and payloads follow.
    fn a_job_whose_time_is_over(&self) {
        let job = std::fs::read_to_string(self.stack.data().join("large-job")).unwrap();
        self.aws("dynamodb", "DynamoDB_20120810.DeleteItem", &json!({"TableName": "longhaul", "Key": Self::key(&job)}));
        wait_for("the journal's removal", || {
            let left = self.aws(
                "dynamodb",
                "DynamoDB_20120810.Query",
                &json!({
                    "TableName": "longhaul", "KeyConditionExpression": "PK = :job",
                    "ExpressionAttributeValues": {":job": {"S": format!("JOB#{job}")}},
                }),
            );
            left["Count"] == 0
        });
    }

    /// A watcher stays longer than its token counts, and is sent away at its next word.
    fn a_watchers_token_expires(&self) {
        let url = format!("{}?token={}", self.stack.address("websocket"), self.stack.token("late"));
        let (mut socket, _) = self.outside.runtime.block_on(connect_async(url)).unwrap();
        let asked = json!({
            "TableName": "longhaul", "KeyConditionExpression": "PK = :late AND begins_with(SK, :connections)",
            "ExpressionAttributeValues": {":late": {"S": "TENANT#late"}, ":connections": {"S": "CONN#"}},
        });
        let found = self.aws("dynamodb", "DynamoDB_20120810.Query", &asked);
        let connection = found["Items"][0]["SK"]["S"].as_str().unwrap();
        self.aws(
            "dynamodb",
            "DynamoDB_20120810.UpdateItem",
            &json!({
                "TableName": "longhaul", "Key": {"PK": {"S": connection}, "SK": {"S": "CONN"}},
                "UpdateExpression": "SET token_expires_at = :long_ago",
                "ExpressionAttributeValues": {":long_ago": {"N": "1"}},
            }),
        );
        let ended = async {
            socket.send(Message::text(json!({"action": "ping"}).to_string())).await.unwrap();
            let mut told = String::new();
            while let Some(Ok(message)) = socket.next().await {
                told.push_str(&message.to_string());
            }
            told
        };
        let ended = async { tokio::time::timeout(longhaul_tests::program::PATIENCE, ended).await };
        let told = self.outside.runtime.block_on(ended).expect("the connection is closed");
        assert!(told.contains("not-authenticated"), "{told}");
        self.heard.lock().unwrap().push_str(&told);
    }

    /// Another tenant has everything erased: a job with a payload that waits for a person, its watcher, an agent, a
    /// dead letter.
    fn a_tenant_is_erased(&self) {
        let of_it = |arguments: &[&str]| {
            let done = self.stack.run(&[&["--tenant", "leaver"], arguments].concat());
            assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
            String::from_utf8(done.stdout).unwrap().trim().to_owned()
        };
        let clerk = self.stack.data().join("clerk.yaml");
        of_it(&["agents", "apply", clerk.to_str().unwrap()]);
        let input = self.stack.data().join("material.json");
        std::fs::write(&input, json!({"material": large_text("")}).to_string()).unwrap();
        let waiting = of_it(&["run", "clerk", "--input", &format!("@{}", input.display()), "--detach"]);
        let failing = of_it(&["run", "agent-10", "--input", r#"{"steps": 2, "fail_at": 2}"#, "--detach"]);
        let status = |job: &str| {
            let shown: Value = serde_json::from_str(&of_it(&["jobs", "show", job, "--json"])).unwrap();
            shown["job"]["status"].clone()
        };
        wait_for("the question", || status(&waiting) == "WAITING");
        wait_for("the dead letter", || status(&failing) == "FAILED");
        self.watch_as(&self.stack.token("leaver"), &waiting);
        // Looked for where they lie: those that a pass removed whose next call failed are in nobody's count.
        let objects = || {
            let stored = files(&self.stack.data().join("s3"));
            stored.into_iter().filter(|file| file.to_string_lossy().contains(&waiting)).collect::<Vec<_>>()
        };
        assert!(!objects().is_empty(), "the job has no payload of its own");
        let erased: Value = serde_json::from_str(&of_it(&["tenant", "erase", "leaver", "--yes", "--json"])).unwrap();
        assert_eq!((&erased["status"], &erased["erased"]["jobs"]), (&json!("DONE"), &json!(2)), "{erased}");
        assert_eq!(erased["erased"]["dead_letters"], 1, "{erased}");
        assert!(objects().is_empty(), "{:?}", objects());
    }
}
