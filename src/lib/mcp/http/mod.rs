//! A remote server, at the address that the owner wrote: each message is a POST, its answer JSON or a stream of events
//! (Streamable HTTP). Redirects are not followed.
//!
//! ```text
//! POST   a message                     ← JSON, or events up to the answer
//! GET    Last-Event-ID: the last id    ← the rest of an interrupted stream
//! GET                                  ← messages that the server sends unasked, during the session
//! DELETE                                 the session has ended
//! ```

mod events;

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::client::Signals;
use super::json_rpc;
use super::json_rpc::{MAX_MESSAGE, Message, VERSION};
use crate::auth::{self, Place, ServerSignIns};
use crate::net;
use crate::net::{BodyError, Timeouts, innermost, read_body};
use crate::secret::Secret;

const SESSION: &str = "mcp-session-id";
const PROTOCOL: &str = "mcp-protocol-version";

/// How long the server may be silent in an answer; the call has a separate limit.
const SILENCE: Timeouts = Timeouts::all(Duration::from_secs(3600));
/// How long the end of a session is waited for.
const FAREWELL: Duration = Duration::from_secs(3);
/// Bytes of a refusal that are read.
const MAX_REFUSAL: usize = 4096;

/// What we show at the address.
pub(super) enum Bearer {
    /// The token of the settings.
    Written(Secret),
    /// That of a sign-in, if there is one.
    SignIn(ServerSignIns, Place),
}

/// A server's address, and our session there. When it is dropped, nobody listens any more.
pub(super) struct Link(Arc<Shared>);

struct Shared {
    client: Client,
    /// What it is called in the settings.
    name: String,
    url: String,
    bearer: Bearer,
    session: Mutex<Option<HeaderValue>>,
    version: Mutex<String>,
    signals: Arc<Signals>,
    /// Ends the listening.
    stop: CancellationToken,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.0.stop.cancel();
    }
}

impl Link {
    /// Returns the way to `url`; nothing is sent yet.
    pub(super) fn new(client: Client, (name, url): (&str, &str), bearer: Bearer) -> Self {
        Self(Arc::new(Shared {
            client,
            name: name.to_owned(),
            url: url.to_owned(),
            bearer,
            session: Mutex::default(),
            version: Mutex::new(VERSION.to_owned()),
            signals: Arc::default(),
            stop: CancellationToken::new(),
        }))
    }

    pub(super) fn signals(&self) -> Arc<Signals> {
        self.0.signals.clone()
    }

    /// Takes note of the version that both speak.
    pub(super) fn speaks(&self, version: &str) {
        version.clone_into(&mut self.0.version.lock());
    }

    /// Sends a request and waits for its answer. May be dropped.
    pub(super) async fn request(&self, id: u64, message: &Value) -> Result<Value, Error> {
        let shared = &self.0;
        let response = shared.post(message).await?;
        if let Some(session) = response.headers().get(SESSION) {
            *shared.session.lock() = Some(session.clone());
        }
        if is_event_stream(response.headers()) {
            return shared.answer_in_events(response, id).await;
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
                "invalid JSON-RPC response: {}",
                net::server_text(&String::from_utf8_lossy(body.get(..200).unwrap_or(&body)))
            ))),
        }
    }

    /// Sends a message that has no answer.
    pub(super) async fn send(&self, message: &Value) -> Result<(), Error> {
        self.0.post(message).await.map(drop)
    }

    /// Listens to what the server says by itself, until the session is over.
    pub(super) fn listen(&self) {
        tokio::spawn(events::listen(self.0.clone()));
    }

    /// Ends the session, if there is one.
    pub(super) async fn close(&self) {
        let shared = &self.0;
        shared.stop.cancel();
        if !shared.signals.over.is_cancelled() && shared.session.lock().is_some() {
            // A server that ends sessions by itself answers 405.
            let end = shared.send_with_token(|| shared.client.delete(&shared.url));
            let _ = tokio::time::timeout(FAREWELL, end).await;
        }
        shared.signals.over.cancel();
    }
}

impl Shared {
    async fn post(&self, message: &Value) -> Result<Response, Error> {
        let request = || {
            self.client
                .post(&self.url)
                .header(ACCEPT, "application/json, text/event-stream")
                .json(message)
        };
        let response = self.send_with_token(request).await?;
        match response.status().is_success() {
            true => Ok(response),
            false => Err(self.refusal(response).await),
        }
    }

    /// Sends a request with our token; once more with a new one, when the server does not take it.
    async fn send_with_token(
        &self,
        request: impl Fn() -> RequestBuilder,
    ) -> Result<Response, Error> {
        let token = self.token(None).await?;
        let response = send(self.with_head(request(), token.as_ref())).await?;
        if response.status() != StatusCode::UNAUTHORIZED || token.is_none() {
            return Ok(response);
        }
        match self.token(token.as_ref()).await? {
            Some(new) if Some(&new) != token.as_ref() => {
                send(self.with_head(request(), Some(&new))).await
            }
            _ => Ok(response),
        }
    }

    /// Returns the token that is shown, which is not `refused`.
    async fn token(&self, refused: Option<&Secret>) -> Result<Option<Secret>, Error> {
        match &self.bearer {
            Bearer::Written(token) => Ok(Some(token.clone())),
            Bearer::SignIn(sign_ins, place) => {
                let token = sign_ins.token((&self.name, place), refused).await;
                token.map_err(|error| {
                    let why = match error {
                        auth::Error::SignedOut { reason, .. } => {
                            format!("the sign-in there has ended: {reason}")
                        }
                        error => error.to_string(),
                    };
                    Error::Ended(format!("{why}; agent-send --mcp login {}", self.name))
                })
            }
        }
    }

    /// Returns what an answer that is not a success says; a session that was forgotten is over.
    async fn refusal(&self, response: Response) -> Error {
        let status = response.status();
        let has_session = self.session.lock().is_some();
        if status == StatusCode::NOT_FOUND && has_session {
            self.signals.over.cancel();
            return Error::Gone;
        }
        if status.is_redirection() {
            let to = response
                .headers()
                .get(LOCATION)
                .and_then(|to| to.to_str().ok())
                .unwrap_or("nowhere");
            return Error::Protocol(format!(
                "it points to {} (HTTP {}); redirects are not followed, write the final address",
                net::server_text(to),
                status.as_u16()
            ));
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let token = match &self.bearer {
                Bearer::Written(_) => "it refuses the token of token_env".to_owned(),
                Bearer::SignIn(sign_ins, place) => {
                    let name = &self.name;
                    let login = format!("agent-send --mcp login {name}");
                    match sign_ins.since(name, &place.url) {
                        Some(_) => format!("it refuses the sign-in: {login}"),
                        None => format!("it wants you to sign in: {login}, or set token_env"),
                    }
                }
            };
            return Error::Protocol(format!("{token} (HTTP {})", status.as_u16()));
        }
        let mut body = Vec::new();
        // The part that was read is enough.
        let _ = read_body(response, &mut body, MAX_REFUSAL, SILENCE).await;
        let words = net::server_text(&String::from_utf8_lossy(&body));
        // Many servers that were restarted say it so, though the protocol wants 404.
        let is_about_session = words.to_ascii_lowercase().contains("session");
        if status == StatusCode::BAD_REQUEST && has_session && is_about_session {
            self.signals.over.cancel();
            return Error::Gone;
        }
        Error::Protocol(format!("it answers HTTP {}: {words}", status.as_u16()))
    }

    fn with_head(&self, request: RequestBuilder, token: Option<&Secret>) -> RequestBuilder {
        let version = self.version.lock().clone();
        let mut request = request.header(PROTOCOL, version);
        if let Some(session) = self.session.lock().clone() {
            request = request.header(SESSION, session);
        }
        match token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        }
    }
}

async fn send(request: RequestBuilder) -> Result<Response, Error> {
    request.send().await.map_err(|error| {
        Error::Ended(format!(
            "it cannot be reached: {}",
            innermost(&error.without_url())
        ))
    })
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
