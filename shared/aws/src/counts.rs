//! How many calls were made of AWS, by operation.
//!
//! The protocol promises an exact price: one write a step. Tests and benchmarks hold it to that with these numbers,
//! which are counted where the SDK begins a call, so that nothing can go by uncounted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::config::{ConfigBag, RuntimeComponents};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeSerializationInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::orchestrator::Metadata;

/// Calls by operation, such as `PutItem` or `SendMessage`. A call that the SDK repeats by itself counts once.
#[derive(Debug, Clone, Default)]
pub struct CallCounts(Arc<Mutex<BTreeMap<String, u64>>>);

impl CallCounts {
    /// The counts so far.
    #[must_use]
    pub fn read(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The counts so far; counting begins anew.
    pub fn take(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn count(&self, operation: &str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(operation) {
            Some(count) => *count = count.saturating_add(1),
            None => {
                counts.insert(operation.to_owned(), 1);
            }
        }
    }
}

#[dyn_dispatch_hint]
impl Intercept for CallCounts {
    fn name(&self) -> &'static str {
        "CallCounts"
    }

    // Not at `read_before_execution`: of a client's interceptors that is called before the operation is known.
    fn read_before_serialization(
        &self,
        _: &BeforeSerializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(metadata) = config.load::<Metadata>() {
            self.count(metadata.name());
        }
        Ok(())
    }
}
