//! Entry batches as the table's stream brings them.

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul::store::{JobRef, StoreError};
use longhaul_engine::Batch;

use super::AwsStore;
use super::attributes::Item;
use super::batch_item;
use super::keys::{BATCH_PREFIX, SK};

/// A batch out of the stream.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamedBatch {
    /// Whose journal it stands in.
    pub job: JobRef,
    /// What was written.
    pub batch: Batch,
}

impl AwsStore {
    /// Reads the new image of a stream record; none when it is no entry batch. Entries in the bucket are fetched.
    ///
    /// `image` is what `aws_lambda_events` calls `new_image`.
    ///
    /// # Errors
    /// [`StoreError::Newer`] and [`StoreError::Corrupt`] about the image, [`StoreError::Unavailable`] about the bucket.
    pub async fn streamed_batch(&self, image: serde_dynamo::Item) -> Result<Option<StreamedBatch>, StoreError> {
        let item: Item = image.into();
        match item.get(SK) {
            Some(AttributeValue::S(sort)) if sort.starts_with(BATCH_PREFIX) => {}
            Some(_) | None => return Ok(None),
        }
        let decoded = batch_item::decode(&item)?;
        let job = decoded.job.clone();
        let batch = self.whole_batch(decoded).await?;
        Ok(Some(StreamedBatch { job, batch }))
    }
}
