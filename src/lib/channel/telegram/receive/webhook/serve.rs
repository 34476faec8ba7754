//! The listener, or what another one brings: one path, one method, and nothing is read of who does not know the secret.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming as Body};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::Told;
use crate::channel::telegram::receive::update::{Identity, incoming, is_of_group, update_id};
use crate::channel::telegram::send::messages::Telegram;
use crate::channel::{Batch, Pulse};
use crate::net::Listener;
use crate::secret::Secret;

/// Connections at a time; Telegram makes one, and the others wait outside.
const CONNECTIONS: usize = 32;
/// For the header, and again for the body.
const SLOW: Duration = Duration::from_secs(10);
/// For all of a connection: what came must be stored within it.
const LONGEST: Duration = Duration::from_secs(60);
/// For storing.
const STORED: Duration = Duration::from_secs(30);
/// An update of Telegram's has some kilobytes.
const MAX_BODY: usize = 1 << 20;
/// After a failure to accept, as when file descriptors run out.
const PAUSE: Duration = Duration::from_millis(200);
const SECRET_HEADER: &str = "x-telegram-bot-api-secret-token";

/// What one request needs.
struct Door {
    /// The one that is answered; `None` when whoever brings requests knows it.
    path: Option<String>,
    secret: Secret,
    us: Identity,
    batches: mpsc::Sender<Batch>,
    pulse: Arc<Pulse>,
}

/// Serves for ever.
pub(super) async fn serve(
    telegram: &Telegram,
    listener: Listener,
    path: &str,
    secret: &Secret,
    batches: &mpsc::Sender<Batch>,
) {
    // Dropped with this future, and the connections with it: Telegram brings again what was not answered.
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS {
            connections.join_next().await;
        }
        while connections.try_join_next().is_some() {}
        let Ok(stream) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let door = Arc::new(Door {
            path: Some(path.to_owned()),
            secret: secret.clone(),
            // The bot's name may be learnt late.
            us: telegram.identity(),
            batches: batches.clone(),
            pulse: telegram.pulse.clone(),
        });
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let door = door.clone();
                async move { Ok::<_, std::convert::Infallible>(answer(&door, request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(SLOW)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // Who breaks off or is too slow comes again.
            let _ = tokio::time::timeout(LONGEST, connection).await;
        });
    }
}

impl Telegram {
    /// Returns the path at which messages are brought by way of somebody else's listener, if they are.
    pub fn hook_path(&self) -> Option<&str> {
        self.hook
            .as_ref()
            .filter(|hook| hook.listen.is_none())
            .map(|hook| hook.path.as_str())
    }

    /// Answers a request that came in at that path.
    pub async fn brought(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let told = self.told.lock().clone();
        let Some(Told { secret, batches }) = told else {
            return plainly(StatusCode::SERVICE_UNAVAILABLE);
        };
        let door = Door {
            path: None,
            secret,
            us: self.identity(),
            batches,
            pulse: self.pulse.clone(),
        };
        answer(&door, request).await
    }
}

async fn answer(door: &Door, request: Request<Body>) -> Response<Full<Bytes>> {
    plainly(take(door, request).await.err().unwrap_or(StatusCode::OK))
}

fn plainly(status: StatusCode) -> Response<Full<Bytes>> {
    let words = if status == StatusCode::OK {
        "ok"
    } else {
        status.canonical_reason().unwrap_or_default()
    };
    let response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, "text/plain");
    response
        .body(Full::from(format!("{words}\n")))
        .unwrap_or_default()
}

async fn take(door: &Door, request: Request<Body>) -> Result<(), StatusCode> {
    let is_elsewhere = door
        .path
        .as_ref()
        .is_some_and(|path| request.uri().path() != path);
    if is_elsewhere || request.method() != Method::POST {
        return Err(StatusCode::NOT_FOUND);
    }
    let secret = request
        .headers()
        .get(SECRET_HEADER)
        .map_or(&b""[..], |value| value.as_bytes());
    if !same(secret, door.secret.expose().as_bytes()) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let length = request
        .headers()
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > MAX_BODY) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let body =
        tokio::time::timeout(SLOW, Limited::new(request.into_body(), MAX_BODY).collect()).await;
    let body = body
        .map_err(|_| StatusCode::REQUEST_TIMEOUT)?
        .map_err(|error| {
            let too_large = error.is::<http_body_util::LengthLimitError>();
            if too_large {
                StatusCode::PAYLOAD_TOO_LARGE
            } else {
                StatusCode::BAD_REQUEST
            }
        })?;
    let update: Value =
        serde_json::from_slice(&body.to_bytes()).map_err(|_| StatusCode::BAD_REQUEST)?;
    update_id(&update).ok_or(StatusCode::BAD_REQUEST)?;
    // Without our name nobody could say whether a group speaks to us; it comes again in a moment.
    if door.us.username.is_none() && is_of_group(&update) {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    let (done, taken) = oneshot::channel();
    let batch = Batch {
        offset: None,
        items: incoming(&update, &door.us).into_iter().collect(),
        done,
    };
    let stored = async { door.batches.send(batch).await.is_ok() && taken.await.is_ok() };
    if !tokio::time::timeout(STORED, stored).await.unwrap_or(false) {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    door.pulse.update();
    Ok(())
}

/// Compares in a time that tells only the length.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len()
        && given
            .iter()
            .zip(wanted)
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_is_the_secret() {
        assert!(same(b"abc", b"abc"));
        assert!(
            !same(b"", b"abc")
                && !same(b"abd", b"abc")
                && !same(b"abca", b"abc")
                && !same(b"ab", b"abc")
        );
    }
}
