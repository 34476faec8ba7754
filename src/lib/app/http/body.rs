//! What a request brings: JSON, of a size, in time.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, TRANSFER_ENCODING};
use serde::de::DeserializeOwned;

use super::error::Refusal;
use crate::control::Id;

/// The largest body (specification §21).
pub(super) const MAX_BODY: usize = 10 << 20;
/// Between two pieces of a body, and for all of it: 10 MiB over a slow line.
const SLOW: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(120));
/// The header that makes a request one that may be repeated.
const IDEMPOTENCY: &str = "idempotency-key";

/// Reads the JSON of a request.
///
/// # Errors
/// 400, 408, 413 or 415.
pub(super) async fn json<T: DeserializeOwned>(request: Request) -> Result<T, Refusal> {
    if !is_json(request.headers()) {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the body must be JSON",
        )
        .hint("send the header Content-Type: application/json"));
    }
    let bytes = all(request).await?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Refusal::bad(format!("the body makes no sense: {error}")))
}

/// Reads the JSON of a request that may also bring nothing.
///
/// # Errors
/// As [`json`].
pub(super) async fn json_or_nothing<T: DeserializeOwned + Default>(
    request: Request,
) -> Result<T, Refusal> {
    let headers = request.headers();
    let length = headers
        .get(CONTENT_LENGTH)
        .map_or(&b"0"[..], |length| length.as_bytes());
    if length == b"0" && !headers.contains_key(TRANSFER_ENCODING) {
        return Ok(T::default());
    }
    json(request).await
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(one), None) = (types.next(), types.next()) else {
        return false;
    };
    let essence = one
        .to_str()
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

async fn all(request: Request) -> Result<Vec<u8>, Refusal> {
    let (parts, body) = request.into_parts();
    // Two lengths are two opinions about where the next request begins.
    if parts.headers.contains_key(TRANSFER_ENCODING) && parts.headers.contains_key(CONTENT_LENGTH) {
        return Err(Refusal::bad(
            "Content-Length and Transfer-Encoding exclude each other",
        ));
    }
    let length = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > MAX_BODY as u64) {
        return Err(Refusal::too_large(MAX_BODY));
    }
    match tokio::time::timeout(SLOW.1, collect(body)).await {
        Ok(bytes) => bytes,
        Err(_) => Err(Refusal::too_slow()),
    }
}

async fn collect(mut body: Body) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    loop {
        let frame = tokio::time::timeout(SLOW.0, body.frame())
            .await
            .map_err(|_| Refusal::too_slow())?;
        let Some(frame) = frame else { return Ok(bytes) };
        let frame = frame.map_err(|error| Refusal::bad(format!("the body broke off: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > MAX_BODY {
            return Err(Refusal::too_large(MAX_BODY));
        }
        bytes.extend_from_slice(&data);
    }
}

/// Returns the id of the command that a request is: a new one, or that of its `Idempotency-Key`.
///
/// # Errors
/// 400 for an empty key, or two.
pub(super) fn id(headers: &HeaderMap) -> Result<Id, Refusal> {
    let mut keys = headers.get_all(IDEMPOTENCY).iter();
    let Some(key) = keys.next() else {
        return Ok(Id::new());
    };
    if keys.next().is_some() || key.is_empty() {
        return Err(Refusal::bad(
            "the header Idempotency-Key is empty, or stands there twice",
        ));
    }
    Ok(id_of(key.as_bytes()))
}

/// Returns the id that a key stands for: itself, when it can be one.
fn id_of(key: &[u8]) -> Id {
    let itself = std::str::from_utf8(key).ok().and_then(Id::parse);
    itself.unwrap_or_else(|| {
        Id::parse(&format!("key-{:.48}", crate::text::sha256_hex(key))).unwrap_or_default()
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

    #[test]
    fn only_json_is_json() {
        let check = |types: &[&str], expected: bool| {
            let mut headers = HeaderMap::new();
            for value in types {
                headers.append(CONTENT_TYPE, value.parse().expect("value"));
            }
            assert_eq!(is_json(&headers), expected, "{types:?}");
        };
        check(&["application/json"], true);
        check(&["Application/JSON; charset=utf-8"], true);
        check(&[], false);
        check(&["text/plain"], false);
        check(&["application/x-www-form-urlencoded"], false);
        check(&["application/jsonx"], false);
        check(&["text/plain", "application/json"], false);
    }
}
