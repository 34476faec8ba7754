//! A button was pressed (core.telegram.org/bots/api#callbackquery).
//!
//! Who pressed it is `from`; the message is ours, and of an old one only its chat and its id are left.
//! What was pressed elsewhere than below a message in a chat is none of ours.

use super::json_fields::Fields;
use super::{TITLE_MAX, sender, topic};
use crate::channel::Incoming;
use crate::message::{ChatRef, approval_reply};
use crate::text;

/// The longest id of a press that is answered; Telegram's have about 20 digits.
const ID_MAX: usize = 64;

/// Returns what the press `query` means; without a command of ours it is only to be answered.
pub(super) fn press(key: String, query: Fields<'_>) -> Option<Incoming> {
    let id = query
        .text("id")
        .map(str::to_owned)
        .or_else(|| Some(query.number("id")?.to_string()));
    let sender = sender::sender(query)?;
    let message = query.object("message")?;
    let chat = message.object("chat")?;
    let number = chat.number("id")?;
    let private = chat
        .text("type")
        .map_or(sender.id == number.to_string(), |kind| kind == "private");
    Some(Incoming {
        key,
        sender: Some(sender),
        chat: ChatRef {
            chat: number.to_string(),
            topic: topic(message),
        },
        group: (!private).then(|| text::shorten(chat.text("title").unwrap_or_default(), TITLE_MAX)),
        addressed: true,
        message_id: message.number("message_id")?.to_string(),
        text: String::new(),
        kind: None,
        media: Vec::new(),
        album: None,
        quoted: None,
        command: query.text("data").and_then(approval_reply::pressed),
        press: Some(id.filter(|id| id.len() <= ID_MAX)?),
        forwarded: false,
        forwarded_from: None,
        edited: false,
    })
}
