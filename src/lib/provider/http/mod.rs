//! One HTTP exchange with a model server: send, tell failures apart, feed the answer's events.
//!
//! What a failure means is decided in `said` for all vendors. Nothing of the URL and no known secret gets into an error's text.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::DateTime;
use futures_util::StreamExt;
use reqwest::header::{
    AUTHORIZATION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use reqwest::multipart::Form;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::api_key::{Ask, Given, Key};
use super::classify_error::{Meaning, Said};
use super::sse::{Broken, Events, MAX_ANSWER, Patience, chain};
use super::{BoxFuture, Error, OnText};
use crate::secret::Secret;

/// An event is waited for at least so long, however late the answer's head came.
const LEAST: Duration = Duration::from_secs(1);

/// The most bytes of an error's body that are read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// How long nobody should ask again who was told that it is of no use.
const NO_USE: Duration = Duration::from_secs(5 * 60);

/// An answer while it comes in; each vendor has its own.
pub(super) trait Answer {
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

    /// Returns true once nothing more will come.
    fn ended(&self) -> bool;

    /// Returns true when the answer is complete, should the stream end here.
    fn complete(&self) -> bool;
}

/// What is wrong with an event.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server reports an error, in its words and as the HTTP status it stands for.
    Reported(u16, Said),
    /// It is not what the vendor's documentation describes.
    Nonsense(String),
}

/// A URL to post to, with everything each request carries.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    client: Client,
    target: Result<Url, String>,
    headers: HeaderMap,
    /// Who knows the key, and the header and prefix it goes out with, unless the key is fixed and
    /// among the headers.
    asked: Option<(Arc<dyn Ask>, HeaderName, String)>,
    /// How long to bear silence.
    pub(super) patience: Patience,
    /// How long to wait for a key, where that is not to count; `None` = as long as for the answer's head.
    pub(super) patience_for_key: Option<Duration>,
}

impl Endpoint {
    /// Returns the endpoint `path` below `base_url`, where `has_version` tells from the base's path
    /// whether `v1` is already in it. A bad URL shows when it is used.
    pub(super) fn new(
        client: Client,
        base_url: &str,
        path: &str,
        has_version: fn(&str) -> bool,
    ) -> Self {
        let target = Url::parse(base_url.trim())
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
            target,
            headers,
            asked: None,
            patience: Patience::default(),
            patience_for_key: None,
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

    /// Returns the endpoint with `prefix` and the key as a header that no log shows. Space around
    /// the key is cut: keys are often read from files that end in a newline.
    pub(super) fn with_key(mut self, name: &'static str, prefix: &str, key: Key) -> Self {
        let name = HeaderName::from_static(name);
        match key {
            Key::Absent => {}
            Key::Fixed(key) => match hidden(prefix, &key) {
                Ok(value) => drop(self.headers.insert(name, value)),
                Err(reason) => self.target = Err(reason),
            },
            Key::Asked(ask) => self.asked = Some((ask, name, prefix.to_owned())),
        }
        self
    }

    /// Returns the host alone, to tell one vendor's own server.
    pub(super) fn host_name(&self) -> &str {
        self.target
            .as_ref()
            .ok()
            .and_then(Url::host_str)
            .unwrap_or_default()
    }

    /// Returns the endpoint one step further down: its path with `segment` as one more part, and `query`.
    pub(super) fn below(&self, segment: &str, query: Option<&str>) -> Self {
        let mut endpoint = self.clone();
        if let Ok(url) = &mut endpoint.target {
            // It fails for addresses without a path only, which no http address is.
            let _ = url.path_segments_mut().map(|mut path| {
                path.pop_if_empty().push(segment);
            });
            url.set_query(query);
        }
        endpoint
    }

    /// Returns the endpoint with the patience that `request` leaves.
    pub(super) fn for_request(&self, request: &super::Request) -> Self {
        let mut endpoint = self.clone();
        if let Some(limit) = request.begin_within {
            let Patience {
                first,
                began,
                between,
            } = self.patience;
            // Who thinks may be silent for long after the head of its answer.
            let silence = if request.thinking {
                Duration::from_secs(120)
            } else {
                limit
            };
            let between = if request.thinking {
                between
            } else {
                between.min(Duration::from_secs(60))
            };
            endpoint.patience = Patience {
                first: first.min(limit),
                began: began.min(limit.max(silence)),
                between,
            };
        }
        endpoint
    }

    /// Returns the whole address, for tests.
    #[cfg(test)]
    pub(super) fn url(&self) -> &str {
        self.target.as_ref().map_or("", Url::as_str)
    }

    /// Posts `body` and feeds what comes back to `answer` until it is complete.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub(super) async fn exchange(
        &self,
        body: &Value,
        answer: &mut impl Answer,
        on_text: OnText<'_>,
    ) -> Result<(), Error> {
        let asked = Instant::now();
        let response = self.post(|request| request.json(body)).await?;
        let mut patience = self.patience;
        if patience.began <= patience.first {
            patience.began = patience.began.saturating_sub(asked.elapsed()).max(LEAST);
        }
        if header(&response, &CONTENT_TYPE)
            .unwrap_or_default()
            .to_lowercase()
            .contains("json")
        {
            let value = self.json(response, patience).await?;
            return answer
                .whole(&value, on_text)
                .map_err(|fault| self.faulty(fault));
        }
        let bytes = response
            .bytes_stream()
            .map(|chunk| chunk.map_err(reqwest::Error::without_url));
        let mut events = Events::new(Box::pin(bytes), patience);
        let mut began = false;
        while !answer.ended() {
            match events.next().await {
                Ok(Some(data)) => {
                    answer.event(&data, on_text).map_err(|fault| {
                        match (began, self.faulty(fault)) {
                            // An answer that began was worked for and may be charged, whatever ends it.
                            (true, error)
                                if !matches!(
                                    error,
                                    Error::ContextOverflow { .. } | Error::Interrupted { .. }
                                ) =>
                            {
                                let (again, reason) =
                                    (error.retryable(), clean(&error.to_string()));
                                Error::Interrupted {
                                    host: self.host(),
                                    reason,
                                    again,
                                }
                            }
                            (_, error) => error,
                        }
                    })?;
                    began = true;
                }
                // What breaks after the answer is complete took only the usage with it.
                Ok(None) | Err(_) if answer.complete() => return Ok(()),
                Ok(None) => {
                    return Err(self.interrupted("the stream ended in the middle of the answer"));
                }
                Err(broken) => return Err(self.interrupted(&broken.to_string())),
            }
        }
        events.drain().await;
        Ok(())
    }

    /// Posts what `form` makes and returns the JSON that comes back.
    ///
    /// # Errors
    /// Any of [`Error`] but [`Error::ContextOverflow`].
    pub(super) async fn submit(&self, form: impl Fn() -> Form) -> Result<Value, Error> {
        let value = self
            .json(
                self.post(|request| request.multipart(form())).await?,
                self.patience,
            )
            .await?;
        // Some servers report a failure under the status 200.
        if value.get("error").is_some_and(|error| !error.is_null()) {
            let said = Said::from_json(&value);
            return Err(self.refused(said.code.unwrap_or(400), &said, None));
        }
        Ok(value)
    }

    /// Posts `body` and returns what comes back as a `T`, without a tree of JSON in between: vectors are
    /// long. All of it must be there within the first patience.
    ///
    /// # Errors
    /// Any of [`Error`].
    pub(super) async fn fetch<T: DeserializeOwned>(&self, body: &Value) -> Result<T, Error> {
        let (asked, limit) = (Instant::now(), self.patience.first);
        let response = self.post(|request| request.json(body)).await?;
        let left = limit.saturating_sub(asked.elapsed()).max(LEAST.min(limit));
        let late = |_| {
            Err(self.interrupted(&format!(
                "it was not whole within {} s",
                limit.as_secs_f32()
            )))
        };
        let bytes = tokio::time::timeout(left, self.whole(response, self.patience))
            .await
            .unwrap_or_else(late)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            match serde_json::from_slice::<Value>(&bytes) {
                // Some servers report a failure under the status 200.
                Ok(value) if value.get("error").is_some_and(|error| !error.is_null()) => {
                    let said = Said::from_json(&value);
                    self.refused(said.code.unwrap_or(400), &said, None)
                }
                Ok(_) => self.nonsense(&error.to_string()),
                Err(error) => self.interrupted(&format!("malformed JSON: {error}")),
            }
        })
    }

    /// An access token that is refused is renewed, once; the request is then made again.
    async fn post(
        &self,
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, Error> {
        let Some((ask, ..)) = &self.asked else {
            return self
                .understood(self.attempt(&fill, None, self.patience.first).await?)
                .await;
        };
        let began = Instant::now();
        // A renewal counts: who waits for a fallback waits for the sum.
        let left = || match self.patience_for_key {
            None => self
                .patience
                .first
                .saturating_sub(began.elapsed())
                .max(LEAST),
            Some(_) => self.patience.first,
        };
        let for_key = || self.patience_for_key.unwrap_or_else(left);
        let given = self.in_time(for_key(), ask.ask()).await?;
        let response = self.attempt(&fill, given.as_ref(), left()).await?;
        match given.filter(|given| given.is_token && response.status() == StatusCode::UNAUTHORIZED)
        {
            Some(refused) => match self.in_time(for_key(), ask.ask_again(&refused)).await? {
                Some(other) => {
                    self.understood(self.attempt(&fill, Some(&other), left()).await?)
                        .await
                }
                None => self.understood(response).await,
            },
            None => self.understood(response).await,
        }
    }

    /// Waits for a key; nothing was sent yet, so silence costs nothing.
    async fn in_time<T>(
        &self,
        limit: Duration,
        key: BoxFuture<'_, Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = |_| {
            Err(self.unreachable(&format!(
                "its key could not be renewed within {} s",
                limit.as_secs()
            )))
        };
        tokio::time::timeout(limit, key).await.unwrap_or_else(late)
    }

    async fn attempt(
        &self,
        fill: &impl Fn(RequestBuilder) -> RequestBuilder,
        key: Option<&Given>,
        limit: Duration,
    ) -> Result<Response, Error> {
        let url = self.target.clone().map_err(|reason| self.unmade(&reason))?;
        let mut headers = self.headers.clone();
        if let (Some(given), Some((_, name, prefix))) = (key, &self.asked) {
            let (name, prefix) = if given.is_token {
                (&AUTHORIZATION, "Bearer ")
            } else {
                (name, prefix.as_str())
            };
            headers.insert(
                name,
                hidden(prefix, &given.secret).map_err(|reason| self.unmade(&reason))?,
            );
        }
        let send = fill(self.client.post(url).headers(headers)).send();
        match tokio::time::timeout(limit, send).await {
            Err(_) => Err(self.interrupted(&Broken::Silent(limit).to_string())),
            Ok(sent) => sent.map_err(|error| self.failed(error)),
        }
    }

    /// Tells an answer from a refusal.
    async fn understood(&self, response: Response) -> Result<Response, Error> {
        let status = response.status();
        if status.is_success() {
            if header(&response, &CONTENT_TYPE)
                .unwrap_or_default()
                .to_lowercase()
                .contains("html")
            {
                let (status, message) = (
                    status.as_u16(),
                    "a web page came instead of an answer: is base_url right?".to_owned(),
                );
                return Err(Error::Missing {
                    host: self.host(),
                    status,
                    message,
                });
            }
            return Ok(response);
        }
        let (retry_after, again) = (retry_after(&response), should_retry(&response));
        let wait = Duration::from_secs(10).min(self.patience.between);
        let (bytes, _) = read(
            response,
            MAX_ERROR_BYTES,
            Patience {
                first: wait,
                began: wait,
                between: wait,
            },
        )
        .await;
        let said = Said::from_body(&String::from_utf8_lossy(&bytes));
        let error = self.refused(status.as_u16(), &said, retry_after);
        Err(match (error, again) {
            (
                Error::Busy {
                    host,
                    status,
                    message,
                    retry_after,
                },
                Some(false),
            ) => Error::Busy {
                host,
                status,
                message,
                retry_after: retry_after.max(Some(NO_USE)),
            },
            (
                Error::Rejected {
                    host,
                    status,
                    message,
                },
                Some(true),
            ) => Error::Busy {
                host,
                status,
                message,
                retry_after,
            },
            (error, _) => error,
        })
    }

    async fn json(&self, response: Response, patience: Patience) -> Result<Value, Error> {
        let bytes = self.whole(response, patience).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| self.interrupted(&format!("malformed JSON: {error}")))
    }

    async fn whole(&self, response: Response, patience: Patience) -> Result<Vec<u8>, Error> {
        let (bytes, broken) = read(response, MAX_ANSWER, patience).await;
        broken.map_or(Ok(bytes), |broken| {
            Err(self.interrupted(&broken.to_string()))
        })
    }

    /// Returns the host and port as shown in errors.
    fn host(&self) -> String {
        let Ok(url) = &self.target else {
            return "the model server".to_owned();
        };
        let host = url.host_str().unwrap_or_default();
        url.port_or_known_default()
            .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    fn failed(&self, error: reqwest::Error) -> Error {
        // A connect timeout is both; nothing was written then. In every other failure the request
        // may have been read and charged.
        let never_left = error.is_connect() || error.is_builder();
        let reason = chain(&error.without_url());
        if never_left {
            self.unreachable(&reason)
        } else {
            self.interrupted(&reason)
        }
    }

    fn faulty(&self, fault: Fault) -> Error {
        match fault {
            Fault::Reported(status, said) => self.refused(status, &said, None),
            Fault::Nonsense(reason) => self.interrupted(&reason),
        }
    }

    fn unmade(&self, reason: &str) -> Error {
        self.unreachable(&format!("the request cannot be made: {reason}"))
    }

    fn unreachable(&self, reason: &str) -> Error {
        Error::Unreachable {
            host: self.host(),
            reason: clean(reason),
        }
    }

    pub(super) fn interrupted(&self, reason: &str) -> Error {
        Error::Interrupted {
            host: self.host(),
            reason: clean(reason),
            again: true,
        }
    }

    /// The answer came whole and is none: the same request would bring the same.
    pub(super) fn nonsense(&self, reason: &str) -> Error {
        Error::Interrupted {
            host: self.host(),
            reason: clean(reason),
            again: false,
        }
    }

    fn refused(&self, status: u16, said: &Said, retry_after: Option<Duration>) -> Error {
        let (host, message) = (self.host(), clean(&said.message));
        match said.meaning(status) {
            Meaning::Auth => Error::Auth {
                host,
                status,
                message,
            },
            Meaning::Busy => Error::Busy {
                host,
                status,
                message,
                retry_after: retry_after.or(said.retry_after),
            },
            Meaning::Exhausted => Error::Exhausted {
                host,
                status,
                message,
            },
            Meaning::Missing => Error::Missing {
                host,
                status,
                message,
            },
            Meaning::Overflow => Error::ContextOverflow { message },
            Meaning::Rejected => Error::Rejected {
                host,
                status,
                message,
            },
        }
    }
}

/// Returns `prefix` and the key as the value of a header that no log shows, or why it is none.
fn hidden(prefix: &str, key: &Secret) -> Result<HeaderValue, String> {
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

/// Reads a body up to `limit` bytes; returns what came and what stopped it early.
async fn read(
    mut response: Response,
    limit: usize,
    patience: Patience,
) -> (Vec<u8>, Option<Broken>) {
    let mut bytes = Vec::new();
    loop {
        let wait = if bytes.is_empty() {
            patience.began
        } else {
            patience.between
        };
        match tokio::time::timeout(wait, response.chunk()).await {
            Err(_) => return (bytes, Some(Broken::Silent(wait))),
            Ok(Err(error)) => return (bytes, Some(Broken::Transport(chain(&error.without_url())))),
            Ok(Ok(None)) => return (bytes, None),
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
        }
        if bytes.len() > limit {
            bytes.truncate(limit);
            return (bytes, Some(Broken::TooLarge(limit)));
        }
    }
}

/// Returns words of a server fit for an error, never none.
fn clean(message: &str) -> String {
    let words = crate::net::words(message);
    if words.is_empty() {
        "(no explanation)".to_owned()
    } else {
        words
    }
}

fn header<'a>(response: &'a Response, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Reads `x-should-retry`, in which OpenAI and Anthropic say whether another try is of use.
fn should_retry(response: &Response) -> Option<bool> {
    match header(response, &HeaderName::from_static("x-should-retry"))?.trim() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Reads `retry-after-ms` (OpenAI, Azure), or else `Retry-After`: seconds, or an HTTP date (RFC 9110
/// §10.2.3). A date is measured from the server's own `Date`, so that our clock may be wrong.
fn retry_after(response: &Response) -> Option<Duration> {
    let exact = header(response, &HeaderName::from_static("retry-after-ms"))
        .and_then(|ms| ms.trim().parse::<f64>().ok());
    if let Some(wait) = exact.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()) {
        return Some(wait);
    }
    let value = header(response, &RETRY_AFTER)?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let until = DateTime::parse_from_rfc2822(value).ok()?;
    let now = DateTime::parse_from_rfc2822(header(response, &DATE)?).ok()?;
    Some((until - now).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests;
