//! The Longhaul table, exactly as the template makes it on AWS.

use dynoxide::Database;
use dynoxide::actions::create_table::CreateTableRequest;
use dynoxide::actions::update_time_to_live::UpdateTimeToLiveRequest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::DynamoDbError;

/// The attribute that holds when an item may be forgotten, in seconds since the epoch.
const TTL_ATTRIBUTE: &str = "expires_at";

/// Makes the table when it is not there.
pub(super) fn ensure(database: &Database, table: &str) -> Result<(), DynamoDbError> {
    if database.get_table_metadata(table)?.is_none() {
        database.create_table(request::<CreateTableRequest>(definition(table))?)?;
    }
    let metadata = database.get_table_metadata(table)?;
    // Looked at every time: a crash may have come between the table and this.
    if metadata.is_none_or(|metadata| metadata.ttl_attribute.is_none()) {
        database.update_time_to_live(request::<UpdateTimeToLiveRequest>(json!({
            "TableName": table,
            "TimeToLiveSpecification": {"AttributeName": TTL_ATTRIBUTE, "Enabled": true},
        }))?)?;
    }
    Ok(())
}

/// The table: jobs and their journals under `PK` and `SK`, a sparse index of what is due, a stream of new
/// images. The index projects keys alone: whoever finds a job due reads it afresh, and every further
/// attribute would cost a second write whenever it changes.
fn definition(table: &str) -> Value {
    json!({
        "TableName": table,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": "PK", "AttributeType": "S"},
            {"AttributeName": "SK", "AttributeType": "S"},
            {"AttributeName": "due_shard", "AttributeType": "S"},
            {"AttributeName": "due_at", "AttributeType": "N"},
        ],
        "KeySchema": [
            {"AttributeName": "PK", "KeyType": "HASH"},
            {"AttributeName": "SK", "KeyType": "RANGE"},
        ],
        "GlobalSecondaryIndexes": [{
            "IndexName": "due",
            "KeySchema": [
                {"AttributeName": "due_shard", "KeyType": "HASH"},
                {"AttributeName": "due_at", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }],
        "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
    })
}

/// A request in the wire form that AWS documents, as the typed request of the engine.
pub(super) fn request<R: DeserializeOwned>(wire: Value) -> Result<R, DynamoDbError> {
    serde_json::from_value(wire).map_err(DynamoDbError::Request)
}
