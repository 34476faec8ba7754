//! The HTTP ground under both fakes: a router on a loopback port, served by a thread with a runtime of its
//! own, so that plain `#[test]` functions can use it; and connections that a fault may cut.

use std::{
    future::IntoFuture as _,
    net::{Shutdown, TcpStream},
    os::fd::AsFd as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, connect_info::Connected},
    serve::IncomingStream,
};
use tokio::{net::TcpListener, sync::oneshot};

/// A running server; dropping it closes the port and every connection.
pub(super) struct Server {
    url: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `routes` on a port that was free; requests are accepted when this returns.
    pub(super) fn start(name: &str, routes: Router) -> Self {
        let listener =
            std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a loopback port is free");
        listener
            .set_nonblocking(true)
            .expect("a new socket takes options");
        let url = format!(
            "http://{}",
            listener
                .local_addr()
                .expect("a bound socket has an address")
        );
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime starts");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("the socket is non-blocking");
                let service = routes.layer(DefaultBodyLimit::disable()).into_make_service_with_connect_info::<Connection>();
                tokio::select! {
                    served = axum::serve(listener, service).into_future() => served.expect("axum serves until it is stopped"),
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(serve)
            .expect("a thread starts");
        Self {
            url,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A fake that panicked has failed the test already, through the answer it did not give.
            let _ = thread.join();
        }
    }
}

/// A second handle on the socket a request came in on. It lives as long as the connection's service, so it
/// never keeps a socket open that hyper is done with.
#[derive(Clone)]
pub(super) struct Connection(Arc<TcpStream>);

impl Connection {
    /// Closes the socket both ways and never returns: hyper sees the end and drops the handler.
    pub(super) async fn cut<T>(&self) -> T {
        // The client may have gone first; then there is nothing left to close.
        let _ = self.0.shutdown(Shutdown::Both);
        std::future::pending().await
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Connection {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        let socket = stream.io();
        socket
            .set_nodelay(true)
            .expect("a new socket takes options");
        let handle = socket
            .as_fd()
            .try_clone_to_owned()
            .expect("a file descriptor is free");
        Self(Arc::new(TcpStream::from(handle)))
    }
}

/// Locks a fake's state, also after a handler panicked: the test still wants to see what was recorded.
pub(super) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
