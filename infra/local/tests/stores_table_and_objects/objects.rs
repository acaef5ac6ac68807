//! The objects: claim checks go there and back, under keys with slashes, signed.

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;

use crate::stores_under_test::{Address, code, s3_client, stores, stores_in};

async fn put(client: &Client, key: &str, body: Vec<u8>) -> Result<(), aws_sdk_s3::Error> {
    let put = client.put_object().bucket("longhaul").key(key).body(ByteStream::from(body));
    put.send().await?;
    Ok(())
}

async fn get(client: &Client, key: &str) -> Vec<u8> {
    let got = client.get_object().bucket("longhaul").key(key).send().await.unwrap();
    got.body.collect().await.unwrap().into_bytes().to_vec()
}

/// One family: keys and bodies that must come back as they were.
#[tokio::test]
async fn objects_go_there_and_back() {
    let under_test = stores().await;
    let client = s3_client(&Address::of(&under_test.stores, &under_test.stores.s3.endpoint));
    let large: Vec<u8> = (0..3_000_000u32).map(|number| number.to_le_bytes()[0]).collect();
    let cases = [
        ("plain", b"hello".to_vec()),
        ("tenant-1/0192f0c1-7c1e-7000-8000-000000000001/0000000007", large),
        ("a/b/c d+e=\u{e4}.json.zst", vec![0, 255, 10, 13]),
        ("empty", Vec::new()),
    ];
    for (key, body) in &cases {
        put(&client, key, body.clone()).await.unwrap();
        assert_eq!(&get(&client, key).await, body, "{key}");
        let head = client.head_object().bucket("longhaul").key(*key).send().await.unwrap();
        assert_eq!(head.content_length(), i64::try_from(body.len()).ok(), "{key}");
    }
    let listed = client.list_objects_v2().bucket("longhaul").send().await.unwrap();
    let mut keys: Vec<_> = cases.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    assert_eq!(listed.contents().iter().filter_map(|object| object.key()).collect::<Vec<_>>(), keys);
    let under = client.list_objects_v2().bucket("longhaul").prefix("tenant-1/").send().await.unwrap();
    assert_eq!(under.contents().len(), 1);

    put(&client, "plain", b"written again".to_vec()).await.unwrap();
    assert_eq!(get(&client, "plain").await, b"written again");
    client.delete_object().bucket("longhaul").key("plain").send().await.unwrap();
    let gone = client.get_object().bucket("longhaul").key("plain").send().await;
    assert!(gone.unwrap_err().into_service_error().is_no_such_key());
    let gone = client.head_object().bucket("longhaul").key("plain").send().await;
    assert!(gone.unwrap_err().into_service_error().is_not_found());
    client.delete_object().bucket("longhaul").key("plain").send().await.unwrap();
}

#[tokio::test]
async fn an_object_is_written_once_on_demand() {
    let under_test = stores().await;
    let client = s3_client(&Address::of(&under_test.stores, &under_test.stores.s3.endpoint));
    let put = |body: &'static [u8]| {
        let put = client.put_object().bucket("longhaul").key("once").if_none_match("*");
        put.body(ByteStream::from_static(body)).send()
    };
    assert_eq!(code(put(b"first").await), "ok");
    assert_eq!(code(put(b"second").await), "PreconditionFailed");
    assert_eq!(get(&client, "once").await, b"first");
}

#[tokio::test]
async fn a_wrong_signature_is_refused_and_nothing_stored() {
    let under_test = stores().await;
    let mut address = Address::of(&under_test.stores, &under_test.stores.s3.endpoint);
    let client = s3_client(&address);
    address.secret_access_key = "guessed".to_owned();
    let stranger = s3_client(&address);
    let put = stranger.put_object().bucket("longhaul").key("x").body(ByteStream::from_static(b"x"));
    assert_eq!(code(put.send().await), "SignatureDoesNotMatch");
    let listed = client.list_objects_v2().bucket("longhaul").send().await.unwrap();
    assert!(listed.contents().is_empty());
}

#[tokio::test]
async fn objects_are_there_after_a_crash() {
    let under_test = stores().await;
    let client = s3_client(&Address::of(&under_test.stores, &under_test.stores.s3.endpoint));
    put(&client, "a/b", b"kept".to_vec()).await.unwrap();
    drop(under_test.stores);
    let again = stores_in(under_test.folder.path()).await;
    let client = s3_client(&Address::of(&again, &again.s3.endpoint));
    assert_eq!(get(&client, "a/b").await, b"kept");
}
