//! AWS Lambda as the embedded stack runs it: real processes, the real Runtime API, real event source mappings.
//!
//! The functions of Longhaul are ordinary Lambda binaries. This module gives them what Lambda gives them, so that the
//! same code path runs on a laptop: a Runtime API to fetch work from ([`runtime_api`]), child processes that are
//! started cold, reused warm, killed at their timeout and limited in number ([`functions`]), and the pollers that turn
//! queue messages, stream records and the clock into invocations ([`event_sources`]). A kill -9, a timeout or a
//! throttle seen here is the thing itself and no imitation.

pub mod event_sources;
pub mod functions;
mod parent;
pub mod runtime_api;

pub use parent::die_with_parent;
