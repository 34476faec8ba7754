//! Connections, with HTTP/1. Their number is limited: when there are too many, the oldest one without a valid token
//! is closed, preferably one that is idle, so that strangers cannot keep the owner out.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::ApiError;
use super::{Api, request_checks, routes};
use crate::channel::telegram::Telegram;
use crate::net::{Listener, Stream};

/// Connections at a time; the usual limit of open files is 1,024.
const MAX_CONNECTIONS: usize = 256;
/// Time for the head of a request, and for the next one on the same connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest head of a request.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Pause after a failed accept, for example when file descriptors run out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(200);
/// Time for open answers when the daemon stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// An open connection.
#[derive(Default)]
pub(super) struct Connection {
    /// A request on it had the token, or the secret of a webhook.
    trusted: AtomicBool,
    /// A request on it is being read or answered; it may have a token that was not looked at yet.
    busy: AtomicBool,
    /// It is closed to admit another.
    closed: CancellationToken,
    /// Who made it; not known on a Unix socket.
    client: Option<IpAddr>,
}

impl Connection {
    /// Marks it as one that has the token.
    pub(super) fn trust(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }

    /// Returns the address of who made it.
    pub(super) fn client(&self) -> Option<IpAddr> {
        self.client
    }
}

#[derive(Default)]
struct Connections(Mutex<VecDeque<Arc<Connection>>>);

impl Connections {
    /// Returns a place for a new one, if need be that of the oldest stranger's: of one that is idle, or, while strangers
    /// keep all of theirs busy, of any. Nobody who is trusted makes way.
    fn admit(&self, client: Option<IpAddr>) -> Option<Arc<Connection>> {
        let mut open = self.0.lock();
        if open.len() >= MAX_CONNECTIONS {
            let is_strange = |one: &Arc<Connection>| !one.trusted.load(Ordering::Relaxed);
            let is_idle = |one: &Arc<Connection>| !one.busy.load(Ordering::Relaxed);
            let idle = open.iter().position(|one| is_strange(one) && is_idle(one));
            let oldest = idle.or_else(|| open.iter().position(is_strange))?;
            open.remove(oldest)?.closed.cancel();
        }
        let connection = Arc::new(Connection {
            client,
            ..Connection::default()
        });
        open.push_back(connection.clone());
        Some(connection)
    }

    fn remove(&self, connection: &Arc<Connection>) {
        self.0
            .lock()
            .retain(|other| !Arc::ptr_eq(other, connection));
    }
}

/// What every connection needs.
struct Server {
    api: Arc<Api>,
    router: TowerToHyperService<Router>,
    telegram: Option<Arc<Telegram>>,
    connections: Connections,
}

/// Answers until the daemon stops.
pub(super) async fn serve(api: Arc<Api>, listener: Listener, telegram: Option<Arc<Telegram>>) {
    let router = routes::router().with_state(api.clone());
    let router = router.layer(axum::middleware::from_fn_with_state(
        api.clone(),
        request_checks::pass,
    ));
    let shutdown = api.shutdown.clone();
    let server = Arc::new(Server {
        api,
        router: TowerToHyperService::new(router),
        telegram,
        connections: Connections::default(),
    });
    let connections = TaskTracker::new();
    while let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await {
        let Ok((mut stream, client)) = accepted else {
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        let server = server.clone();
        connections.spawn(async move {
            let Some(connection) = server.connections.admit(client) else {
                return refuse(&mut stream, FULL).await;
            };
            serve_connection(&server, stream, &connection).await;
            server.connections.remove(&connection);
        });
    }
    connections.close();
    // Answers that are not read by then are dropped.
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, connections.wait()).await;
}

/// Serves one connection to its end.
async fn serve_connection(
    server: &Arc<Server>,
    stream: Box<dyn Stream>,
    connection: &Arc<Connection>,
) {
    let service = {
        let (server, connection) = (server.clone(), connection.clone());
        service_fn(move |request: Request<Incoming>| {
            let (server, connection) = (server.clone(), connection.clone());
            async move {
                connection.busy.store(true, Ordering::Relaxed);
                let answered = answer(&server, request, &connection).await;
                connection.busy.store(false, Ordering::Relaxed);
                Ok::<_, Infallible>(answered)
            }
        })
    };
    let mut http = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        ended = &mut http => ended,
        () = connection.closed.cancelled() => return,
        () = server.api.shutdown.cancelled() => {
            std::pin::Pin::new(&mut http).graceful_shutdown();
            http.await.unwrap_or_default();
            return;
        }
    };
    if ended.is_err_and(|error| error.is_timeout()) {
        let parts = http.into_parts();
        // A half-read request gets an error; an idle connection is just closed.
        if !parts.read_buf.is_empty() {
            refuse(&mut parts.io.into_inner(), SLOW_HEAD).await;
        }
    }
}

async fn answer(
    server: &Server,
    mut request: Request<Incoming>,
    connection: &Arc<Connection>,
) -> Response {
    if let Some(telegram) = &server.telegram
        && request.method() == Method::POST
        && telegram.webhook_path() == Some(request.uri().path())
    {
        if telegram.has_webhook_secret(request.headers()) {
            connection.trust();
        }
        let answered = telegram.handle_webhook(request).await;
        if answered.status() == StatusCode::UNAUTHORIZED
            && let Err(wait) = server.api.wrong_tokens.count(connection.client)
        {
            return ApiError::too_many_tokens(wait).into_response();
        }
        return answered.map(Body::new);
    }
    request.extensions_mut().insert(connection.clone());
    let answered = server.router.call(request).await;
    answered
        .unwrap_or_else(|never: Infallible| match never {})
        .into_response()
}

type EarlyError = fn() -> (&'static str, ApiError);
const FULL: EarlyError = || ("503 Service Unavailable", ApiError::full());
const SLOW_HEAD: EarlyError = || ("408 Request Timeout", ApiError::too_slow());

/// Answers on a connection before a request was read.
async fn refuse(stream: &mut Box<dyn Stream>, error: EarlyError) {
    let (status, refusal) = error();
    let body = refusal.document().to_string();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let write = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await
    };
    // The client may not read it.
    let _ = tokio::time::timeout(Duration::from_secs(1), write).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_idle_makes_way_before_who_is_busy_and_nobody_who_is_trusted() {
        let connections = Connections::default();
        let admit = || connections.admit(None);
        let open: Vec<_> = (0..MAX_CONNECTIONS).filter_map(|_| admit()).collect();
        let closed = || {
            let ended = open.iter().enumerate();
            let ended = ended.filter(|(_, one)| one.closed.is_cancelled());
            ended.map(|(number, _)| number).collect::<Vec<_>>()
        };
        let busy = |numbers: std::ops::Range<usize>| {
            open[numbers]
                .iter()
                .for_each(|one| one.busy.store(true, Ordering::Relaxed));
        };
        open[0].trust();
        busy(1..3);
        assert!(admit().is_some());
        assert_eq!(closed(), [3], "the oldest that is idle");
        open.iter().skip(4).for_each(|one| one.trust());
        let new = admit().expect("a place, of the one that came last");
        new.busy.store(true, Ordering::Relaxed);
        assert_eq!(closed(), [3]);
        let newer = admit().expect("a place");
        assert_eq!(closed(), [1, 3], "all strangers are busy: the oldest");
        for one in [&open[2], &new, &newer] {
            one.trust();
        }
        assert!(admit().is_none(), "all are trusted");
        assert_eq!(closed(), [1, 3]);
    }
}
