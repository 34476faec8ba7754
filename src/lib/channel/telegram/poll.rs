//! Messages in: long polling that acknowledges only what is on the disk.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use teloxide::payloads::{GetUpdates, GetUpdatesSetters};
use teloxide::types::AllowedUpdate;
use tokio::sync::{mpsc, oneshot};

use super::api::Error;
use super::incoming::{incoming, update_id};
use super::send::Telegram;
use crate::channel::Batch;
use crate::{clock, net};

/// Waiting after a failed poll (specification §6).
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// What a poll may take beyond its own timeout before the connection counts as dead.
const GRACE: Duration = Duration::from_secs(10);
/// An offset that has not moved for so long is not to be trusted (specification §6).
const OFFSET_LIFE_MS: i64 = 6 * 24 * 3600 * 1000;
/// After a wrong token we look again this seldom: only a person can mend it.
const UNAUTHORIZED: Duration = Duration::from_secs(300);

impl Telegram {
    /// Polls for ever, from update `offset` on; every batch goes to `batches`, and the next poll,
    /// which acknowledges it, begins only when it was taken. Ends when nobody takes batches.
    ///
    /// `offset` is the next update id and when it was last moved. It is forgotten after six quiet
    /// days: after a week without updates Telegram counts anew from anywhere, and an offset above
    /// that would make every message vanish (core.telegram.org/bots/api#update). What comes twice
    /// then is known by its key.
    pub async fn poll(self: Arc<Self>, mut offset: Option<(i64, i64)>, batches: mpsc::Sender<Batch>) {
        let mut failures = 0;
        loop {
            let wait = match self.ask(offset, self.poll_timeout).await {
                Ok(Value::Array(updates)) => {
                    failures = 0;
                    self.pulse.ok();
                    match self.hand_over(&updates, &batches).await {
                        Handed::Nothing => continue,
                        Handed::Taken(next) => {
                            offset = Some((next, clock::now_ms()));
                            continue;
                        }
                        // It could not be stored: ask for the same again after a pause.
                        Handed::Refused => net::backoff(0, BACKOFF.0, BACKOFF.1),
                        Handed::Closed => return,
                    }
                }
                Ok(_) => self.failed(&mut failures, &Error::Lost("the answer is no list".to_owned())),
                Err(error) => self.failed(&mut failures, &error),
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = batches.closed() => return,
            }
        }
    }

    /// Takes what waits, once, and returns when nothing more does.
    ///
    /// # Errors
    /// When Telegram cannot be asked or nobody takes batches; says why.
    pub async fn collect(self: Arc<Self>, mut offset: Option<(i64, i64)>, batches: mpsc::Sender<Batch>) -> Result<(), String> {
        loop {
            let answer = self.ask(offset, Duration::ZERO).await.map_err(|error| error.to_string())?;
            let updates = answer.as_array().ok_or("the answer is no list")?;
            self.pulse.ok();
            match self.hand_over(updates, &batches).await {
                Handed::Nothing => return Ok(()),
                Handed::Taken(next) => offset = Some((next, clock::now_ms())),
                Handed::Refused | Handed::Closed => return Err("what came could not be stored".to_owned()),
            }
        }
    }

    async fn ask(&self, offset: Option<(i64, i64)>, timeout: Duration) -> Result<Value, Error> {
        let offset = offset.filter(|(_, moved)| clock::now_ms() - moved < OFFSET_LIFE_MS);
        let mut payload =
            GetUpdates::new().timeout(u32::try_from(timeout.as_secs()).unwrap_or(50)).allowed_updates([AllowedUpdate::Message]);
        if let Some(next) = offset.and_then(|(next, _)| i32::try_from(next).ok()) {
            payload = payload.offset(next);
        }
        self.api.call(&payload, timeout + GRACE).await
    }

    async fn hand_over(&self, updates: &[Value], batches: &mpsc::Sender<Batch>) -> Handed {
        let bot = self.bot_id();
        let Some(last) = updates.iter().filter_map(update_id).max() else { return Handed::Nothing };
        let username = self.username.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let items = updates.iter().filter_map(|raw| incoming(raw, bot, username.as_deref())).collect();
        let (done, taken) = oneshot::channel();
        if batches.send(Batch { offset: (bot, last + 1), items, done }).await.is_err() {
            return Handed::Closed;
        }
        match taken.await {
            Ok(()) => Handed::Taken(last + 1),
            Err(_) => Handed::Refused,
        }
    }

    /// Notes a failed poll and returns how long to wait.
    fn failed(&self, failures: &mut u32, error: &Error) -> Duration {
        let (state, wait) = match error {
            Error::Refused { status: 401 | 404, .. } => ("unauthorized: the bot token is wrong".to_owned(), UNAUTHORIZED),
            Error::Refused { status: 409, .. } => {
                self.api.reconnect();
                let state = "conflict: another program polls with the same token, or a webhook is set";
                (state.to_owned(), self.poll_timeout.max(BACKOFF.0))
            }
            Error::Refused { retry_after: Some(wait), .. } => (error.to_string(), *wait),
            Error::Refused { .. } | Error::Unreachable(_) => (error.to_string(), net::backoff(*failures, BACKOFF.0, BACKOFF.1)),
            Error::Lost(_) => {
                self.api.reconnect();
                (error.to_string(), net::backoff(*failures, BACKOFF.0, BACKOFF.1))
            }
        };
        *failures += 1;
        tracing::warn!(%error, wait_ms = wait.as_millis(), "a poll of Telegram failed");
        self.pulse.wrong(&state);
        wait
    }
}

/// What became of a batch.
enum Handed {
    Nothing,
    Taken(i64),
    Refused,
    Closed,
}
