//! What is shown for a while: that we are at it, how far we are, what is written so far.
//!
//! None of it is worth waiting for. A chat action is left out when there is no room for it, a change
//! or a draft when there would be none within a second: the next one says more anyway. Only what
//! removes a message waits its turn, because nobody comes after it.

use std::time::Duration;

use serde::Serialize;
use teloxide::payloads::{
    DeleteMessage, EditMessageText, EditMessageTextSetters, SendChatAction, SendChatActionSetters,
    SendMessage, SendMessageSetters, SetMessageReaction, SetMessageReactionSetters,
};
use teloxide::requests::Payload;
use teloxide::types::{ChatAction, MessageId, ReactionType, True};
use unicode_segmentation::UnicodeSegmentation;

use super::classify_error::{classify, classify_repeatable, says};
use super::messages::{message_id, no_preview, plain_emoji, unsendable};
use super::split::{is_blank, units};
use super::transport::To;
use crate::channel::SendError;
use crate::channel::telegram::Telegram;
use crate::message::ChatRef;

/// The longest message, UTF-16 units.
pub(crate) const LIMIT: usize = 4096;
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a preview waits for room.
const PATIENCE: Duration = Duration::from_secs(1);

/// The method sendMessageDraft (Bot API 9.3), which teloxide does not know.
#[derive(Serialize)]
struct SendMessageDraft<'a> {
    chat_id: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_thread_id: Option<i32>,
    draft_id: i64,
    text: &'a str,
}

impl Payload for SendMessageDraft<'_> {
    type Output = True;
    const NAME: &'static str = "sendMessageDraft";
}

impl Telegram {
    pub(crate) async fn show_typing(&self, chat: &ChatRef) -> Result<(), SendError> {
        let call = |to: To| async move {
            let mut payload = SendChatAction::new(to.id(), ChatAction::Typing);
            if let Some(topic) = to.topic() {
                payload = payload.message_thread_id(topic);
            }
            self.api.call(&payload, TIMEOUT).await
        };
        let shown = self
            .reach_if_room(To::new(chat, None)?, Duration::ZERO, call)
            .await;
        shown.map(drop).map_err(|error| classify_repeatable(&error))
    }

    /// Puts an emoji on a message. Without room it is left: answers go first.
    pub(crate) async fn mark_message(
        &self,
        chat: &ChatRef,
        message: &str,
        emoji: &str,
    ) -> Result<(), SendError> {
        let (id, emoji) = (number(message)?, plain_emoji(emoji));
        let call = |to: To| {
            let payload = SetMessageReaction::new(to.id(), id).reaction([ReactionType::Emoji {
                emoji: emoji.clone(),
            }]);
            async move { self.api.call(&payload, TIMEOUT).await }
        };
        let marked = self
            .reach_if_room(To::new(chat, None)?, Duration::ZERO, call)
            .await;
        marked
            .map(drop)
            .map_err(|error| classify_repeatable(&error))
    }

    /// Shows a new message. There is no room: try again in a while.
    pub(crate) async fn show_words(&self, chat: &ChatRef, text: &str) -> Result<String, SendError> {
        let text = &cut(text, LIMIT)?;
        let call = |to: To| async move {
            let mut payload = SendMessage::new(to.id(), text)
                .disable_notification(true)
                .link_preview_options(no_preview());
            if let Some(topic) = to.topic() {
                payload = payload.message_thread_id(topic);
            }
            self.api.call(&payload, TIMEOUT).await
        };
        match self
            .reach_if_room(To::new(chat, None)?, PATIENCE, call)
            .await
        {
            Ok(Some(result)) => message_id(&result),
            Ok(None) => Err(no_room()),
            Err(error) => Err(classify(&error, false)),
        }
    }

    pub(crate) async fn change_words(
        &self,
        chat: &ChatRef,
        id: &str,
        text: &str,
    ) -> Result<(), SendError> {
        let (id, text) = (number(id)?, &cut(text, LIMIT)?);
        let call = |to: To| async move {
            let payload =
                EditMessageText::new(to.id(), id, text).link_preview_options(no_preview());
            self.api.call(&payload, TIMEOUT).await
        };
        match self
            .reach_if_room(To::new(chat, None)?, PATIENCE, call)
            .await
        {
            Ok(None) => Err(no_room()),
            Err(error) if !says(&error, "message is not modified") => {
                Err(classify_repeatable(&error))
            }
            _ => Ok(()),
        }
    }

    pub(crate) async fn remove_words(&self, chat: &ChatRef, id: &str) -> Result<(), SendError> {
        let id = number(id)?;
        let call = |to: To| async move {
            self.api
                .call(&DeleteMessage::new(to.id(), id), TIMEOUT)
                .await
        };
        match self.reach(To::new(chat, None)?, call).await {
            Err(error) if !says(&error, "message to delete not found") => {
                Err(classify_repeatable(&error))
            }
            _ => Ok(()),
        }
    }

    /// Shows a draft. Without words it is a sign that something will come.
    pub(crate) async fn show_draft(
        &self,
        chat: &ChatRef,
        number: i64,
        text: &str,
    ) -> Result<(), SendError> {
        let to = To::new(chat, None)?;
        if to.chat < 0 {
            return Err(unsendable("drafts are shown in private chats only"));
        }
        let text = &if is_blank(text) {
            String::new()
        } else {
            cut(text, LIMIT)?
        };
        let call = |to: To| async move {
            let topic = to.topic().map(|topic| topic.0.0);
            // 0 is no number of a draft.
            let payload = SendMessageDraft {
                chat_id: to.chat,
                message_thread_id: topic,
                draft_id: number.max(1),
                text,
            };
            self.api
                .call::<SendMessageDraft<'_>>(&payload, TIMEOUT)
                .await
        };
        match self.reach_if_room(to, PATIENCE, call).await {
            Ok(None) => Err(no_room()),
            Ok(Some(_)) => Ok(()),
            Err(error) => Err(classify_repeatable(&error)),
        }
    }
}

fn no_room() -> SendError {
    SendError::NotSent {
        reason: "too much is said in this chat now".to_owned(),
        retry_after: Some(PATIENCE),
    }
}

fn number(id: &str) -> Result<MessageId, SendError> {
    id.parse()
        .map(MessageId)
        .map_err(|_| unsendable(&format!("{id} is no message id")))
}

/// Returns what fits into `limit` UTF-16 units, with `…` when that is not all.
pub(crate) fn cut(text: &str, limit: usize) -> Result<String, SendError> {
    if is_blank(text) {
        return Err(unsendable("there is nothing to show"));
    }
    if units(text) <= limit {
        return Ok(text.to_owned());
    }
    let mut left = limit - 1;
    let fits = |letter: &&str| {
        let cost = units(letter);
        let fits = cost <= left;
        left = left.saturating_sub(cost);
        fits
    };
    let mut short: String = text.graphemes(true).take_while(fits).collect();
    short.push('…');
    Ok(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_fits_into_one_message_and_no_letter_is_broken() {
        assert_eq!(cut("short", LIMIT).unwrap(), "short");
        assert_eq!(cut(&"x".repeat(4096), LIMIT).unwrap(), "x".repeat(4096));
        assert_eq!(
            cut(&"x".repeat(4097), LIMIT).unwrap(),
            format!("{}…", "x".repeat(4095))
        );
        // A family of eight units each: 511 fit beside the sign.
        let family = "👨‍👩‍👧";
        assert_eq!(
            cut(&family.repeat(600), LIMIT).unwrap(),
            format!("{}…", family.repeat(511))
        );
        assert!(matches!(
            cut(" \n\u{200b}", LIMIT),
            Err(SendError::Never {
                chat_is_there: true,
                ..
            })
        ));
    }
}
