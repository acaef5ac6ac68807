//! The Longhaul table, exactly as the template makes it on AWS: both take its definition from the crate that
//! uses the table.

use dynoxide::Database;
use dynoxide::actions::create_table::CreateTableRequest;
use dynoxide::actions::update_time_to_live::UpdateTimeToLiveRequest;
use longhaul_aws::dynamo::{EXPIRY_ATTRIBUTE, table_definition};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::DynamoDbError;

/// Makes the table when it is not there.
pub(super) fn ensure(database: &Database, table: &str) -> Result<(), DynamoDbError> {
    if database.get_table_metadata(table)?.is_none() {
        database.create_table(request::<CreateTableRequest>(table_definition(table))?)?;
    }
    let metadata = database.get_table_metadata(table)?;
    // Looked at every time: a crash may have come between the table and this.
    if metadata.is_none_or(|metadata| metadata.ttl_attribute.is_none()) {
        database.update_time_to_live(request::<UpdateTimeToLiveRequest>(json!({
            "TableName": table,
            "TimeToLiveSpecification": {"AttributeName": EXPIRY_ATTRIBUTE, "Enabled": true},
        }))?)?;
    }
    Ok(())
}

/// A request in the wire form that AWS documents, as the typed request of the engine.
pub(super) fn request<R: DeserializeOwned>(wire: Value) -> Result<R, DynamoDbError> {
    serde_json::from_value(wire).map_err(DynamoDbError::Request)
}
