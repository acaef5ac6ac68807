//! Lambda functions as tools of definitions.

use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::TenantId;
use longhaul::{ErrorClass, StepError};
use longhaul_agent::{Functions, Invoked};
use longhaul_aws::functions::{Invocation, Invoke, InvokeError, InvokeFault, LambdaFunctions};
use serde_json::Value;

/// The functions that the deployment lets tenants call.
#[derive(Debug)]
pub(crate) struct Callables(pub(crate) LambdaFunctions);

impl Functions for Callables {
    fn invoke<'a>(
        &'a self,
        tenant: &'a TenantId,
        function: &'a str,
        event: Value,
        time_limit: Duration,
    ) -> LocalBoxFuture<'a, Result<Invoked, StepError>> {
        async move {
            let invoke = Invoke { tenant, function, event: &event, time_limit };
            match self.0.invoke(&invoke).await {
                Ok(Invocation::Answered(value)) => Ok(Invoked::Answered(value)),
                Ok(Invocation::Failed(error)) => Ok(Invoked::Failed(error)),
                Err(error) => Err(failed(&error)),
            }
        }
        .boxed_local()
    }
}

fn failed(error: &InvokeError) -> StepError {
    let class = match error.fault {
        InvokeFault::Refused => ErrorClass::Invalid,
        InvokeFault::Denied => ErrorClass::Auth,
        InvokeFault::Throttled => ErrorClass::RateLimited,
        InvokeFault::TimedOut => ErrorClass::Timeout,
        InvokeFault::Broken => ErrorClass::Transient,
    };
    StepError::new(class, error.message.clone()).retry_after(error.retry_after)
}
