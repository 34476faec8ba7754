//! An update as [`Incoming`].
//!
//! It is read from the JSON field by field, and not through teloxide's types: those refuse a whole
//! message for one field that is new or odd. Here a field that cannot be read is absent, and a
//! message that says where it came from is accepted.

mod button_press;
mod fields;
mod kinds;
mod media;
mod mention;
mod quote;
mod sender;
mod text;

use serde_json::Value;

use super::slash_commands;
use crate::channel::Incoming;
use crate::message::{ChatRef, Media, MediaKind, Sender};
use crate::text::shorten;
use fields::Fields;
use mention::Call;
use text::MessageText;

/// The longest title of a group that is kept; Telegram allows 128 characters.
const TITLE_MAX: usize = 130;

/// The fields that messages come in; whether each is edited, and a post in a channel.
const UPDATES: [(&str, bool, bool); 4] = [
    ("message", false, false),
    ("edited_message", true, false),
    ("channel_post", false, true),
    ("edited_channel_post", true, true),
];

/// How the bot is recognised: in mentions, replies and commands.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    /// The bot's numeric id.
    pub(crate) id: i64,
    /// Its @username, without the @, when it is known.
    pub(crate) username: Option<String>,
    /// Names by which it is called in groups.
    pub(crate) aliases: Vec<String>,
}

/// Returns true for a message of a group.
pub(crate) fn is_of_group(raw: &Value) -> bool {
    ["/message/chat/id", "/channel_post/chat/id"]
        .iter()
        .find_map(|place| raw.pointer(place).and_then(Value::as_i64))
        .is_some_and(|id| id < 0)
}

/// Returns the id of an update, `None` when it is none.
pub(crate) fn update_id(raw: &Value) -> Option<i64> {
    raw.number("update_id")
}

/// Returns the file of a sticker.
pub(crate) fn sticker(raw: &Value) -> Option<Media> {
    media::media(raw, MediaKind::Sticker)
}

/// Returns what an update brings; `None` for what nobody said.
pub(crate) fn incoming(raw: &Value, bot: &Identity) -> Option<Incoming> {
    let key = format!("tg:{}:{}", bot.id, update_id(raw)?);
    if let Some(query) = raw.object("callback_query") {
        return button_press::press(key, query);
    }
    let (message, edited, is_post) = UPDATES
        .iter()
        .find_map(|(field, edited, is_post)| Some((raw.object(field)?, *edited, *is_post)))?;
    // Only a group moves.
    if let Some(to) = message.number("migrate_to_chat_id")
        && let Some((chat, group @ Some(_))) = chat(message, None)
    {
        return Some(Incoming {
            key,
            chat,
            group,
            moved_to: Some(to.to_string()),
            ..Incoming::default()
        });
    }
    let text = text::of(message);
    // An edit without text is a location that moves, or a picture that was changed.
    if text.text.is_empty() && (edited || kinds::is_service(message)) {
        return None;
    }
    let mut read = read(key.clone(), message, &text, bot);
    if let Some(post) = read.as_mut().filter(|_| is_post) {
        // A channel speaks for itself, whoever of it wrote the post.
        post.sender = Some(Sender {
            id: post.chat.chat.clone(),
            name: post.group.clone().unwrap_or_default(),
            username: None,
        });
    }
    if read.is_none() {
        tracing::warn!(
            key,
            "a message that names no chat or no id cannot be answered"
        );
    }
    Some(Incoming { edited, ..read? })
}

fn read(key: String, message: &Value, text: &MessageText<'_>, bot: &Identity) -> Option<Incoming> {
    let sender = sender::sender(message);
    let (chat, group) = chat(message, sender.as_ref())?;
    let private = group.is_none();
    let quoted = quote::quoted(message, bot);
    // Somebody else's words command nothing and call nobody.
    let forwarded = sender::is_forwarded(message);
    let call = if private || forwarded {
        Call::Nobody
    } else {
        mention::call(text, bot)
    };
    let answers = quoted.as_ref().is_some_and(|quoted| quoted.own) && call != Call::Other;
    let typed = message.text("text");
    let command = typed.filter(|_| !forwarded && (private || call == Call::Command));
    let media = media::files(message);
    // A text is nothing else, whatever new fields come with it.
    let kind = match typed {
        Some(_) => None,
        None => kinds::kind(message, &media),
    };
    let is_empty = text.text.is_empty() && media.is_empty();
    Some(Incoming {
        key,
        sender,
        chat,
        group,
        addressed: private || answers || matches!(call, Call::Us | Call::Command),
        message_id: message.number("message_id")?.to_string(),
        text: mention::with_links(text),
        kind: kind.or_else(|| is_empty.then(|| "message without content".to_owned())),
        media,
        album: message.id("media_group_id"),
        quoted,
        command: command.and_then(|text| slash_commands::parse(text, bot.username.as_deref())),
        forwarded,
        forwarded_from: forwarded.then(|| sender::forwarded_from(message)).flatten(),
        sent_at: message.number("date").and_then(|at| at.checked_mul(1000)),
        ..Incoming::default()
    })
}

/// Returns the chat of a message with its forum topic, and the title of the group, `None` in private.
fn chat(message: &Value, sender: Option<&Sender>) -> Option<(ChatRef, Option<String>)> {
    let chat = message.object("chat")?;
    let id = chat.number("id")?.to_string();
    let private = match chat.text("type") {
        Some(kind) => kind == "private",
        // The chat with a person has the id of that person.
        None => sender.is_some_and(|sender| sender.id == id),
    };
    let title = || shorten(chat.text("title").unwrap_or_default(), TITLE_MAX);
    // The General topic has no id, and other threads are only replies.
    let topic = message
        .number("message_thread_id")
        .filter(|thread| *thread != 1 && message.is_true("is_topic_message"));
    let chat = ChatRef {
        chat: id,
        topic: topic.map(|topic| topic.to_string()),
    };
    Some((chat, (!private).then(title)))
}

#[cfg(test)]
mod tests;
