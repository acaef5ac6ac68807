//! The functions of a stack and what calls them.

use std::collections::BTreeMap;
use std::time::Duration;

use longhaul::clock::OFFSET_VARIABLE;

use super::{Four, StackError, StackOptions};
use crate::lambda::event_sources::{Mapping, QueueMapping, Redelivery, ScheduleMapping, StreamMapping};
use crate::lambda::functions::{FunctionConfig, Functions, SetupError};
use crate::stores::{Credentials, Stores};

/// Messages of a batch: what AWS allows without a window.
const BATCH_SIZE: usize = 10;
/// Stream records of a batch. Many entries of many jobs go in one invocation when there is much to push.
const STREAM_BATCH_SIZE: usize = 200;
/// How long they are gathered: nobody sees the difference, and steps that follow each other share an invocation, the
/// look at who watches, and the reading of the stream. On AWS a stream is read every quarter of a second.
const STREAM_WINDOW: Duration = Duration::from_millis(5);
/// Time limit of the functions that answer people.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Calls of the api function at once, each long poll one of them, and how many of them share a process.
const API_CONCURRENCY: usize = 64;
const API_PER_PROCESS: usize = 32;
/// Time limit of a stream of events, which its reader then resumes.
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);
/// Streams of events at once, one a reader, and how many of them share a process.
const STREAM_CONCURRENCY: usize = 64;
const STREAM_PER_PROCESS: usize = 16;
/// Events that the websocket function is told at once, and how many of them share a process.
const WEBSOCKET_CONCURRENCY: usize = 32;
const WEBSOCKET_PER_PROCESS: usize = 16;
/// Batches of webhook deliveries that are made at once. A receiver that hangs holds a process of the websocket function
/// for some seconds, so not all of them.
const WEBHOOK_BATCHES_AT_ONCE: usize = 4;
/// How long a call waits for a free process before it is answered 429.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the sweeper runs: each minute as on AWS, or soon, for the person who watches.
const SWEEP_LIFELIKE: Duration = Duration::from_secs(60);
const SWEEP_PROMPT: Duration = Duration::from_secs(5);

pub(super) async fn add_functions(
    functions: &Functions,
    options: &StackOptions,
    credentials: &Credentials,
    env: BTreeMap<String, String>,
) -> Result<Four, SetupError> {
    let env_of = |name: &str| {
        let mut env = env.clone();
        env.insert("AWS_ACCESS_KEY_ID".to_owned(), credentials.id_of(name));
        env
    };
    let function = |name: &str, timeout: Duration, max_concurrency: usize, per_process: usize| FunctionConfig {
        name: name.to_owned(),
        program: options.program.clone(),
        args: vec!["function".into(), name.into()],
        env: env_of(name),
        timeout,
        memory_mb: 256,
        max_concurrency,
        per_process,
        patience: PATIENCE,
        env_in_turn: Vec::new(),
    };
    let offsets = options.worker_clock_offsets_seconds.iter();
    let env_in_turn = offsets.map(|seconds| (OFFSET_VARIABLE.to_owned(), seconds.to_string())).collect();
    let streaming = [("LONGHAUL_RESPONSE_STREAM".to_owned(), "1".to_owned())];
    let streams = FunctionConfig {
        args: vec!["function".into(), "api".into()],
        env: env_of("streams").into_iter().chain(streaming).collect(),
        ..function("streams", STREAM_TIMEOUT, STREAM_CONCURRENCY, STREAM_PER_PROCESS)
    };
    let (at_once, per_process) = options.worker_batches();
    let worker = FunctionConfig { env_in_turn, ..function("worker", options.worker_timeout, at_once, per_process) };
    Ok(Four {
        api: functions.add(function("api", ANSWER_TIMEOUT, API_CONCURRENCY, API_PER_PROCESS)).await?,
        streams: functions.add(streams).await?,
        worker: functions.add(worker).await?,
        websocket: functions
            .add(function("websocket", ANSWER_TIMEOUT, WEBSOCKET_CONCURRENCY, WEBSOCKET_PER_PROCESS))
            .await?,
        sweeper: functions.add(function("sweeper", ANSWER_TIMEOUT, 1, 1)).await?,
    })
}

pub(super) fn start_mappings(options: &StackOptions, stores: &Stores, four: &Four) -> Result<Vec<Mapping>, StackError> {
    let every = if options.lifelike { SWEEP_LIFELIKE } else { SWEEP_PROMPT };
    let queue = QueueMapping {
        sqs: stores.sqs.sqs.clone(),
        queue: stores.sqs.jobs.clone(),
        function: four.worker.clone(),
        batch_size: BATCH_SIZE,
        window: Duration::ZERO,
        max_concurrency: options.worker_batches().0.max(2),
        report_batch_item_failures: true,
        redelivery: if options.lifelike { Redelivery::Lifelike } else { Redelivery::Prompt },
    };
    let webhooks = QueueMapping {
        queue: stores.sqs.webhooks.clone(),
        function: four.websocket.clone(),
        max_concurrency: WEBHOOK_BATCHES_AT_ONCE,
        ..queue.clone()
    };
    let reader = stores.dynamodb.stream_reader("websocket")?;
    let stream = StreamMapping::new(reader, four.websocket.clone(), STREAM_BATCH_SIZE).gathered_for(STREAM_WINDOW);
    let sweep = ScheduleMapping {
        name: "sweep".to_owned(),
        every,
        first_after: Duration::from_millis(500),
        function: four.sweeper.clone(),
    };
    Ok(vec![queue.start()?, webhooks.start()?, stream.start()?, sweep.start()])
}
