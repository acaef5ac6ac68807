//! The table's definition: one place that the embedded stack, the tests and the template's check all look at.

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::create_table::CreateTableInput;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection, ProjectionType,
    ScalarAttributeType, StreamSpecification, StreamViewType,
};

use super::keys::{PK, SK};

/// The sparse index of jobs that need looking after at a time, and of dead letters.
pub const DUE_INDEX: &str = "due";
/// The index of all jobs of a tenant, by time of submission.
pub const JOBS_INDEX: &str = "jobs";
/// The attribute by which DynamoDB removes items, in seconds since the Unix epoch.
pub const EXPIRY_ATTRIBUTE: &str = "expires_at";

pub(crate) const DUE_SHARD: &str = "due_shard";
pub(crate) const DUE_AT: &str = "due_at";
pub(crate) const TENANT: &str = "tenant";
pub(crate) const LISTED: &str = "listed";

/// The definition of a table called `name`. Expiry by [`EXPIRY_ATTRIBUTE`] is switched on by a call of its own.
///
/// # Errors
/// None that can happen: the SDK's builders want every required part, and all are given.
pub fn table_definition(name: &str) -> Result<CreateTableInput, BuildError> {
    let attribute = |name: &str, kind: ScalarAttributeType| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build()
    };
    let element = |name: &str, kind: KeyType| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    // A job is only looked up together with its tenant, which the index must therefore know.
    let due = GlobalSecondaryIndex::builder()
        .index_name(DUE_INDEX)
        .key_schema(element(DUE_SHARD, KeyType::Hash)?)
        .key_schema(element(DUE_AT, KeyType::Range)?)
        .projection(Projection::builder().projection_type(ProjectionType::Include).non_key_attributes(TENANT).build())
        .build()?;
    // Its keys never change, so no later write of a job touches it.
    let jobs = GlobalSecondaryIndex::builder()
        .index_name(JOBS_INDEX)
        .key_schema(element(TENANT, KeyType::Hash)?)
        .key_schema(element(LISTED, KeyType::Range)?)
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()?;
    CreateTableInput::builder()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(attribute(PK, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(SK, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(DUE_SHARD, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(DUE_AT, ScalarAttributeType::N)?)
        .attribute_definitions(attribute(TENANT, ScalarAttributeType::S)?)
        .attribute_definitions(attribute(LISTED, ScalarAttributeType::S)?)
        .key_schema(element(PK, KeyType::Hash)?)
        .key_schema(element(SK, KeyType::Range)?)
        .global_secondary_indexes(due)
        .global_secondary_indexes(jobs)
        .stream_specification(
            StreamSpecification::builder().stream_enabled(true).stream_view_type(StreamViewType::NewImage).build()?,
        )
        .build()
}
