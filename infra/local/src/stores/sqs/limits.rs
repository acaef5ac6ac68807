//! The limits of SQS, as AWS documents them, in one place.

/// A message with its attributes, and all messages of one batch together.
pub(super) const MESSAGE_MAX_BYTES: u32 = 1_048_576;
/// The smallest value that a queue's own maximum message size may have.
pub(super) const MESSAGE_MAX_BYTES_FLOOR: u32 = 1_024;
/// A message can be delayed by a quarter of an hour at most; longer waits need another clock.
pub(super) const DELAY_MAX_SECONDS: u32 = 900;
/// A message can be invisible for twelve hours at most, counted from its receive.
pub(super) const VISIBILITY_MAX_SECONDS: u32 = 43_200;
/// How long a received message is invisible when nobody says otherwise.
pub(super) const VISIBILITY_DEFAULT_SECONDS: u32 = 30;
/// A receive call can wait for this long at most.
pub(super) const WAIT_MAX_SECONDS: u32 = 20;
/// The shortest retention: a minute.
pub(super) const RETENTION_MIN_SECONDS: u32 = 60;
/// The longest retention: fourteen days.
pub(super) const RETENTION_MAX_SECONDS: u32 = 1_209_600;
/// The retention when nobody says otherwise: four days.
pub(super) const RETENTION_DEFAULT_SECONDS: u32 = 345_600;
/// The highest `maxReceiveCount` of a redrive policy.
pub(super) const RECEIVE_COUNT_MAX: u32 = 1_000;
/// How many source queues a `byQueue` redrive allow policy can name.
pub(super) const REDRIVE_SOURCES_MAX: usize = 10;
/// How many messages of a standard queue can be in flight.
pub(super) const IN_FLIGHT_MAX_MESSAGES: usize = 120_000;
/// Entries of one batch, and messages of one receive call over HTTP.
pub(super) const BATCH_MAX_ENTRIES: usize = 10;
/// Characters of the id of a batch entry.
pub(super) const ENTRY_ID_MAX_CHARS: usize = 80;
/// Attributes that the sender can put on one message.
pub(super) const MESSAGE_ATTRIBUTES_MAX: usize = 10;
/// Characters of a message attribute's name or type.
pub(super) const ATTRIBUTE_NAME_MAX_CHARS: usize = 256;
/// Characters of a message group id.
pub(super) const GROUP_MAX_CHARS: usize = 128;
/// Time that must pass between two purges of one queue.
pub(super) const PURGE_EVERY_SECONDS: u32 = 60;
/// Queues on one page of a listing.
pub(super) const LIST_MAX_QUEUES: usize = 1_000;
/// Move tasks in one listing.
pub(super) const LIST_MAX_MOVES: usize = 10;
/// The highest rate that a move task can be given.
pub(super) const MOVE_MAX_MESSAGES_PER_SECOND: u32 = 500;
