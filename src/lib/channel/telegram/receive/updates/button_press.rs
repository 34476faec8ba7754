//! The press of a button (core.telegram.org/bots/api#callbackquery).
//!
//! `from` is the person who pressed it; the message is ours, and of an old one only chat and id are available. A press
//! outside of a chat is ignored.

use serde_json::Value;

use super::fields::Fields;
use super::{chat, sender};
use crate::channel::Incoming;
use crate::message::approval_reply;

/// The longest id of a press that is answered; Telegram's have about 20 digits.
const ID_MAX: usize = 64;

/// Returns what the press `query` means; without a command of ours it is only to be answered.
pub(super) fn press(key: String, query: &Value) -> Option<Incoming> {
    let sender = sender::sender(query)?;
    let message = query.object("message")?;
    let (chat, group) = chat(message, Some(&sender))?;
    Some(Incoming {
        key,
        sender: Some(sender),
        chat,
        group,
        addressed: true,
        message_id: message.number("message_id")?.to_string(),
        command: query.text("data").and_then(approval_reply::pressed),
        press: Some(query.id("id").filter(|id| id.len() <= ID_MAX)?),
        ..Incoming::default()
    })
}
