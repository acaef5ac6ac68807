//! Payloads too large for the table: they go to S3 first, and the item holds their key.
//!
//! An object is written before the item that names it and never changed, so a reader that finds the key finds the
//! object. One that no item names (its writer lost a race) is removed with its job.

use std::cell::RefCell;

use aws_sdk_s3::primitives::ByteStream;
use longhaul::store::StoreError;
use longhaul_engine::{JobId, Nonce, Seq};
use zstd::bulk::{Compressor, Decompressor};

use crate::clients::Clients;

/// Bytes that a payload may have when unpacked: far above what a request or an answer can hold, and a bound on what a
/// damaged object can do to a small function.
const UNPACKED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Compression effort: zstd's own default, about 300 MB/s.
const ZSTD_LEVEL: i32 = 3;
/// Payloads up to this many bytes are compressed in a workspace that is kept: making one costs more than compressing a
/// step. It grows with what goes through it, so that larger payloads, of which there are few, get one of their own.
const KEPT_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The prefix of all objects of a job.
pub(crate) fn prefix(job: JobId) -> String {
    format!("jobs/{job}/")
}

/// The key of an entry batch.
pub(crate) fn batch_key(job: JobId, at: Seq, nonce: Nonce) -> String {
    format!("{}{:010}-{}", prefix(job), at.0, nonce.as_uuid())
}

/// The key of a job's input. It holds the submission's mark: two submissions under one idempotency key may differ.
pub(crate) fn input_key(job: JobId, nonce: Nonce) -> String {
    format!("{}input-{}", prefix(job), nonce.as_uuid())
}

/// Compresses a payload.
pub(crate) fn pack(text: &str) -> Result<Vec<u8>, StoreError> {
    let compress = || {
        if text.len() > KEPT_BYTES_MAX {
            return zstd::bulk::compress(text.as_bytes(), ZSTD_LEVEL);
        }
        COMPRESSOR.with_borrow_mut(|kept| match kept {
            Some(compressor) => compressor.compress(text.as_bytes()),
            None => kept.insert(Compressor::new(ZSTD_LEVEL)?).compress(text.as_bytes()),
        })
    };
    compress().map_err(|source| StoreError::Unavailable { action: "compressing a payload", source: source.into() })
}

/// Restores a compressed payload.
pub(crate) fn unpack(packed: &[u8], what: &str) -> Result<String, StoreError> {
    let corrupt = |detail: String| StoreError::Corrupt { what: what.to_owned(), detail };
    let size = zstd::zstd_safe::get_frame_content_size(packed)
        .ok()
        .flatten()
        .and_then(|size| usize::try_from(size).ok())
        .filter(|size| *size <= UNPACKED_BYTES_MAX)
        .ok_or_else(|| corrupt("its compressed form has no usable size".to_owned()))?;
    let bytes = DECOMPRESSOR
        .with_borrow_mut(|kept| match kept {
            Some(decompressor) => decompressor.decompress(packed, size),
            None => kept.insert(Decompressor::new()?).decompress(packed, size),
        })
        .map_err(|error| corrupt(format!("cannot unpack it: {error}")))?;
    String::from_utf8(bytes).map_err(|_| corrupt("it is no UTF-8 text".to_owned()))
}

/// Stores a packed payload under `key`.
pub(crate) async fn put(clients: &Clients, bucket: &str, key: &str, packed: Vec<u8>) -> Result<(), StoreError> {
    let request = clients.s3().put_object().bucket(bucket).key(key).body(ByteStream::from(packed));
    Box::pin(request.send())
        .await
        .map(|_| ())
        .map_err(|error| StoreError::Unavailable { action: "storing a large payload", source: error.into() })
}

/// Reads the payload under `key`.
pub(crate) async fn get(clients: &Clients, bucket: &str, key: &str) -> Result<String, StoreError> {
    let unavailable = |source| StoreError::Unavailable { action: "reading a large payload", source };
    let response = Box::pin(clients.s3().get_object().bucket(bucket).key(key).send()).await.map_err(|error| {
        if error.as_service_error().is_some_and(|error| error.is_no_such_key()) {
            StoreError::Corrupt { what: format!("the payload {key}"), detail: "it is not in the bucket".to_owned() }
        } else {
            unavailable(error.into())
        }
    })?;
    let packed = response.body.collect().await.map_err(|error| unavailable(error.into()))?.into_bytes();
    unpack(&packed, &format!("the payload {key}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic: that is how it fails")]

    use super::*;

    #[test]
    fn payloads_come_back_and_damage_is_seen() {
        let text = "one step at a time; ".repeat(10_000);
        let packed = pack(&text).unwrap();
        assert!(packed.len() < text.len() / 10);
        assert_eq!(unpack(&packed, "it").unwrap(), text);

        let mut damaged = packed.clone();
        damaged.truncate(packed.len() / 2);
        for bytes in [damaged, b"{}".to_vec(), Vec::new()] {
            assert!(matches!(unpack(&bytes, "it"), Err(StoreError::Corrupt { .. })));
            assert_eq!(unpack(&packed, "it").unwrap(), text, "the next one does not suffer for it");
        }
    }
}
