//! Blobs: bytes that are stored once, compressed, under their hash.

use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

use crate::digest::sha256;
use crate::store::StoreError;

/// The fastest level: results are compressed while a worker waits.
const COMPRESSION_LEVEL: u8 = 1;
/// The maximum size of a blob before compression.
const MAX_BLOB_BYTES: usize = 256 * 1024 * 1024;
/// Bytes beyond which compression leaves the executor to others.
const MAX_INLINE_BYTES: usize = 128 * 1024;

/// Bytes that are ready to be stored.
#[derive(Debug)]
pub(in crate::store) struct Blob {
    pub(super) hash: String,
    pub(super) size: i64,
    pub(super) compressed: Vec<u8>,
}

impl Blob {
    /// Hashes and compresses a text.
    pub(super) async fn new(text: String) -> Result<Self, StoreError> {
        if text.len() > MAX_BLOB_BYTES {
            return Err(StoreError::Failed(format!("a result of {} bytes is too large", text.len())));
        }
        if text.len() <= MAX_INLINE_BYTES {
            return Ok(Self::compress(&text));
        }
        let compressed = tokio::task::spawn_blocking(move || Self::compress(&text)).await;
        compressed.map_err(|error| StoreError::Failed(error.to_string()))
    }

    fn compress(text: &str) -> Self {
        Self {
            hash: sha256(text.as_bytes()),
            size: i64::try_from(text.len()).unwrap_or(i64::MAX),
            compressed: compress_to_vec_zlib(text.as_bytes(), COMPRESSION_LEVEL),
        }
    }
}

/// Decompresses a blob. Anything may have changed the database, so its sizes are not trusted.
pub(super) fn decompress(bytes: &[u8]) -> Result<String, StoreError> {
    decompress_within(bytes, MAX_BLOB_BYTES)
}

fn decompress_within(bytes: &[u8], max_bytes: usize) -> Result<String, StoreError> {
    let text = decompress_to_vec_zlib_with_limit(bytes, max_bytes)
        .map_err(|error| StoreError::Failed(format!("a stored result is damaged: {error}")))?;
    String::from_utf8(text).map_err(|error| StoreError::Failed(format!("a stored result is damaged: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn texts_are_restored_and_damaged_bytes_are_an_error() {
        for text in [String::new(), "short".to_owned(), "large ".repeat(100_000)] {
            let blob = Blob::new(text.clone()).await.unwrap();
            assert_eq!(decompress(&blob.compressed).unwrap(), text);
            assert!(blob.compressed.len() < text.len() / 50 + 32);
        }
        let mut blob = Blob::new("a text".repeat(10)).await.unwrap();
        blob.compressed[6] ^= 0x55;
        assert!(matches!(decompress(&blob.compressed), Err(StoreError::Failed(_))));
    }

    #[test]
    fn a_small_blob_that_expands_without_end_is_refused() {
        let bomb = compress_to_vec_zlib(&vec![0; 1_000_001], 9);
        assert!(bomb.len() < 2_000);
        assert!(decompress_within(&bomb, 1_000_001).is_ok());
        assert!(matches!(decompress_within(&bomb, 1_000_000), Err(StoreError::Failed(_))));
    }
}
