//! Text messages and reactions.

use teloxide::payloads::{SendMessage, SetMessageReaction};
use teloxide::types::{InlineKeyboardMarkup, LinkPreviewOptions, ParseMode, ReactionType};

use super::api::Error;
use super::call::{Target, Turn};
use super::classify_error::{classify, is_about_buttons, repeatable, says};
use super::{MARK, buttons, message_id, unsendable};
use crate::channel::telegram::Telegram;
use crate::channel::{Outgoing, SendError};

impl Telegram {
    pub(super) async fn send_text(&self, outgoing: Outgoing<'_>) -> Result<String, SendError> {
        let target = Target::new(outgoing.chat, outgoing.reply_to)?;
        let html = outgoing.markup.is_some();
        let mark = if outgoing.resent { MARK } else { "" };
        let text = format!("{mark}{}", outgoing.markup.unwrap_or(outgoing.plain));
        let send = async |buttons: Option<InlineKeyboardMarkup>| {
            let request = |to| {
                let mut message = message(to, &text);
                message.parse_mode = html.then_some(ParseMode::Html);
                message.reply_markup = buttons.clone().map(Into::into);
                Ok(message)
            };
            self.call_in_chat(target, Turn::Wait, request).await
        };
        let buttons = buttons::keyboard(outgoing.buttons);
        let mut sent = send(buttons.clone()).await;
        if let Err(error) = &sent
            && buttons.is_some()
            && is_about_buttons(error)
        {
            tracing::error!(%error, "a message is sent without its buttons");
            sent = send(None).await;
        }
        message_id(&sent.map_err(|error| classify(&error, html))?)
    }

    /// Puts an emoji on the message that is answered, an empty one takes ours away, and returns the id
    /// of that message.
    pub(super) async fn react(
        &self,
        outgoing: Outgoing<'_>,
        emoji: &str,
    ) -> Result<String, SendError> {
        let Some(message) = outgoing.reply_to else {
            return Err(unsendable("a reaction needs a message that it is put on"));
        };
        let target = Target::about(outgoing.chat, message)?;
        let request = |to| reaction(to, emoji);
        let reacted = self.call_in_chat(target, Turn::Wait, request).await;
        match reacted {
            Err(error) if says(&error, "reaction_invalid") => Err(unsendable(&format!(
                "Telegram has no reaction {:?}; it has 👍 👎 ❤ 🔥 🎉 👏 😁 🤔 👀 🙏 👌 💯 and some more",
                plain_emoji(emoji)
            ))),
            result => repeatable(result, None).map(|()| message.to_owned()),
        }
    }
}

/// Returns a message of this text, without markup.
pub(super) fn message(to: Target, text: &str) -> SendMessage {
    let mut message = SendMessage::new(to.id(), text);
    message.link_preview_options = Some(no_link_preview());
    message.message_thread_id = to.topic();
    message.reply_parameters = to.reply();
    message
}

/// Returns the reaction with this emoji; an empty one takes ours away.
pub(super) fn reaction(to: Target, emoji: &str) -> Result<SetMessageReaction, Error> {
    let emoji = plain_emoji(emoji);
    let mut reaction = SetMessageReaction::new(to.id(), to.message()?);
    let emoji = (!emoji.is_empty()).then_some(ReactionType::Emoji { emoji });
    reaction.reaction = Some(emoji.into_iter().collect());
    Ok(reaction)
}

/// A link in an answer is fetched by nobody: a preview could carry words out of the house.
pub(super) fn no_link_preview() -> LinkPreviewOptions {
    LinkPreviewOptions {
        is_disabled: true,
        url: None,
        prefer_small_media: false,
        prefer_large_media: false,
        show_above_text: false,
    }
}

/// Returns an emoji as Telegram lists its reactions: without the sign for "as a picture" and without a
/// skin tone.
fn plain_emoji(emoji: &str) -> String {
    let emoji = emoji.trim().chars();
    emoji
        .filter(|c| !matches!(c, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reaction_is_written_as_telegram_lists_it() {
        let written = ["❤️", " 👍🏽 ", "🤷🏻‍♂️", "🔥", ""];
        assert_eq!(written.map(plain_emoji), ["❤", "👍", "🤷‍♂", "🔥", ""]);
    }
}
