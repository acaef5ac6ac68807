//! Calls of Lambda functions.

use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use longhaul::engine::TenantId;
use longhaul::{ErrorClass, StepError};
use longhaul_definition::LambdaTool;
use serde_json::{Map, Value, json};

use super::outcome::Outcome;

/// What a function answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Invoked {
    /// A result.
    Answered(Value),
    /// An error of the function's own code: what it says of it.
    Failed(Value),
}

/// A way to functions.
///
/// A definition is a tenant's own text, so whoever calls must see to it that the tenant may call that function.
pub trait Functions {
    /// Calls a function and waits for its answer.
    ///
    /// # Errors
    /// When it was not called, or nobody knows what came of it.
    fn invoke<'a>(
        &'a self,
        tenant: &'a TenantId,
        function: &'a str,
        event: Value,
        time_limit: Duration,
    ) -> LocalBoxFuture<'a, Result<Invoked, StepError>>;
}

/// No functions at all: for deployments without Lambda.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn invoke<'a>(
        &'a self,
        _tenant: &'a TenantId,
        function: &'a str,
        _event: Value,
        _time_limit: Duration,
    ) -> LocalBoxFuture<'a, Result<Invoked, StepError>> {
        let message = format!("the function {function} cannot be called: this deployment calls none");
        async move { Err(StepError::new(ErrorClass::Invalid, message)) }.boxed_local()
    }
}

/// Calls the function of a tool. Its event says who calls and within which trace: a function has no headers.
pub(crate) async fn call(
    functions: &dyn Functions,
    tenant: &TenantId,
    traceparent: &str,
    tool: &LambdaTool,
    arguments: &Map<String, Value>,
    key: Option<&str>,
) -> Result<Outcome, StepError> {
    let mut event = json!({ "arguments": arguments, "tenant": tenant, "traceparent": traceparent });
    if let (Some(fields), Some(key)) = (event.as_object_mut(), key) {
        fields.insert("idempotency_key".to_owned(), json!(key));
    }
    let time_limit = Duration::from_secs(tool.timeout_seconds);
    match functions.invoke(tenant, &tool.function, event, time_limit).await? {
        Invoked::Answered(Value::String(text)) => Ok(Outcome::good(text)),
        Invoked::Answered(value) => Ok(Outcome::good(value.to_string())),
        Invoked::Failed(error) => Ok(Outcome::bad(format!("the function failed: {error}"))),
    }
}
