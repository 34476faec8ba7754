//! Retries of writes: a required write is repeated until it succeeds, unless repeating cannot help. A panic ends one task.

use std::fmt::Display;
use std::pin::Pin;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use super::Pipeline;
use crate::{db, net, sys};

/// Waiting between tries; a full disk is usually repaired by a person.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// A write that did not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unrecorded {
    /// The daemon ends. The next start finds the work again.
    Ending,
    /// It was given up. Carries what failed and why.
    Failed(String),
}

/// What a function that must write returns.
pub(crate) type Recorded<T> = Result<T, Unrecorded>;

/// An error of the disk.
pub(crate) trait DiskError: Display {
    /// Returns true when the same write may succeed later.
    fn is_retryable(&self) -> bool;
}

impl DiskError for db::Error {
    fn is_retryable(&self) -> bool {
        Self::is_retryable(self)
    }
}

impl DiskError for sys::Error {
    fn is_retryable(&self) -> bool {
        Self::is_retryable(self)
    }
}

impl Pipeline {
    /// Runs `write` until it succeeds, the daemon ends, or the error is permanent.
    pub(super) async fn persist<T, E: DiskError, F: Future<Output = Result<T, E>>>(
        &self,
        what: &str,
        mut write: impl FnMut() -> F,
    ) -> Recorded<T> {
        let mut attempt = 0;
        loop {
            let error = match write().await {
                Ok(value) => {
                    self.end_troubles(what);
                    return Ok(value);
                }
                Err(error) => error,
            };
            let failed = format!("{what}: {error}");
            self.note_trouble_of(what, &failed);
            if !error.is_retryable() {
                tracing::error!(%error, what, "could not be recorded; giving up");
                return Err(Unrecorded::Failed(failed));
            }
            tracing::error!(%error, what, "could not be recorded; retrying");
            tokio::select! {
                () = self.closed.cancelled() => return Err(Unrecorded::Ending),
                () = tokio::time::sleep(net::backoff(attempt, BACKOFF.0, BACKOFF.1)) => attempt += 1,
            }
        }
    }
}

/// A task that panicked; the log has the place.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs `work` in a separate task, so that a panic ends it and nothing else. It is aborted with its caller.
pub(crate) async fn isolated<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, Panicked> {
    // Boxed, so that tokio's task is compiled once and not for each kind of work.
    let work: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(work);
    let task = AbortOnDropHandle::new(tokio::spawn(work));
    task.await.map_err(|error| {
        tracing::error!(%error, "a task panicked");
        Panicked
    })
}
