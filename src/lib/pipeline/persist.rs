//! Waiting for the disk: what must be written is tried until it is.

use std::fmt::Display;
use std::time::Duration;

use super::Pipeline;
use crate::net;

/// Waiting between tries; a full disk is usually mended by a person.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

impl Pipeline {
    /// Runs `write` until it succeeds; `None` when the daemon ends before that. What it would
    /// have recorded is then found again at the next start.
    pub(super) async fn persist<T, E: Display, F: Future<Output = Result<T, E>>>(
        &self,
        what: &str,
        mut write: impl FnMut() -> F,
    ) -> Option<T> {
        let mut attempt = 0;
        loop {
            let error = match write().await {
                Ok(value) => return Some(value),
                Err(error) => error,
            };
            tracing::error!(%error, what, "could not be recorded; it is tried again");
            self.note_trouble(&format!("{what}: {error}"));
            tokio::select! {
                () = self.closed.cancelled() => return None,
                () = tokio::time::sleep(net::backoff(attempt, BACKOFF.0, BACKOFF.1)) => attempt += 1,
            }
        }
    }
}
