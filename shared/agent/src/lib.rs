//! What agents are made of: the documents they read.

pub mod documents;
