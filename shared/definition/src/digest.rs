//! The name of a version: a digest of what the definition says, whatever its format, spacing and order of fields.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The definition's JSON in one form: object keys sorted, no blanks. After RFC 8785 (JSON Canonicalization Scheme), but
/// with numbers as they are written down here, since only our own texts are compared.
#[must_use]
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = sorted
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::String(name.clone()), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// SHA-256 of the canonical form, as 64 hexadecimal digits.
#[must_use]
pub fn digest(value: &Value) -> String {
    Sha256::digest(canonical(value)).iter().map(|byte| format!("{byte:02x}")).collect()
}
