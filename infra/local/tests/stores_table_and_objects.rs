//! The embedded DynamoDB and S3, looked at through the AWS SDK, and the stream as its event source mapping reads it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

#[path = "stores_table_and_objects/appends.rs"]
mod appends;
#[path = "stores_table_and_objects/objects.rs"]
mod objects;
mod stores_under_test;
#[path = "stores_table_and_objects/stream.rs"]
mod stream;
#[path = "stores_table_and_objects/table.rs"]
mod table;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_local::stores::Stores;
use stores_under_test::{Address, dynamodb_client};

fn dynamodb_of(stores: &Stores) -> Client {
    dynamodb_client(&Address::of(stores, stores.dynamodb.endpoint()))
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// Appends an entry to a journal the way Longhaul does: one put on the condition that nothing stands there.
async fn append(client: &Client, job: &str, seq: u32, nonce: &str) -> String {
    let put = client
        .put_item()
        .table_name("longhaul")
        .item("PK", text(&format!("JOB#{job}")))
        .item("SK", text(&format!("J#{seq:010}")))
        .item("nonce", text(nonce))
        .condition_expression("attribute_not_exists(PK)")
        .return_values_on_condition_check_failure(aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await;
    match put {
        Ok(_) => "appended".to_owned(),
        Err(fault) => match fault.into_service_error() {
            aws_sdk_dynamodb::operation::put_item::PutItemError::ConditionalCheckFailedException(failed) => {
                let old = failed.item().and_then(|item| item.get("nonce")?.as_s().ok());
                format!("refused: {} stands there", old.map_or("nothing", |nonce| nonce))
            }
            other => panic!("{other:?}"),
        },
    }
}
