//! Model providers behind one trait.
//!
//! A job pays for every model call, so a call must end in one of two ways that nobody can mix up: a whole answer
//! ([`ModelReply`]), fit to be checkpointed in a journal and sent back to the same provider later, or a [`ModelError`]
//! whose [`ModelErrorKind`] says whether another attempt can help. Half an answer is never a success, whatever status
//! line or `[DONE]` came with it.
//!
//! The neutral types ([`Message`], [`ToolSpec`], [`ModelRequest`], …) know no provider. What a provider sends beyond
//! them is kept verbatim in [`Vendor`] and goes back only to the endpoint that it came from. Each wire format is one
//! module with one implementation of [`Model`]: [`chat`] (OpenAI Chat Completions and the servers that speak it),
//! [`responses`] (OpenAI, also in the background), [`messages`] (Anthropic) and [`converse`] (Amazon Bedrock). All share
//! the HTTP client, the event-stream decoders and the error classes of this crate.
//!
//! Which model is asked is configuration: an [`Endpoint`] opened with its [`Access`] is a [`Provider`], several in order
//! are a [`Fallback`], and [`Prices`] says what an answer cost.

mod arguments;
mod blocks;
mod body;
mod carrier;
pub mod chat;
pub mod converse;
mod endpoint;
mod error;
mod error_class;
mod event_stream;
mod exchange;
mod fallback;
#[cfg(test)]
mod fuzz;
mod http;
mod lenient_json;
mod link;
mod message;
pub mod messages;
mod model;
mod money;
mod overflow;
mod price;
mod provider;
mod reply;
pub mod responses;
mod retry_after;
mod sse;
mod stop;
mod structured;

pub use carrier::{Carried, Carrier, CarrierError};
pub use chat::ChatCompletions;
pub use converse::{AwsCredentialSource, AwsCredentials, Converse};
pub use endpoint::{Endpoint, Features, OutputLimitField, StructuredOutput, Wire};
pub use error::{Cut, MESSAGE_MAX_CHARS, ModelError, ModelErrorKind, Partial};
pub use fallback::{Fallback, Named};
pub use http::Secret;
pub use lenient_json::lenient_json;
pub use message::{Arguments, Message, Part, Role, ToolCall, Vendor};
pub use messages::Messages;
pub use model::{Completion, Delta, Model, ModelRequest, ResponseFormat, TIME_LIMIT_DEFAULT_MS, ToolChoice, ToolSpec};
pub use money::{Money, NoMoney};
pub use price::{BadPrices, LongPrompt, ModelPrice, PriceSource, Prices, Rates, Unpriced};
pub use provider::{Access, Provider};
pub use reply::{FailedAttempt, Finish, ModelReply, Usage};
pub use responses::{Background, ResponseId, Responses, Stage};
pub use retry_after::{RETRY_AFTER_MAX_SECONDS, retry_after};
