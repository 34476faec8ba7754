//! A server that runs elsewhere, at the address that the owner wrote: each message is a POST, its answer
//! JSON or a stream of events (Streamable HTTP). No redirects: an answer from elsewhere is not the
//! answer we asked for.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;

use super::Error;
use super::client::Signals;
use super::json_rpc;
use super::json_rpc::{MAX_MESSAGE, Message, VERSION};
use crate::net;
use crate::net::sse::Events;
use crate::net::{BodyError, Timeouts, innermost, read_body};
use crate::secret::Secret;

const SESSION: &str = "mcp-session-id";
const PROTOCOL: &str = "mcp-protocol-version";

/// How long the server may be silent in an answer; the call has a limit of its own.
const SILENCE: Timeouts = Timeouts::all(Duration::from_secs(3600));
/// How long the end of a session is waited for.
const FAREWELL: Duration = Duration::from_secs(3);
/// Bytes of a refusal that are read.
const MAX_REFUSAL: usize = 4096;
/// Messages that may stand before the answer in one stream.
const MAX_BEFORE: usize = 2000;

/// A server's address, and our session there.
pub(super) struct Link {
    client: Client,
    url: String,
    token: Option<Secret>,
    session: Mutex<Option<HeaderValue>>,
    version: Mutex<String>,
    signals: Arc<Signals>,
}

impl Link {
    /// Returns the way to `url`; nothing is sent yet.
    pub(super) fn new(client: Client, url: &str, token: Option<Secret>) -> Self {
        Self {
            client,
            url: url.to_owned(),
            token,
            session: Mutex::default(),
            version: Mutex::new(VERSION.to_owned()),
            signals: Arc::default(),
        }
    }

    pub(super) fn signals(&self) -> Arc<Signals> {
        self.signals.clone()
    }

    /// Takes note of the version that both speak.
    pub(super) fn speaks(&self, version: &str) {
        version.clone_into(&mut self.version.lock());
    }

    /// Sends a request and waits for its answer. May be dropped.
    pub(super) async fn request(&self, id: u64, message: &Value) -> Result<Value, Error> {
        let response = self.post(message).await?;
        if let Some(session) = response.headers().get(SESSION) {
            *self.session.lock() = Some(session.clone());
        }
        if is_event_stream(response.headers()) {
            return self.answer_in_events(response, id).await;
        }
        let mut body = Vec::new();
        read_body(response, &mut body, MAX_MESSAGE, SILENCE)
            .await
            .map_err(|error| {
                Error::Protocol(match error {
                    BodyError::TooLarge(max) => format!("it sent more than {max} bytes"),
                    error => error.to_string(),
                })
            })?;
        match json_rpc::read(&body) {
            Some(Message::Answer(of, answer)) if of == id => answer,
            _ => Err(Error::Protocol(format!(
                "it answers what is no message of the protocol: {}",
                net::server_text(&String::from_utf8_lossy(body.get(..200).unwrap_or(&body)))
            ))),
        }
    }

    async fn answer_in_events(&self, response: Response, id: u64) -> Result<Value, Error> {
        let mut events = Events::new(Box::pin(response.bytes_stream()), SILENCE);
        for _ in 0..MAX_BEFORE {
            let Some(event) = events
                .next()
                .await
                .map_err(|error| Error::Protocol(error.to_string()))?
            else {
                return Err(Error::Protocol(
                    "its answer ended before it was complete".to_owned(),
                ));
            };
            if event.len() > MAX_MESSAGE {
                return Err(Error::Protocol(format!(
                    "it sent a message of more than {} MB",
                    MAX_MESSAGE >> 20
                )));
            }
            match json_rpc::read(event.as_bytes()) {
                Some(Message::Answer(of, answer)) if of == id => {
                    events.drain().await;
                    return answer;
                }
                Some(Message::Request(id, method)) => {
                    self.send(&json_rpc::answer(&id, &method, &[])).await?
                }
                Some(Message::Notice(notice)) => self.signals.hear(&self.url, notice),
                Some(Message::Answer(..)) | None => {}
            }
        }
        Err(Error::Protocol(
            "it floods us with messages that nobody asked for".to_owned(),
        ))
    }

    /// Sends a message that has no answer.
    pub(super) async fn send(&self, message: &Value) -> Result<(), Error> {
        self.post(message).await.map(drop)
    }

    /// Ends the session, if there is one.
    pub(super) async fn close(&self) {
        if !self.signals.over.is_cancelled() && self.session.lock().is_some() {
            // A server that ends sessions by itself answers 405.
            let _ = tokio::time::timeout(
                FAREWELL,
                self.with_head(self.client.delete(&self.url)).send(),
            )
            .await;
        }
        self.signals.over.cancel();
    }

    async fn post(&self, message: &Value) -> Result<Response, Error> {
        let request = self
            .client
            .post(&self.url)
            .header(ACCEPT, "application/json, text/event-stream")
            .json(message);
        let response = self.with_head(request).send().await.map_err(|error| {
            Error::Ended(format!(
                "it cannot be reached: {}",
                innermost(&error.without_url())
            ))
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let has_session = self.session.lock().is_some();
        if status == StatusCode::NOT_FOUND && has_session {
            self.signals.over.cancel();
            return Err(Error::Gone);
        }
        if status.is_redirection() {
            let to = response
                .headers()
                .get(LOCATION)
                .and_then(|to| to.to_str().ok())
                .unwrap_or("nowhere");
            return Err(Error::Protocol(format!(
                "it points to {} (HTTP {}); redirects are not followed, write the final address",
                net::server_text(to),
                status.as_u16()
            )));
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let token = if self.token.is_some() {
                "it refuses the token of token_env"
            } else {
                "it wants a token: set token_env"
            };
            return Err(Error::Protocol(format!(
                "{token} (HTTP {})",
                status.as_u16()
            )));
        }
        let mut body = Vec::new();
        // The part that was read is enough.
        let _ = read_body(response, &mut body, MAX_REFUSAL, SILENCE).await;
        let words = net::server_text(&String::from_utf8_lossy(&body));
        // Many servers that were restarted say it so, though the protocol wants 404.
        let is_about_session = words.to_ascii_lowercase().contains("session");
        if status == StatusCode::BAD_REQUEST && has_session && is_about_session {
            self.signals.over.cancel();
            return Err(Error::Gone);
        }
        Err(Error::Protocol(format!(
            "it answers HTTP {}: {words}",
            status.as_u16()
        )))
    }

    fn with_head(&self, request: RequestBuilder) -> RequestBuilder {
        let version = self.version.lock().clone();
        let mut request = request.header(PROTOCOL, version);
        if let Some(session) = self.session.lock().clone() {
            request = request.header(SESSION, session);
        }
        match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        }
    }
}

/// Media types ignore the case of letters (RFC 9110 §8.3.1).
fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    content_type.is_some_and(|kind| {
        kind.trim_start()
            .to_ascii_lowercase()
            .starts_with("text/event-stream")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_events_is_known_whatever_the_case_of_its_type() {
        for (value, expected) in [
            ("text/event-stream", true),
            ("Text/Event-Stream; charset=utf-8", true),
            ("application/json", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(is_event_stream(&headers), expected, "{value}");
        }
    }
}
