//! Requests to the webhook: one path, one method; without the secret nothing of a request is read.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming as Body};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Sink;
use crate::channel::telegram::Telegram;
use crate::channel::telegram::receive::repair_json;
use crate::channel::telegram::receive::updates::{is_of_group, update_id};
use crate::net::Listener;
use crate::text::sha256_hex;

/// Connections at a time; Telegram makes one, and the others wait outside.
const CONNECTIONS: usize = 32;
/// For the header, and again for the body.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// For all of a connection: what came must be stored within it.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
const STORE_TIMEOUT: Duration = Duration::from_secs(30);
/// An update of Telegram's has some kilobytes.
const MAX_BODY: usize = 1 << 20;
/// After a failure to accept, as when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";

/// Serves forever.
pub(super) async fn serve(telegram: &Arc<Telegram>, listener: &Listener) {
    // Dropped with this future, and the connections with it: Telegram brings again what was not answered.
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let telegram = telegram.clone();
        connections.spawn(async move {
            let service = service_fn(async |request| {
                Ok::<_, Infallible>(telegram.handle_webhook(request).await)
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(READ_TIMEOUT)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // What breaks off or is too slow comes again.
            let _ = timeout(CONNECTION_TIMEOUT, connection).await;
        });
    }
}

impl Sink {
    /// Returns whether a request has the secret.
    fn is_known_to(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(SECRET_HEADER).map(HeaderValue::as_bytes);
        // Of digests the time of a comparison tells nothing.
        sha256_hex(given.unwrap_or_default()) == sha256_hex(self.secret.expose().as_bytes())
    }
}

impl Telegram {
    /// Returns the path of the webhook when another listener is to pass its requests on.
    pub fn webhook_path(&self) -> Option<&str> {
        let shared = self.webhook.as_ref().filter(|one| one.listen.is_none());
        shared.map(|webhook| webhook.path.as_str())
    }

    /// Returns whether a request to the webhook has its secret.
    pub fn has_webhook_secret(&self, headers: &HeaderMap) -> bool {
        let sink = self.webhook_sink.lock();
        sink.as_ref().is_some_and(|sink| sink.is_known_to(headers))
    }

    /// Answers a request to the webhook.
    pub async fn handle_webhook(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let status = self.take_update(request).await.err();
        let reason = status.map_or("ok", |status| status.canonical_reason().unwrap_or_default());
        let mut response = Response::new(Full::from(format!("{reason}\n")));
        *response.status_mut() = status.unwrap_or_default();
        let plain = HeaderValue::from_static("text/plain");
        response.headers_mut().insert(CONTENT_TYPE, plain);
        response
    }

    async fn take_update(&self, request: Request<Body>) -> Result<(), StatusCode> {
        let sink = self.webhook_sink.lock().clone();
        let (Some(webhook), Some(sink)) = (&self.webhook, sink) else {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        };
        if request.uri().path() != webhook.path || request.method() != Method::POST {
            return Err(StatusCode::NOT_FOUND);
        }
        if !sink.is_known_to(request.headers()) {
            return Err(StatusCode::UNAUTHORIZED);
        }
        let length = request.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|value| str::from_utf8(value.as_bytes()).ok());
        if length.is_some_and(|length| length.parse().is_ok_and(|length: usize| length > MAX_BODY))
        {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
        let body = Limited::new(request.into_body(), MAX_BODY).collect();
        let body = match timeout(READ_TIMEOUT, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(StatusCode::PAYLOAD_TOO_LARGE);
            }
            Ok(Err(_)) => return Err(StatusCode::BAD_REQUEST),
            Err(_) => return Err(StatusCode::REQUEST_TIMEOUT),
        };
        let update: Value = repair_json::parse(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
        update_id(&update).ok_or(StatusCode::BAD_REQUEST)?;
        // Without our name nobody could say whether a group speaks to us; it comes again in a moment.
        if self.username.lock().is_none() && is_of_group(&update) {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        match timeout(STORE_TIMEOUT, self.store(&[&update], None, &sink.batches)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}
