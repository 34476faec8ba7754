//! The message that a message answers.

use super::Identity;
use super::json_fields::Fields;
use super::{media, message_text, other_content, sender};
use crate::message::{MediaKind, Quoted};
use crate::text;

/// How much of the original comes along (specification §6).
const MAX: usize = 300;

/// Returns what a message answers: a message of this chat, one of another chat, or a story.
pub(super) fn quoted(message: Fields<'_>, us: &Identity) -> Option<Quoted> {
    let marked = message.object("quote").and_then(|quote| quote.text("text"));
    let said = |original: Fields<'_>| {
        text::shorten(
            &marked.map_or_else(|| content(original), str::to_owned),
            MAX,
        )
    };
    if let Some(original) = message
        .object("reply_to_message")
        .filter(|original| !is_topic(message, *original))
    {
        let passed_on = sender::is_forwarded(original);
        let who = if passed_on {
            sender::forwarded_from(original)
        } else {
            sender::author(original)
        };
        return Some(Quoted {
            who: who.unwrap_or_else(somebody),
            id: sender::sender(original)
                .filter(|_| !passed_on)
                .map(|sender| sender.id),
            own: !passed_on && is_us(original.object("from"), us),
            text: said(original),
        });
    }
    if let Some(original) = message.object("external_reply") {
        let origin = original.object("origin");
        let who = origin.and_then(sender::origin).unwrap_or_else(somebody);
        return Some(Quoted {
            who,
            id: None,
            // What it said to somebody else may be somebody else's words.
            own: false,
            text: said(original),
        });
    }
    let story = message.object("reply_to_story")?;
    let who = story
        .object("chat")
        .and_then(sender::name)
        .unwrap_or_else(somebody);
    Some(Quoted {
        who,
        id: None,
        own: false,
        text: "story".to_owned(),
    })
}

/// Returns true when `original` is only the beginning of the topic that a plain message stands in.
fn is_topic(message: Fields<'_>, original: Fields<'_>) -> bool {
    let thread = message
        .number("message_thread_id")
        .filter(|_| message.yes("is_topic_message"));
    original.has("forum_topic_created")
        || (thread.is_some() && thread == original.number("message_id"))
}

fn is_us(user: Option<Fields<'_>>, us: &Identity) -> bool {
    user.and_then(|user| user.number("id")) == Some(us.bot)
}

fn somebody() -> String {
    "somebody".to_owned()
}

/// Returns the words of a message, else what it is.
fn content(message: Fields<'_>) -> String {
    let words = message_text::words(message);
    if !words.text.is_empty() {
        return words.text.into_owned();
    }
    let files = media::files(message);
    let file = || {
        let file = files.first()?;
        let name = file
            .filename
            .as_deref()
            .filter(|_| file.kind == MediaKind::Document);
        Some(name.map_or_else(
            || file.kind.as_str().to_owned(),
            |name| format!("{} {name}", file.kind.as_str()),
        ))
    };
    other_content::known(message)
        .or_else(file)
        .or_else(|| other_content::unknown(message))
        .unwrap_or_else(|| "message".to_owned())
}
