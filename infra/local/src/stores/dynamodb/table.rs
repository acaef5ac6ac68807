//! The Longhaul table, exactly as the template makes it on AWS: both take its definition from the crate that
//! uses the table.

use dynoxide::Database;
use dynoxide::actions::create_table::CreateTableRequest;
use dynoxide::actions::describe_table::DescribeTableRequest;
use dynoxide::actions::update_table::UpdateTableRequest;
use dynoxide::actions::update_time_to_live::UpdateTimeToLiveRequest;
use longhaul_aws::dynamo::{EXPIRY_ATTRIBUTE, table_definition};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::DynamoDbError;

/// Makes the table when it is not there, and the indexes that one of an older version lacks.
pub(super) fn ensure(database: &Database, table: &str) -> Result<(), DynamoDbError> {
    if database.get_table_metadata(table)?.is_none() {
        database.create_table(request::<CreateTableRequest>(table_definition(table))?)?;
    }
    add_missing_indexes(database, table)?;
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

/// As CloudFormation does on AWS where a template names an index more: one at a time, filled from what is there.
fn add_missing_indexes(database: &Database, table: &str) -> Result<(), DynamoDbError> {
    let described = database.describe_table(request::<DescribeTableRequest>(json!({ "TableName": table }))?)?;
    let there: Vec<String> = described
        .table
        .global_secondary_indexes
        .unwrap_or_default()
        .into_iter()
        .map(|index| index.index_name)
        .collect();
    let definition = table_definition(table);
    let wanted = definition.get("GlobalSecondaryIndexes").and_then(Value::as_array).cloned().unwrap_or_default();
    for index in wanted {
        let name = index.get("IndexName").and_then(Value::as_str).unwrap_or_default();
        if !there.iter().any(|known| known == name) {
            database.update_table(request::<UpdateTableRequest>(json!({
                "TableName": table,
                "AttributeDefinitions": definition.get("AttributeDefinitions"),
                "GlobalSecondaryIndexUpdates": [{ "Create": index }],
            }))?)?;
        }
    }
    Ok(())
}

/// A request in the wire form that AWS documents, as the typed request of the engine.
pub(super) fn request<R: DeserializeOwned>(wire: Value) -> Result<R, DynamoDbError> {
    serde_json::from_value(wire).map_err(DynamoDbError::Request)
}
