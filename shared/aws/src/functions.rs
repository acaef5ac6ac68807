//! Calls of Lambda functions on behalf of tenants: of those that the deployment lists, and of no others.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use longhaul_engine::TenantId;
use serde_json::Value;

use crate::clients::Clients;
use crate::signed::{Answer, Call, CallError, path_segment};

/// Bytes of an event, and of an answer, of a synchronous call (Lambda's own limit).
pub const PAYLOAD_BYTES_MAX: usize = 6 * 1024 * 1024;
/// Characters of what a failed function says of itself.
const SAID_CHARS_MAX: usize = 600;

/// A function as AWS names it: by name or ARN, with an alias or a version if need be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionRef {
    /// Everything before the name of an ARN.
    scope: Option<String>,
    name: String,
    qualifier: Option<String>,
}

/// A text that names no function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a function's name or ARN, with `:alias` or `:version` if need be")]
pub struct NoFunction;

impl FromStr for FunctionRef {
    type Err = NoFunction;

    fn from_str(text: &str) -> Result<Self, NoFunction> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scope, name, qualifier) = match parts.as_slice() {
            [name] => (None, *name, None),
            [name, qualifier] => (None, *name, Some(*qualifier)),
            [arn @ "arn", partition, service @ "lambda", region, account, kind @ "function", name, rest @ ..]
                if rest.len() <= 1 =>
            {
                (Some([arn, *partition, service, *region, *account, kind].join(":")), *name, rest.first().copied())
            }
            _ => return Err(NoFunction),
        };
        let plain = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '$'))
        };
        let scoped = scope.as_deref().is_none_or(|scope| scope.split(':').all(plain));
        if !plain(name) || !qualifier.is_none_or(plain) || !scoped {
            return Err(NoFunction);
        }
        Ok(Self { scope, name: name.to_owned(), qualifier: qualifier.map(str::to_owned) })
    }
}

impl fmt::Display for FunctionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scope) = &self.scope {
            write!(f, "{scope}:")?;
        }
        f.write_str(&self.name)?;
        match &self.qualifier {
            Some(qualifier) => write!(f, ":{qualifier}"),
            None => Ok(()),
        }
    }
}

impl FunctionRef {
    /// Whether a definition that names `asked` means this one: the same name and alias, and the same account and region
    /// where the definition names those.
    fn is_meant_by(&self, asked: &Self) -> bool {
        self.name == asked.name
            && self.qualifier == asked.qualifier
            && asked.scope.as_ref().is_none_or(|scope| self.scope.as_ref() == Some(scope))
    }
}

/// One entry of the deployment's list: a function that all tenants may call, or one (`tenant=function`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    tenant: Option<TenantId>,
    function: FunctionRef,
}

impl FromStr for Allowed {
    type Err = NoFunction;

    fn from_str(text: &str) -> Result<Self, NoFunction> {
        let (tenant, function) = match text.split_once('=') {
            Some((tenant, function)) => (Some(tenant.trim().parse().map_err(|_| NoFunction)?), function),
            None => (None, text),
        };
        Ok(Self { tenant, function: function.trim().parse()? })
    }
}

/// What a function answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Invocation {
    /// A result; what is no JSON is its text.
    Answered(Value),
    /// An error of the function's own code, as Lambda describes it.
    Failed(Value),
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvokeFault {
    /// It was not called, and would not be if it were tried again.
    Refused,
    /// It may not be called.
    Denied,
    /// It was not called: too many calls at once.
    Throttled,
    /// It did not answer in time. Nobody knows what it did.
    TimedOut,
    /// It broke off, or cannot be called now. It may have acted.
    Broken,
}

/// No answer of a function; the message says of which.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvokeError {
    /// What kind of failure.
    pub fault: InvokeFault,
    /// What happened.
    pub message: String,
    /// The wait that Lambda asks for.
    pub retry_after: Option<Duration>,
}

impl InvokeError {
    fn new(fault: InvokeFault, message: String) -> Self {
        Self { fault, message, retry_after: None }
    }
}

/// A call about to be made.
#[derive(Debug)]
pub struct Invoke<'a> {
    /// On whose behalf.
    pub tenant: &'a TenantId,
    /// The function as the definition names it.
    pub function: &'a str,
    /// Its event.
    pub event: &'a Value,
    /// How long it may take.
    pub time_limit: Duration,
}

/// The functions that this deployment lets tenants call.
#[derive(Debug)]
pub struct LambdaFunctions {
    clients: Arc<Clients>,
    allowed: Vec<Allowed>,
}

impl LambdaFunctions {
    /// The functions of a list.
    #[must_use]
    pub fn new(clients: &Arc<Clients>, allowed: Vec<Allowed>) -> Self {
        Self { clients: Arc::clone(clients), allowed }
    }

    /// Calls a function and waits for its answer; once, since only the caller knows whether it may be called again.
    /// Dropped, the connection closes; the function runs on.
    ///
    /// # Errors
    /// [`InvokeError`] when it was not called, or nobody knows what came of it.
    pub async fn invoke(&self, invoke: &Invoke<'_>) -> Result<Invocation, InvokeError> {
        let function = self.allowed(invoke)?;
        let shown = invoke.function;
        let body = invoke.event.to_string().into_bytes();
        if body.len() > PAYLOAD_BYTES_MAX {
            let message = format!(
                "the function {shown} was not called: its event has {} bytes, and Lambda takes {PAYLOAD_BYTES_MAX}",
                body.len()
            );
            return Err(InvokeError::new(InvokeFault::Refused, message));
        }
        let endpoint = self.clients.endpoint("lambda");
        let endpoint = endpoint.map_err(|error| InvokeError::new(InvokeFault::Refused, error.to_string()))?;
        let name = path_segment(&function.to_string());
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("x-amz-invocation-type", "RequestResponse".to_owned()),
            ("x-amz-log-type", "None".to_owned()),
        ];
        let call = Call {
            service: "lambda",
            url: format!("{endpoint}/2015-03-31/functions/{name}/invocations"),
            headers,
            body,
            answer_bytes_max: PAYLOAD_BYTES_MAX,
        };
        match Box::pin(self.clients.send_signed("Invoke", call, invoke.time_limit)).await {
            Ok(answer) if answer.status == 200 => answered(shown, &answer),
            Ok(answer) => Err(refused(shown, &answer)),
            Err(error) => Err(lost(shown, error)),
        }
    }

    fn allowed(&self, invoke: &Invoke<'_>) -> Result<&FunctionRef, InvokeError> {
        let refused = |why: &str| {
            let message = format!("the function {} was not called: {why}", invoke.function);
            InvokeError::new(InvokeFault::Refused, message)
        };
        if self.allowed.is_empty() {
            return Err(refused("this deployment lets definitions call none (LONGHAUL_TOOL_FUNCTIONS is not set)"));
        }
        let asked: FunctionRef = invoke.function.parse().map_err(|_| refused("that is no function's name"))?;
        let may = |entry: &&Allowed| {
            entry.tenant.as_ref().is_none_or(|tenant| tenant == invoke.tenant) && entry.function.is_meant_by(&asked)
        };
        match self.allowed.iter().find(may) {
            Some(entry) => Ok(&entry.function),
            None => Err(refused("it is not among those that this tenant may call (LONGHAUL_TOOL_FUNCTIONS)")),
        }
    }
}

/// An answer of the function, or of Lambda about it.
fn answered(shown: &str, answer: &Answer) -> Result<Invocation, InvokeError> {
    let text = || Value::String(String::from_utf8_lossy(&answer.body).into_owned());
    let payload = match answer.body.as_slice() {
        [] => Value::Null,
        body => serde_json::from_slice(body).unwrap_or_else(|_| text()),
    };
    if answer.header("x-amz-function-error").is_none() {
        return Ok(Invocation::Answered(payload));
    }
    let said = |name: &str| payload.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, message) = (said("errorType"), said("errorMessage"));
    let cut: String = message.chars().take(SAID_CHARS_MAX).collect();
    // What Lambda itself says of a function that could not answer is no answer of its code.
    if kind == "Sandbox.Timedout" || message.contains("Task timed out after") {
        let message = format!("the function {shown} reached its own time limit: {cut}");
        return Err(InvokeError::new(InvokeFault::TimedOut, message));
    }
    if ["Runtime.", "Sandbox.", "Extension."].iter().any(|of_lambda| kind.starts_with(of_lambda)) {
        let message = format!("the function {shown} broke off ({kind}): {cut}");
        return Err(InvokeError::new(InvokeFault::Broken, message));
    }
    Ok(Invocation::Failed(payload))
}

/// A refusal of Lambda's.
fn refused(shown: &str, answer: &Answer) -> InvokeError {
    let (name, said) = answer.fault();
    let fault = match (name.as_str(), answer.status) {
        ("TooManyRequestsException" | "ThrottlingException", _) | (_, 429) => InvokeFault::Throttled,
        ("AccessDeniedException" | "UnrecognizedClientException" | "InvalidSignatureException", _) | (_, 401 | 403) => {
            InvokeFault::Denied
        }
        // Being made, thawed or given an address: all of it passes.
        ("ResourceConflictException" | "ResourceNotReadyException" | "SnapStartNotReadyException", _)
        | ("ExpiredTokenException", _)
        | (_, 408 | 409 | 410 | 500..) => InvokeFault::Broken,
        (_, _) => InvokeFault::Refused,
    };
    let said: String = said.chars().take(SAID_CHARS_MAX).collect();
    let message = format!("the function {shown} gave no answer: Lambda says {} {name}: {said}", answer.status);
    let seconds = answer.header("retry-after").and_then(|text| text.trim().parse().ok());
    InvokeError { fault, message, retry_after: seconds.map(Duration::from_secs) }
}

/// A failure below HTTP.
fn lost(shown: &str, error: CallError) -> InvokeError {
    let fault = match &error {
        CallError::Request(_) | CallError::TooLong { .. } => InvokeFault::Refused,
        CallError::Connection(_) | CallError::Broken(_) | CallError::Credentials(_) => InvokeFault::Broken,
        CallError::TimedOut { .. } => InvokeFault::TimedOut,
    };
    let message = format!("the function {shown} gave no answer: {}", crate::telemetry::chain(&error));
    InvokeError::new(fault, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use super::*;

    #[test]
    fn a_name_means_what_is_allowed_and_nothing_else() {
        let arn = "arn:aws:lambda:eu-west-1:111122223333:function:charge";
        let rows = [
            ("charge", "charge", true),
            (arn, "charge", true),
            (arn, arn, true),
            ("charge", arn, false),
            ("charge", "charge:live", false),
            ("charge:live", "charge:live", true),
            ("charge:live", "charge", false),
            (arn, "arn:aws:lambda:eu-west-1:999999999999:function:charge", false),
            (arn, "charger", false),
            ("charge", "x/../charge", false),
            ("charge", "111122223333:function:charge", false),
        ];
        for (allowed, asked, expected) in rows {
            let allowed: FunctionRef = allowed.parse().unwrap();
            let meant = asked.parse::<FunctionRef>().is_ok_and(|asked| allowed.is_meant_by(&asked));
            assert_eq!(meant, expected, "{allowed} and {asked}");
            assert_eq!(allowed.to_string().parse::<FunctionRef>().unwrap(), allowed);
        }
        for bad in ["", "a b", "arn:aws:s3:::x", "=f", "a/b=f", "acme=", "a:b:c"] {
            assert!(bad.parse::<Allowed>().is_err(), "{bad}");
        }
    }
}
