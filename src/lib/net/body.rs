//! Reads bodies of HTTP responses, with a limit on size and idle time, and cleans text of servers for errors and logs.

use std::time::Duration;

use crate::secret::redact;
use crate::text;

/// The most characters of a server's text that are repeated.
const MAX_CHARS: usize = 300;

/// How long a server may be silent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// Until the head of the response. Local servers send nothing before they have read the prompt: 8,000
    /// tokens at the 30 a second measured with llama.cpp on two cores take 270 s.
    pub(crate) head: Duration,
    /// From the head to the first byte. Some vendors are silent there while the model thinks.
    pub(crate) first: Duration,
    /// Between two bytes; vendors send pings in between.
    pub(crate) between: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(300),
            first: Duration::from_secs(300),
            between: Duration::from_secs(120),
        }
    }
}

impl Timeouts {
    /// Returns one limit for every wait.
    pub(crate) const fn all(limit: Duration) -> Self {
        Self {
            head: limit,
            first: limit,
            between: limit,
        }
    }
}

/// Why a body or a stream of events was not read to its end.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("no data for {:.0} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// An event or the whole is larger than we take; carries the limit, bytes.
    #[error("it is larger than {} MiB", .0 / (1024 * 1024))]
    TooLarge(usize),
    #[error("{0}")]
    Transport(String),
}

/// Reads a body into `bytes`, which holds at most `limit` bytes then, also after an error.
pub(crate) async fn read_body(
    mut response: reqwest::Response,
    bytes: &mut Vec<u8>,
    limit: usize,
    timeouts: Timeouts,
) -> Result<(), BodyError> {
    loop {
        let wait = if bytes.is_empty() {
            timeouts.first
        } else {
            timeouts.between
        };
        match tokio::time::timeout(wait, response.chunk()).await {
            Err(_) => return Err(BodyError::Timeout(wait)),
            Ok(Err(error)) => return Err(BodyError::Transport(innermost(&error.without_url()))),
            Ok(Ok(None)) => return Ok(()),
            Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
        }
        if bytes.len() > limit {
            bytes.truncate(limit);
            return Err(BodyError::TooLarge(limit));
        }
    }
}

/// What the standard library says before the reason of getaddrinfo(3).
const NO_NAME: &str = "failed to lookup address information";

/// Returns the innermost cause of an error as [`server_text`]: the outer ones say only that something failed.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    if text.starts_with(NO_NAME) {
        return "its name cannot be resolved, check your network".to_owned();
    }
    server_text(&text)
}

/// Returns text of a server fit for an error or a log: redacted, one line, at most 300 characters.
pub(crate) fn server_text(text: &str) -> String {
    let line = text::one_line(text);
    text::shorten(&text::visible(&redact(&line)), MAX_CHARS)
}
