//! The console as a browser gets it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod world;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::ServiceExt;
use world::World;

async fn get(world: &World, path: &str, tag: Option<&str>) -> (http::response::Parts, Vec<u8>) {
    let mut request = Request::get(path).header("accept-encoding", "gzip, deflate, br");
    if let Some(tag) = tag {
        request = request.header("if-none-match", tag);
    }
    let response = world.router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    (parts, body.collect().await.unwrap().to_bytes().to_vec())
}

#[tokio::test]
async fn files_come_with_their_guards_and_are_not_sent_twice() {
    let world = World::new().await;
    for (path, media_type, packed) in [
        ("/console/", "text/html; charset=utf-8", false),
        ("/console/index.html", "text/html; charset=utf-8", false),
        ("/console/index.js", "text/javascript; charset=utf-8", true),
        ("/console/index.css", "text/css; charset=utf-8", true),
        ("/console/icon.svg", "image/svg+xml", false),
    ] {
        let (parts, body) = get(&world, path, None).await;
        let header = |name: &str| parts.headers.get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!(parts.status, StatusCode::OK, "{path}");
        assert_eq!(header("content-type"), media_type, "{path}");
        assert_eq!(header("content-encoding"), if packed { "gzip" } else { "" }, "{path}");
        assert_eq!(body.starts_with(&[0x1f, 0x8b]), packed, "{path}");
        assert_eq!(header("cache-control"), "no-cache", "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert!(header("content-security-policy").contains("default-src 'none'; script-src 'self'"), "{path}");
        let (again, nothing) = get(&world, path, Some(header("etag"))).await;
        assert_eq!((again.status, nothing.len()), (StatusCode::NOT_MODIFIED, 0), "{path}");
        let (other, _) = get(&world, path, Some("\"another\"")).await;
        assert_eq!(other.status, StatusCode::OK, "{path}");
    }
}

/// Who does not say that it takes gzip gets the same content without it.
#[tokio::test]
async fn a_file_comes_plain_to_who_takes_nothing_else() {
    let world = World::new().await;
    let plain =
        world.router.clone().oneshot(Request::get("/console/index.js").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(plain.status(), StatusCode::OK);
    assert!(!plain.headers().contains_key("content-encoding"));
    assert_eq!(plain.headers()["vary"], "accept-encoding");
    let plain = plain.into_body().collect().await.unwrap().to_bytes();
    let (_, packed) = get(&world, "/console/index.js", None).await;
    assert!(plain.len() > packed.len() && std::str::from_utf8(&plain).is_ok());
}

#[tokio::test]
async fn the_way_in_and_what_is_not_there() {
    let world = World::new().await;
    let (parts, _) = get(&world, "/console", None).await;
    assert_eq!(parts.status, StatusCode::TEMPORARY_REDIRECT);
    // Relative: behind a stage, `/live/console` leads to `/live/console/`.
    assert_eq!(parts.headers["location"], "console/");
    for path in ["/console/no.js", "/console/..%2Fsecret", "/console/a/b"] {
        let (parts, _) = get(&world, path, None).await;
        assert_eq!(parts.status, StatusCode::NOT_FOUND, "{path}");
        assert_eq!(parts.headers["content-type"], "application/problem+json", "{path}");
    }
}

#[tokio::test]
async fn the_settings_name_what_there_is() {
    let world = World::new().await;
    let (parts, body) = get(&world, "/console/settings.json", None).await;
    assert_eq!(parts.status, StatusCode::OK);
    assert_eq!(parts.headers["cache-control"], "no-store");
    let settings: serde_json::Value = serde_json::from_slice(&body).unwrap();
    // This deployment has no WebSocket: its pages ask.
    let wanted = serde_json::json!({
        "api": "../", "events": world::STREAMS, "issuer": "https://id.example.test/", "audience": "api://runner", "version": env!("CARGO_PKG_VERSION"),
    });
    assert_eq!(settings, wanted);
}
