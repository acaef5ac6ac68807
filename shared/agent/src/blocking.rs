//! Work that would hold up the worker's one thread, where heartbeats and other jobs run.

use longhaul::{ErrorClass, StepError};

/// Where heavy work is done: reading files, building an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeavyWork {
    /// On a thread where blocking hurts nobody, as in every worker.
    #[default]
    Apart,
    /// On the caller's thread, for simulations: which of several threads is done first would be chance.
    Here,
}

impl HeavyWork {
    /// Does it.
    ///
    /// # Errors
    /// [`ErrorClass::Transient`] when it did not come to its end.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, StepError> {
        match self {
            Self::Apart => tokio::task::spawn_blocking(work)
                .await
                .map_err(|error| StepError::because(ErrorClass::Transient, "reading broke down", &error)),
            Self::Here => Ok(work()),
        }
    }
}
