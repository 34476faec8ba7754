//! Connections: HTTP/1 on each, and nobody who cannot show the token keeps others out. Their number is
//! bounded; when there are too many, the oldest on which no token was shown makes room.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Method, Request};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::error::Refusal;
use super::{Api, request_checks, routes};
use crate::channel::telegram::Telegram;
use crate::net::{Listener, Stream};

/// Connections at a time; a process has 1,024 open files, most of the time.
const MOST: usize = 256;
/// For the head of a request, and for the next one on the same connection.
const SLOW: Duration = Duration::from_secs(10);
/// Bytes of a head: more is no address of ours, and no header.
const MAX_HEAD: usize = 32 << 10;
/// After a failure to accept, as when file descriptors run out.
const PAUSE: Duration = Duration::from_millis(200);
/// Answers that are on their way when the daemon ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A connection, as the others see it.
#[derive(Default)]
pub(super) struct Line {
    /// The token was shown on it.
    trusted: AtomicBool,
    /// It makes room.
    gone: CancellationToken,
}

impl Line {
    /// Notes that the token was shown.
    pub(super) fn trust(&self) {
        self.trusted.store(true, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Lines(Mutex<VecDeque<Arc<Line>>>);

impl Lines {
    /// Returns a place for a new one, if need be that of the oldest stranger's.
    fn place(&self) -> Option<Arc<Line>> {
        let mut open = self.0.lock();
        if open.len() >= MOST {
            let oldest = open
                .iter()
                .position(|line| !line.trusted.load(Ordering::Relaxed))?;
            open.remove(oldest)?.gone.cancel();
        }
        let line = Arc::new(Line::default());
        open.push_back(line.clone());
        Some(line)
    }

    fn leave(&self, line: &Arc<Line>) {
        self.0.lock().retain(|other| !Arc::ptr_eq(other, line));
    }
}

/// What every connection needs.
struct House {
    api: Arc<Api>,
    router: TowerToHyperService<Router>,
    telegram: Option<Arc<Telegram>>,
    lines: Lines,
}

/// Answers until the daemon is over.
pub(super) async fn serve(api: Arc<Api>, listener: Listener, telegram: Option<Arc<Telegram>>) {
    let router = routes::router().with_state(api.clone());
    let router = router.layer(axum::middleware::from_fn_with_state(
        api.clone(),
        request_checks::pass,
    ));
    let over = api.over.clone();
    let house = Arc::new(House {
        api,
        router: TowerToHyperService::new(router),
        telegram,
        lines: Lines::default(),
    });
    let connections = TaskTracker::new();
    while let Some(accepted) = over.run_until_cancelled(listener.accept()).await {
        let Ok(mut stream) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let house = house.clone();
        connections.spawn(async move {
            let Some(line) = house.lines.place() else {
                return refuse(&mut stream, FULL).await;
            };
            converse(&house, stream, &line).await;
            house.lines.leave(&line);
        });
    }
    connections.close();
    // What is not read by then is not waited for; the runtime ends with the daemon.
    let _ = tokio::time::timeout(LAST_WORDS, connections.wait()).await;
}

/// Serves one connection to its end.
async fn converse(house: &Arc<House>, stream: Box<dyn Stream>, line: &Arc<Line>) {
    let service = {
        let (house, line) = (house.clone(), line.clone());
        service_fn(move |request: Request<Incoming>| {
            let (house, line) = (house.clone(), line.clone());
            async move { Ok::<_, Infallible>(answer(&house, request, &line).await) }
        })
    };
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SLOW)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = line.gone.cancelled() => return,
        () = house.api.over.cancelled() => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            connection.await.unwrap_or_default();
            return;
        }
    };
    if ended.is_err_and(|error| error.is_timeout()) {
        let parts = connection.into_parts();
        // Who began a request hears why it ends; an idle connection just ends.
        if !parts.read_buf.is_empty() {
            refuse(&mut parts.io.into_inner(), SLOW_HEAD).await;
        }
    }
}

async fn answer(house: &House, mut request: Request<Incoming>, line: &Arc<Line>) -> Response {
    if let Some(telegram) = &house.telegram
        && request.method() == Method::POST
        && telegram.webhook_path() == Some(request.uri().path())
    {
        return telegram.handle_webhook(request).await.map(Body::new);
    }
    request.extensions_mut().insert(line.clone());
    let answered = house.router.call(request).await;
    answered
        .unwrap_or_else(|never: Infallible| match never {})
        .into_response()
}

type Words = fn() -> (&'static str, Refusal);
const FULL: Words = || ("503 Service Unavailable", Refusal::full());
const SLOW_HEAD: Words = || ("408 Request Timeout", Refusal::too_slow());

/// Answers a connection on which no request was read.
async fn refuse(stream: &mut Box<dyn Stream>, words: Words) {
    let (status, refusal) = words();
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
    // Who does not read it does not want to know.
    let _ = tokio::time::timeout(Duration::from_secs(1), write).await;
}
