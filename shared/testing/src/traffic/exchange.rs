//! What a recording holds.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recording {
    pub(crate) exchanges: Vec<Exchange>,
}

/// A request and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exchange {
    pub(crate) request: Asked,
    pub(crate) response: Answered,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) url: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Body::is_empty")]
    pub(crate) body: Body,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Body::is_empty")]
    pub(crate) body: Body,
}

/// A body in the form in which people read it best.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Body {
    #[default]
    Empty,
    Json(Value),
    Text(String),
    Base64(String),
}

impl Body {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Empty;
        }
        match std::str::from_utf8(bytes) {
            // A bare number or word is no less readable as text.
            Ok(text) => match serde_json::from_str::<Value>(text) {
                Ok(value) if value.is_object() || value.is_array() => Self::Json(value),
                Ok(_) | Err(_) => Self::Text(text.to_owned()),
            },
            Err(_) => Self::Base64(STANDARD.encode(bytes)),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Empty => Vec::new(),
            Self::Json(value) => value.to_string().into_bytes(),
            Self::Text(text) => text.clone().into_bytes(),
            Self::Base64(text) => STANDARD.decode(text).unwrap_or_default(),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::Empty
    }
}
