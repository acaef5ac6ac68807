//! Every limit of definitions in one place, each with its reason.

/// Bytes of a definition's text: far more than a person writes, little enough for one item of the store.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// How deep a definition may be nested: JSON Schemas are the deepest part of one, and every walk over it recurses.
pub const DEPTH_MAX: usize = 64;
/// Parts of a JSON Schema with its references unfolded: far more than a form has that people fill in, and checked in
/// milliseconds.
pub const SCHEMA_NODES_MAX: u64 = 20_000;
/// Findings that one check gives: whoever has more begins with these.
pub const FINDINGS_MAX: usize = 50;

/// Characters of an agent's name; the store's own bound.
pub const NAME_CHARS_MAX: usize = 64;
/// Characters of a tool's name: what all model servers take.
pub const TOOL_NAME_CHARS_MAX: usize = 64;
/// Tools of one agent: model servers take up to 128, and models choose badly long before.
pub const TOOLS_MAX: usize = 64;
/// Models of one agent: the main one and its fallbacks.
pub const MODELS_MAX: usize = 5;
/// Bytes of the instructions and of each pinned text.
pub const INSTRUCTIONS_BYTES_MAX: usize = 64 * 1024;

/// The smallest window that instructions, a question and an answer fit into.
pub const WINDOW_TOKENS_MIN: u64 = 4_000;
/// The window of an agent that names none: what models of the last years have at least.
pub const WINDOW_TOKENS_DEFAULT: u64 = 128_000;
/// Bytes of a tool's answer that the model sees at once when nothing else is said: about 4,000 tokens.
pub const TOOL_OUTPUT_BYTES_DEFAULT: usize = 16 * 1024;
/// The least of it: head and tail must still say what the answer is.
pub const TOOL_OUTPUT_BYTES_MIN: usize = 512;

/// Turns of the model in one job when nothing else is said.
pub const TURNS_DEFAULT: u32 = 100;
/// Most turns of the model in one job: a journal has room for ten thousand steps, and a turn is several.
pub const TURNS_MAX: u32 = 2_000;
/// How often in a row the same call of a tool is carried out when nothing else is said.
pub const REPEATS_DEFAULT: u32 = 4;

/// Time of one tool call when nothing else is said.
pub const TOOL_TIMEOUT_SECONDS_DEFAULT: u64 = 30;
/// The longest time of one tool call: it must fit into an invocation of 15 minutes with room to spare.
pub const TOOL_TIMEOUT_SECONDS_MAX: u64 = 600;
/// Bytes of a tool's answer that are read when nothing else is said.
pub const TOOL_SIZE_BYTES_DEFAULT: usize = 1024 * 1024;
/// Most bytes of a tool's answer: all answers of a job are in memory while it runs.
pub const TOOL_SIZE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long a person may take when nothing else is said: three days, over a weekend.
pub const PERSON_WAIT_SECONDS_DEFAULT: u64 = 3 * 24 * 3_600;
/// The longest that a person may take: a finished job is kept for 30 days, a waiting one should not live longer.
pub const PERSON_WAIT_SECONDS_MAX: u64 = 30 * 24 * 3_600;
/// Attempts of one step.
pub const ATTEMPTS_MAX: u32 = 10;
/// The longest wait between two attempts.
pub const RETRY_WAIT_SECONDS_MAX: u64 = 3_600;
