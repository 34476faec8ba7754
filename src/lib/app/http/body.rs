//! The body of a request: JSON of a limited size, read within a timeout.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use http_body_util::BodyExt;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{StatusCode, Uri};
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::idempotency_key;
use crate::control::Id;
use crate::text;

/// The largest body (specification §21).
pub(super) const MAX_BODY: usize = 10 << 20;
/// Between two pieces of a body, and for read_all of it: 10 MiB over a slow line.
const TIMEOUTS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(120));

/// A request with a JSON body: the id from its Idempotency-Key, or a new one, and the body.
pub(super) struct Posted<T>(pub(super) Id, pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Posted<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        Ok(Self(
            idempotency_key::id(request.headers())?,
            json(request).await?,
        ))
    }
}

/// The fields behind the `?` of an address.
pub(super) struct Fields<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Fields<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let fields = Query::try_from_uri(&parts.uri);
        fields
            .map(|Query(fields)| Self(fields))
            .map_err(|error| ApiError::bad(error.body_text()))
    }
}

/// The id in a path. One that is not UTF-8 names nothing.
pub(super) struct Named(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let path = Path::from_request_parts(parts, state).await;
        path.map(|Path(name)| Self(name))
            .map_err(|_| ApiError::not_found("nothing has this id"))
    }
}

/// Reads the JSON of a request.
///
/// # Errors
/// 400, 408, 413 or 415.
pub(super) async fn json<T: DeserializeOwned>(request: Request) -> Result<T, ApiError> {
    parse(&bytes(request).await?)
}

/// Reads JSON.
///
/// # Errors
/// 400.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    text::json::parse(bytes).map_err(|error| ApiError::bad(format!("invalid body: {error}")))
}

/// Reads the form that a browser sends.
///
/// # Errors
/// 400, 408, 413 or 415.
pub(super) async fn form<T: DeserializeOwned>(request: Request) -> Result<T, ApiError> {
    form_of(request, MAX_BODY).await
}

async fn form_of<T: DeserializeOwned>(request: Request, max: usize) -> Result<T, ApiError> {
    if media_type(request.headers()) != "application/x-www-form-urlencoded" {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_a_form",
            "the body must be a form",
        ));
    }
    let bytes = read_at_most(request, max).await?;
    // A form is written as the query of an address is.
    let uri = [b"/?", bytes.as_slice()].concat();
    let uri = Uri::try_from(uri).map_err(|_| ApiError::bad("the form cannot be read"))?;
    let form = Query::try_from_uri(&uri).map_err(|error| ApiError::bad(error.body_text()))?;
    Ok(form.0)
}

/// Returns true when the body is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers) == "application/json"
}

/// Reads the JSON or the form of a request that has at most `max` bytes.
///
/// # Errors
/// 400, 408, 413 or 415.
pub(super) async fn json_or_form<T: DeserializeOwned>(
    request: Request,
    max: usize,
) -> Result<T, ApiError> {
    if is_json(request.headers()) {
        return parse(&read_at_most(request, max).await?);
    }
    form_of(request, max).await
}

/// Reads the bytes of a JSON request.
///
/// # Errors
/// 400, 408, 413 or 415.
pub(super) async fn bytes(request: Request) -> Result<Vec<u8>, ApiError> {
    if !is_json(request.headers()) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the body must be JSON",
        )
        .hint("send the header Content-Type: application/json"));
    }
    read_at_most(request, MAX_BODY).await
}

/// Reads the JSON of a request; the default when the body is empty.
///
/// # Errors
/// As [`json`].
pub(super) async fn json_or_nothing<T: DeserializeOwned + Default>(
    request: Request,
) -> Result<T, ApiError> {
    let headers = request.headers();
    let length = headers
        .get(CONTENT_LENGTH)
        .map_or(&b"0"[..], |length| length.as_bytes());
    if length == b"0" && !headers.contains_key(TRANSFER_ENCODING) {
        return Ok(T::default());
    }
    json(request).await
}

/// Returns the only value of a header.
pub(super) fn one<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

/// Returns what the body is said to be, in small letters and without parameters.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let said = one(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let essence = said.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// Reads the bytes of a request, at most `max`.
///
/// # Errors
/// 400, 408 or 413.
pub(super) async fn read_at_most(request: Request, max: usize) -> Result<Vec<u8>, ApiError> {
    let (parts, body) = request.into_parts();
    // Two lengths allow request smuggling.
    if parts.headers.contains_key(TRANSFER_ENCODING) && parts.headers.contains_key(CONTENT_LENGTH) {
        return Err(ApiError::bad(
            "Content-Length and Transfer-Encoding exclude each other",
        ));
    }
    let length = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > max as u64) {
        return Err(ApiError::too_large(max));
    }
    match tokio::time::timeout(TIMEOUTS.1, read_frames(body, max)).await {
        Ok(bytes) => bytes,
        Err(_) => Err(ApiError::too_slow()),
    }
}

async fn read_frames(mut body: Body, max: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    loop {
        let frame = tokio::time::timeout(TIMEOUTS.0, body.frame())
            .await
            .map_err(|_| ApiError::too_slow())?;
        let Some(frame) = frame else { return Ok(bytes) };
        let frame =
            frame.map_err(|error| ApiError::bad(format!("the body was cut off: {error}")))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > max {
            return Err(ApiError::too_large(max));
        }
        bytes.extend_from_slice(&data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
