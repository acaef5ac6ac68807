//! Items of the table as maps of attributes: building them, and reading them back with an error that names the
//! attribute at fault.

use std::collections::HashMap;
use std::str::FromStr;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use longhaul::store::StoreError;
use longhaul_engine::{Nonce, Timestamp, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

/// An item as the SDK has it.
pub(crate) type Item = HashMap<String, AttributeValue>;

/// A string attribute.
pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// A number attribute.
pub(crate) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

/// A time attribute, in milliseconds.
pub(crate) fn time(value: Timestamp) -> AttributeValue {
    number(value.as_millis())
}

/// A write's mark.
pub(crate) fn mark(value: Nonce) -> AttributeValue {
    text(value.as_uuid().to_string())
}

/// A binary attribute.
pub(crate) fn binary(value: Vec<u8>) -> AttributeValue {
    AttributeValue::B(Blob::new(value))
}

/// JSON text: exact, where DynamoDB's own numbers and maps would not be.
pub(crate) fn json_text<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|source| StoreError::Unavailable { action: "writing a value as JSON", source: source.into() })
}

/// An item being read; errors say which item and attribute.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    item: &'a Item,
    what: &'a str,
}

impl<'a> Reader<'a> {
    /// Begins to read `item`, which errors call `what`. An item of a newer protocol version is not looked at.
    pub(crate) fn new(item: &'a Item, what: &'a str) -> Result<Self, StoreError> {
        let reader = Self { item, what };
        let found = reader.number("v")?;
        if found > u64::from(limits::PROTOCOL_VERSION) {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            return Err(StoreError::Newer { what: what.to_owned(), found });
        }
        Ok(reader)
    }

    /// Begins to read an item that carries no version: a session, a connection, an index's copy.
    pub(crate) const fn unversioned(item: &'a Item, what: &'a str) -> Self {
        Self { item, what }
    }

    /// What the item is called in errors.
    pub(crate) const fn what(&self) -> &'a str {
        self.what
    }

    /// The error for an attribute.
    pub(crate) fn corrupt(&self, name: &str, detail: impl std::fmt::Display) -> StoreError {
        StoreError::Corrupt { what: self.what.to_owned(), detail: format!("attribute {name}: {detail}") }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.item.contains_key(name)
    }

    pub(crate) fn text(&self, name: &str) -> Result<&'a str, StoreError> {
        match self.item.get(name) {
            Some(AttributeValue::S(value)) => Ok(value),
            Some(_) => Err(self.corrupt(name, "it is no string")),
            None => Err(self.corrupt(name, "it is missing")),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<u64, StoreError> {
        match self.item.get(name) {
            Some(AttributeValue::N(value)) => value.parse().map_err(|error| self.corrupt(name, error)),
            Some(_) => Err(self.corrupt(name, "it is no number")),
            None => Err(self.corrupt(name, "it is missing")),
        }
    }

    pub(crate) fn small_number(&self, name: &str) -> Result<u32, StoreError> {
        u32::try_from(self.number(name)?).map_err(|error| self.corrupt(name, error))
    }

    pub(crate) fn time(&self, name: &str) -> Result<Timestamp, StoreError> {
        self.number(name).map(Timestamp::from_millis)
    }

    pub(crate) fn optional_time(&self, name: &str) -> Result<Option<Timestamp>, StoreError> {
        if self.has(name) { self.time(name).map(Some) } else { Ok(None) }
    }

    pub(crate) fn mark(&self, name: &str) -> Result<Nonce, StoreError> {
        Uuid::parse_str(self.text(name)?).map(Nonce::from_uuid).map_err(|error| self.corrupt(name, error))
    }

    pub(crate) fn binary(&self, name: &str) -> Result<&'a [u8], StoreError> {
        match self.item.get(name) {
            Some(AttributeValue::B(value)) => Ok(value.as_ref()),
            Some(_) => Err(self.corrupt(name, "it is not binary")),
            None => Err(self.corrupt(name, "it is missing")),
        }
    }

    /// An id of ours that stands as text.
    pub(crate) fn id<T>(&self, name: &str) -> Result<T, StoreError>
    where
        T: FromStr,
        T::Err: std::fmt::Display,
    {
        self.text(name)?.parse().map_err(|error| self.corrupt(name, error))
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<T, StoreError> {
        serde_json::from_str(self.text(name)?).map_err(|error| self.corrupt(name, error))
    }
}
