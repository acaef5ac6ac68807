//! The table: made as the template makes it, exact in its conditions, forgetful of what has expired.

use aws_sdk_dynamodb::types::{
    AttributeValue, DeleteGlobalSecondaryIndexAction, GlobalSecondaryIndexUpdate, KeyType, StreamViewType,
    TimeToLiveStatus,
};

use super::{append, dynamodb_of, text};
use crate::stores_under_test::{handed_over, stores, stores_in};

#[tokio::test]
async fn the_table_is_made_as_on_aws_and_taken_up_as_it_stands() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    let described = client.describe_table().table_name("longhaul").send().await.unwrap().table.unwrap();
    let keys = |schema: &[aws_sdk_dynamodb::types::KeySchemaElement]| -> Vec<(String, KeyType)> {
        schema.iter().map(|key| (key.attribute_name().to_owned(), key.key_type().clone())).collect()
    };
    let hash_and_range =
        |hash: &str, range: &str| vec![(hash.to_owned(), KeyType::Hash), (range.to_owned(), KeyType::Range)];
    assert_eq!(keys(described.key_schema()), hash_and_range("PK", "SK"));
    let index = &described.global_secondary_indexes()[0];
    assert_eq!(index.index_name(), Some("due"));
    assert_eq!(keys(index.key_schema()), hash_and_range("due_shard", "due_at"));
    let stream = described.stream_specification().unwrap();
    assert_eq!((stream.stream_enabled(), stream.stream_view_type()), (true, Some(&StreamViewType::NewImage)));
    let expiry = client.describe_time_to_live().table_name("longhaul").send().await.unwrap();
    let expiry = expiry.time_to_live_description.unwrap();
    assert_eq!(expiry.attribute_name(), Some("expires_at"));
    assert_eq!(expiry.time_to_live_status(), Some(&TimeToLiveStatus::Enabled));

    assert_eq!(append(&client, "a", 1, "first").await, "appended");
    under_test.stores.shutdown().await;
    let again = stores_in(under_test.folder.path()).await;
    assert_eq!(append(&dynamodb_of(&again), "a", 1, "second").await, "refused: first stands there");
}

/// A folder of a version that did not have an index yet gets it, filled from what stands in the table.
#[tokio::test]
async fn an_index_that_an_older_table_lacks_is_made() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    let delete = DeleteGlobalSecondaryIndexAction::builder().index_name("search").build().unwrap();
    let update = GlobalSecondaryIndexUpdate::builder().delete(delete).build();
    client.update_table().table_name("longhaul").global_secondary_index_updates(update).send().await.unwrap();
    let put = client.put_item().table_name("longhaul").item("PK", text("JOB#a")).item("SK", text("JOB"));
    put.item("found_by", text("acme#open")).item("listed", text("1#a")).send().await.unwrap();
    let found = async |client: &aws_sdk_dynamodb::Client| {
        let query =
            client.query().table_name("longhaul").index_name("search").key_condition_expression("found_by = :by");
        query.expression_attribute_values(":by", text("acme#open")).send().await.map(|page| page.count)
    };
    assert!(found(&client).await.is_err(), "it is gone");
    under_test.stores.shutdown().await;
    for _ in 0..2 {
        let again = stores_in(under_test.folder.path()).await;
        assert_eq!(found(&dynamodb_of(&again)).await.unwrap(), 1);
        again.shutdown().await;
    }
}

#[tokio::test]
async fn one_of_many_conditional_writes_wins() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    let writers: Vec<_> = (0..16)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { append(&client, "contested", 7, &number.to_string()).await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for writer in writers {
        outcomes.push(writer.await.unwrap());
    }
    outcomes.sort();
    assert_eq!(outcomes[0], "appended");
    assert!(outcomes[1..].iter().all(|outcome| outcome.starts_with("refused: ")), "{outcomes:?}");
    assert_eq!(under_test.stores.dynamodb.counts()["PutItem"], 16);
}

#[tokio::test]
async fn what_is_due_is_found_through_the_sparse_index() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    for (job, due_at) in [("late", Some("300")), ("due", Some("100")), ("ended", None)] {
        let put = client.put_item().table_name("longhaul").item("PK", text(job)).item("SK", text("JOB"));
        let due_at = due_at.map(|due_at| AttributeValue::N(due_at.to_owned()));
        let put = match due_at {
            Some(due_at) => put.item("due_shard", text("0")).item("due_at", due_at),
            None => put,
        };
        put.send().await.unwrap();
    }
    let query = client.query().table_name("longhaul").index_name("due");
    let found = query
        .key_condition_expression("due_shard = :shard AND due_at <= :now")
        .expression_attribute_values(":shard", text("0"))
        .expression_attribute_values(":now", AttributeValue::N("200".to_owned()))
        .send()
        .await
        .unwrap();
    let jobs: Vec<_> = found.items().iter().filter_map(|item| item["PK"].as_s().ok()).collect();
    assert_eq!(jobs, ["due"]);
}

#[tokio::test]
async fn expired_items_go_and_the_stream_says_so() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    for (job, expires_at) in [("old", "1000000000"), ("young", "9999999999")] {
        let put = client.put_item().table_name("longhaul").item("PK", text(job)).item("SK", text("JOB"));
        put.item("expires_at", AttributeValue::N(expires_at.to_owned())).send().await.unwrap();
    }
    let mut reader = under_test.stores.dynamodb.stream_reader("test").unwrap();
    under_test.stores.dynamodb.sweep_expired().await.unwrap();
    let left = client.scan().table_name("longhaul").send().await.unwrap();
    let left: Vec<_> = left.items().iter().filter_map(|item| item["PK"].as_s().ok()).collect();
    assert_eq!(left, ["young"]);
    let records = handed_over(&reader.next_batch(10, std::time::Duration::from_secs(5)).await.unwrap());
    let removed = records.iter().find(|record| record["eventName"] == "REMOVE").unwrap();
    assert_eq!(removed["dynamodb"]["Keys"]["PK"]["S"], "old");
    assert_eq!(removed["userIdentity"]["principalId"], "dynamodb.amazonaws.com");
}
