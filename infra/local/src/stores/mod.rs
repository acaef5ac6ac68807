//! The storage services of AWS that Longhaul needs, in process, on 127.0.0.1, in files of one folder.

mod calls;
pub mod sqs;
