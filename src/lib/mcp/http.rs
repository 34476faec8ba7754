//! A server that runs elsewhere, at the address that the owner wrote: each message is a POST, its answer
//! JSON or a stream of events (Streamable HTTP). No redirects: an answer from elsewhere is not the
//! answer we asked for.

use parking_lot::Mutex;
use std::time::Duration;

use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Fault;
use super::json_rpc;
use super::json_rpc::{LIST_CHANGED, MAX_MESSAGE, Message, VERSION};
use crate::net;
use crate::provider::sse::{Events, Patience, chain};
use crate::secret::Secret;

const SESSION: &str = "mcp-session-id";
const PROTOCOL: &str = "mcp-protocol-version";

/// How long the server may be silent in an answer; the call has a limit of its own.
const SILENCE: Duration = Duration::from_secs(3600);
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
    changed: Notify,
    over: CancellationToken,
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
            changed: Notify::new(),
            over: CancellationToken::new(),
        }
    }

    /// Takes note of the version that both speak.
    pub(super) fn speaks(&self, version: &str) {
        version.clone_into(&mut self.version.lock());
    }

    /// Sends a request and waits for its answer. May be dropped.
    pub(super) async fn request(&self, id: u64, message: &Value) -> Result<Value, Fault> {
        let response = self.post(message).await?;
        if let Some(session) = response.headers().get(SESSION) {
            *self.session.lock() = Some(session.clone());
        }
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            return self.answer_in_events(response, id).await;
        }
        let body = body(response, MAX_MESSAGE).await?;
        match json_rpc::read(&body) {
            Some(Message::Answer(of, answer)) if of == id => answer,
            _ => Err(Fault::Protocol(format!(
                "it answers what is no message of the protocol: {}",
                net::words(&String::from_utf8_lossy(body.get(..200).unwrap_or(&body)))
            ))),
        }
    }

    async fn answer_in_events(&self, response: Response, id: u64) -> Result<Value, Fault> {
        let patience = Patience {
            first: SILENCE,
            began: SILENCE,
            between: SILENCE,
        };
        let mut events = Events::new(Box::pin(response.bytes_stream()), patience);
        for _ in 0..MAX_BEFORE {
            let Some(event) = events
                .next()
                .await
                .map_err(|error| Fault::Protocol(error.to_string()))?
            else {
                return Err(Fault::Protocol(
                    "its answer ended before it was complete".to_owned(),
                ));
            };
            if event.len() > MAX_MESSAGE {
                return Err(Fault::Protocol(format!(
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
                    self.send(&json_rpc::answer(&id, &method)).await?
                }
                Some(Message::Notice(method)) if method == LIST_CHANGED => {
                    self.changed.notify_one()
                }
                Some(Message::Answer(..) | Message::Notice(_)) | None => {}
            }
        }
        Err(Fault::Protocol(
            "it floods us with messages that nobody asked for".to_owned(),
        ))
    }

    /// Sends a message that has no answer.
    pub(super) async fn send(&self, message: &Value) -> Result<(), Fault> {
        self.post(message).await.map(drop)
    }

    /// Waits until the session is over, and returns why.
    pub(super) async fn over(&self) -> Fault {
        self.over.cancelled().await;
        Fault::Gone
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    /// Waits until the server says that its tools are others; it can do so only while it answers.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Ends the session, if there is one.
    pub(super) async fn close(&self) {
        if !self.over.is_cancelled() && self.session.lock().is_some() {
            // A server that forgets by itself says 405, and that is fine.
            let _ = tokio::time::timeout(
                FAREWELL,
                self.with_head(self.client.delete(&self.url)).send(),
            )
            .await;
        }
        self.over.cancel();
    }

    async fn post(&self, message: &Value) -> Result<Response, Fault> {
        let request = self
            .client
            .post(&self.url)
            .header(ACCEPT, "application/json, text/event-stream")
            .json(message);
        let response = self.with_head(request).send().await.map_err(|error| {
            Fault::Ended(format!(
                "it cannot be reached: {}",
                net::words(&chain(&error.without_url()))
            ))
        })?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let has_session = self.session.lock().is_some();
        if status == StatusCode::NOT_FOUND && has_session {
            self.over.cancel();
            return Err(Fault::Gone);
        }
        if status.is_redirection() {
            let to = response
                .headers()
                .get(LOCATION)
                .and_then(|to| to.to_str().ok())
                .unwrap_or("nowhere");
            return Err(Fault::Protocol(format!(
                "it points to {} (HTTP {}); redirects are not followed, write the final address",
                net::words(to),
                status.as_u16()
            )));
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let token = if self.token.is_some() {
                "it refuses the token of token_env"
            } else {
                "it wants a token: set token_env"
            };
            return Err(Fault::Protocol(format!(
                "{token} (HTTP {})",
                status.as_u16()
            )));
        }
        let said = body(response, MAX_REFUSAL).await.unwrap_or_default();
        let words = net::words(&String::from_utf8_lossy(&said));
        Err(Fault::Protocol(format!(
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

/// Returns an answer's bytes, at most `max`.
async fn body(response: Response, max: usize) -> Result<Vec<u8>, Fault> {
    let mut stream = response.bytes_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk =
            chunk.map_err(|error| Fault::Protocol(net::words(&chain(&error.without_url()))))?;
        bytes.extend_from_slice(&chunk);
        if bytes.len() > max {
            return Err(Fault::Protocol(format!("it sent more than {max} bytes")));
        }
    }
    Ok(bytes)
}
