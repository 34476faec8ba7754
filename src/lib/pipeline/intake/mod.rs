//! Step 1, intake: inputs from channels, the shell, HTTP and the job schedule are accepted once.

mod access;
pub(crate) mod channel_batch;
pub(crate) mod channel_lines;
pub(crate) mod http;
pub(crate) mod jobs;
pub(crate) mod recipients;
pub(crate) mod session_keys;
pub(crate) mod shell;

use crate::db;
use crate::message::Envelope;
use crate::pipeline::{Pipeline, Signal};
use crate::queue::{Arrival, Verdict};

impl Pipeline {
    /// Takes in an input of the daemon itself; what has the same id is taken in once. Returns whether it is new.
    ///
    /// # Errors
    /// See [`db::Error`]; then it is to be tried again.
    pub(super) async fn accept_once(&self, input: Envelope) -> Result<bool, db::Error> {
        let now = input.received_at;
        let arrival = Arrival::new(input.id.clone(), Verdict::Accept(vec![input]));
        let (accepted, _) = self.queue.accept(vec![arrival], None, now).await?;
        let is_new = !accepted.is_empty();
        let _ = self.signals.send(Signal::Accepted(accepted));
        Ok(is_new)
    }
}
