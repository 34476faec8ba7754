//! One HTTP exchange with a model server: send, tell failures apart, feed the answer's events.
//!
//! What a failure means is decided here for all vendors, because compatible servers mix their
//! habits freely. Nothing of the URL and no known secret gets into an error's text.

#[cfg(test)]
mod tests;

use std::time::Duration;

use chrono::DateTime;
use futures_util::StreamExt;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT};
use reqwest::multipart::Form;
use reqwest::{Client, RequestBuilder, Response, Url};
use serde_json::Value;

use super::sse::{Broken, Events, MAX_ANSWER, Patience, chain};
use super::{Error, OnText};
use crate::secret::{Secret, redact};
use crate::text;

/// The most characters of a server's words that an error keeps.
const MAX_MESSAGE_CHARS: usize = 300;

/// The most bytes of an error's body that are read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// What servers say when the conversation is too long, lower case. Anthropic: "prompt is too long",
/// "exceed context limit", `request_too_large`; OpenAI and vLLM: "maximum context length",
/// `context_length_exceeded`, "reduce the length"; llama.cpp: "exceeds the available context size".
const OVERFLOW_PHRASES: [&str; 9] = [
    "prompt is too long",
    "context length",
    "context_length",
    "maximum context",
    "request_too_large",
    "context limit",
    "context size",
    "context window",
    "reduce the length",
];

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

/// A server's description of an error.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    /// Its machine-readable words (`type` and `code`), for telling errors apart.
    pub(super) kind: String,
    /// Its sentence.
    pub(super) message: String,
    /// A number it gave as code.
    pub(super) code: Option<u16>,
}

impl Said {
    /// Reads the shapes in use: `{"error":{"type","code","message"}}`, `{"error":"…"}`, the fields
    /// without `error` around them, `{"detail":"…"}`, FastAPI's `{"detail":[{"msg"}]}`, and any of these in an array.
    pub(super) fn from_json(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        if let Some(message) = error.as_str() {
            return Self { message: message.to_owned(), ..Self::default() };
        }
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let detail = error["detail"].as_str().or_else(|| error["detail"][0]["msg"].as_str());
        let message = match (word("message"), detail) {
            ("", None) => error.to_string(),
            ("", Some(detail)) => detail.to_owned(),
            (message, _) => message.to_owned(),
        };
        let code = error.get("code").and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        Self {
            kind: format!("{} {}", word("type"), word("code")).to_lowercase(),
            message,
            code: code.and_then(|code| u16::try_from(code).ok()),
        }
    }

    fn from_body(body: &str) -> Self {
        serde_json::from_str(body)
            .map_or_else(|_| Self { message: body.to_owned(), ..Self::default() }, |value| Self::from_json(&value))
    }

    /// Only the server's own words are searched: some servers echo the whole request in the body.
    fn is_overflow(&self) -> bool {
        let message = self.message.to_lowercase();
        OVERFLOW_PHRASES.iter().any(|phrase| message.contains(phrase) || self.kind.contains(phrase))
    }
}

/// A URL to post to, with everything each request carries.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    client: Client,
    target: Result<Url, String>,
    headers: HeaderMap,
    /// How long to bear silence.
    pub(super) patience: Patience,
}

impl Endpoint {
    /// Returns the endpoint `path` below `base_url`, where `has_version` tells from the base's path
    /// whether `v1` is already in it. A bad URL shows when it is used.
    pub(super) fn new(client: Client, base_url: &str, path: &str, has_version: fn(&str) -> bool) -> Self {
        let target = Url::parse(base_url.trim()).map_err(|error| error.to_string()).map(|mut url| {
            let base = url.path().trim_end_matches('/').to_owned();
            let version = if has_version(&base) { "" } else { "/v1" };
            url.set_path(&format!("{base}{version}/{path}"));
            url
        });
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(crate::net::USER_AGENT));
        Self { client, target, headers, patience: Patience::default() }
    }

    /// Returns the endpoint with a header on every request.
    pub(super) fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        self
    }

    /// Returns the endpoint with `prefix` and the key as a header that no log shows. Space around
    /// the key is cut: keys are often read from files that end in a newline.
    pub(super) fn with_key(mut self, name: &'static str, prefix: &str, key: Option<Secret>) -> Self {
        let Some(key) = key else { return self };
        match HeaderValue::from_str(&format!("{prefix}{}", key.expose().trim())) {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.headers.insert(HeaderName::from_static(name), value);
            }
            Err(_) => self.target = Err("the key has characters that no header can carry".to_owned()),
        }
        self
    }

    /// Returns the host alone, to tell one vendor's own server.
    pub(super) fn host_name(&self) -> &str {
        self.target.as_ref().ok().and_then(Url::host_str).unwrap_or_default()
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
    pub(super) async fn exchange(&self, body: &Value, answer: &mut impl Answer, on_text: OnText<'_>) -> Result<(), Error> {
        let response = self.post(|request| request.json(body)).await?;
        if header(&response, &CONTENT_TYPE).unwrap_or_default().to_lowercase().contains("json") {
            let value = self.json(response).await?;
            return answer.whole(&value, on_text).map_err(|fault| self.faulty(fault));
        }
        let bytes = response.bytes_stream().map(|chunk| chunk.map_err(reqwest::Error::without_url));
        let mut events = Events::new(Box::pin(bytes), self.patience);
        let mut began = false;
        while !answer.ended() {
            match events.next().await {
                Ok(Some(data)) => {
                    answer.event(&data, on_text).map_err(|fault| match (began, self.faulty(fault)) {
                        // An answer that began was worked for and may be charged, whatever ends it.
                        (true, error @ (Error::Busy { .. } | Error::Auth { .. } | Error::Rejected { .. })) => {
                            let (again, reason) = (error.retryable(), clean(&error.to_string()));
                            Error::Interrupted { host: self.host(), reason, again }
                        }
                        (_, error) => error,
                    })?;
                    began = true;
                }
                // What breaks after the answer is complete took only the usage with it.
                Ok(None) | Err(_) if answer.complete() => return Ok(()),
                Ok(None) => return Err(self.interrupted("the stream ended in the middle of the answer")),
                Err(broken) => return Err(self.interrupted(&broken.to_string())),
            }
        }
        events.drain().await;
        Ok(())
    }

    /// Posts `form` and returns the JSON that comes back.
    ///
    /// # Errors
    /// Any of [`Error`] but [`Error::ContextOverflow`].
    pub(super) async fn submit(&self, form: Form) -> Result<Value, Error> {
        let value = self.json(self.post(|request| request.multipart(form)).await?).await?;
        // Some servers report a failure under the status 200.
        if value.get("error").is_some_and(|error| !error.is_null()) {
            let said = Said::from_json(&value);
            return Err(self.refused(said.code.unwrap_or(400), &said, None));
        }
        Ok(value)
    }

    async fn post(&self, fill: impl FnOnce(RequestBuilder) -> RequestBuilder) -> Result<Response, Error> {
        let url = self.target.clone().map_err(|reason| self.unreachable(&format!("the request cannot be made: {reason}")))?;
        let send = fill(self.client.post(url).headers(self.headers.clone())).send();
        let response = match tokio::time::timeout(self.patience.first, send).await {
            Err(_) => return Err(self.interrupted(&Broken::Silent(self.patience.first).to_string())),
            Ok(Err(error)) => return Err(self.failed(error)),
            Ok(Ok(response)) => response,
        };
        let status = response.status();
        if status.is_success() {
            if header(&response, &CONTENT_TYPE).unwrap_or_default().to_lowercase().contains("html") {
                let (status, message) = (status.as_u16(), "a web page came instead of an answer: is base_url right?".to_owned());
                return Err(Error::Rejected { host: self.host(), status, message });
            }
            return Ok(response);
        }
        let retry_after = retry_after(&response);
        let patience = Duration::from_secs(10).min(self.patience.between);
        let (bytes, _) = read(response, MAX_ERROR_BYTES, Patience { first: patience, between: patience }).await;
        Err(self.refused(status.as_u16(), &Said::from_body(&String::from_utf8_lossy(&bytes)), retry_after))
    }

    async fn json(&self, response: Response) -> Result<Value, Error> {
        let (bytes, broken) = read(response, MAX_ANSWER, self.patience).await;
        match broken {
            Some(broken) => Err(self.interrupted(&broken.to_string())),
            None => serde_json::from_slice(&bytes).map_err(|error| self.interrupted(&format!("malformed JSON: {error}"))),
        }
    }

    /// Returns the host and port as shown in errors.
    fn host(&self) -> String {
        let Ok(url) = &self.target else { return "the model server".to_owned() };
        let host = url.host_str().unwrap_or_default();
        url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    fn failed(&self, error: reqwest::Error) -> Error {
        // A connect timeout is both; nothing was written then. In every other failure the request
        // may have been read and charged.
        let never_left = error.is_connect() || error.is_builder();
        let reason = chain(&error.without_url());
        if never_left { self.unreachable(&reason) } else { self.interrupted(&reason) }
    }

    fn faulty(&self, fault: Fault) -> Error {
        match fault {
            Fault::Reported(status, said) => self.refused(status, &said, None),
            Fault::Nonsense(reason) => self.interrupted(&reason),
        }
    }

    fn unreachable(&self, reason: &str) -> Error {
        Error::Unreachable { host: self.host(), reason: clean(reason) }
    }

    pub(super) fn interrupted(&self, reason: &str) -> Error {
        Error::Interrupted { host: self.host(), reason: clean(reason), again: true }
    }

    fn refused(&self, status: u16, said: &Said, retry_after: Option<Duration>) -> Error {
        let (host, message) = (self.host(), clean(&said.message));
        match status {
            401 | 403 => Error::Auth { host, status, message },
            408 | 429 | 500..=599 => Error::Busy { host, status, message, retry_after },
            400 | 413 | 422 if said.is_overflow() => Error::ContextOverflow { message },
            _ => Error::Rejected { host, status, message },
        }
    }
}

/// Returns the JSON of an event.
///
/// # Errors
/// [`Fault::Nonsense`] when it is none.
pub(super) fn parse(data: &str) -> Result<Value, Fault> {
    serde_json::from_str(data).map_err(|error| Fault::Nonsense(format!("malformed JSON in the stream: {error}")))
}

/// Reads a body up to `limit` bytes; returns what came and what stopped it early.
async fn read(mut response: Response, limit: usize, patience: Patience) -> (Vec<u8>, Option<Broken>) {
    let mut bytes = Vec::new();
    loop {
        let wait = if bytes.is_empty() { patience.first } else { patience.between };
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

/// Returns words of a server fit for an error: no secret, one line, short.
fn clean(message: &str) -> String {
    let words: Vec<&str> = message.split_whitespace().collect();
    let line = text::visible(&redact(&words.join(" ")));
    if line.is_empty() { "(no explanation)".to_owned() } else { text::shorten(&line, MAX_MESSAGE_CHARS) }
}

fn header<'a>(response: &'a Response, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Reads `Retry-After`: seconds, or an HTTP date (RFC 9110 §10.2.3). A date is measured from the
/// server's own `Date`, so that our clock may be wrong.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = header(response, &RETRY_AFTER)?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let until = DateTime::parse_from_rfc2822(value).ok()?;
    let now = DateTime::parse_from_rfc2822(header(response, &DATE)?).ok()?;
    Some((until - now).to_std().unwrap_or_default())
}
