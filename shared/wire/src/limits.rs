//! Limits of the public interface, each with its reason. Those of the protocol stand in [`longhaul_engine::limits`].

/// Bytes of one event as JSON. A WebSocket frame of API Gateway has 32 KB; the rest is for the message around it.
pub const EVENT_BYTES_MAX: usize = 31 * 1024;
/// Bytes, as JSON, that one value of an event keeps: what a person reads at a glance. The journal has the whole.
pub const EVENT_VALUE_BYTES_MAX: usize = 8 * 1024;
/// Bytes, as JSON, that a short text of an event keeps (names, reasons, subjects): six of them leave room for a value
/// and a failure in one frame.
pub const EVENT_TEXT_BYTES_MAX: usize = 1024;
/// Causes of a failure that an event keeps, outermost first: deeper ones seldom say more.
pub const EVENT_CAUSES_MAX: usize = 5;

/// Bytes of a journal page as JSON. A Lambda answer has 6 MB; a page ends before it comes near.
pub const JOURNAL_PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Entries of a journal page when the caller names no number.
pub const JOURNAL_PAGE_ENTRIES_DEFAULT: usize = 200;
/// Entries of a journal page at most.
pub const JOURNAL_PAGE_ENTRIES_MAX: usize = 1_000;
/// Events of one answer at most: together they stay under a Lambda answer of 6 MB at [`EVENT_BYTES_MAX`] each.
pub const EVENTS_PAGE_MAX: usize = 150;
/// Jobs of a list when the caller names no number.
pub const JOBS_PAGE_DEFAULT: usize = 50;
/// Jobs of a list at most: with 16 labels each, a page stays under a Lambda answer of 6 MB.
pub const JOBS_PAGE_MAX: usize = 200;

/// Dead letters of a list when the caller names no number: each costs two reads.
pub const DEAD_LETTERS_PAGE_DEFAULT: usize = 20;
/// Dead letters of a list at most.
pub const DEAD_LETTERS_PAGE_MAX: usize = 50;
/// Webhook deliveries of a list when the caller names no number.
pub const DELIVERIES_PAGE_DEFAULT: usize = 50;
/// Webhook deliveries of a list at most: each with the tries that are kept has 10 KB or so.
pub const DELIVERIES_PAGE_MAX: usize = 100;
/// Bytes of a result, as JSON, that an answer carries. A Lambda answer has 6 MB, and the job's input of up to 1 MiB
/// stands beside it.
pub const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Seconds that a request waits for an end or for news at most: API Gateway gives up after 30.
pub const WAIT_SECONDS_MAX: u64 = 25;

/// Characters of a reason in somebody's words.
pub const REASON_LENGTH_MAX: usize = 1_000;
/// Characters of a model's name.
pub const MODEL_LENGTH_MAX: usize = 256;
/// Characters of instructions that a person gives a job: what the longest system prompts have, and small beside an input.
pub const INSTRUCTIONS_LENGTH_MAX: usize = 64 * 1024;
/// Characters of a step's key: eight fan-outs in each other have fewer.
pub const STEP_LENGTH_MAX: usize = 256;
/// Bytes of a part of an entry that is larger than a page, as it stands in an answer.
pub const ENTRY_PART_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Characters of a webhook's address.
pub const WEBHOOK_LENGTH_MAX: usize = 2_048;
/// Bytes of a signal's payload: it stays inline in its journal entry.
pub const SIGNAL_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a message from a WebSocket client: a subscription needs a hundred.
pub const SOCKET_MESSAGE_BYTES_MAX: usize = 4 * 1024;
/// Characters of foreign text that a problem repeats: enough to recognise it, too few to carry a body.
pub const ECHO_LENGTH_MAX: usize = 64;
/// Faults of an input that one problem names: whoever has more reads the schema again.
pub const VIOLATIONS_MAX: usize = 10;
/// Versions of agents that one list shows.
pub const AGENTS_LISTED_MAX: usize = 1_000;
/// Agents that one problem names: enough to find a misspelt one.
pub const KNOWN_AGENTS_MAX: usize = 50;

/// Bytes of a token. API Gateway takes 10 KB of headers in all.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Characters of a token's subject: it is written into the journal with every signal.
pub const SUBJECT_LENGTH_MAX: usize = 256;
/// Seconds by which two clocks may differ.
pub const TOKEN_LEEWAY_SECONDS: u64 = 30;

/// Seconds after which an issuer's keys are read again. Issuers announce a new key hours before they use it.
pub const KEYS_FRESH_SECONDS: u64 = 600;
/// Seconds for which keys are used when the issuer does not answer. Longer, and a key that was withdrawn for a reason
/// would live on; shorter, and an outage of the issuer becomes ours.
pub const KEYS_KEPT_SECONDS: u64 = 3_600;
/// Seconds between two reads of the keys, whatever tokens come: a flood of unknown key ids must not reach the issuer.
pub const KEYS_INTERVAL_SECONDS: u64 = 30;
/// Seconds between two tries while no keys are known at all: nothing works without them.
pub const KEYS_FIRST_INTERVAL_SECONDS: u64 = 1;
/// Seconds that the issuer has to answer.
pub const KEYS_TIMEOUT_SECONDS: u64 = 5;
/// Bytes of a key set: hundreds of keys fit, a wrong address does not fill the memory.
pub const KEYS_BYTES_MAX: usize = 256 * 1024;
/// Keys of a set that are looked at.
pub const KEYS_MAX: usize = 100;
