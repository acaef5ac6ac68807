//! The console: files for a browser, carried in the function, so that there is no second service to run.
//!
//! They hold nothing that is anybody's and need no token; what they show, they ask of the interface with the token of
//! whoever looks. Models and tools write what they show, so the browser is told to run no script but ours, to turn no
//! text into markup unseen, and to talk to nobody but this service.

use std::io::Read as _;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use flate2::read::GzDecoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, StatusCode};
use longhaul_wire::Problem;
use serde::Serialize;

use crate::answer::{Refused, json, with_header};
use crate::service::Service;

/// A file of the console as `build.rs` has packed it.
struct File {
    name: &'static str,
    media_type: &'static str,
    /// Changes with the content.
    tag: &'static str,
    /// Whether the content is compressed (gzip, which every browser of the last twenty years reads).
    packed: bool,
    content: &'static [u8],
}

static FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// What the pages are told about this deployment.
#[derive(Debug, Serialize)]
struct Settings<'a> {
    /// Where the interface is, seen from the page: one up, whatever stage stands in front.
    api: &'static str,
    /// Where the WebSocket is; none: events are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    websocket: Option<String>,
    /// Where events come as a stream (server-sent events); none: nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<&'a str>,
    /// Who gives tokens for it, and for which audience: where `longhaul login` begins.
    issuer: &'a str,
    audience: &'a str,
    version: &'static str,
}

/// The console's routes.
pub(crate) fn routes() -> Router<Service> {
    Router::new()
        // Relative, for a stage may stand in front. The fragment, which may hold a token, stays in the browser.
        .route("/console", get(async || Redirect::temporary("console/")))
        .route("/console/", get(page))
        .route("/console/settings.json", get(settings))
        .route("/console/{file}", get(file))
}

async fn settings(State(service): State<Service>) -> Response {
    let websocket = websocket(&service);
    let tokens = service.tokens().settings();
    let (issuer, audience) = (tokens.issuer.as_str(), tokens.audience.as_str());
    let events = service.store().config().stream_url.as_deref();
    let version = env!("CARGO_PKG_VERSION");
    json(StatusCode::OK, &Settings { api: "../", websocket, events, issuer, audience, version })
}

async fn page(State(service): State<Service>, headers: HeaderMap, request: Request) -> Response {
    answer(&service, "index.html", &headers, &request)
}

async fn file(
    State(service): State<Service>,
    Path(name): Path<String>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    answer(&service, &name, &headers, &request)
}

fn answer(service: &Service, name: &str, headers: &HeaderMap, request: &Request) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return Refused(Problem::UnknownRoute { path: request.uri().path().to_owned() }).into_response();
    };
    let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let response =
        if known.is_some_and(|known| known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == file.tag)) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            with_header(content(file, headers), CONTENT_TYPE, file.media_type)
        };
    // What is sent hangs on what is taken, also where it is the same.
    let response = with_header(response, VARY, ACCEPT_ENCODING.as_str());
    let events = service.store().config().stream_url.as_deref();
    let policy = policy(websocket(service).as_deref(), events);
    let guards: [(HeaderName, &str); 7] = [
        (ETAG, file.tag),
        // Asked about each time: names stay the same from one version to the next.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, &policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    guards.into_iter().fold(response, |response, (name, value)| with_header(response, name, value))
}

/// A file's content as its reader takes it. Every browser takes it compressed; who does not say so gets it plain.
fn content(file: &File, headers: &HeaderMap) -> Response {
    if !file.packed {
        return file.content.into_response();
    }
    if takes_gzip(headers) {
        return with_header(file.content.into_response(), CONTENT_ENCODING, "gzip");
    }
    let mut plain = Vec::new();
    match GzDecoder::new(file.content).read_to_end(&mut plain) {
        Ok(_) => plain.into_response(),
        Err(error) => {
            tracing::error!(file = file.name, %error, "a file of the console cannot be unpacked");
            Refused(Problem::Internal).into_response()
        }
    }
}

/// Whether `Accept-Encoding` (RFC 9110, 12.5.3) allows gzip.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut any = None;
    for coding in values.flat_map(|value| value.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse::<f32>);
        let taken = weight.is_ok_and(|weight| weight > 0.0);
        match name.as_str() {
            "gzip" | "x-gzip" => return taken,
            "*" => any = Some(taken),
            _ => {}
        }
    }
    any.unwrap_or(false)
}

/// What a page of ours may do. `dompurify` is the one place that turns text into markup.
fn policy(websocket: Option<&str>, events: Option<&str>) -> String {
    let named = [websocket, events].into_iter().flatten().filter_map(origin);
    let others: String = named.map(|origin| format!(" {origin}")).collect();
    format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'{others}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types dompurify"
    )
}

/// The address that clients of the WebSocket connect to: the gateway's own, whose management endpoint we are told.
fn websocket(service: &Service) -> Option<String> {
    let endpoint = service.store().config().push_endpoint().ok()?;
    // `http` becomes `ws`, and with it `https` `wss`.
    endpoint.strip_prefix("http").map(|rest| format!("ws{rest}"))
}

fn origin(address: &str) -> Option<String> {
    let url = url::Url::parse(address).ok()?;
    let host = url.host_str()?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{host}{port}", url.scheme()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn the_policy_names_the_live_addresses_alone() {
        for (websocket, events, wanted) in [
            (None, None, "connect-src 'self'; "),
            (Some("ws://127.0.0.1:4781/live"), None, "connect-src 'self' ws://127.0.0.1:4781; "),
            (
                Some("wss://x.execute-api.eu-west-1.amazonaws.com/live"),
                Some("https://y.lambda-url.eu-west-1.on.aws/"),
                "connect-src 'self' wss://x.execute-api.eu-west-1.amazonaws.com https://y.lambda-url.eu-west-1.on.aws; ",
            ),
            (Some("no address"), Some("none"), "connect-src 'self'; "),
        ] {
            let policy = policy(websocket, events);
            assert!(policy.contains(wanted), "{websocket:?} {events:?}: {policy}");
            assert!(!policy.contains("unsafe"), "{policy}");
        }
    }

    #[test]
    fn what_the_page_names_is_there() {
        let page = FILES.iter().find(|file| file.name == "index.html").unwrap();
        let page = std::str::from_utf8(page.content).unwrap();
        let named: Vec<&str> = page.split("=\"./").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(named.len() >= 3, "{page}");
        for name in named {
            assert!(FILES.iter().any(|file| file.name == name), "{name}");
        }
        // A policy without inline scripts and styles would leave a page with some of them dead.
        assert!(!page.contains("<style") && !page.contains("onload="), "{page}");
    }

    #[test]
    fn gzip_is_for_those_who_take_it() {
        for (accepts, wanted) in [
            (&["gzip, deflate, br"][..], true),
            (&["br", "GZIP"], true),
            (&["gzip;q=0.5"], true),
            (&["*"], true),
            (&["identity, *;q=0.1"], true),
            (&["gzip;q=0, *"], false),
            (&["gzip;q=0"], false),
            (&["*;q=0"], false),
            (&["identity"], false),
            (&["br"], false),
            (&[""], false),
            (&[], false),
        ] {
            let values = accepts.iter().map(|value| (ACCEPT_ENCODING, http::HeaderValue::from_static(value)));
            assert_eq!(takes_gzip(&HeaderMap::from_iter(values)), wanted, "{accepts:?}");
        }
    }

    #[test]
    fn it_stays_small() {
        /// Bytes, compressed, that the whole console may have.
        const CONSOLE_BYTES_MAX: usize = 200_000;
        let bytes: usize = FILES.iter().map(|file| file.content.len()).sum();
        assert!(bytes < CONSOLE_BYTES_MAX, "{bytes}");
    }
}
