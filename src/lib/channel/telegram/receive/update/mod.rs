//! An update as [`Incoming`].
//!
//! It is read from the JSON as it came, field by field, and not through teloxide's types: those
//! refuse a whole message for one field that is new or odd, and what Telegram added since they were
//! written is not in them. Here a field that cannot be read is absent, and a message that says
//! where it came from is heard.

mod button_press;
mod json_fields;
mod media;
mod mention;
mod message_text;
mod other_content;
mod quote;
mod sender;
mod service_fields;

use serde_json::Value;

use super::slash_commands;
use crate::channel::Incoming;
use crate::message::ChatRef;
use crate::text;
use json_fields::Fields;
use mention::Call;

/// The longest title of a group that is kept; Telegram allows 128 characters.
const TITLE_MAX: usize = 130;

/// By what we are known: our own words and what is meant for us are told by it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Identity {
    /// The bot's numeric id.
    pub(crate) bot: i64,
    /// Its @username, without the @, when it is known.
    pub(crate) username: Option<String>,
    /// Names by which it is called in groups.
    pub(crate) aliases: Vec<String>,
}

/// Returns true for what was said in a group.
pub(crate) fn is_of_group(raw: &Value) -> bool {
    raw.pointer("/message/chat/id")
        .and_then(Value::as_i64)
        .is_some_and(|id| id < 0)
}

/// Returns the id of an update, `None` when it is none.
pub(crate) fn update_id(raw: &Value) -> Option<i64> {
    Fields::of(raw)?.number("update_id")
}

/// Returns what an update brings; `None` for what nobody said.
pub(crate) fn incoming(raw: &Value, us: &Identity) -> Option<Incoming> {
    let key = format!("tg:{}:{}", us.bot, update_id(raw)?);
    let update = Fields::of(raw)?;
    if let Some(query) = update.object("callback_query") {
        return button_press::press(key, query);
    }
    let new = update.object("message").map(|message| (message, false));
    let (message, edited) = new.or_else(|| Some((update.object("edited_message")?, true)))?;
    let words = message_text::words(message);
    let silent = words.text.is_empty();
    // An edit without words is a location that moves, or a picture that was changed.
    if silent && (edited || is_service(message)) {
        return None;
    }
    let read = read(key.clone(), message, words, edited, us);
    if read.is_none() {
        tracing::warn!(
            key,
            "a message that does not say where it came from cannot be answered"
        );
    }
    read
}

fn read(
    key: String,
    message: Fields<'_>,
    words: message_text::Words<'_>,
    edited: bool,
    us: &Identity,
) -> Option<Incoming> {
    let chat = message.object("chat")?;
    let id = chat.number("id")?;
    let sender = sender::sender(message);
    // The chat with a person has the id of that person.
    let private = chat.text("type").map_or_else(
        || {
            sender
                .as_ref()
                .is_some_and(|sender| sender.id == id.to_string())
        },
        |kind| kind == "private",
    );
    let quoted = quote::quoted(message, us);
    // Somebody else's words command nothing and call nobody.
    let forwarded = sender::is_forwarded(message);
    let call = if private || forwarded {
        Call::Nobody
    } else {
        mention::call(&words, us)
    };
    let answers = quoted.as_ref().is_some_and(|quoted| quoted.own) && call != Call::Other;
    let command = message
        .text("text")
        .filter(|_| !forwarded && (private || call == Call::Command));
    let media = media::files(message);
    // A text is nothing else, whatever new fields come with it.
    let kind = if message.text("text").is_some() {
        None
    } else {
        other_content::kind(message, &media)
    };
    let kind = kind.or_else(|| {
        (words.text.is_empty() && media.is_empty()).then(|| "message without content".to_owned())
    });
    Some(Incoming {
        key,
        sender,
        chat: ChatRef {
            chat: id.to_string(),
            topic: topic(message),
        },
        group: (!private).then(|| text::shorten(chat.text("title").unwrap_or_default(), TITLE_MAX)),
        addressed: private || answers || matches!(call, Call::Us | Call::Command),
        message_id: message.number("message_id")?.to_string(),
        text: words.text.into_owned(),
        kind,
        media,
        album: album(message),
        quoted,
        command: command.and_then(|text| slash_commands::parse(text, us.username.as_deref())),
        press: None,
        forwarded,
        forwarded_from: forwarded.then(|| sender::forwarded_from(message)).flatten(),
        edited,
    })
}

/// Returns the topic of a forum; the General one has no id, and other threads are only replies.
fn topic(message: Fields<'_>) -> Option<String> {
    let thread = message
        .number("message_thread_id")
        .filter(|_| message.yes("is_topic_message"))?;
    (thread != 1).then(|| thread.to_string())
}

fn album(message: Fields<'_>) -> Option<String> {
    message
        .text("media_group_id")
        .map(str::to_owned)
        .or_else(|| Some(message.number("media_group_id")?.to_string()))
}

/// Returns true for a message that only tells what happened. That a group got another id is for
/// whoever wrote the settings.
fn is_service(message: Fields<'_>) -> bool {
    if let Some(to) = message.number("migrate_to_chat_id") {
        let from = message.object("chat").and_then(|chat| chat.number("id"));
        tracing::info!(
            from,
            to,
            "a group has a new id: name it in [telegram.groups] instead of the old one"
        );
    }
    service_fields::is_service(message)
}

#[cfg(test)]
mod tests;
