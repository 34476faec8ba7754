//! The listener: one path, one method, and nothing is read of who does not know the secret.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
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
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::super::incoming::{Identity, incoming, is_of_group, update_id};
use super::super::send::Telegram;
use crate::channel::{Batch, Pulse};
use crate::config::Listen;
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

/// A bound address.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Listener {
    pub(super) async fn bind(listen: &Listen) -> std::io::Result<Self> {
        match listen {
            Listen::Tcp(address) => TcpListener::bind(address).await.map(Self::Tcp),
            Listen::Unix(path) => {
                remove_abandoned(path).await?;
                let listener = UnixListener::bind(path)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
                Ok(Self::Unix(listener))
            }
        }
    }

    async fn accept(&self) -> std::io::Result<Box<dyn Stream>> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as Box<dyn Stream>),
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| Box::new(stream) as Box<dyn Stream>),
        }
    }
}

/// A socket that nobody listens on any more is in the way; one that somebody does, or another file, is
/// not ours to remove.
async fn remove_abandoned(path: &Path) -> std::io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    if is_socket && UnixStream::connect(path).await.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// What one request needs.
struct Door {
    path: String,
    secret: Secret,
    us: Identity,
    batches: mpsc::Sender<Batch>,
    pulse: Arc<Pulse>,
}

/// Serves for ever.
pub(super) async fn serve(telegram: &Telegram, listener: Listener, path: &str, secret: &Secret, batches: &mpsc::Sender<Batch>) {
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
            path: path.to_owned(),
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

async fn answer(door: &Door, request: Request<Body>) -> Response<Full<Bytes>> {
    let (status, words) = match take(door, request).await {
        Ok(()) => (StatusCode::OK, "ok"),
        Err(status) => (status, status.canonical_reason().unwrap_or_default()),
    };
    let response = Response::builder().status(status).header(CONTENT_TYPE, "text/plain");
    response.body(Full::from(format!("{words}\n"))).unwrap_or_default()
}

async fn take(door: &Door, request: Request<Body>) -> Result<(), StatusCode> {
    if request.uri().path() != door.path || request.method() != Method::POST {
        return Err(StatusCode::NOT_FOUND);
    }
    let secret = request.headers().get(SECRET_HEADER).map_or(&b""[..], |value| value.as_bytes());
    if !same(secret, door.secret.expose().as_bytes()) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > MAX_BODY) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let body = tokio::time::timeout(SLOW, Limited::new(request.into_body(), MAX_BODY).collect()).await;
    let body = body.map_err(|_| StatusCode::REQUEST_TIMEOUT)?.map_err(|error| {
        let too_large = error.is::<http_body_util::LengthLimitError>();
        if too_large { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST }
    })?;
    let update: Value = serde_json::from_slice(&body.to_bytes()).map_err(|_| StatusCode::BAD_REQUEST)?;
    update_id(&update).ok_or(StatusCode::BAD_REQUEST)?;
    // Without our name nobody could say whether a group speaks to us; it comes again in a moment.
    if door.us.username.is_none() && is_of_group(&update) {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    let (done, taken) = oneshot::channel();
    let batch = Batch { offset: None, items: incoming(&update, &door.us).into_iter().collect(), done };
    let stored = async { door.batches.send(batch).await.is_ok() && taken.await.is_ok() };
    if !tokio::time::timeout(STORED, stored).await.unwrap_or(false) {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    door.pulse.update();
    Ok(())
}

/// Compares in a time that tells only the length.
fn same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_is_the_secret() {
        assert!(same(b"abc", b"abc"));
        assert!(!same(b"", b"abc") && !same(b"abd", b"abc") && !same(b"abca", b"abc") && !same(b"ab", b"abc"));
    }
}
