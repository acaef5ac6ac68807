//! The table's definition: one place that the embedded stack, the tests and the template's check all look at.

use serde_json::{Value, json};

use super::keys::{PK, SK};

/// The sparse index of jobs that need looking after at a time, and of dead letters.
pub const DUE_INDEX: &str = "due";
/// The index of all jobs of a tenant, by time of submission.
pub const JOBS_INDEX: &str = "jobs";
/// The index of jobs by what they are looked for: their agent, a label, whether they are open or how they ended.
pub const SEARCH_INDEX: &str = "search";
/// The attribute by which DynamoDB removes items, in seconds since the Unix epoch.
pub const EXPIRY_ATTRIBUTE: &str = "expires_at";

pub(crate) const DUE_SHARD: &str = "due_shard";
pub(crate) const DUE_AT: &str = "due_at";
pub(crate) const TENANT: &str = "tenant";
pub(crate) const LISTED: &str = "listed";
pub(crate) const FOUND_BY: &str = "found_by";

/// The definition of a table called `name`, in the wire form of CreateTable, which is also that of CloudFormation's
/// properties. Expiry by [`EXPIRY_ATTRIBUTE`] is switched on by a call of its own.
///
/// `due` also holds the tenant, since a job is only looked up together with its owner. The keys of `jobs` never change,
/// so that no later write of a job touches it. Those of `search` change when a job ends or is opened again, and at no
/// claim, wait or release.
#[must_use]
pub fn table_definition(name: &str) -> Value {
    let attribute = |name: &str, kind: &str| json!({"AttributeName": name, "AttributeType": kind});
    let keys = |hash: &str, range: &str| json!([{"AttributeName": hash, "KeyType": "HASH"}, {"AttributeName": range, "KeyType": "RANGE"}]);
    json!({
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            attribute(PK, "S"),
            attribute(SK, "S"),
            attribute(DUE_SHARD, "S"),
            attribute(DUE_AT, "N"),
            attribute(TENANT, "S"),
            attribute(LISTED, "S"),
            attribute(FOUND_BY, "S"),
        ],
        "KeySchema": keys(PK, SK),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": DUE_INDEX,
                "KeySchema": keys(DUE_SHARD, DUE_AT),
                "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": [TENANT]},
            },
            {
                "IndexName": JOBS_INDEX,
                "KeySchema": keys(TENANT, LISTED),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
            {
                "IndexName": SEARCH_INDEX,
                "KeySchema": keys(FOUND_BY, LISTED),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            },
        ],
        "StreamSpecification": {"StreamEnabled": true, "StreamViewType": "NEW_IMAGE"},
    })
}
