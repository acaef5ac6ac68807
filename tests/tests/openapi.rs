//! The description of the HTTP API at the top of the project is what the api function serves.
//! `LONGHAUL_WRITE_GOLDEN=1 cargo test -p longhaul-tests --test openapi` writes it anew.
#![allow(clippy::unwrap_used, reason = "tests")]

#[test]
fn the_description_of_the_api_is_true() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../openapi.json");
    let served = serde_json::to_string_pretty(&longhaul_api::openapi()).unwrap() + "\n";
    if std::env::var_os("LONGHAUL_WRITE_GOLDEN").is_some() {
        std::fs::write(path, &served).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written == served, "openapi.json is not what the api serves; the module's docs say how to write it anew");
}
