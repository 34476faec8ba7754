//! The message that a message answers.

use serde_json::Value;

use super::fields::Fields;
use super::{Identity, kinds, media, mention, sender, text};
use crate::message::{MediaKind, Quoted, is_plain};
use crate::text::shorten;
use crate::trust::says_nothing;

/// How much of the original is kept (specification §6).
const MAX: usize = 300;

/// Returns what a message answers: a message of this chat, one of another chat, or a story.
pub(super) fn quoted(message: &Value, bot: &Identity) -> Option<Quoted> {
    let selected = message.object("quote").and_then(|quote| quote.text("text"));
    let quote = |who: Option<String>, original: &Value| {
        let (text, untrusted) = content(original);
        Quoted {
            who: who.unwrap_or_else(|| "somebody".to_owned()),
            id: None,
            message_id: None,
            own: false,
            untrusted,
            text: selected.map_or(text, |text| shorten(text, MAX)),
        }
    };
    let reply = message.object("reply_to_message");
    if let Some(original) = reply.filter(|original| !is_topic(message, original)) {
        if sender::is_forwarded(original) {
            return Some(quote(sender::forwarded_from(original), original));
        }
        let from = original.object("from").and_then(|user| user.number("id"));
        return Some(Quoted {
            id: sender::sender(original).map(|sender| sender.id),
            message_id: original
                .number("message_id")
                .filter(|_| from == Some(bot.id))
                .map(|id| id.to_string()),
            own: from == Some(bot.id),
            ..quote(sender::author(original), original)
        });
    }
    if let Some(original) = message.object("external_reply") {
        // What the bot said to somebody else may be someone else's text: it is not `own`.
        let origin = original.object("origin");
        return Some(quote(origin.and_then(sender::origin), original));
    }
    let story = message.object("reply_to_story")?;
    Some(Quoted {
        text: "story".to_owned(),
        untrusted: false,
        ..quote(story.object("chat").and_then(sender::name), story)
    })
}

/// Returns true when `original` is only the first message of the topic that `message` is in.
fn is_topic(message: &Value, original: &Value) -> bool {
    let thread = message
        .number("message_thread_id")
        .filter(|_| message.is_true("is_topic_message"));
    original.field("forum_topic_created").is_some()
        || (thread.is_some() && thread == original.number("message_id"))
}

/// Returns the text of a message, else what it is; and whether others than its sender chose these words: the name of a file
/// or on a card, a place, a poll.
fn content(message: &Value) -> (String, bool) {
    let text = mention::with_links(&text::of(message));
    if !text.is_empty() {
        return (shorten(&text, MAX), false);
    }
    let files = media::files(message);
    let file = || {
        let file = files.first()?;
        Some(match &file.filename {
            Some(name) if file.kind == MediaKind::Document => format!("file {name}"),
            _ => file.kind.as_str().to_owned(),
        })
    };
    let content = kinds::known(message)
        .or_else(file)
        .or_else(|| kinds::unknown(message));
    let Some(content) = content else {
        return ("message".to_owned(), false);
    };
    let is_kind_of_file = files
        .first()
        .is_some_and(|file| file.kind.as_str() == content);
    let name = files.first().and_then(|file| file.filename.as_deref());
    let is_plain_name = name.is_some_and(says_nothing) && content.starts_with("file ");
    let of_others = !is_kind_of_file && !is_plain_name && !is_plain(&content);
    (shorten(&content, MAX), of_others)
}
