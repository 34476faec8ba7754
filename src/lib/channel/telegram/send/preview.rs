//! Temporary messages: the chat action, the progress, the text written so far.
//!
//! None of them is worth waiting for. A chat action or a mark is left out when the rate limit has no room for it, an edit
//! or a draft when there would be none within a second: the next one has newer content anyway.

use std::time::Duration;

use serde_json::json;
use teloxide::payloads::{DeleteMessage, EditMessageText, SendChatAction};
use teloxide::types::{ChatAction, MessageEntity};
use unicode_segmentation::UnicodeSegmentation;

use super::api::{Error, Request};
use super::call::{Target, Turn};
use super::classify_error::{classify, repeatable};
use super::messages::{message, no_link_preview, reaction};
use super::split::{is_blank, units};
use super::{MESSAGE, message_id, unsendable};
use crate::channel::SendError;
use crate::channel::telegram::Telegram;
use crate::message::ChatRef;

/// How long a preview waits for room.
pub(super) const PREVIEW_WAIT: Duration = Duration::from_secs(1);
pub(super) const PREVIEW: Turn = Turn::Within(PREVIEW_WAIT);
/// Typing and marks.
const SIGN: Turn = Turn::Within(Duration::ZERO);
/// How long a call may take that is worth little later.
pub(super) const QUICK: Duration = Duration::from_secs(10);

impl Telegram {
    /// Puts an emoji on a message of somebody else.
    pub(super) async fn show_mark(
        &self,
        chat: &ChatRef,
        message: &str,
        emoji: &str,
    ) -> Result<(), SendError> {
        let target = Target::about(chat, message)?;
        let request = |to| quick(reaction(to, emoji)?);
        self.show_sign(target, request).await
    }

    pub(super) async fn show_typing(&self, chat: &ChatRef) -> Result<(), SendError> {
        let target = Target::new(chat, None)?;
        let request = |to: Target| {
            let mut typing = SendChatAction::new(to.id(), ChatAction::Typing);
            typing.message_thread_id = to.topic();
            quick(typing)
        };
        self.show_sign(target, request).await
    }

    /// Sends a message silently that is changed and removed later, and returns its id.
    pub(super) async fn show_preview(
        &self,
        chat: &ChatRef,
        text: &str,
    ) -> Result<String, SendError> {
        let (target, text) = (Target::new(chat, None)?, fit(text, MESSAGE)?);
        let request = |to| {
            let mut message = message(to, &text);
            message.disable_notification = Some(true);
            quick(message)
        };
        let shown = self.call_in_chat(target, PREVIEW, request).await;
        message_id(&shown.map_err(|error| classify(&error, false))?)
    }

    pub(super) async fn remove_preview(&self, chat: &ChatRef, id: &str) -> Result<(), SendError> {
        let target = Target::about(chat, id)?;
        // Nobody comes after it: it waits for its turn.
        let request = |to: Target| quick(DeleteMessage::new(to.id(), to.message()?));
        let removed = self.call_in_chat(target, Turn::Wait, request).await;
        repeatable(removed, Some("message to delete not found"))
    }

    pub(super) async fn show_draft(
        &self,
        chat: &ChatRef,
        number: i64,
        text: &str,
    ) -> Result<(), SendError> {
        let target = Target::new(chat, None)?;
        if target.chat < 0 {
            return Err(unsendable("drafts are shown in private chats only"));
        }
        // Without text it is a sign that something will come.
        let text = match is_blank(text) {
            true => String::new(),
            false => fit(text, MESSAGE)?,
        };
        // teloxide does not know the method (Bot API 9.3); 0 is no number of a draft.
        let request = |to: Target| {
            let parameters = json!({
                "chat_id": to.chat, "message_thread_id": to.topic(),
                "draft_id": number.max(1), "text": text,
            });
            quick(Request::new("sendMessageDraft", parameters))
        };
        repeatable(self.call_in_chat(target, PREVIEW, request).await, None)
    }

    /// Makes a call that is left out without room.
    async fn show_sign(
        &self,
        target: Target,
        request: impl Fn(Target) -> Result<Request, Error>,
    ) -> Result<(), SendError> {
        match self.call_in_chat(target, SIGN, request).await {
            Err(Error::NoRoom) => Ok(()),
            result => repeatable(result, None),
        }
    }

    /// Changes the text of a message, and takes its buttons away.
    pub(super) async fn edit(
        &self,
        chat: &ChatRef,
        message: &str,
        text: &str,
        turn: Turn,
        entities: impl Fn(&str) -> Option<Vec<MessageEntity>>,
    ) -> Result<(), SendError> {
        let (target, text) = (Target::about(chat, message)?, fit(text, MESSAGE)?);
        let entities = entities(&text);
        let request = |to: Target| {
            let mut edit = EditMessageText::new(to.id(), to.message()?, &text);
            edit.entities = entities.clone();
            edit.link_preview_options = Some(no_link_preview());
            quick(edit)
        };
        let edited = self.call_in_chat(target, turn, request).await;
        repeatable(edited, Some("message is not modified"))
    }
}

/// Returns a request that is given up soon.
fn quick(request: impl Into<Request>) -> Result<Request, Error> {
    Ok(request.into().within(QUICK))
}

/// Returns what fits into `limit` UTF-16 units, with `…` when that is not all.
///
/// # Errors
/// When the text is blank.
pub(super) fn fit(text: &str, limit: usize) -> Result<String, SendError> {
    if is_blank(text) {
        return Err(unsendable("there is nothing to show"));
    }
    if units(text) <= limit {
        return Ok(text.to_owned());
    }
    let mut used = 1;
    let fits = |letter: &&str| {
        used += units(letter);
        used <= limit
    };
    let short: String = text.graphemes(true).take_while(fits).collect();
    Ok(short + "…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_fits_into_one_message_and_no_letter_is_broken() {
        // A family of eight units each: 511 fit next to the sign.
        let family = "👨‍👩‍👧";
        for (text, expected) in [
            ("short".to_owned(), "short".to_owned()),
            ("x".repeat(4096), "x".repeat(4096)),
            ("x".repeat(4097), format!("{}…", "x".repeat(4095))),
            (family.repeat(600), format!("{}…", family.repeat(511))),
        ] {
            assert_eq!(fit(&text, 4096), Ok(expected));
        }
        let blank = Err(unsendable("there is nothing to show"));
        assert_eq!(fit(" \n\u{200b}", 4096), blank);
    }
}
