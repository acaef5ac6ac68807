//! Appends are made beside the engine, in its file: what they leave there is what it would have left.

use std::path::Path;

use aws_sdk_dynamodb::types::AttributeValue;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Value, json};

use super::{append, dynamodb_of, text};
use crate::stores_under_test::{handed_over, stores};

fn rows(file: &Path, sql: &str, row: impl Fn(&Row<'_>) -> Value) -> Vec<Value> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let mut found = connection.prepare(sql).unwrap();
    let found = found.query_map([], |found| Ok(row(found))).unwrap();
    found.map(Result::unwrap).collect()
}

fn json_at(row: &Row<'_>, at: usize) -> Value {
    serde_json::from_str(&row.get::<_, String>(at).unwrap()).unwrap()
}

/// The same item once by the append's own condition, and once by one that says the same and that only the engine reads.
#[tokio::test]
async fn an_append_stands_there_as_the_engine_would_have_written_it() {
    let under_test = stores().await;
    let client = dynamodb_of(&under_test.stores);
    for condition in ["attribute_not_exists(PK)", "attribute_not_exists(SK)"] {
        let put = client.put_item().table_name("longhaul").item("PK", text("JOB#\"ä\"")).item("SK", text(condition));
        let number = |digits: &str| AttributeValue::N(digits.to_owned());
        put.item("tenant", text("acme"))
            .item("at", number("1790000000000"))
            .item("none", number("0"))
            .item("entries", text("[{\"says\": \"é\\n\\\\\"}]"))
            .item("entries_z", AttributeValue::B(vec![0, 255, 7, 9].into()))
            .condition_expression(condition)
            .send()
            .await
            .unwrap();
    }
    let file = under_test.folder.path().join("dynamodb.sqlite");
    let items =
        rows(&file, "SELECT pk, item_json, item_size, hash_prefix, cached_at FROM longhaul ORDER BY rowid", |row| {
            let mut item = json_at(row, 1);
            item["SK"] = Value::Null;
            let cached: Option<f64> = row.get(4).unwrap();
            json!([
                row.get::<_, String>(0).unwrap(),
                item,
                row.get::<_, i64>(2).unwrap(),
                row.get::<_, String>(3).unwrap(),
                cached
            ])
        });
    assert_eq!(items.len(), 2);
    assert_eq!(items[0], items[1]);
    let stream = rows(
        &file,
        "SELECT table_name, event_name, keys_json, new_image, old_image, shard_id, user_identity, length(event_id), \
         CAST(sequence_number AS INTEGER), created_at FROM _stream_records ORDER BY id",
        |row| {
            let (mut keys, mut image) = (json_at(row, 2), json_at(row, 3));
            (keys["SK"], image["SK"]) = (Value::Null, Value::Null);
            let words: Vec<Option<String>> = [0, 1, 4, 5, 6].map(|at| row.get(at).unwrap()).into();
            let numbers: Vec<i64> = [7, 8, 9].map(|at| row.get(at).unwrap()).into();
            json!({ "same": [words, keys, image, numbers[0]], "number": numbers[1], "seconds": numbers[2] })
        },
    );
    assert_eq!(stream.len(), 2);
    assert_eq!(stream[0]["same"], stream[1]["same"]);
    assert!(stream[0]["number"].as_i64() < stream[1]["number"].as_i64());
    assert!((stream[1]["seconds"].as_i64().unwrap() - stream[0]["seconds"].as_i64().unwrap()).abs() < 30);
    // And it is read as what was put.
    let key = client.get_item().table_name("longhaul").key("PK", text("JOB#\"ä\""));
    let found = key.key("SK", text("attribute_not_exists(PK)")).send().await.unwrap().item.unwrap();
    assert_eq!(found["entries"], text("[{\"says\": \"é\\n\\\\\"}]"));
    assert_eq!(found["entries_z"], AttributeValue::B(vec![0, 255, 7, 9].into()));
}

/// Appends and the engine's own writes at once: none fails, none is lost, and the stream has each, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn appends_and_other_writes_go_on_side_by_side() {
    const EACH: u32 = 25;
    let under_test = stores().await;
    let mut writers = Vec::new();
    for writer in 0..8 {
        let client = dynamodb_of(&under_test.stores);
        writers.push(tokio::spawn(async move {
            let job = writer.to_string();
            for seq in 1..=EACH {
                if writer % 2 == 0 {
                    assert_eq!(append(&client, &job, seq, "n").await, "appended");
                } else {
                    let update =
                        client.update_item().table_name("longhaul").key("PK", text(&job)).key("SK", text("JOB"));
                    let one = AttributeValue::N("1".to_owned());
                    update
                        .update_expression("ADD wakes :one")
                        .expression_attribute_values(":one", one)
                        .send()
                        .await
                        .unwrap();
                }
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let mut reader = under_test.stores.dynamodb.stream_reader("test").unwrap();
    let records = handed_over(&reader.next_batch(1_000, std::time::Duration::from_secs(10)).await.unwrap());
    let of = |job: &str| {
        let of_job = records.iter().filter(|record| record["dynamodb"]["Keys"]["PK"]["S"] == job);
        of_job.map(|record| record["dynamodb"]["NewImage"].clone()).collect::<Vec<_>>()
    };
    for writer in 0..8 {
        for (seq, image) in
            (1..=EACH).zip(of(&if writer % 2 == 0 { format!("JOB#{writer}") } else { writer.to_string() }))
        {
            match writer % 2 {
                0 => assert_eq!(image["SK"]["S"], format!("J#{seq:010}")),
                _ => assert_eq!(image["wakes"]["N"], seq.to_string()),
            }
        }
    }
    assert_eq!(records.len(), 8 * EACH as usize);
}
