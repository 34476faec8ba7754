//! The errors of the API, always as JSON: `{"error":{"code","message","hint"}}`.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use serde_json::{Value, json};

use super::queries::JSON;
use crate::app::cli::{Exit, Failure};
use crate::secret;

/// A request that is refused, or failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ApiError {
    status: StatusCode,
    /// One word for programs.
    code: &'static str,
    message: String,
    /// The next step.
    hint: Option<String>,
    /// What else is known: the id of a message, its run.
    more: Vec<(&'static str, Value)>,
    headers: Vec<(hyper::header::HeaderName, HeaderValue)>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            hint: None,
            more: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// It makes no sense.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "this needs the token: Authorization: Bearer TOKEN",
        )
        .header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// The same, so that a browser asks for it.
    pub(super) fn unauthorized_page() -> Self {
        let refusal = Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "this needs the token, as the password of any name",
        );
        refusal.header(
            WWW_AUTHENTICATE,
            HeaderValue::from_static("Basic realm=\"agent\", charset=\"UTF-8\""),
        )
    }

    pub(super) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(super) fn method() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            "this path takes another method",
        )
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("a request has at most {} MiB", limit >> 20),
        )
    }

    pub(super) fn too_slow() -> Self {
        Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "timeout",
            "the request did not come to its end in time",
        )
    }

    /// Too many requests; `limits` says where the settings have what is reached.
    pub(super) fn too_many(wait: Duration, limits: &str) -> Self {
        let seconds = wait.as_secs() + 1;
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_requests",
            "too many requests within a minute",
        )
        .hint(format!("wait {seconds} s, or raise {limits} of agent.toml"))
        .header(RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// The token is wrong, and so were many before it.
    pub(super) fn too_many_tokens(wait: Duration) -> Self {
        let seconds = wait.as_secs() + 1;
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_wrong_tokens",
            "this token is wrong, after many other wrong ones",
        )
        .hint(format!(
            "the right token is accepted at once; wrong ones are answered again in {seconds} s"
        ))
        .header(RETRY_AFTER, HeaderValue::from(seconds))
    }

    /// The daemon is ending; what was accepted is not lost.
    pub(super) fn closing() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "closing",
            "the daemon is ending",
        )
        .hint("try again in a moment; with the same Idempotency-Key nothing is done twice")
        .header(RETRY_AFTER, HeaderValue::from_static("5"))
    }

    /// A message could not be stored; nothing of it was.
    pub(super) fn not_stored(why: impl std::fmt::Display) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not_stored",
            format!("it could not be stored: {why}"),
        )
        .hint("try again with the same Idempotency-Key")
        .header(RETRY_AFTER, HeaderValue::from_static("5"))
    }

    /// Those who show the token have all connections.
    pub(super) fn full() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too_many_connections",
            "there are too many connections",
        )
        .hint("try again in a moment")
    }

    pub(super) fn bug() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "bug",
            "this is a bug of agent-daemon; its log says where",
        )
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.more.push((name, value.into()));
        self
    }

    /// Trying the same again would do it twice: clients of OpenAI's kind, which try again by themselves, heed this.
    pub(super) fn final_word(self) -> Self {
        self.header(
            hyper::header::HeaderName::from_static("x-should-retry"),
            HeaderValue::from_static("false"),
        )
    }

    fn header(mut self, name: hyper::header::HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Returns the document.
    pub(super) fn document(&self) -> Value {
        let mut error =
            json!({"code": self.code, "message": secret::redact(&self.message), "hint": self.hint});
        for (name, value) in &self.more {
            error[*name] = value.clone();
        }
        json!({"error": error})
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        let (status, code) = match failure.exit {
            Exit::Usage => (StatusCode::BAD_REQUEST, "bad_request"),
            Exit::TryAgain | Exit::NoDaemon => (StatusCode::SERVICE_UNAVAILABLE, "try_again"),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, failure.code()),
        };
        if status.is_server_error() {
            tracing::error!(hint = failure.hint, "a request failed: {}", failure.message);
        }
        Self {
            hint: failure.hint,
            ..Self::new(status, code, failure.message)
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, JSON, self.document().to_string()).into_response();
        response.headers_mut().extend(self.headers);
        response
    }
}
