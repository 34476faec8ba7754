//! One HTTP exchange with a model server: send, classify failures, feed the answer's events.
//!
//! Nothing of the URL and no known secret gets into an error's text.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::DateTime;
use futures_util::StreamExt;
use hyper::body::Bytes;
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::api_key::{Credential, Key, KeySource};
use super::classify_error::{ErrorBody, plain};
use super::json::Json;
use super::partial_message::Received;
use super::{BoxFuture, Error, OnText};
use crate::net::sse::{Events, MAX_ANSWER};
use crate::net::{BodyError, Timeouts, innermost, read_body};
use crate::secret::Secret;

/// An event is waited for at least so long, however late the answer's head came.
const LEAST: Duration = Duration::from_secs(1);

/// The most bytes of an error's body that are read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How long to wait after a server said that a retry is of no use.
const NO_RETRY: Duration = Duration::from_secs(5 * 60);

/// An answer while it is received; each vendor has its own.
pub(super) trait Answer: Default {
    /// What the protocol is called in [`crate::message::Thinking::by`].
    const PROTOCOL: &'static str;

    /// Takes the data of one event.
    ///
    /// # Errors
    /// [`Fault`] when the server reports a failure or makes no sense.
    fn event(&mut self, data: &str, on_text: OnText<'_>) -> Result<(), Fault>;

    /// Takes an answer that came in one piece from a server that does not stream.
    ///
    /// # Errors
    /// As [`Answer::event`].
    fn whole(&mut self, value: &Value, on_text: OnText<'_>) -> Result<(), Fault>;

    fn received(&self) -> &Received;

    fn into_received(self) -> Received;

    /// Returns true when the answer is complete, should the stream end here.
    fn complete(&self) -> bool {
        self.received().ended || self.received().stop.is_some()
    }
}

/// What is wrong with an event.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server reports an error; with the HTTP status that it stands for.
    Reported(u16, ErrorBody),
    /// It is not what the vendor's documentation describes.
    Nonsense(String),
}

/// A URL to post to, with everything each request carries.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    client: Client,
    url: Result<Url, String>,
    headers: HeaderMap,
    /// Where the key comes from, and its header and prefix; a fixed key is among the headers.
    key_source: Option<(Arc<dyn KeySource>, HeaderName, String)>,
    pub(super) timeouts: Timeouts,
    /// How long to wait for a key, where that is not to count; `None` = within the timeout of the head.
    pub(super) key_timeout: Option<Duration>,
}

impl Endpoint {
    /// Returns the endpoint `path` below `base_url`, where `has_version` tells from the base's path
    /// whether `v1` is already in it. A bad URL is an error of the first request.
    pub(super) fn new(
        client: Client,
        base_url: &str,
        path: &str,
        has_version: fn(&str) -> bool,
    ) -> Self {
        let url = Url::parse(base_url.trim())
            .map_err(|error| error.to_string())
            .map(|mut url| {
                let base = url.path().trim_end_matches('/').to_owned();
                let version = if has_version(&base) { "" } else { "/v1" };
                url.set_path(&format!("{base}{version}/{path}"));
                url
            });
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(crate::net::USER_AGENT));
        Self {
            client,
            url,
            headers,
            key_source: None,
            timeouts: Timeouts::default(),
            key_timeout: None,
        }
    }

    /// Returns the endpoint with a header on every request.
    pub(super) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        self
    }

    /// Returns the endpoint with `prefix` and the key as a header that no log shows.
    pub(super) fn with_key(mut self, name: &'static str, prefix: &str, key: Key) -> Self {
        let name = HeaderName::from_static(name);
        match key {
            Key::Absent => {}
            Key::Fixed(key) => match key_header(prefix, &key) {
                Ok(value) => drop(self.headers.insert(name, value)),
                Err(reason) => self.url = Err(reason),
            },
            Key::From(source) => self.key_source = Some((source, name, prefix.to_owned())),
        }
        self
    }

    /// Returns the host alone, by which a vendor's own server is known.
    pub(super) fn host_name(&self) -> &str {
        let url = self.url.as_ref().ok();
        url.and_then(Url::host_str).unwrap_or_default()
    }

    /// Returns the endpoint with `segment` after its path, and `query`.
    pub(super) fn below(&self, segment: &str, query: Option<&str>) -> Self {
        let mut endpoint = self.clone();
        if let Ok(url) = &mut endpoint.url {
            // It fails for addresses without a path only, which no http address is.
            let _ = url.path_segments_mut().map(|mut path| {
                path.pop_if_empty().push(segment);
            });
            url.set_query(query);
        }
        endpoint
    }

    #[cfg(test)]
    pub(super) fn url(&self) -> &str {
        self.url.as_ref().map_or("", Url::as_str)
    }

    /// Makes one attempt at `request`, sent as `body`; the answer is read as an `A`.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub(super) async fn complete<A: Answer>(
        &self,
        request: &super::Request,
        body: &Json<'_>,
        on_text: OnText<'_>,
    ) -> Result<super::Response, Error> {
        let mut answer = A::default();
        let body = Bytes::from(body.to_bytes());
        self.with_limit(request)
            .exchange(body.clone(), &mut answer, on_text)
            .await?;
        let received = answer.into_received();
        Ok(received.finish(A::PROTOCOL, request, &body))
    }

    /// Returns the endpoint with the timeouts that `request` leaves.
    fn with_limit(&self, request: &super::Request) -> Self {
        let mut endpoint = self.clone();
        let timeouts = &mut endpoint.timeouts;
        if let Some(limit) = request.begin_within {
            timeouts.head = timeouts.head.min(limit);
            // A model that thinks may be silent for long after the head of its answer.
            if request.thinking {
                timeouts.first = timeouts.first.min(limit.max(Duration::from_secs(120)));
            } else {
                timeouts.first = timeouts.first.min(limit);
                timeouts.between = timeouts.between.min(Duration::from_secs(60));
            }
        }
        endpoint
    }

    /// Posts `body` and feeds what comes back to `answer` until it is complete.
    async fn exchange(
        &self,
        body: Bytes,
        answer: &mut impl Answer,
        on_text: OnText<'_>,
    ) -> Result<(), Error> {
        let sent = Instant::now();
        let response = self
            .post(|request| {
                request
                    .header(CONTENT_TYPE, "application/json")
                    .body(body.clone())
            })
            .await?;
        let mut timeouts = self.timeouts;
        if timeouts.first <= timeouts.head {
            timeouts.first = timeouts.first.saturating_sub(sent.elapsed()).max(LEAST);
        }
        if is_content_type(&response, "json") {
            let bytes = self.body(response, timeouts).await?;
            let value = serde_json::from_slice(&bytes)
                .map_err(|error| self.interrupted(&format!("malformed JSON: {error}")))?;
            return answer
                .whole(&value, on_text)
                .map_err(|fault| self.fault(fault));
        }
        let bytes = response
            .bytes_stream()
            .map(|chunk| chunk.map_err(reqwest::Error::without_url));
        let mut events = Events::new(Box::pin(bytes), timeouts);
        let mut began = false;
        while !answer.received().ended {
            let data = match events.next().await {
                Ok(Some(data)) => data,
                // What breaks after the answer is complete took only the usage with it.
                Ok(None) | Err(_) if answer.complete() => return Ok(()),
                Ok(None) => {
                    return Err(self.interrupted("the stream ended in the middle of the answer"));
                }
                Err(error) => return Err(self.interrupted(&error.to_string())),
            };
            if let Err(fault) = answer.event(&data, on_text) {
                let error = self.fault(fault);
                return Err(if began { self.charged(error) } else { error });
            }
            began = true;
        }
        events.drain().await;
        Ok(())
    }

    /// Returns the error of an answer that began: it may be charged, whatever ends it.
    fn charged(&self, error: Error) -> Error {
        match error {
            error @ (Error::ContextOverflow { .. } | Error::Interrupted { .. }) => error,
            error => Error::Interrupted {
                host: self.host(),
                reason: plain(&error.to_string()),
                again: error.retryable(),
            },
        }
    }

    /// Posts what `fill` puts into the request and returns the JSON that comes back as a `T`, without a tree
    /// of JSON in between: vectors are long. All of it must be there within the timeout of the head.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub(super) async fn fetch<T: DeserializeOwned>(
        &self,
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<T, Error> {
        let bytes = self.fetch_bytes(fill).await?;
        self.json(&bytes)
    }

    /// As [`Endpoint::fetch`], for an answer that is not JSON.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub(super) async fn fetch_bytes(
        &self,
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Vec<u8>, Error> {
        let (sent, limit) = (Instant::now(), self.timeouts.head);
        let response = self.post(fill).await?;
        let left = limit.saturating_sub(sent.elapsed()).max(LEAST.min(limit));
        let late = |_| {
            let secs = limit.as_secs_f32();
            Err(self.interrupted(&format!("it was not whole within {secs} s")))
        };
        tokio::time::timeout(left, self.body(response, self.timeouts))
            .await
            .unwrap_or_else(late)
    }

    fn json<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(bytes).map_err(|error| {
            match serde_json::from_slice::<Value>(bytes) {
                // Some servers report a failure under the status 200.
                Ok(value) if value.get("error").is_some_and(|error| !error.is_null()) => {
                    let body = ErrorBody::from_json(&value);
                    body.classify(self.host(), body.code.unwrap_or(400), None)
                }
                // The answer came whole and is none: the same request would bring the same.
                Ok(_) => Error::Interrupted {
                    host: self.host(),
                    reason: plain(&error.to_string()),
                    again: false,
                },
                Err(error) => self.interrupted(&format!("malformed JSON: {error}")),
            }
        })
    }

    /// Sends the request and returns a response that is a success. An access token that is refused is
    /// renewed, once; the request is then made again.
    async fn post(
        &self,
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, Error> {
        let Some((source, ..)) = &self.key_source else {
            let response = self.attempt(&fill, None, self.timeouts.head).await?;
            return self.check_status(response).await;
        };
        let began = Instant::now();
        // A renewal counts: who waits for a fallback waits for the sum.
        let left = || match self.key_timeout {
            None => self
                .timeouts
                .head
                .saturating_sub(began.elapsed())
                .max(LEAST),
            Some(_) => self.timeouts.head,
        };
        let for_key = || self.key_timeout.unwrap_or_else(left);
        let key = self.in_time(for_key(), source.key()).await?;
        let mut response = self.attempt(&fill, key.as_ref(), left()).await?;
        if response.status() == StatusCode::UNAUTHORIZED
            && let Some(refused) = key.filter(|key| key.is_token)
            && let Some(renewed) = self.in_time(for_key(), source.renew(&refused)).await?
        {
            response = self.attempt(&fill, Some(&renewed), left()).await?;
        }
        self.check_status(response).await
    }

    /// Waits for a key; nothing was sent yet, so silence costs nothing.
    async fn in_time<T>(
        &self,
        limit: Duration,
        key: BoxFuture<'_, Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = |_| {
            let secs = limit.as_secs();
            Err(self.unreachable(&format!("its key could not be renewed within {secs} s")))
        };
        tokio::time::timeout(limit, key).await.unwrap_or_else(late)
    }

    async fn attempt(
        &self,
        fill: &impl Fn(RequestBuilder) -> RequestBuilder,
        key: Option<&Credential>,
        limit: Duration,
    ) -> Result<Response, Error> {
        let unmade =
            |reason: String| self.unreachable(&format!("the request cannot be made: {reason}"));
        let url = self.url.clone().map_err(unmade)?;
        let mut headers = self.headers.clone();
        if let (Some(key), Some((_, name, prefix))) = (key, &self.key_source) {
            let (name, prefix) = if key.is_token {
                (&AUTHORIZATION, "Bearer ")
            } else {
                (name, prefix.as_str())
            };
            headers.insert(name, key_header(prefix, &key.secret).map_err(unmade)?);
        }
        let send = fill(self.client.post(url).headers(headers)).send();
        let error = match tokio::time::timeout(limit, send).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) => error.without_url(),
            Err(_) => return Err(self.interrupted(&BodyError::Timeout(limit).to_string())),
        };
        // A connect timeout is both; nothing was written then. In every other failure the request
        // may have been read and charged.
        if error.is_connect() || error.is_builder() {
            Err(self.unreachable(&innermost(&error)))
        } else {
            Err(self.interrupted(&innermost(&error)))
        }
    }

    /// Returns a response that is a success, or the error that it is.
    async fn check_status(&self, response: Response) -> Result<Response, Error> {
        let status = response.status();
        // Vendors refuse in JSON; a page under these comes from what stands before them.
        let may_be_a_page = status.is_success() || matches!(status.as_u16(), 403..=405);
        if may_be_a_page && is_content_type(&response, "html") {
            return Err(Error::WebPage {
                host: self.host(),
                status: status.as_u16(),
            });
        }
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = retry_after(&response);
        // OpenAI and Anthropic say whether a retry is of use.
        let should_retry = header(&response, "x-should-retry").map(str::to_owned);
        let wait = Duration::from_secs(10).min(self.timeouts.between);
        let mut bytes = Vec::new();
        // The part of the error's body that was read is enough.
        let _ = read_body(response, &mut bytes, MAX_ERROR_BYTES, Timeouts::all(wait)).await;
        let body = ErrorBody::from_text(&String::from_utf8_lossy(&bytes));
        let mut error = body.classify(self.host(), status.as_u16(), retry_after);
        match (&mut error, should_retry.as_deref().map(str::trim)) {
            (Error::Busy { retry_after, .. }, Some("false")) => {
                *retry_after = (*retry_after).max(Some(NO_RETRY));
            }
            (
                Error::Rejected {
                    status, message, ..
                },
                Some("true"),
            ) => {
                error = Error::Busy {
                    host: self.host(),
                    status: *status,
                    message: std::mem::take(message),
                    retry_after,
                };
            }
            _ => {}
        }
        Err(error)
    }

    async fn body(&self, response: Response, timeouts: Timeouts) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        read_body(response, &mut bytes, MAX_ANSWER, timeouts)
            .await
            .map_err(|error| self.interrupted(&error.to_string()))?;
        Ok(bytes)
    }

    /// Returns the host and port as shown in errors.
    fn host(&self) -> String {
        let Ok(url) = &self.url else {
            return "the model server".to_owned();
        };
        let host = url.host_str().unwrap_or_default();
        url.port_or_known_default()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    fn fault(&self, fault: Fault) -> Error {
        match fault {
            Fault::Reported(status, body) => body.classify(self.host(), status, None),
            Fault::Nonsense(reason) => self.interrupted(&reason),
        }
    }

    fn unreachable(&self, reason: &str) -> Error {
        Error::Unreachable {
            host: self.host(),
            reason: plain(reason),
        }
    }

    fn interrupted(&self, reason: &str) -> Error {
        Error::Interrupted {
            host: self.host(),
            reason: plain(reason),
            again: true,
        }
    }
}

/// Returns `prefix` and the key as the value of a header that no log shows, or why it is none. Space around
/// the key is cut: keys are often read from files that end in a newline.
pub(crate) fn key_header(prefix: &str, key: &Secret) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose().trim()))
        .map_err(|_| "the key has characters that no header can carry".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the JSON of an event.
///
/// # Errors
/// [`Fault::Nonsense`] when it is none.
pub(super) fn parse(data: &str) -> Result<Value, Fault> {
    serde_json::from_str(data)
        .map_err(|error| Fault::Nonsense(format!("malformed JSON in the stream: {error}")))
}

fn header<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

fn is_content_type(response: &Response, part: &str) -> bool {
    header(response, CONTENT_TYPE.as_str()).is_some_and(|value| value.to_lowercase().contains(part))
}

/// Reads `retry-after-ms` (OpenAI, Azure), or else `Retry-After`: seconds, or an HTTP date (RFC 9110
/// §10.2.3). A date is measured from the server's own `Date`, so that our clock may be wrong.
fn retry_after(response: &Response) -> Option<Duration> {
    let exact = header(response, "retry-after-ms").and_then(|ms| ms.trim().parse::<f64>().ok());
    if let Some(wait) = exact.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()) {
        return Some(wait);
    }
    let value = header(response, RETRY_AFTER.as_str())?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let until = DateTime::parse_from_rfc2822(value).ok()?;
    let now = DateTime::parse_from_rfc2822(header(response, DATE.as_str())?).ok()?;
    Some((until - now).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests;
