//! The published JSON Schema of definitions.

use serde_json::Value;

use crate::definition::Definition;

/// The JSON Schema (draft 2020-12) of a definition, made from the types themselves. It says less than [`crate::check()`]:
/// what holds between fields no schema can say.
#[must_use]
pub fn json_schema() -> Value {
    schemars::schema_for!(Definition).to_value()
}
