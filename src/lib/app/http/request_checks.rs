//! Checks every request, in this order: host name and origin; the token; whether the daemon is ending; the rate limit.
//! A request that passes comes from the owner.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, CACHE_CONTROL, HeaderValue, ORIGIN, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, StatusCode};
use serde_json::json;

use super::Api;
use super::connections::Connection;
use super::error::ApiError;
use super::token::Credentials;
use super::{hooks, hosts, login, page};
use crate::clock;

/// The one path that strangers get an answer from: that we are there, and nothing else.
const OPEN: &str = "/api/v1/status";
/// The headers of an answer that the SDKs of OpenAI read in a page, too: whether, and when, to try again.
const EXPOSED: &str = "retry-after, x-should-retry";
/// The interval between log entries about strangers, milliseconds.
const TELL: i64 = 60_000;

/// Lets a request pass, or answers it.
pub(super) async fn pass(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let foreign = request
        .headers()
        .get(ORIGIN)
        .filter(|origin| {
            origin
                .to_str()
                .is_ok_and(|origin| hosts::is_listed(&api.origins, origin))
        })
        .cloned();
    let is_shown = page::is_page(&path) && login::wants_page(request.headers());
    let arrived = page::login::Arrived::of(request.headers());
    let mut response = match check(&api, &request) {
        Ok(Passed::Preflight(wanted)) => preflight(wanted),
        Ok(Passed::Owner | Passed::Hook | Passed::Public) => AssertUnwindSafe(next.run(request))
            .catch_unwind()
            .await
            .unwrap_or_else(|_| {
                tracing::error!(%method, path, "internal error while handling a request");
                ApiError::bug().into_response()
            }),
        Ok(Passed::Missing) => Json(json!({"status": "ok"})).into_response(),
        Err(refusal) if is_shown => page::login::instead_of(&path, &arrived, refusal),
        Err(refusal) => refusal.into_response(),
    };
    let status = response.status().as_u16();
    api.counters.count(status);
    tracing::debug!(%method, path, status, "a request");
    let headers = response.headers_mut();
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(origin) = foreign {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(EXPOSED),
        );
        headers.insert(VARY, HeaderValue::from_static("Origin"));
    }
    response
}

/// Answers a browser that asks what a page of `[http] origins` may send (fetch.spec.whatwg.org, "CORS protocol"): any header, for
/// the SDKs of OpenAI describe themselves in a dozen. Only the token opens anything.
fn preflight(wanted: Option<HeaderValue>) -> Response {
    let allowed = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    let mut response = (StatusCode::NO_CONTENT, allowed).into_response();
    if let Some(wanted) = wanted {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    }
    response
}

enum Passed {
    Owner,
    /// A webhook, which has a secret of its own.
    Hook,
    /// What anybody may ask: the form to sign in, and what it looks like.
    Public,
    Missing,
    /// A browser asks for a page of an allowed site whether these headers may be sent; it sends no token.
    Preflight(Option<HeaderValue>),
}

fn check(api: &Api, request: &Request) -> Result<Passed, ApiError> {
    api.hosts.check(request, &api.origins)?;
    if *request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD)
        && !api.origins.is_empty()
    {
        let wanted = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS);
        return Ok(Passed::Preflight(wanted.cloned()));
    }
    if request.uri().path().starts_with(hooks::PREFIX) {
        return match api.pipeline.closing().is_cancelled() {
            true => Err(ApiError::closing()),
            false => Ok(Passed::Hook),
        };
    }
    let path = request.uri().path();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if path == login::LOGIN || (reads && page::assets::is_one(path)) {
        return Ok(Passed::Public);
    }
    match credentials(api, request) {
        Credentials::Valid => {}
        Credentials::Missing if reads && path == OPEN => {
            return Ok(Passed::Missing);
        }
        refused => {
            let is_page = page::is_page(path);
            let refusal = if is_page {
                ApiError::unauthorized_page()
            } else {
                ApiError::unauthorized()
            };
            if refused == Credentials::Invalid {
                return Err(wrong_token(api, client(request), refusal));
            }
            // Who only comes to sign in tries no token.
            if !is_page {
                tell(api);
            }
            return Err(refusal);
        }
    }
    if let Some(connection) = request.extensions().get::<Arc<Connection>>() {
        connection.trust();
    }
    if api.pipeline.closing().is_cancelled() {
        return Err(ApiError::closing());
    }
    let bucket = if reads { &api.reads } else { &api.writes };
    let too_many = |wait| ApiError::too_many(wait, "the limits in [http]");
    bucket.take().map_err(too_many)?;
    Ok(Passed::Owner)
}

/// Returns the credentials of a request: those of the header `Authorization` when it has one, else those of the cookie.
fn credentials(api: &Api, request: &Request) -> Credentials {
    let headers = request.headers();
    match api.token_check.bearer(headers) {
        // A browser cannot be told to send a bearer token.
        Credentials::Invalid if page::is_page(request.uri().path()) => {
            api.token_check.basic(headers)
        }
        Credentials::Missing if login::is_from_our_page(request.method(), headers) => {
            api.logins.credentials(headers)
        }
        other => other,
    }
}

/// Returns whether a request is the owner's, for what anybody may ask.
///
/// # Errors
/// When it has a wrong token, and many came before it.
pub(super) fn is_owner(api: &Api, request: &Request) -> Result<bool, ApiError> {
    match credentials(api, request) {
        Credentials::Valid => Ok(true),
        Credentials::Missing => Ok(false),
        Credentials::Invalid => {
            let counted = api.wrong_tokens.count(client(request));
            counted.map(|()| false).map_err(ApiError::too_many_tokens)
        }
    }
}

/// Returns the address of who sends a request; `None` on a Unix socket.
pub(super) fn client(request: &Request) -> Option<IpAddr> {
    let connection = request.extensions().get::<Arc<Connection>>()?;
    connection.client()
}

/// Counts a wrong token or secret, and returns the answer to it: `refusal`, or 429 when there were many.
pub(super) fn wrong_token(api: &Api, client: Option<IpAddr>, refusal: ApiError) -> ApiError {
    tell(api);
    match api.wrong_tokens.count(client) {
        Ok(()) => refusal,
        Err(wait) => ApiError::too_many_tokens(wait),
    }
}

/// Somebody may be trying tokens.
fn tell(api: &Api) {
    let now = clock::now_ms();
    let last = api.last_unauthorized_log_ms.swap(now, Ordering::Relaxed);
    if now - last > TELL {
        tracing::warn!("a request to the HTTP API without the right token or secret was refused");
    }
}
