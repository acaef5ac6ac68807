//! What API Gateway hands over, looked at before the library makes a request of it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lambda_http::LambdaEvent;
use lambda_http::request::LambdaRequest;

/// What is put in the place of a body that cannot be read: no JSON, and so refused like any other that is none.
const UNREADABLE: &str = "\u{fffd}";

/// The event with a body that can be read. One that is announced as Base64 and is none would make the library panic,
/// which Lambda answers with 502; it is the caller's fault, and they are told so.
#[must_use]
pub fn readable(mut event: LambdaEvent<LambdaRequest>) -> LambdaEvent<LambdaRequest> {
    // Kinds of events that another feature of the library would bring are none of this function's.
    #[allow(irrefutable_let_patterns, reason = "one kind of event is switched on, and others may be")]
    if let LambdaRequest::ApiGatewayV2(request) = &mut event.payload
        && request.is_base64_encoded
        && request.body.as_ref().is_some_and(|body| STANDARD.decode(body).is_err())
    {
        request.body = Some(UNREADABLE.to_owned());
        request.is_base64_encoded = false;
    }
    event
}
