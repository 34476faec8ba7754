//! How a call reaches its chat: in its turn, at the group's new id, and without a topic that is gone.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use teloxide::requests::Payload;
use teloxide::types::{ChatId, MessageId, ReplyParameters, ThreadId};

use super::api::Error;
use super::classify_error;
use crate::channel::SendError;
use crate::channel::telegram::Telegram;
use crate::message::ChatRef;

/// Other ids tried for one call. One is the rule; a server that sends us round in circles ends here.
const MOVES: usize = 2;

/// Where something goes, in Telegram's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct To {
    pub(crate) chat: i64,
    topic: Option<i32>,
    reply_to: Option<i32>,
}

impl To {
    /// Reads where a message goes, and which one it answers.
    pub(crate) fn new(chat: &ChatRef, reply_to: Option<&str>) -> Result<Self, SendError> {
        let never = |_| SendError::Never {
            reason: format!("{} is no chat id", chat.chat),
            chat_is_there: false,
        };
        Ok(Self {
            chat: chat.chat.parse().map_err(never)?,
            // The General topic is addressed without its id.
            topic: chat
                .topic
                .as_deref()
                .filter(|topic| *topic != "1")
                .and_then(|topic| topic.parse().ok()),
            reply_to: reply_to.and_then(|id| id.parse().ok()),
        })
    }

    pub(crate) fn id(self) -> ChatId {
        ChatId(self.chat)
    }

    pub(crate) fn topic(self) -> Option<ThreadId> {
        self.topic.map(|id| ThreadId(MessageId(id)))
    }

    pub(crate) fn reply(self) -> Option<ReplyParameters> {
        self.reply_to
            .map(|id| ReplyParameters::new(MessageId(id)).allow_sending_without_reply())
    }

    /// Returns the message it is about.
    pub(crate) fn message(self) -> Option<MessageId> {
        self.reply_to.map(MessageId)
    }
}

impl Telegram {
    /// Makes a call about no chat, in its turn.
    pub(crate) async fn in_turn<P: Payload + Serialize>(
        &self,
        payload: &P,
        timeout: Duration,
    ) -> Result<Value, Error> {
        self.pace.turn(None).await;
        let result = self.api.call(payload, timeout).await;
        self.heed(None, result.as_ref().err());
        result
    }

    /// Makes a call about a chat, in its turn.
    pub(crate) async fn reach<F>(&self, to: To, call: impl Fn(To) -> F) -> Result<Value, Error>
    where
        F: Future<Output = Result<Value, Error>>,
    {
        let to = self.moved(to);
        self.pace.turn(Some(to.chat)).await;
        self.call_at(to, call).await
    }

    /// Makes a call about a chat that may as well not be made; `None` when there is no room for it
    /// within `patience`.
    pub(crate) async fn reach_if_room<F>(
        &self,
        to: To,
        patience: Duration,
        call: impl Fn(To) -> F,
    ) -> Result<Option<Value>, Error>
    where
        F: Future<Output = Result<Value, Error>>,
    {
        let to = self.moved(to);
        if !self.pace.spare(to.chat, patience).await {
            return Ok(None);
        }
        self.call_at(to, call).await.map(Some)
    }

    async fn call_at<F>(&self, mut to: To, call: impl Fn(To) -> F) -> Result<Value, Error>
    where
        F: Future<Output = Result<Value, Error>>,
    {
        let mut moves = 0;
        loop {
            let result = call(to).await;
            self.heed(Some(to.chat), result.as_ref().err());
            let Err(error) = result else { return result };
            to = match error {
                Error::Refused {
                    moved_to: Some(new),
                    ..
                } if moves < MOVES && new != to.chat => {
                    moves += 1;
                    self.note_move(to.chat, new);
                    self.moved(to)
                }
                // In the wrong place of the right group is better than nowhere.
                _ if to.topic.is_some() && classify_error::topic_is_gone(&error) => {
                    tracing::warn!(
                        chat = to.chat,
                        topic = to.topic,
                        "a topic is gone; what was for it goes to its chat"
                    );
                    To { topic: None, ..to }
                }
                error => return Err(error),
            };
            self.pace.turn(Some(to.chat)).await;
        }
    }

    /// Does as Telegram asks: nobody comes back before the time.
    fn heed(&self, chat: Option<i64>, error: Option<&Error>) {
        if let Some(Error::Refused {
            retry_after: Some(wait),
            ..
        }) = error
        {
            self.pace.close(chat, *wait);
        }
    }

    /// Returns where a chat is now. What was answered and the topics stayed at the old id.
    fn moved(&self, to: To) -> To {
        let moved = self.moved.lock();
        moved.get(&to.chat).map_or(to, |new| To {
            chat: *new,
            topic: None,
            reply_to: None,
        })
    }

    fn note_move(&self, old: i64, new: i64) {
        tracing::warn!(
            old,
            new,
            "a group has a new id: change it in [telegram.groups] of agent.toml, or it is not heard any more"
        );
        let mut moved = self.moved.lock();
        // Whoever was sent to the old id goes to the newest at once.
        moved
            .values_mut()
            .filter(|id| **id == old)
            .for_each(|id| *id = new);
        moved.remove(&new);
        moved.insert(old, new);
    }
}
