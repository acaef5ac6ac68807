//! Work that would hold up the worker's one thread, where heartbeats and other jobs run.

use longhaul::{ErrorClass, StepError};

/// Runs it on a thread where blocking hurts nobody.
///
/// # Errors
/// [`ErrorClass::Transient`] when it did not come to its end.
pub(crate) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StepError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| StepError::because(ErrorClass::Transient, "reading broke down", &error))
}
