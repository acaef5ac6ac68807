//! The two ways in which a whole item is put: where none stands, and over the one that was read.
//!
//! A put may reach the table and its answer nobody. So each item has the mark of its write, by which the write that comes
//! again knows what it meets as its own.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use longhaul::store::StoreError;
use longhaul_engine::Nonce;

use super::attributes::{Item, mark};
use super::{AwsStore, refused, unavailable};

/// Where the mark stands in an item.
const LAST_WRITE: &str = "last_write";

impl AwsStore {
    /// Puts an item, which has its mark, where none stands; what stands there if one does.
    pub(crate) async fn put_where_none(&self, action: &'static str, item: Item) -> Result<Option<Item>, StoreError> {
        let own = item.get(LAST_WRITE).cloned();
        let put = self.put(item).condition_expression("attribute_not_exists(PK)");
        match stands(action, put).await? {
            Stands::Own => Ok(None),
            Stands::Other(found) if found.get(LAST_WRITE) == own.as_ref() => Ok(None),
            Stands::Other(found) => Ok(Some(found)),
            Stands::Nothing => Err(unavailable(action, "what stood in the way is gone")),
        }
    }

    /// Puts an item, which has its mark, over the one with the mark `seen`. False: somebody else has written since.
    pub(crate) async fn put_over(&self, action: &'static str, item: Item, seen: Nonce) -> Result<bool, StoreError> {
        let own = item.get(LAST_WRITE).cloned();
        let put = self.put(item).condition_expression("last_write = :seen");
        match stands(action, put.expression_attribute_values(":seen", mark(seen))).await? {
            Stands::Own => Ok(true),
            Stands::Other(found) => Ok(found.get(LAST_WRITE) == own.as_ref()),
            Stands::Nothing => Ok(false),
        }
    }

    fn put(&self, item: Item) -> PutItemFluentBuilder {
        self.dynamodb().put_item().table_name(self.table()).set_item(Some(item))
    }
}

/// What stands behind a put.
enum Stands {
    Own,
    Other(Item),
    Nothing,
}

async fn stands(action: &'static str, put: PutItemFluentBuilder) -> Result<Stands, StoreError> {
    let put = put.return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    match Box::pin(put.send()).await {
        Ok(_) => Ok(Stands::Own),
        Err(error) => {
            let found = refused(action, error, |error| match error {
                PutItemError::ConditionalCheckFailedException(failed) => Some(failed.item()),
                _ => None,
            })?;
            Ok(found.map_or(Stands::Nothing, Stands::Other))
        }
    }
}
