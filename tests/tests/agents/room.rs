//! A room in which one job at a time is driven: a stand-in model, a store in memory, real time.

use std::path::PathBuf;
use std::time::Duration;

use longhaul::drive::{Handled, Invocation};
use longhaul::engine::entry::Edit;
use longhaul::engine::job::Order;
use longhaul::engine::{Entry, Failure};
use longhaul::store::{JobRef, Store};
use longhaul::{Clock, Registry, outside};
use longhaul_agent::{Settings, shipped};
use longhaul_local::rehearsal::{Fault, Rehearsal, RehearsalHandle, RequestRecord, start};
use longhaul_sim::workshop::Workshop;
use longhaul_sim::{Message, Sim};
use serde_json::{Value, json};

/// A job takes a few seconds here; one that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a job ended.
#[derive(Debug)]
pub(crate) enum End {
    Completed(Value),
    Failed(Failure),
}

impl End {
    /// The result of a job that must have one.
    pub(crate) fn output(self) -> Value {
        match self {
            Self::Completed(output) => output,
            Self::Failed(failure) => panic!("the job failed: {failure:?}"),
        }
    }

    /// The failure of a job that must have one.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Completed(output) => panic!("the job completed: {output}"),
        }
    }
}

/// The room.
pub(crate) struct Room {
    pub(crate) workshop: Workshop,
    registry: Registry,
    model: RehearsalHandle,
}

/// A file that ships with the embedded stack.
pub(crate) fn shipped_file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../infra/local").join(path).canonicalize().expect("a shipped file")
}

impl Room {
    /// A room with the corpus that ships.
    pub(crate) async fn open() -> Self {
        let model = start("127.0.0.1:0".parse().unwrap(), Rehearsal::default()).await.expect("the stand-in");
        let settings = Settings::read(|name| match name {
            "LONGHAUL_MODEL_URL" => Some(model.base_url.clone()),
            "LONGHAUL_MODEL" => Some("rehearsal".to_owned()),
            "LONGHAUL_CORPUS" => Some(shipped_file("corpus").to_string_lossy().into_owned()),
            "LONGHAUL_RETRY_WAIT_FIRST_MS" => Some("1".to_owned()),
            _ => None,
        });
        let registry = shipped(&settings.expect("settings")).expect("the agents");
        let mut workshop = Workshop::new(Sim::faultless(), registry.clone());
        workshop.clock = Clock::of_machine();
        Self { workshop, registry, model }
    }

    /// Submits a job.
    pub(crate) async fn submit(&self, agent: &str, input: Value) -> JobRef {
        let order: Order = self.workshop.order(agent, input);
        self.workshop.submit(order).await
    }

    /// Submits a job and drives it to its end.
    pub(crate) async fn run(&self, agent: &str, input: Value) -> End {
        let job = self.submit(agent, input).await;
        self.drive(&job).await
    }

    /// Drives a job to its end, or to a wait for something from outside.
    pub(crate) async fn drive(&self, job: &JobRef) -> End {
        let driving = async {
            loop {
                if let Some(end) = self.end(job) {
                    return end;
                }
                let message = self.workshop.sim.next_message().await;
                assert!(self.invoke(&message).await, "the message was given back");
                message.acknowledge();
            }
        };
        match tokio::time::timeout(PATIENCE, driving).await {
            Ok(end) => end,
            Err(_) => panic!("the job hangs:\n{}", self.workshop.story(job)),
        }
    }

    /// One invocation for one message.
    async fn invoke(&self, message: &Message) -> bool {
        let (store, clock) = (self.workshop.sim.handle(), self.workshop.clock);
        let session = format!("session-{}", uuid::Uuid::new_v4()).parse().unwrap();
        let deadline = clock.now().plus(Duration::from_secs(900));
        let invocation = Invocation::begin(&store, &self.registry, session, clock, deadline);
        invocation.announce().await.expect("a heartbeat");
        let handled = invocation.handle(&message.continuation).await.expect("a store that works");
        invocation.end().await;
        handled == Handled::Acknowledge
    }

    /// One invocation that is dropped, whatever it is doing, when `death` comes. The store is told that its session is
    /// over, as the embedded stack does when a process has died, and the message comes back.
    pub(crate) async fn invoke_until(&self, death: impl Future<Output = ()>) {
        let (store, clock) = (self.workshop.sim.handle(), self.workshop.clock);
        let session: longhaul::engine::ids::SessionId = format!("session-{}", uuid::Uuid::new_v4()).parse().unwrap();
        let deadline = clock.now().plus(Duration::from_secs(900));
        let message = self.workshop.sim.next_message().await;
        let invocation = Invocation::begin(&store, &self.registry, session.clone(), clock, deadline);
        invocation.announce().await.expect("a heartbeat");
        tokio::select! {
            () = death => {}
            handled = invocation.handle(&message.continuation) => panic!("it ended before it died: {handled:?}"),
        }
        store.end_session(&session).await.expect("a store that works");
        message.give_back();
    }

    /// How a job has ended, if it has.
    pub(crate) fn end(&self, job: &JobRef) -> Option<End> {
        match self.entries(job).pop()? {
            Entry::Completed { output } => Some(End::Completed(output)),
            Entry::Failed { failure } => Some(End::Failed(failure)),
            _ => None,
        }
    }

    /// The job's journal.
    pub(crate) fn entries(&self, job: &JobRef) -> Vec<Entry> {
        let batches = self.workshop.sim.snapshot().journals.remove(&job.job).unwrap_or_default();
        batches.into_iter().flat_map(|batch| batch.entries).collect()
    }

    /// Signals a job.
    pub(crate) async fn signal(&self, job: &JobRef, name: &str, key: &str, payload: Value) {
        let (store, now) = (self.workshop.sim.handle(), self.workshop.clock.now());
        let (name, key) = (name.parse().unwrap(), key.parse().unwrap());
        outside::signal(&store, job, name, key, payload, "ada".to_owned(), now).await.expect("a signal");
    }

    /// Replays a job with another input.
    pub(crate) async fn replay(&self, job: &JobRef, input: Value) {
        let (store, now) = (self.workshop.sim.handle(), self.workshop.clock.now());
        let edit = Edit { input: Some(input), ..Edit::default() };
        outside::replay(&store, job, "replay-1".parse().unwrap(), "ada".to_owned(), None, edit, now)
            .await
            .expect("a replay");
    }

    /// What the model has been asked.
    pub(crate) async fn requests(&self) -> Vec<RequestRecord> {
        let url = format!("http://{}/rehearsal/requests", self.model.address);
        client().get(url).send().await.unwrap().json().await.unwrap()
    }

    /// How often the model was asked for an answer of this form.
    pub(crate) async fn asked_for(&self, schema: &str) -> usize {
        self.requests().await.iter().filter(|request| request.schema.as_deref() == Some(schema)).count()
    }

    /// What the model server is to do wrong.
    pub(crate) async fn faults(&self, faults: Value) {
        let _: Vec<Fault> = serde_json::from_value(faults.clone()).expect("faults");
        let url = format!("http://{}/rehearsal/faults", self.model.address);
        let answer = client().post(url).json(&faults).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    }
}

pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    folder
}

/// An input for `research`.
pub(crate) fn topic(topic: &str, corpus: Option<&std::path::Path>) -> Value {
    let mut input = json!({ "topic": topic });
    if let Some(corpus) = corpus {
        input["corpus"] = json!(corpus);
    }
    input
}
