//! A job's places in the index `search` under its agent and its labels, which never change.
//!
//! A job item can stand in an index once, and stands there by whether it is open or how it ended. So there is a small
//! item more for the agent and for each label, in the job's own partition, where it goes when the job goes. They are made
//! from the stream that brings the new job item: a submission stays one call, and no step pays for them.

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use longhaul::store::StoreError;
use longhaul_engine::job::Order;

use super::attributes::{Item, text};
use super::job_item::{self, listed};
use super::keys::{
    JOB, SK, find_agent_sort, find_label_sort, find_thread_sort, found_by_agent, found_by_label, found_by_thread,
    job_partition, key,
};
use super::table::{FOUND_BY, LISTED};
use super::{AwsStore, unavailable};

impl AwsStore {
    /// Whether the keys of a stream record are a job item's.
    #[must_use]
    pub fn names_a_job(keys: &serde_dynamo::Item) -> bool {
        matches!(keys.get(SK), Some(serde_dynamo::AttributeValue::S(sort)) if sort == JOB)
    }

    /// Gives a new job its places in the index `search`; `image` is the new image of a stream record. False when it is
    /// no job item. A job that is gone by then gets none.
    ///
    /// # Errors
    /// [`StoreError::Newer`] and [`StoreError::Corrupt`] about the image, [`StoreError::Unavailable`] about the table;
    /// calling again does it again.
    pub async fn make_findable(&self, image: serde_dynamo::Item) -> Result<bool, StoreError> {
        let item: Item = image.into();
        if item.get(SK) != Some(&AttributeValue::S(JOB.to_owned())) {
            return Ok(false);
        }
        self.put_places(&job_item::decode(&item)?.job.order).await?;
        Ok(true)
    }

    /// The same by the order.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; calling again does it again.
    pub async fn put_places(&self, order: &Order) -> Result<(), StoreError> {
        let mut writes = Vec::new();
        for place in places(order) {
            let put = PutRequest::builder()
                .set_item(Some(place))
                .build()
                .map_err(|error| unavailable("making a job findable", error))?;
            writes.push(WriteRequest::builder().put_request(put).build());
        }
        self.write_batches(writes).await?;
        // The record may be brought late: what is left of a job that was removed meanwhile must not come back.
        self.forget(order.id).await.map(|_| ())
    }
}

/// The items of an order's places.
pub(crate) fn places(order: &Order) -> Vec<Item> {
    let place = |sort: String, found_by: String| {
        let mut item = key(job_partition(order.id), sort);
        item.insert(FOUND_BY.to_owned(), text(found_by));
        item.insert(LISTED.to_owned(), text(listed(order)));
        item
    };
    let agent = place(find_agent_sort(), found_by_agent(&order.tenant, order.agent.name.as_str()));
    let labels = order.labels.iter();
    let labels = labels.map(|(name, value)| place(find_label_sort(name), found_by_label(&order.tenant, name, value)));
    let thread =
        order.thread.iter().map(|thread| place(find_thread_sort(), found_by_thread(&order.tenant, thread.id.as_str())));
    [agent].into_iter().chain(thread).chain(labels).collect()
}
