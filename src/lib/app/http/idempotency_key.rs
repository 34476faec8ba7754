//! The header `Idempotency-Key`: a request that is sent again with the same key has its effect once.
//!
//! The key becomes the id of the request's command; the queue drops a second command with the same id.

use hyper::header::HeaderMap;

use super::error::ApiError;
use crate::control::Id;
use crate::text;

/// The name of the header.
pub(super) const HEADER: &str = "idempotency-key";

/// Returns the id of the request's command: that of its `Idempotency-Key`, or a new one.
///
/// # Errors
/// 400 for an empty key, or two.
pub(super) fn id(headers: &HeaderMap) -> Result<Id, ApiError> {
    Ok(key(headers)?.unwrap_or_default())
}

/// Returns the id of the request's `Idempotency-Key`, if it has one.
///
/// # Errors
/// As [`id`].
pub(super) fn key(headers: &HeaderMap) -> Result<Option<Id>, ApiError> {
    let mut keys = headers.get_all(HEADER).iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    if keys.next().is_some() || key.is_empty() {
        return Err(ApiError::bad(
            "the header Idempotency-Key is empty or repeated",
        ));
    }
    Ok(Some(id_of(key.as_bytes())))
}

/// Returns true when the client says that it sends this request again: the SDKs of OpenAI count their retries
/// (github.com/openai/openai-python, `_base_client.py`).
pub(super) fn is_retry(headers: &HeaderMap) -> bool {
    let count = headers
        .get("x-stainless-retry-count")
        .and_then(|count| count.to_str().ok());
    count.is_some_and(|count| count.parse::<u32>().is_ok_and(|count| count > 0))
}

/// Returns the id of a key: the key itself when it is a valid id, else its digest.
fn id_of(key: &[u8]) -> Id {
    let itself = std::str::from_utf8(key).ok().and_then(Id::parse);
    itself.unwrap_or_else(|| {
        Id::parse(&format!("key-{:.48}", text::sha256_hex(key))).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_own_id_when_it_can_be_one() {
        assert_eq!(id_of(b"order-66_a").as_str(), "order-66_a");
        let odd = id_of("größer als / erlaubt".as_bytes());
        assert_eq!(odd, id_of("größer als / erlaubt".as_bytes()));
        assert!(
            odd.as_str().starts_with("key-")
                && odd.as_str().len() == 52
                && odd != id_of(b"../../x")
        );
        assert_eq!(id_of(&[b'a'; 65]).as_str().len(), 52);
    }
}
