//! S3 for the embedded stack: `s3s` speaks the protocol, `s3s-fs` keeps each object as a file.
//!
//! It holds the claim checks: results too large for a journal entry. Requests are signed as on AWS and the
//! signature is checked. An object is written beside its place and renamed into it, so a crash leaves either
//! the whole object or none. Keys are limited to about 160 bytes, because the file that keeps an object's
//! checksum has the key in its name.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;

use super::{StoresConfig, StoresError};

/// The object service of a folder, with one bucket in it.
pub(super) fn router(folder: &Path, config: &StoresConfig) -> Result<Router, StoresError> {
    let bucket_folder: PathBuf = folder.join(&config.bucket);
    std::fs::create_dir_all(&bucket_folder)
        .map_err(|source| StoresError::Folder { path: bucket_folder.clone(), source })?;
    let files = FileSystem::new(folder)
        .map_err(|fault| StoresError::Objects { path: folder.to_path_buf(), reason: format!("{fault:?}") })?;
    let mut builder = S3ServiceBuilder::new(files);
    let credentials = &config.credentials;
    let secret = || credentials.secret_access_key.clone().into();
    let mut keys = SimpleAuth::from_single(credentials.access_key_id.clone(), secret());
    for caller in &config.callers {
        keys.register(credentials.id_of(caller), secret());
    }
    builder.set_auth(keys);
    let service = builder.build();
    let answer = tower::service_fn(move |request| answer(service.clone(), request));
    Ok(Router::new().fallback_service(answer))
}

async fn answer(service: S3Service, request: axum::extract::Request) -> Result<Response, Infallible> {
    let request = request.map(s3s::Body::http_body_unsync);
    match service.call(request).await {
        Ok(response) => Ok(response.map(Body::new)),
        Err(fault) => {
            tracing::error!(error = ?fault, "an object request failed");
            Ok(axum::http::StatusCode::INTERNAL_SERVER_ERROR.into_response())
        }
    }
}
