//! Long polling: acknowledges only what is on disk, and never waits forever.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teloxide::payloads::DeleteWebhook;
use tokio::sync::mpsc;

use super::NotStored;
use super::updates::{is_of_group, update_id};
use crate::channel::Batch;
use crate::channel::telegram::Telegram;
use crate::channel::telegram::health::{Failures, PollError};
use crate::channel::telegram::send::api::{Error, Request};
use crate::clock::{self, Moment};
use crate::net;

/// The updates we want.
pub(super) const ALLOWED: [&str; 5] = [
    "message",
    "edited_message",
    "channel_post",
    "edited_channel_post",
    "callback_query",
];
/// Waiting when updates could not be stored.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// What a poll may take beyond its own timeout: as long again, within these. With the shortest timeout
/// there is still time to connect.
const GRACE: (Duration, Duration) = (Duration::from_millis(1500), Duration::from_secs(10));
/// The timeout of calls that wait for nothing.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Waiting when a server answers at once and says nothing new, though it was asked to wait for news.
const HASTY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// How often to look whether the machine slept while a poll is open; less than `SLEEP` may be a busy
/// machine.
const SLEEP_CHECK: Duration = Duration::from_secs(5);
const SLEEP: Duration = Duration::from_secs(30);
/// An offset that has not moved for so long is not to be trusted (specification §6).
const OFFSET_LIFE_MS: i64 = 6 * 24 * 3600 * 1000;
/// One that was moved in the future, by a clock that was set back since, for so long: together less than
/// the week after which ids restart.
const OFFSET_AHEAD_MS: i64 = 12 * 3600 * 1000;

/// The next update id, and when it was last moved, milliseconds since 1970 UTC.
type Offset = Option<(i64, i64)>;

impl Telegram {
    /// Polls forever, from update `offset` on; every batch goes to `batches`, and the next poll,
    /// which acknowledges it, begins only when it was stored. Ends when nobody takes batches.
    pub(crate) async fn poll(&self, mut offset: Offset, batches: &mpsc::Sender<Batch>) {
        let mut failures = Failures::default();
        let (mut hasty, mut refused) = (0, 0);
        // The first poll, and that after a sleep, returns at once: so it is soon known how we are.
        let mut prompt = true;
        loop {
            let began = Instant::now();
            let timeout = if prompt {
                Duration::ZERO
            } else {
                self.poll_timeout
            };
            let polled = self.get_updates(offset, timeout, deadline(self.poll_timeout));
            let wait = match polled.await {
                Ok(updates) => {
                    prompt = false;
                    failures.end(&self.health);
                    let stored = self.store_polled(&updates, batches).await;
                    if let Ok(next) = stored {
                        refused = 0;
                        let news = next > offset.map(|(next, _)| next);
                        offset = next.map_or(offset, |next| Some((next, clock::now_ms())));
                        let calm = news || began.elapsed() >= timeout / 2;
                        hasty = (hasty + 1) * u32::from(!calm);
                    }
                    match stored {
                        Err(NotStored::Closed) => return,
                        // Ask for the same again after a pause.
                        Err(NotStored::Refused) => {
                            refused += 1;
                            net::backoff(refused - 1, REFUSED.0, REFUSED.1)
                        }
                        Ok(_) if hasty == 0 => continue,
                        Ok(_) => net::backoff(hasty - 1, HASTY.0, HASTY.1),
                    }
                }
                Err(error) => {
                    prompt = matches!(error, PollError::Slept(_));
                    if error.needs_new_connection() {
                        self.api.reconnect();
                    }
                    if error.is_webhook() && failures.may_remove_webhook() {
                        self.remove_webhook().await;
                    }
                    failures.add(&error, self.poll_timeout, &self.health)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = batches.closed() => return,
            }
        }
    }

    /// Receives what waits, once, and returns when nothing more does.
    ///
    /// # Errors
    /// When Telegram cannot be asked or nobody takes batches; says why.
    pub(crate) async fn poll_once(
        &self,
        mut offset: Offset,
        batches: &mpsc::Sender<Batch>,
    ) -> Result<(), String> {
        let mut failures = Failures::default();
        loop {
            let updates = match self.get_updates(offset, Duration::ZERO, TIMEOUT).await {
                Ok(updates) => updates,
                Err(error) if error.is_webhook() && failures.may_remove_webhook() => {
                    self.remove_webhook().await;
                    continue;
                }
                Err(error) => return Err(error.to_string()),
            };
            self.health.ok();
            let next = self.store_polled(&updates, batches).await;
            let next = next.map_err(|_| "updates could not be stored".to_owned())?;
            // A server that brings the same again does not hear what is acknowledged.
            match next.filter(|next| offset.is_none_or(|(before, _)| *next > before)) {
                Some(next) => offset = Some((next, clock::now_ms())),
                None => return Ok(()),
            }
        }
    }

    /// Removes the webhook that keeps us from polling, and nothing of what waits behind it.
    async fn remove_webhook(&self) {
        let remove = DeleteWebhook {
            drop_pending_updates: Some(false),
        };
        match self.api.call(Request::from(remove).within(TIMEOUT)).await {
            Ok(_) => tracing::warn!(
                "a webhook was set for this bot; it was removed, updates are fetched by polls"
            ),
            Err(error) => {
                tracing::warn!(%error, "cannot remove the webhook of this bot")
            }
        }
    }

    /// Asks for updates; gives up after `deadline`, or when the machine slept meanwhile: nobody knows
    /// then what became of the connection.
    async fn get_updates(
        &self,
        offset: Offset,
        timeout: Duration,
        deadline: Duration,
    ) -> Result<Vec<Value>, PollError> {
        // teloxide's offset has only 32 bits.
        let parameters = json!({
            "offset": usable(offset, clock::now_ms()),
            "timeout": timeout.as_secs(),
            "allowed_updates": ALLOWED,
        });
        let request = Request::new("getUpdates", parameters).within(deadline + GRACE.1);
        let answer = tokio::select! {
            answer = tokio::time::timeout(deadline, self.api.call(request)) => answer,
            slept = machine_sleep() => return Err(PollError::Slept(slept)),
        };
        match answer.map_err(|_| PollError::Silent(deadline))?? {
            Value::Array(updates) => Ok(updates),
            _ => Err(Error::Lost("the answer is no list".to_owned()).into()),
        }
    }

    /// Stores updates and returns the next update id, `None` when there are none.
    async fn store_polled(
        &self,
        updates: &[Value],
        batches: &mpsc::Sender<Batch>,
    ) -> Result<Option<i64>, NotStored> {
        let Some(last) = updates.iter().filter_map(update_id).max() else {
            // Something that is not an update would come at once again.
            let nothing = updates.is_empty().then_some(None);
            return nothing.ok_or(NotStored::Refused);
        };
        // Without our name nobody could say who in a group speaks to us: a question would be ignored.
        if updates.iter().any(is_of_group)
            && let Err(error) = self.learn_name().await
        {
            // Asked again, these would be refused again.
            if !matches!(
                error,
                Error::Refused {
                    status: 400..=428,
                    ..
                }
            ) {
                tracing::warn!(%error, "updates wait until the bot's name is known");
                return Err(NotStored::Refused);
            }
            tracing::warn!(%error, "cannot read the bot's name");
        }
        let mut updates: Vec<&Value> = updates.iter().collect();
        // Their ids are their order, whatever order they come in (core.telegram.org/bots/api#update).
        updates.sort_by_key(|raw| update_id(raw));
        let next = last.saturating_add(1);
        let offset = Some((self.bot_id(), next));
        self.store(&updates, offset, batches).await?;
        Ok(Some(next))
    }
}

/// Returns after how long a poll is given up: at most two of its timeouts, except for the shortest one.
fn deadline(timeout: Duration) -> Duration {
    timeout + timeout.clamp(GRACE.0, GRACE.1)
}

/// Returns the update id to begin with, `None` to begin with whatever waits.
///
/// An offset is forgotten after six quiet days: after a week without updates Telegram restarts its ids
/// anywhere, and an offset above that would make every message vanish (core.telegram.org/bots/api#update).
/// When clocks were set, its age is not known, and it is forgotten, too. What comes twice then is
/// known by its key.
fn usable(offset: Offset, now_ms: i64) -> Option<i64> {
    let (next, moved) = offset?;
    let age = now_ms.saturating_sub(moved);
    let trusted = (-OFFSET_AHEAD_MS..OFFSET_LIFE_MS).contains(&age);
    trusted.then_some(next)
}

/// Returns when more time went by than our timers counted, and how much.
async fn machine_sleep() -> Duration {
    let mut before = Moment::now();
    loop {
        tokio::time::sleep(SLEEP_CHECK).await;
        let now = Moment::now();
        let lost = now.lost_since(before);
        if lost > SLEEP {
            return lost;
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_is_given_up_within_two_timeouts_but_for_the_shortest() {
        let secs = |timeout| deadline(Duration::from_secs(timeout)).as_secs_f64();
        assert_eq!([1, 2, 5, 30, 50].map(secs), [2.5, 4.0, 10.0, 40.0, 60.0]);
    }

    #[test]
    fn an_offset_lives_six_days_whatever_happens_to_the_clock() {
        const DAY: i64 = 24 * 3600 * 1000;
        let now = 20_000 * DAY;
        for (moved, expected) in [
            (now, Some(7)),
            (now - 6 * DAY + 1, Some(7)),
            (now - 6 * DAY, None),
            // It was moved while the clock was ahead: a little, and ten years.
            (now + DAY / 2, Some(7)),
            (now + DAY / 2 + 1, None),
            (now + 3650 * DAY, None),
            // 1970, and nonsense.
            (0, None),
            (i64::MIN, None),
            (i64::MAX, None),
        ] {
            assert_eq!(usable(Some((7, moved)), now), expected, "{moved}");
        }
        assert_eq!(usable(Some((7, i64::MIN)), i64::MAX), None);
        assert_eq!(usable(Some((7, i64::MAX)), i64::MIN), None);
        assert_eq!(usable(None, now), None);
    }
}
