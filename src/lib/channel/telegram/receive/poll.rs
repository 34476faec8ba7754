//! Messages in: long polling that acknowledges only what is on the disk, and never waits for ever.

use std::time::{Duration, Instant};

use serde_json::Value;
use teloxide::payloads::DeleteWebhook;
use tokio::sync::{mpsc, oneshot};

use super::update::{incoming, is_of_group, update_id};
use crate::channel::Batch;
use crate::channel::telegram::health::{Line, Trouble};
use crate::channel::telegram::send::api::Error;
use crate::channel::telegram::send::calls::GetUpdates;
use crate::channel::telegram::send::messages::Telegram;
use crate::clock;
use crate::clock::Moment;
use crate::net;

/// Waiting when what came could not be stored.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// What a poll may take beyond its own timeout: as long again, within these. With the shortest timeout
/// there is still time to connect.
const GRACE: (Duration, Duration) = (Duration::from_millis(1500), Duration::from_secs(10));
/// Calls that wait for nothing have so long.
const PROMPT: Duration = Duration::from_secs(10);
/// Waiting when a server answers at once and says nothing new, though it was asked to wait for news.
const HASTY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// Whether the machine slept is looked at this often while a poll is open; less than that may be a busy
/// machine.
const LOOK: Duration = Duration::from_secs(5);
const SLEEP: Duration = Duration::from_secs(30);
/// An offset that has not moved for so long is not to be trusted (specification §6).
const OFFSET_LIFE_MS: i64 = 6 * 24 * 3600 * 1000;
/// One that was moved in the future, by a clock that was set back since, for so long: together less than
/// the week after which ids begin anew.
const OFFSET_AHEAD_MS: i64 = 12 * 3600 * 1000;

/// The next update id, and when it was last moved, milliseconds since 1970 UTC.
type Offset = Option<(i64, i64)>;

impl Telegram {
    /// Polls for ever, from update `offset` on; every batch goes to `batches`, and the next poll,
    /// which acknowledges it, begins only when it was taken. Ends when nobody takes batches.
    pub(crate) async fn poll(&self, mut offset: Offset, batches: &mpsc::Sender<Batch>) {
        let mut line = Line::default();
        let (mut hasty, mut refused) = (0, 0);
        // The first poll, and that after a sleep, waits for no news: so it is soon known how we are.
        let mut prompt = true;
        loop {
            let began = Instant::now();
            let timeout = if prompt {
                Duration::ZERO
            } else {
                self.poll_timeout
            };
            let wait = match self.ask(offset, timeout, patience(self.poll_timeout)).await {
                Ok(updates) => {
                    prompt = false;
                    line.works(&self.pulse);
                    let before = offset.map(|(next, _)| next);
                    match self.hand_over(&updates, batches).await {
                        Handed::Closed => return,
                        // It could not be stored: ask for the same again after a pause.
                        Handed::Refused => {
                            refused += 1;
                            net::backoff(refused - 1, REFUSED.0, REFUSED.1)
                        }
                        handed => {
                            refused = 0;
                            let news = matches!(handed, Handed::Taken(next) if before.is_none_or(|before| next > before));
                            if let Handed::Taken(next) = handed {
                                offset = Some((next, clock::now_ms()));
                            }
                            if news || began.elapsed() >= timeout / 2 {
                                hasty = 0;
                                continue;
                            }
                            hasty += 1;
                            net::backoff(hasty - 1, HASTY.0, HASTY.1)
                        }
                    }
                }
                Err(trouble) => {
                    prompt = matches!(trouble, Trouble::Slept(_));
                    if trouble.needs_new_connection() {
                        self.api.reconnect();
                    }
                    if trouble.is_webhook() && line.may_unhook() {
                        self.unhook().await;
                    }
                    line.fails(&trouble, self.poll_timeout, &self.pulse)
                }
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
    pub(crate) async fn collect(
        &self,
        mut offset: Offset,
        batches: &mpsc::Sender<Batch>,
    ) -> Result<(), String> {
        let mut line = Line::default();
        loop {
            let updates = match self.ask(offset, Duration::ZERO, PROMPT).await {
                Ok(updates) => updates,
                Err(trouble) if trouble.is_webhook() && line.may_unhook() => {
                    self.unhook().await;
                    continue;
                }
                Err(trouble) => return Err(trouble.to_string()),
            };
            self.pulse.ok();
            match self.hand_over(&updates, batches).await {
                Handed::Nothing => return Ok(()),
                // What came before comes again for ever: this server does not hear what is acknowledged.
                Handed::Taken(next) if offset.is_some_and(|(before, _)| next <= before) => {
                    return Ok(());
                }
                Handed::Taken(next) => offset = Some((next, clock::now_ms())),
                Handed::Refused | Handed::Closed => {
                    return Err("what came could not be stored".to_owned());
                }
            }
        }
    }

    /// Takes the webhook away that keeps us from polling, and nothing of what waits behind it.
    async fn unhook(&self) {
        match self
            .api
            .call(
                &DeleteWebhook {
                    drop_pending_updates: Some(false),
                },
                PROMPT,
            )
            .await
        {
            Ok(_) => tracing::warn!(
                "a webhook was set for this bot; it was removed, messages are fetched by polls"
            ),
            Err(error) => {
                tracing::warn!(%error, "the webhook that is set for this bot could not be removed")
            }
        }
    }

    /// Asks for updates; gives up after `patience`, or when the machine slept meanwhile: nobody knows
    /// then what became of the connection.
    async fn ask(
        &self,
        offset: Offset,
        timeout: Duration,
        patience: Duration,
    ) -> Result<Vec<Value>, Trouble> {
        let payload = GetUpdates::new(usable(offset, clock::now_ms()), timeout.as_secs());
        let call = tokio::time::timeout(patience, self.api.call(&payload, patience + GRACE.1));
        let answer = tokio::select! {
            answer = call => answer.map_err(|_| Trouble::Silent(patience))?,
            slept = sleep_of_the_machine() => return Err(Trouble::Slept(slept)),
        };
        match answer {
            Ok(Value::Array(updates)) => Ok(updates),
            Ok(_) => Err(Error::Lost("the answer is no list".to_owned()).into()),
            Err(error) => Err(error.into()),
        }
    }

    async fn hand_over(&self, updates: &[Value], batches: &mpsc::Sender<Batch>) -> Handed {
        let bot = self.bot_id();
        let Some(last) = updates.iter().filter_map(update_id).max() else {
            // Something that is no update would come at once again.
            return if updates.is_empty() {
                Handed::Nothing
            } else {
                Handed::Refused
            };
        };
        let next = last.saturating_add(1);
        // Without our name nobody could say who in a group speaks to us: a question would only be overheard.
        if updates.iter().any(is_of_group) {
            match self.learn_name().await {
                Ok(()) => {}
                // It would be refused again.
                Err(
                    error @ Error::Refused {
                        status: 400..=428, ..
                    },
                ) => tracing::warn!(%error, "the bot's name is not known"),
                Err(error) => {
                    tracing::warn!(%error, "what came waits until the bot's name is known");
                    return Handed::Refused;
                }
            }
        }
        let us = self.identity();
        let mut updates: Vec<&Value> = updates.iter().collect();
        // Their ids are their order, whatever order they come in (core.telegram.org/bots/api#update).
        updates.sort_by_key(|raw| update_id(raw));
        let items = updates
            .into_iter()
            .filter_map(|raw| incoming(raw, &us))
            .collect();
        let (done, taken) = oneshot::channel();
        if batches
            .send(Batch {
                offset: Some((bot, next)),
                items,
                done,
            })
            .await
            .is_err()
        {
            return Handed::Closed;
        }
        match taken.await {
            Ok(()) => {
                self.pulse.update();
                Handed::Taken(next)
            }
            Err(_) => Handed::Refused,
        }
    }
}

/// What became of a batch.
enum Handed {
    Nothing,
    Taken(i64),
    Refused,
    Closed,
}

/// Returns after how long a poll is given up: at most two of its timeouts, but for the shortest one.
fn patience(timeout: Duration) -> Duration {
    timeout + timeout.clamp(GRACE.0, GRACE.1)
}

/// Returns the update id to begin with, `None` to begin with whatever waits.
///
/// An offset is forgotten after six quiet days: after a week without updates Telegram counts anew from
/// anywhere, and an offset above that would make every message vanish (core.telegram.org/bots/api#update).
/// When clocks were set, its age is anybody's guess, and it is forgotten, too. What comes twice then is
/// known by its key.
fn usable(offset: Offset, now_ms: i64) -> Option<i64> {
    let (next, moved) = offset?;
    let age = now_ms.saturating_sub(moved);
    (-OFFSET_AHEAD_MS..OFFSET_LIFE_MS)
        .contains(&age)
        .then_some(next)
}

/// Returns when more time went by than our timers counted, and how much.
async fn sleep_of_the_machine() -> Duration {
    let mut before = Moment::now();
    loop {
        tokio::time::sleep(LOOK).await;
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
        let secs = |timeout| patience(Duration::from_secs(timeout)).as_secs_f64();
        assert_eq!([1, 2, 5, 30, 50].map(secs), [2.5, 4.0, 10.0, 40.0, 60.0]);
    }

    #[test]
    fn an_offset_lives_six_days_whatever_happens_to_the_clock() {
        const DAY: i64 = 24 * 3600 * 1000;
        let now = 20_000 * DAY;
        let check =
            |moved, expected| assert_eq!(usable(Some((7, moved)), now), expected, "{moved}");
        check(now, Some(7));
        check(now - 6 * DAY + 1, Some(7));
        check(now - 6 * DAY, None);
        // It was moved while the clock was ahead: a little, and ten years.
        check(now + DAY / 2, Some(7));
        check(now + DAY / 2 + 1, None);
        check(now + 3650 * DAY, None);
        // 1970, and nonsense.
        check(0, None);
        check(i64::MIN, None);
        check(i64::MAX, None);
        assert_eq!(
            (
                usable(Some((7, i64::MIN)), i64::MAX),
                usable(Some((7, i64::MAX)), i64::MIN)
            ),
            (None, None)
        );
        assert_eq!(usable(None, now), None);
    }
}
