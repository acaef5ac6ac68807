//! Every limit of the protocol in one place, each with its reason.

/// Characters of a tenant's name: it stands in keys, queue groups and logs.
pub const TENANT_LENGTH_MAX: usize = 64;
/// Characters of an agent's name.
pub const AGENT_NAME_LENGTH_MAX: usize = 64;
/// Characters of a signal's name. A child's end is a signal named after its id, which needs 42.
pub const SIGNAL_NAME_LENGTH_MAX: usize = 64;
/// Characters of an idempotency key: the longest that the large payment interfaces allow.
pub const IDEMPOTENCY_KEY_LENGTH_MAX: usize = 255;
/// Characters of a session id: a Lambda request id has 36.
pub const SESSION_LENGTH_MAX: usize = 80;

/// Characters of a thread's id: a conversation's id elsewhere, with room for what stands in front of it.
pub const THREAD_LENGTH_MAX: usize = 128;
/// Jobs of one thread that have not ended. They stand in one item of some ten kilobytes that each submission and each end
/// of the thread writes; a conversation in which so many wait is none, and a batch needs no order.
pub const THREAD_PLACES_MAX: usize = 200;
/// Places behind these for submissions that cancel all in front of them: a full thread must take what clears it, and more than
/// once, should what came first not have been the last word.
pub const THREAD_PLACES_INTERRUPT: usize = 20;
/// Characters of a schedule's name: it is part of `submitted_by`, which people read in lists.
pub const SCHEDULE_NAME_LENGTH_MAX: usize = 64;
/// Schedules of a tenant: all of them at their largest fit one answer of Lambda (6 MB), and one minute's sweep. They are
/// counted before one more is saved, so that some saved in the same moment may all come through: it is a limit against
/// mistakes, half as many again still fit the answer, and a counter to hold it exactly would be one more thing to go wrong.
pub const SCHEDULES_MAX: usize = 100;
/// Bytes of a schedule as it is asked for: it is read and written at each firing.
pub const SCHEDULE_BYTES_MAX: usize = 32 * 1024;
/// Schedules that one sweep fires at most; the others are due at the next. Each is some five calls, sixteen at a time: a few
/// seconds of a sweep's minute.
pub const SWEEP_SCHEDULES_MAX: usize = 500;
/// Shortest time until a firing that found no room is tried again: what one sweep refuses the next may take.
pub const SCHEDULE_AGAIN_MIN_MS: u64 = 60_000;
/// How often a job that was opened again looks whether it is its turn, beside being called up: each look is a claim.
pub const TURN_LOOK_INTERVAL_MS: u64 = 5 * 60_000;

/// Entries in one batch. A reader that starts in the middle must look this far back for the batch that holds its place.
pub const BATCH_ENTRIES_MAX: usize = 16;
/// Entries of a whole journal: above this a job's replay no longer fits a small function's memory and time.
pub const JOURNAL_ENTRIES_MAX: u64 = 100_000;
/// Entries at a journal's end that are kept for claims, signals and the job's own end: a driver stops before them.
pub const JOURNAL_ENTRIES_RESERVED: u64 = 10_000;
/// Of those, entries that only a job's worker may still write: signals and cancels from outside stop before them.
pub const JOURNAL_ENTRIES_WORKER_RESERVED: u64 = 1_000;
/// Bytes of a failure's message, and of each cause: it stands in journals, dead letters and queue messages.
pub const FAILURE_TEXT_BYTES_MAX: usize = 4 * 1024;
/// Causes of a failure that are kept.
pub const FAILURE_CAUSES_MAX: usize = 16;

/// Bytes of a request body. API Gateway takes 10 MB; a job's input above 1 MiB belongs into object storage.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of a job's input that stay in the job item; more goes into the claim-check bucket, since each update of the
/// item pays for its whole size.
pub const INPUT_INLINE_BYTES_MAX: usize = 4 * 1024;
/// Bytes of an entry batch that stay in DynamoDB. An item has 400 KB at most; a write unit is 1 KB, so a large output is
/// cheaper in S3 from about here.
pub const BATCH_INLINE_BYTES_MAX: usize = 64 * 1024;
/// Bytes from which a batch is compressed: below, the framing costs more than it saves.
pub const BATCH_COMPRESS_BYTES_MIN: usize = 1024;
/// Labels of a job, and the characters of a label's name and value.
pub const LABELS_MAX: usize = 16;
/// Characters of a label's name or value.
pub const LABEL_LENGTH_MAX: usize = 128;

/// Shards of the due index: one partition takes 1,000 writes a second, eight take the claims of 8,000 jobs a second.
pub const DUE_SHARDS: u8 = 8;

/// How often a live session refreshes its item. One small write for all its jobs together.
pub const HEARTBEAT_INTERVAL_MS: u64 = 5_000;
/// Silence after which a session is dead: three heartbeats lost and one more for slow writes. The articles ask 2 min.
pub const SESSION_SILENCE_MAX_MS: u64 = 20_000;
/// The watchdog's delay. It is sent before each heartbeat, so the last one before a death arrives when the session has
/// been silent for [`SESSION_SILENCE_MAX_MS`] at least, and at most one heartbeat later.
pub const WATCHDOG_DELAY_SECONDS: u64 = (SESSION_SILENCE_MAX_MS + HEARTBEAT_INTERVAL_MS) / 1_000;
/// How often a worker looks for a cancel while a step runs. With the read and the write around it, a call in flight is
/// dropped within two seconds.
pub const CANCEL_PEEK_INTERVAL_MS: u64 = 1_500;
/// How long a cancelled job's at-most-once call that is in flight may still take, so that its outcome is known: what most
/// calls take, and what a person who cancels will wait.
pub const CANCEL_SETTLE_MS: u64 = 10_000;
/// How long an agent may take to tell others that a job has ended without it. It holds nothing up but the job's item.
pub const LEAVE_MS: u64 = 5_000;

/// Due time of a job that a worker holds: the net under heartbeats and watchdog. A lease whose due time has passed
/// unrenewed counts as lapsed, so it is longer than the renewal interval by far.
pub const LEASE_DUE_MS: u64 = 5 * 60_000;
/// How often a long invocation renews its jobs' due times. An index write costs more than a step, so it is rare.
pub const LEASE_RENEWAL_INTERVAL_MS: u64 = 2 * 60_000;
/// Due time of a job whose continuation has just been sent: when nobody claims it in this time the message is lost.
pub const CONTINUATION_DUE_MS: u64 = 60_000;
/// First and longest distance of the looks at a job that waits without a timeout, or that nobody claims.
pub const SWEEP_DISTANCE_FIRST_MS: u64 = 60_000;
/// Longest distance between two looks.
pub const SWEEP_DISTANCE_MAX_MS: u64 = 60 * 60_000;
/// How often a blocked job is tried again: each try costs two writes and an entry, and a fix takes people longer.
pub const BLOCKED_LOOK_INTERVAL_MS: u64 = 5 * 60_000;
/// Jobs that one sweep takes from a shard: what one invocation can send in a minute.
pub const SWEEP_JOBS_MAX: usize = 1_000;

/// The longest delay of a queue message (SQS).
pub const MESSAGE_DELAY_MAX_SECONDS: u64 = 900;
/// The longest wait for which a worker stays: shorter than a release and a claim cost.
pub const INLINE_WAIT_MAX_MS: u64 = 1_500;
/// Time that a worker keeps back from its deadline for the release and the answer to the queue.
pub const DEADLINE_RESERVE_MS: u64 = 1_000;
/// Time that a claim needs to be worth making: it must leave room for one short step.
pub const CLAIM_TIME_MIN_MS: u64 = 500;
/// First and longest pause before an append that the store did not answer is repeated. The SDK has tried by then.
pub const STORE_RETRY_FIRST_MS: u64 = 200;
/// Longest such pause.
pub const STORE_RETRY_MAX_MS: u64 = 5_000;
/// Most characters of one attempt that are shown live: nobody reads on, and the step's output has the whole.
pub const DELTA_CHARS_MAX: u64 = 200_000;
/// Time limit of a step that names none.
pub const STEP_TIME_LIMIT_DEFAULT_MS: u64 = 120_000;

/// Crashes in a row, without progress between them, after which the job fails as `worker_lost`.
pub const CRASHES_MAX: u32 = 3;
/// The same where deaths are counted that the job shared with many neighbours, and those of its own together. A job that
/// always has neighbours ends after so many; one that has nothing to do with their deaths makes progress in between.
pub const CRASHES_SHARED_MAX: u32 = 9;
/// Other jobs beside which a job's death still counts as its own: a batch of the queue as the template sets it.
pub const NEIGHBOURS_FEW_MAX: u32 = 9;
/// Claims in a row that never got to append anything (out of memory while reading the journal, say).
pub const CLAIM_ATTEMPTS_MAX: u32 = 5;

/// The shortest wait that a server is granted, in milliseconds: one that says "at once" again and again would use all
/// attempts up in a moment.
pub const RETRY_AFTER_MIN_MS: u64 = 1_000;

/// Attempts of a step by default (the articles ask for three).
pub const STEP_ATTEMPTS_DEFAULT: u32 = 3;
/// Wait before the second attempt (the articles ask for 10 s).
pub const RETRY_WAIT_FIRST_MS: u64 = 10_000;
/// Each further wait is this many times the one before (10 s, 30 s).
pub const RETRY_WAIT_FACTOR: u64 = 3;
/// The longest wait between attempts of the default policy.
pub const RETRY_WAIT_MAX_MS: u64 = 15 * 60_000;
/// The longest `Retry-After` that is obeyed: quotas are counted by the day, and a wait costs nothing. A server that asks for
/// more has a fault, and a person should see it.
pub const RETRY_AFTER_MAX_MS: u64 = 24 * 60 * 60_000;

/// Steps of a job whose budget names no number: our own bound on the worker's loop over the queue.
pub const STEPS_DEFAULT: u64 = 10_000;
/// How many jobs may stand above a child: an agent that starts itself ends there, and a chain of agents that people think
/// of is shorter.
pub const CHILD_DEPTH_MAX: u32 = 8;
/// Branches of one fan-out: they live in one invocation.
pub const BRANCHES_MAX: usize = 1_000;

/// Days for which a finished job and its result are kept where its tenant has settled nothing else. Idempotency asks for one
/// day; people ask what happened last week.
pub const JOB_KEPT_DAYS_DEFAULT: u32 = 30;
/// The most days that a tenant may settle: what laws on business records ask for.
pub const JOB_KEPT_DAYS_MAX: u32 = 3_660;
/// The same in seconds.
pub const JOB_KEPT_DEFAULT_SECONDS: u64 = JOB_KEPT_DAYS_DEFAULT as u64 * 24 * 3_600;

/// Waits between the tries of a webhook delivery: seconds for a hiccup, a day and a bit for a receiver that is down over
/// a night and mended in the morning.
pub const DELIVERY_WAITS_SECONDS: [u64; 8] = [5, 60, 300, 1_800, 7_200, 18_000, 36_000, 36_000];
/// The longest `Retry-After` of a receiver that is obeyed.
pub const DELIVERY_RETRY_AFTER_MAX_SECONDS: u64 = 24 * 3_600;
/// How long a try keeps others from trying: longer than an invocation of the function that tries.
pub const DELIVERY_TRY_LEASE_SECONDS: u64 = 60;
/// Tries that a delivery's log keeps: all of one round, and a few of an earlier one.
pub const DELIVERY_TRIES_KEPT: usize = 12;
/// How long a delivery and its log are kept: as long as a job whose tenant has settled nothing. They go with their job where
/// that goes sooner.
pub const DELIVERY_KEPT_SECONDS: u64 = JOB_KEPT_DEFAULT_SECONDS;
/// Types of events that one submission may choose: all that there are, and room for those to come.
pub const WEBHOOK_EVENTS_MAX: usize = 32;

/// Jobs of one tenant that have not ended, where its deployment says nothing else: a runaway loop of submissions ends
/// here, and no honest batch comes near.
pub const TENANT_JOBS_OPEN_DEFAULT: u64 = 10_000;
/// Submissions a second of one tenant: half of what the API takes from all together.
pub const TENANT_SUBMISSIONS_PER_SECOND_DEFAULT: u32 = 100;
/// Submissions of one tenant that may come at once: a batch of a thousand is ordinary.
pub const TENANT_SUBMISSIONS_BURST_DEFAULT: u32 = 1_000;
/// WebSocket connections of one tenant at a time.
pub const TENANT_CONNECTIONS_DEFAULT: u64 = 2_000;
/// Submissions that a process admits between two looks into a tenant's book, at most: what it may be wrong by.
pub const TENANT_BLOCK_MAX: u64 = 25;
/// How long a process goes by what it knows of a tenant's use while the limits are far.
pub const TENANT_USE_KNOWN_MS: u64 = 5_000;
/// How old what is known may be for a refusal: jobs end at any time.
pub const TENANT_USE_FRESH_MS: u64 = 1_000;
/// How long a count of open jobs holds: the sweeper counts each minute and may miss one.
pub const TENANT_COUNT_HOLDS_MS: u64 = 3 * 60_000;
/// When to come again while too many jobs are open: nobody knows when one ends, and asking sooner does not help.
pub const TENANT_JOBS_OPEN_RETRY_SECONDS: u64 = 10;
/// Jobs that one sweep counts at most, some seconds of reading. Where more are open, counts of open jobs are left as they
/// are and every tenant is bound by its rate alone.
pub const SWEEP_COUNT_MAX: usize = 200_000;

/// How long an erasure rests between its two looks: whoever read a job before it was removed may write to it for as long as
/// an invocation lives (Lambda: 15 min), and a minute more for clocks.
pub const ERASURE_REST_SECONDS: u64 = 15 * 60 + 60;
/// How long a process takes for true that no erasure of a tenant is under way. Jobs that come in meanwhile are found by its
/// second look.
pub const ERASURE_UNSEEN_MS: u64 = 5_000;
/// How long a process takes for true what it has read of a tenant's data, from one invocation to the next. An erasure's
/// rest is always longer: what begins anew behind it meets nothing of what was erased.
pub const TENANT_DATA_KEPT_SECONDS: u64 = 60;
const _: () = assert!(TENANT_DATA_KEPT_SECONDS < ERASURE_REST_SECONDS, "what is kept would outlive an erasure");

/// Version of the protocol that this program knows. What a newer one wrote it leaves alone.
pub const PROTOCOL_VERSION: u32 = PROTOCOL_VERSION_THREADS;
/// Version 3 knows threads, whose jobs an older worker would drive beside each other.
pub const PROTOCOL_VERSION_THREADS: u32 = 3;
/// Version 2 knows forks and imported jobs, which an older worker would drive as if they had just been submitted.
pub const PROTOCOL_VERSION_FORKS: u32 = 2;
/// The version in whatever means the same to a program of version 1: nearly every job item, batch and message.
pub const PROTOCOL_VERSION_PLAIN: u32 = 1;
