//! Step 4, deliver: stored parts go out, each chat's in order, chats side by side.
//!
//! | what happened to a send | what is done |
//! |---|---|
//! | never written, or an error status | again, as long as it takes |
//! | markup refused | the same part as plain text |
//! | written, no answer; or we died meanwhile | `unknown`: once more, marked "(resent)" |
//! | the same a third time, or 15 minutes after it was written | dead letter, the chat is told |
//! | refused for good | dead letter, the chat is told unless it is what refuses |

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::channel;
use crate::channel::{Channel, SendError};
use crate::message::Route;
use crate::pipeline::Pipeline;
use crate::queue::{Aftermath, Part};
use crate::{clock, net};

/// Waiting after a failed send (specification §6).
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A part that may have arrived longer ago than this is not sent again (specification §0).
const TOO_OLD_MS: i64 = 15 * 60 * 1000;
/// Times a part may end unknown. The first bad luck is answered by a marked copy, and so is a
/// second: losing an answer is worse than a marked double.
const MAX_UNKNOWNS: i64 = 3;

/// Parts that wait, a queue a chat; a chat is in the map while a task works on it.
#[derive(Debug, Clone, Default)]
pub struct Outgoing(Arc<Mutex<HashMap<Route, VecDeque<Part>>>>);

impl Outgoing {
    /// Adds a part; true when its chat needs a task.
    fn push(&self, part: Part) -> bool {
        let mut chats = self.0.lock();
        let key = part.content.route.clone();
        match chats.get_mut(&key) {
            Some(queue) => {
                queue.push_back(part);
                false
            }
            None => {
                chats.insert(key, VecDeque::from([part]));
                true
            }
        }
    }

    /// Takes the next part of a chat; a chat without parts leaves the map.
    fn pop(&self, key: &Route) -> Option<Part> {
        let mut chats = self.0.lock();
        let part = chats.get_mut(key).and_then(VecDeque::pop_front);
        if part.is_none() {
            chats.remove(key);
        }
        part
    }

    /// Returns true when nothing waits and nothing is being sent.
    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl Pipeline {
    /// Sends stored parts, after what waits for the same chats already.
    pub fn deliver(self: &Arc<Self>, parts: Vec<Part>) {
        for part in parts {
            let key = part.content.route.clone();
            if self.outgoing.push(part) {
                tokio::spawn(self.clone().work_off(key));
            }
        }
    }

    /// Waits until nothing is left to send, but no longer than `patience`.
    pub async fn sends_end(&self, patience: Duration) {
        let empty = async {
            while !self.outgoing.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // What is left is in the queue.
        let _ = tokio::time::timeout(patience, empty).await;
    }

    /// Works off one chat.
    async fn work_off(self: Arc<Self>, key: Route) {
        while let Some(part) = self.outgoing.pop(&key) {
            match self.channels.get(key.channel.as_str()) {
                Some(channel) => self.send(channel.clone(), part).await,
                // The channel is switched off: its parts stay pending until it is on again.
                None => tracing::warn!(
                    channel = key.channel,
                    "an answer waits for a channel that is off"
                ),
            }
        }
    }

    async fn send(&self, channel: Arc<dyn Channel>, mut part: Part) {
        let mut failures = 0;
        while !self.closed.is_cancelled() {
            // Not while it is noted as being sent: a crash in a long wait is no doubt about its arrival.
            if self
                .closed
                .run_until_cancelled(channel.ready(&part.content.route.chat))
                .await
                .is_none()
            {
                return;
            }
            let now = clock::now_ms();
            let too_old = part.sending_at.is_some_and(|at| now - at > TOO_OLD_MS);
            if part.unknowns >= MAX_UNKNOWNS || (part.unknowns > 0 && too_old) {
                self.bury(&part, "nobody can say whether it arrived").await;
                self.tell(&channel, &part).await;
                return;
            }
            if self
                .persist("a send", || self.queue.sending(part.id, now))
                .await
                .is_none()
            {
                return;
            }
            if part.unknowns == 0 {
                part.sending_at = Some(now);
            }
            let files: Vec<_> = part
                .content
                .files
                .iter()
                .map(|file| (file.clone(), self.downloads.join(&file.path)))
                .collect();
            let outgoing = channel::Outgoing {
                chat: &part.content.route.chat,
                reply_to: part.content.reply_to.as_deref(),
                markup: part.content.markup.as_deref(),
                plain: &part.content.plain,
                files: &files,
                reaction: part.content.reaction.as_deref(),
                buttons: &part.content.buttons,
                resent: part.unknowns > 0,
            };
            let sent = channel.send(outgoing).await;
            let (aftermath, wait) = match sent {
                Ok(message_id) => {
                    self.settle(&part, Aftermath::Sent { message_id }).await;
                    return;
                }
                Err(SendError::Never {
                    reason,
                    chat_is_there,
                }) => {
                    self.bury(&part, &reason).await;
                    if chat_is_there {
                        self.tell(&channel, &part).await;
                    }
                    return;
                }
                Err(SendError::Markup(reason)) => {
                    tracing::warn!(reason, "an answer goes out as plain text");
                    part.content.markup = None;
                    (Aftermath::Plain, Duration::ZERO)
                }
                Err(SendError::NotSent {
                    reason,
                    retry_after,
                }) => {
                    tracing::warn!(reason, "an answer was not sent; it is tried again");
                    (
                        Aftermath::NotSent,
                        retry_after.unwrap_or_else(|| net::backoff(failures, BACKOFF.0, BACKOFF.1)),
                    )
                }
                Err(SendError::Unknown(reason)) => {
                    tracing::warn!(reason, "nobody can say whether an answer arrived");
                    part.unknowns += 1;
                    (
                        Aftermath::Unknown,
                        net::backoff(failures, BACKOFF.0, BACKOFF.1),
                    )
                }
            };
            self.settle(&part, aftermath).await;
            failures += 1;
            tokio::select! {
                () = self.closed.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn settle(&self, part: &Part, aftermath: Aftermath) {
        let now = clock::now_ms();
        self.audit_send(part, &aftermath);
        self.persist("what became of a send", || {
            self.queue.settle(part.id, aftermath.clone(), now)
        })
        .await;
    }

    async fn bury(&self, part: &Part, reason: &str) {
        tracing::error!(part = part.id, reason, "an answer is a dead letter");
        self.note_trouble(&format!("an answer is a dead letter: {reason}"));
        self.settle(
            part,
            Aftermath::Dead {
                reason: reason.to_owned(),
            },
        )
        .await;
    }

    /// Tells the chat that an answer may be missing. One try: it is a courtesy, the dead letter
    /// is the record.
    async fn tell(&self, channel: &Arc<dyn Channel>, part: &Part) {
        // Nobody misses an emoji.
        if part.content.reaction.is_some() {
            return;
        }
        let text = format!(
            "An answer of mine from {} may not have reached you. Ask again if something is missing.",
            clock::local_text(part.created_at, self.live().config.agent.timezone.0)
        );
        let notice = channel::Outgoing {
            chat: &part.content.route.chat,
            reply_to: None,
            markup: None,
            plain: &text,
            files: &[],
            reaction: None,
            buttons: &[],
            resent: false,
        };
        match channel.send(notice).await {
            Ok(message_id) => self.audit_notice(part, &message_id),
            Err(error) => tracing::warn!(%error, "the chat could not be told of a dead letter"),
        }
    }
}
