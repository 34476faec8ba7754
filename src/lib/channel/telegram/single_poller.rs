//! How messages come in, to one daemon of this machine: by polls or by a webhook, for who holds the token.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::send::messages::Telegram;
use crate::channel::Batch;
use crate::net;
use crate::sys::machine_lock;
use crate::sys::machine_lock::{Claim, Held};

/// Whether the other one still runs is looked at this often.
const LOOK: Duration = Duration::from_secs(2);
/// The bot's name is asked for until it is known.
const NAMELESS: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(600));

impl Telegram {
    /// Takes in what comes for ever, from update `offset` (the next id, and when it was last moved) on,
    /// as soon as no other daemon of this machine uses the token. Every batch goes to `batches`, and
    /// Telegram is told that it came only when it was taken. Ends when nobody takes batches.
    pub async fn receive(
        self: Arc<Self>,
        offset: Option<(i64, i64)>,
        batches: mpsc::Sender<Batch>,
    ) {
        let _claim = tokio::select! {
            claim = self.hold() => claim,
            () = batches.closed() => return,
        };
        match &self.hook {
            Some(hook) => self.be_told(hook, &batches).await,
            None => self.poll(offset, &batches).await,
        }
    }

    /// Takes what waits, once, and returns when nothing more does; by asking, webhook or not.
    ///
    /// # Errors
    /// When another daemon has the token, Telegram cannot be asked or nobody takes batches; says why.
    pub async fn receive_once(
        self: Arc<Self>,
        offset: Option<(i64, i64)>,
        batches: mpsc::Sender<Batch>,
    ) -> Result<(), String> {
        let _claim = match machine_lock::take(&self.claim_name()).await {
            Ok(Held::ByOther { pid }) => {
                let state = conflict(pid);
                self.pulse.wrong(&state);
                return Err(state);
            }
            Ok(Held::ByUs(claim)) => Some(claim),
            Ok(Held::ByStranger) | Err(_) => None,
        };
        self.collect(offset, &batches).await
    }

    /// Learns the bot's name, sooner or later: groups call it by that.
    pub async fn settle_in(&self, owners: &[i64]) {
        let mut tries = 0;
        loop {
            self.introduce(owners).await;
            if self.identity().username.is_some() {
                return;
            }
            // Why nothing can be asked is told by who fetches messages.
            loop {
                tokio::time::sleep(net::backoff(tries, NAMELESS.0, NAMELESS.1)).await;
                tries = tries.saturating_add(1);
                if self.pulse.read().state == "ok" {
                    break;
                }
            }
        }
    }

    /// Waits until the token is ours on this machine. `None` when nobody can tell: then we go on, and
    /// Telegram tells of a conflict.
    async fn hold(&self) -> Option<Claim> {
        let name = self.claim_name();
        let mut waited = false;
        loop {
            match machine_lock::take(&name).await {
                Ok(Held::ByUs(claim)) => {
                    if waited {
                        tracing::info!(
                            "the other agent-daemon is gone: messages come here from now on"
                        );
                        self.pulse.wrong("connecting");
                    }
                    return Some(claim);
                }
                Ok(Held::ByOther { pid }) => {
                    let state = conflict(pid);
                    if self.pulse.read().state != state {
                        tracing::warn!("{state}; messages come there, not here");
                    }
                    self.pulse.wrong(&state);
                    waited = true;
                }
                Ok(Held::ByStranger) => {
                    tracing::warn!(
                        "a process of another user says that it uses this token; it is not obeyed"
                    );
                    return None;
                }
                Err(error) => {
                    tracing::warn!(%error, "whether another agent-daemon uses this token is not known");
                    return None;
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The same for everybody with this token at this server, and says nothing of the token.
    fn claim_name(&self) -> String {
        format!("agent-toolkit/telegram/{}", self.api.fingerprint())
    }
}

fn conflict(pid: Option<i32>) -> String {
    let who = pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
    format!("conflict: another agent-daemon{who} on this machine uses this token")
}
