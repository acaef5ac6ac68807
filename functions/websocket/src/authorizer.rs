//! The gateway's question whether somebody may connect at all, which it asks before it brings the connection.
//!
//! The same token is looked at again when the connection comes ([`crate::clients`]): what stands here keeps strangers
//! out at the gateway, what stands there holds wherever the function is called from.

use longhaul_aws::telemetry::chain;
use longhaul_wire::token::TokenError;
use longhaul_wire::{Caller, Scope};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::WebSocket;
use crate::clients::token_of;

/// How the gateway marks the question.
const KIND: &str = "REQUEST";
/// Who is named in an answer about somebody whom no token names.
const NOBODY: &str = "nobody";

/// The question, as far as it matters.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question {
    method_arn: String,
    #[serde(default)]
    headers: Option<Value>,
    #[serde(default)]
    query_string_parameters: Option<Value>,
}

/// Whether an event is such a question.
pub(crate) fn asked(event: &Value) -> bool {
    event.get("type").and_then(Value::as_str) == Some(KIND) && event.get("methodArn").is_some()
}

impl WebSocket {
    /// Answers with a policy, as the gateway wants it.
    ///
    /// # Errors
    /// [`AuthorizerError`], which the gateway takes for a fault of ours and not of the caller.
    pub(crate) async fn authorize(&self, event: Value) -> Result<Value, AuthorizerError> {
        let question: Question = serde_json::from_value(event).map_err(AuthorizerError::Malformed)?;
        let field = |of: &Option<Value>, name: &str| {
            let fields = of.as_ref()?.as_object()?;
            let found = fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
            found.1.as_str().map(ToOwned::to_owned)
        };
        let header = field(&question.headers, "authorization");
        let parameter = field(&question.query_string_parameters, "token");
        match self.tokens.check(token_of(header.as_deref(), parameter.as_deref())).await {
            Ok(caller) if caller.require(Scope::Read).is_ok() => Ok(answer(Some(&caller), &question.method_arn)),
            Ok(_) => Ok(answer(None, &question.method_arn)),
            Err(error @ TokenError::KeysUnavailable(_)) => Err(AuthorizerError::Keys(error)),
            Err(error) => {
                tracing::info!(error = %chain(&error), "a connection was refused at the gateway");
                Ok(answer(None, &question.method_arn))
            }
        }
    }
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizerError {
    /// It is none.
    #[error("the authorizer's event is malformed")]
    Malformed(#[source] serde_json::Error),
    /// The issuer's keys cannot be read.
    #[error("tokens cannot be checked")]
    Keys(#[source] TokenError),
}

/// The policy that lets a caller connect, or nobody.
fn answer(caller: Option<&Caller>, method_arn: &str) -> Value {
    let (principal, effect) = match caller {
        Some(caller) => (caller.subject.as_str(), "Allow"),
        None => (NOBODY, "Deny"),
    };
    json!({
        "principalId": principal,
        "policyDocument": {
            "Version": "2012-10-17",
            "Statement": [{ "Action": "execute-api:Invoke", "Effect": effect, "Resource": method_arn }],
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use longhaul_aws::AwsStore;
    use longhaul_aws::config::Config;

    use super::*;

    /// A function whose issuer does not exist: no token gets as far as its keys unless it is well formed.
    async fn function() -> WebSocket {
        let config = Config::from_lookup(|name| match name {
            "LONGHAUL_TABLE" | "LONGHAUL_BUCKET" => Some("none".to_owned()),
            "LONGHAUL_JWT_ISSUER" | "LONGHAUL_JWT_AUDIENCE" => Some("longhaul".to_owned()),
            "AWS_REGION" => Some("us-east-1".to_owned()),
            "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("test".to_owned()),
            name if name.ends_with("_URL") || name.ends_with("_ENDPOINT") => Some("http://127.0.0.1:9".to_owned()),
            _ => None,
        })
        .unwrap();
        WebSocket::new(AwsStore::connect(config).await).unwrap()
    }

    fn question(headers: Value, parameters: Value) -> Value {
        json!({
            "type": "REQUEST",
            "methodArn": "arn:aws:execute-api:us-east-1:1:a/live/$connect",
            "headers": headers,
            "queryStringParameters": parameters,
            "requestContext": { "eventType": "CONNECT", "routeKey": "$connect", "connectionId": "c" },
        })
    }

    #[tokio::test]
    async fn who_has_no_token_is_denied_and_not_stored() {
        // A header and a parameter; neither is a token.
        for (headers, parameters) in [
            (Value::Null, Value::Null),
            (json!({}), json!({})),
            (json!({ "Authorization": "Bearer nonsense" }), Value::Null),
            (json!({ "authorization": "Basic e30.e30.e30" }), json!({ "token": "nonsense" })),
            (Value::Null, json!({ "token": "a.b.c" })),
            (json!({ "Authorization": 7 }), json!(["token"])),
        ] {
            let event = question(headers, parameters);
            assert!(asked(&event));
            // Through the same door as every event: a question is not taken for a connection, which would be stored.
            let answer =
                function().await.handle(serde_json::value::to_raw_value(&event).unwrap(), u64::MAX).await.unwrap();
            let effect = answer.pointer("/policyDocument/Statement/0/Effect").and_then(Value::as_str);
            assert_eq!(effect, Some("Deny"), "{answer}");
        }
    }

    #[test]
    fn a_connection_is_no_question() {
        assert!(!asked(&json!({ "requestContext": { "eventType": "CONNECT" } })));
        assert!(!asked(&json!({ "type": "REQUEST" })));
        assert!(!asked(&json!({ "Records": [] })));
    }

    #[test]
    fn a_caller_is_let_in_to_what_it_asked_for() {
        let tenant = "acme".parse().unwrap();
        let caller = Caller { tenant, subject: "ada".to_owned(), scopes: vec![Scope::Read] };
        let answer = answer(Some(&caller), "arn");
        assert_eq!(answer.pointer("/principalId"), Some(&json!("ada")));
        assert_eq!(answer.pointer("/policyDocument/Statement/0/Effect"), Some(&json!("Allow")));
        assert_eq!(answer.pointer("/policyDocument/Statement/0/Resource"), Some(&json!("arn")));
    }
}
