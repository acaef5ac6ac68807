//! What is said to a model and by it, free of any provider's wire format.
//!
//! Messages are stored in journals for as long as a job is kept, so their serialised shape is a promise: new fields
//! have defaults, and nothing is renamed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The instructions that stand above the conversation.
    System,
    /// The person or program that asks.
    User,
    /// The model.
    Assistant,
    /// The result of one tool call.
    Tool,
}

/// One piece of a message's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A picture that the model may look at.
    Image {
        /// An `https:` or `data:` address.
        url: String,
    },
    /// A block of a kind unknown here, kept as it came. It returns only to the endpoint that sent it.
    Raw {
        /// The block as JSON.
        raw: Value,
    },
}

/// What a model wants to hand to a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Arguments {
    /// A JSON object. Absent, blank and `null` arguments are the empty object: a tool without parameters has none, and
    /// whether that will do is for the tool's schema to say.
    Object {
        /// The arguments by name.
        object: Map<String, Value>,
    },
    /// Text that is no JSON object. The call must not be carried out; the model should be told.
    Malformed {
        /// What the model wrote.
        text: String,
        /// Why it could not be read.
        reason: String,
    },
}

/// A tool call that the model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Links the call to its result. Made up here, deterministically, when the server sent none.
    pub id: String,
    /// The tool's name as the model wrote it; it may name no tool at all.
    pub name: String,
    /// What to call it with.
    pub arguments: Arguments,
}

/// Fields of a provider's own, kept verbatim because some providers refuse the next request without them (signatures of
/// thoughts, for one).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Vendor {
    /// The endpoint that the fields came from. They are sent to no other.
    pub origin: String,
    /// Unknown fields of the message itself.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub message: Map<String, Value>,
    /// Unknown fields of each tool call, by the call's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tool_calls: BTreeMap<String, Map<String, Value>>,
}

impl Vendor {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.message.is_empty() && self.tool_calls.is_empty()
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Part>,
    /// The tool calls of an assistant's message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Whether a tool's message reports a failure. Some formats say so to the model; all others leave it to the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The provider's own fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<Vendor>,
}

impl Message {
    /// Instructions.
    pub fn system(text: impl Into<String>) -> Self {
        Self::plain(Role::System, text)
    }

    /// What the user says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::plain(Role::User, text)
    }

    /// What the model said, as text alone.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::plain(Role::Assistant, text)
    }

    /// The result of the call `id`.
    pub fn tool(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { tool_call_id: Some(id.into()), ..Self::plain(Role::Tool, text) }
    }

    /// The failure of the call `id`, in words for the model.
    pub fn tool_error(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::tool(id, text) }
    }

    fn plain(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            content: vec![Part::Text { text: text.into() }],
            tool_calls: Vec::new(),
            tool_call_id: None,
            is_error: false,
            vendor: None,
        }
    }

    /// All text parts joined.
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                Part::Image { .. } | Part::Raw { .. } => None,
            })
            .collect()
    }
}
