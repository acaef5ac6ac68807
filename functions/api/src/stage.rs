//! The stage of an API Gateway deployment, which stands in front of each path unless it is the default one.

use http::Uri;
use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt};

/// The request with its path as the routes know it.
pub(crate) fn without_stage(mut request: Request) -> Request {
    let stage = match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => context.stage.clone(),
        Some(_) | None => None,
    };
    if let Some(stage) = stage.filter(|stage| stage != "$default")
        && let Some(uri) = without_prefix(request.uri(), &format!("/{stage}"))
    {
        *request.uri_mut() = uri;
    }
    request
}

fn without_prefix(uri: &Uri, prefix: &str) -> Option<Uri> {
    let rest = uri.path_and_query()?.as_str().strip_prefix(prefix)?;
    if rest.starts_with('/') {
        rest.parse().ok()
    } else {
        format!("/{rest}").parse().ok().filter(|_| rest.is_empty() || rest.starts_with('?'))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn the_stage_is_taken_off_once() {
        for (uri, wanted) in [
            ("https://h/live/v1/jobs?a=1", Some("/v1/jobs?a=1")),
            ("https://h/live/live/x", Some("/live/x")),
            ("https://h/live", Some("/")),
            ("https://h/live?a=1", Some("/?a=1")),
            ("https://h/lively/x", None),
            ("https://h/v1/jobs", None),
        ] {
            let found = without_prefix(&uri.parse().unwrap(), "/live").map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), wanted, "{uri}");
        }
    }
}
