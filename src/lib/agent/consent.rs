//! What a tool asks the owner while it runs.

use tokio::sync::{mpsc, oneshot};

use super::tool_policy::{Asked, Verdict};

/// A question of a running tool, and where its answer goes.
pub(super) type Waiting = (Asked, oneshot::Sender<Verdict>);

/// The way to the owner for a tool that runs; none where nobody is there to be asked.
#[derive(Debug, Clone, Default)]
pub struct Consent(Option<mpsc::UnboundedSender<Waiting>>);

impl Consent {
    /// Returns a way, and where its questions come out.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Waiting>) {
        let (ask, asked) = mpsc::unbounded_channel();
        (Self(Some(ask)), asked)
    }

    /// Returns whether somebody can be asked.
    pub fn is_possible(&self) -> bool {
        self.0.is_some()
    }

    /// Asks and waits for the answer.
    pub async fn ask(&self, asked: Asked) -> Verdict {
        let nobody = || Verdict::No("there is nobody to ask".to_owned());
        let (tell, told) = oneshot::channel();
        match &self.0 {
            Some(ask) if ask.send((asked, tell)).is_ok() => told.await.unwrap_or_else(|_| nobody()),
            _ => nobody(),
        }
    }
}
