//! Work that blocks (files, SQLite, hashing), kept off the event loop.

use tokio::sync::oneshot;

/// Runs `work` on a thread that may block and returns its result. A panic in `work` is passed on to the caller.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = oneshot::channel();
    // Boxed, so that tokio's task is compiled once and not for each kind of work.
    let work: Box<dyn FnOnce() + Send> = Box::new(move || drop(tell.send(work())));
    if let Err(error) = tokio::task::spawn_blocking(work).await {
        std::panic::resume_unwind(error.into_panic());
    }
    told.await.expect("work that ended was told of")
}
