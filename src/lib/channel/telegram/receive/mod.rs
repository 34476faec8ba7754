//! From Telegram: updates by long polling or webhook, and the files that come with them.

mod download;
mod poll;
pub(super) mod repair_json;
pub(super) mod slash_commands;
pub(super) mod updates;
pub(super) mod webhook;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::Telegram;
use crate::channel::Batch;

/// Why updates were not stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NotStored {
    /// They could not be stored now: they are to come again.
    Refused,
    /// Nobody takes batches any more.
    Closed,
}

impl Telegram {
    /// Hands updates to the pipeline, in the order they have here, and waits until they are on disk.
    async fn store(
        &self,
        updates: &[&Value],
        offset: Option<(i64, i64)>,
        batches: &mpsc::Sender<Batch>,
    ) -> Result<(), NotStored> {
        let bot = self.identity();
        let incoming = |update: &&Value| updates::incoming(update, &bot);
        let items = updates.iter().filter_map(incoming).collect();
        let (done, stored) = oneshot::channel();
        let batch = Batch {
            offset,
            items,
            done,
        };
        let sent = batches.send(batch).await;
        sent.map_err(|_| NotStored::Closed)?;
        stored.await.map_err(|_| NotStored::Refused)?;
        self.health.received();
        Ok(())
    }
}
