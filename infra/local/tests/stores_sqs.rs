//! The embedded SQS, looked at through the AWS SDK: what it answers, what it refuses, whom it serves first.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed step of a test is a failed test"
)]

#[path = "stores_sqs/delivery.rs"]
mod delivery;
#[path = "stores_sqs/in_process.rs"]
mod in_process;
#[path = "stores_sqs/messages.rs"]
mod messages;
#[path = "stores_sqs/queues.rs"]
mod queues;
#[path = "stores_sqs/redrive.rs"]
mod redrive;
#[path = "stores_sqs/refusals.rs"]
mod refusals;
mod stores_under_test;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{Message, QueueAttributeName};
use stores_under_test::{UnderTest, sqs_of};

/// A queue of its own in services of its own.
struct OneQueue {
    under_test: UnderTest,
    client: Client,
    url: String,
}

async fn one_queue(attributes: &[(QueueAttributeName, &str)]) -> OneQueue {
    let under_test = stores_under_test::stores().await;
    let client = sqs_of(&under_test.stores);
    let url = create(&client, "tested", attributes).await;
    OneQueue { under_test, client, url }
}

async fn create(client: &Client, name: &str, attributes: &[(QueueAttributeName, &str)]) -> String {
    let mut request = client.create_queue().queue_name(name);
    for (attribute, value) in attributes {
        request = request.attributes(attribute.clone(), *value);
    }
    request.send().await.unwrap().queue_url.unwrap()
}

impl OneQueue {
    async fn send(&self, body: &str) -> String {
        let sent = self.client.send_message().queue_url(&self.url).message_body(body);
        sent.send().await.unwrap().message_id.unwrap()
    }

    async fn send_in_group(&self, body: &str, group: &str) {
        let sent = self.client.send_message().queue_url(&self.url).message_body(body);
        sent.message_group_id(group).send().await.unwrap();
    }

    async fn receive(&self, max: i32, wait_seconds: i32) -> Vec<Message> {
        receive(&self.client, &self.url, max, wait_seconds).await
    }

    /// Visible, delayed, in flight, as the attributes say.
    async fn depth(&self) -> [usize; 3] {
        depth(&self.client, &self.url).await
    }
}

async fn receive(client: &Client, url: &str, max: i32, wait_seconds: i32) -> Vec<Message> {
    client
        .receive_message()
        .queue_url(url)
        .max_number_of_messages(max)
        .wait_time_seconds(wait_seconds)
        .message_system_attribute_names(aws_sdk_sqs::types::MessageSystemAttributeName::All)
        .message_attribute_names("All")
        .send()
        .await
        .unwrap()
        .messages
        .unwrap_or_default()
}

async fn depth(client: &Client, url: &str) -> [usize; 3] {
    let names = [
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
    ];
    let request = client.get_queue_attributes().queue_url(url);
    let answer = request.set_attribute_names(Some(names.to_vec())).send().await.unwrap();
    let attributes = answer.attributes.unwrap();
    names.map(|name| attributes[&name].parse().unwrap())
}

fn bodies(messages: &[Message]) -> Vec<&str> {
    messages.iter().filter_map(Message::body).collect()
}
