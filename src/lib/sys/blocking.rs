//! Work that blocks (files, SQLite, hashing), kept off the event loop.

/// Runs `work` on a thread that may block and returns its result. A panic in `work` is passed on to the caller.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
