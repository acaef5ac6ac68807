//! What Longhaul meets on AWS with a hundred thousand jobs in flight: a simulation of the services' limits.
//!
//! Nobody can try this on a laptop, and a guess about the first wall is usually wrong. So the path of a job is played in
//! virtual time against what AWS allows: how fast the queue's event source takes on invocations, how many there may be, how
//! many messages may be in flight, how many write units a table and one partition of an index take in a second. What a job
//! does comes from the protocol's own limits (`longhaul_engine::limits`); what AWS allows stands in [`aws`] with its
//! source. docs/scale.md holds the results, and a test holds that page to this.
//!
//! | Part | Does |
//! |---|---|
//! | [`aws`] | the limits and prices of AWS |
//! | [`setting`] | what is asked of the system, and how it is set up |
//! | [`rate`] | write units: a table that grows with its load, partitions that do not |
//! | [`queue`] | the queue: messages of several tenants, fairly or in order |
//! | [`world`] | the jobs, their workers, and time |
//! | [`report`] | what came of it, as rows |

pub mod aws;
pub mod queue;
pub mod rate;
pub mod report;
pub mod setting;
pub mod world;
