//! One call of the Bot API: it waits for its turn, obeys `retry_after`, and is repeated if its chat has moved.

use std::time::Duration;

use serde_json::Value;
use teloxide::types::{ChatId, MessageId, ReplyParameters, ThreadId};

use super::api::{Error, Request, refused};
use super::unsendable;
use crate::channel::SendError;
use crate::channel::telegram::Telegram;
use crate::message::ChatRef;

/// When a call may leave.
#[derive(Clone, Copy)]
pub(crate) enum Turn {
    /// In its turn, however long that takes.
    Wait,
    /// Only when there is room within this time; otherwise it fails as [`Error::NoRoom`].
    Within(Duration),
}

/// Where a call goes, in Telegram's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) chat: i64,
    pub(super) topic: Option<i32>,
    /// The message that is answered, or that the call is about.
    pub(super) message: Option<i32>,
}

impl Target {
    /// Returns the target of a new message, which may answer another.
    pub(crate) fn new(chat: &ChatRef, reply_to: Option<&str>) -> Result<Self, SendError> {
        let never = |_| SendError::Never {
            reason: format!("{} is no chat id", chat.chat),
            chat_is_there: false,
        };
        // The General topic is addressed without its id.
        let topic = chat.topic.as_deref().filter(|topic| *topic != "1");
        Ok(Self {
            chat: chat.chat.parse().map_err(never)?,
            topic: topic.and_then(|topic| topic.parse().ok()),
            message: reply_to.and_then(|id| id.parse().ok()),
        })
    }

    /// Returns the target of a call about a message.
    pub(crate) fn about(chat: &ChatRef, message: &str) -> Result<Self, SendError> {
        let target = Self::new(chat, Some(message))?;
        if target.message.is_none() {
            return Err(unsendable(&format!("{message} is no message id")));
        }
        Ok(target)
    }

    pub(crate) fn id(self) -> ChatId {
        ChatId(self.chat)
    }

    pub(crate) fn topic(self) -> Option<ThreadId> {
        self.topic.map(|id| ThreadId(MessageId(id)))
    }

    pub(crate) fn reply(self) -> Option<ReplyParameters> {
        let reply = |id| ReplyParameters::new(MessageId(id)).allow_sending_without_reply();
        self.message.map(reply)
    }

    /// Returns the message the call is about, which a group that moved does not have under that id.
    pub(crate) fn message(self) -> Result<MessageId, Error> {
        const MOVED: &str =
            "the message is in a group that has a new id, and has another one there";
        self.message
            .map(MessageId)
            .ok_or_else(|| refused(400, MOVED))
    }
}

impl Telegram {
    /// Makes a call about no chat, in its turn. While Telegram wants no more calls of its method for long, it fails at once:
    /// nobody else waits for that.
    pub(crate) async fn call(&self, request: impl Into<Request>) -> Result<Value, Error> {
        let request = request.into();
        let method = request.method;
        if let Err(rest) = self.pace.rested(method).await {
            return Err(Error::Refused {
                status: 429,
                description: format!("Too Many Requests: no {method} for {} s", rest.as_secs()),
                retry_after: Some(rest),
                moved_to: None,
            });
        }
        self.pace.turn(None).await;
        let result = self.api.call(request).await;
        if let Some(rest) = retry_after(&result) {
            self.pace.close_method(method, rest);
        }
        result
    }

    /// Makes a call about a chat; `request` is asked again for every other target that is tried.
    pub(crate) async fn call_in_chat<R: Into<Request>>(
        &self,
        target: Target,
        turn: Turn,
        request: impl Fn(Target) -> Result<R, Error>,
    ) -> Result<Value, Error> {
        let mut target = self.moved(target);
        match turn {
            Turn::Wait => self.pace.turn(Some(target.chat)).await,
            Turn::Within(time) if self.pace.turn_within(target.chat, time).await => {}
            Turn::Within(_) => return Err(Error::NoRoom),
        }
        let mut moves = 0;
        loop {
            let result = self.api.call(request(target)?).await;
            if let Some(rest) = retry_after(&result) {
                self.pace.close(target.chat, rest);
            }
            let Err(error) = result else { return result };
            target = self.instead(target, error, &mut moves)?;
            self.pace.turn(Some(target.chat)).await;
        }
    }
}

/// Returns how long Telegram wants no more such calls.
fn retry_after(result: &Result<Value, Error>) -> Option<Duration> {
    match result {
        Err(Error::Refused { retry_after, .. }) => *retry_after,
        _ => None,
    }
}
