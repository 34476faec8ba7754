//! One poller per token: of all daemons on this machine only one receives updates for a bot.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::Telegram;
use crate::channel::Batch;
use crate::sys::machine_lock::{self, Claim, Held};

/// How often to look whether the other daemon still runs.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

impl Telegram {
    /// Receives updates forever, from update `offset` (the next id, and when it was last moved) on,
    /// as soon as no other daemon of this machine uses the token. Every batch goes to `batches`, and is
    /// acknowledged only when it was stored. Ends when nobody takes batches.
    pub async fn receive(
        self: Arc<Self>,
        offset: Option<(i64, i64)>,
        batches: mpsc::Sender<Batch>,
    ) {
        let _claim = tokio::select! {
            claim = self.claim() => claim,
            () = batches.closed() => return,
        };
        match &self.webhook {
            Some(webhook) => self.receive_webhook(webhook, &batches).await,
            None => self.poll(offset, &batches).await,
        }
    }

    /// Receives what waits, once, and returns when nothing more does; by polling, webhook or not.
    ///
    /// # Errors
    /// When another daemon has the token, Telegram cannot be asked or nobody takes batches; says why.
    pub async fn receive_once(
        self: Arc<Self>,
        offset: Option<(i64, i64)>,
        batches: mpsc::Sender<Batch>,
    ) -> Result<(), String> {
        let claim = machine_lock::take(&self.claim_name()).await;
        if let Ok(Held::ByOther { pid }) = claim {
            let state = conflict(pid);
            self.health.set(&state);
            return Err(state);
        }
        self.poll_once(offset, &batches).await
    }

    /// Waits until the token is ours on this machine. `None` when nobody can tell: then a second
    /// poller shows as a conflict that Telegram reports.
    async fn claim(&self) -> Option<Claim> {
        let name = self.claim_name();
        let mut waited = false;
        loop {
            match machine_lock::take(&name).await {
                Ok(Held::ByUs(claim)) => {
                    if waited {
                        tracing::info!("the other agent-daemon has ended: receiving updates now");
                        self.health.set("connecting");
                    }
                    return Some(claim);
                }
                Ok(Held::ByOther { pid }) => {
                    let state = conflict(pid);
                    if self.health.set(&state) {
                        tracing::warn!("{state}; that process receives the messages");
                    }
                    waited = true;
                }
                Ok(Held::ByStranger) => {
                    tracing::warn!("a process of another user claims this token; it is ignored");
                    return None;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot check whether another agent-daemon uses this token");
                    return None;
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The same for everybody with this token at this server, and does not give the token away.
    fn claim_name(&self) -> String {
        format!("agent-toolkit/telegram/{}", self.api.fingerprint())
    }
}

fn conflict(pid: Option<i32>) -> String {
    let who = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
    format!("conflict: another agent-daemon{who} on this machine uses this token")
}
