//! Who wrote a message, and whose words it passes on.

use super::json_fields::Fields;
use crate::message::Sender;
use crate::text;

/// The longest name that is kept: Telegram allows 64 characters for each of the two.
const NAME_MAX: usize = 130;

/// Returns the person who wrote; `None` for bots, and for what is said in the name of a group or a
/// channel: then `from` is only a stand-in for old programs.
pub(super) fn sender(message: Fields<'_>) -> Option<Sender> {
    let user = message
        .object("from")
        .filter(|_| !message.has("sender_chat"))?;
    // Anything but a plain no may hide a bot.
    if user.get("is_bot").is_some_and(|bot| bot != false) {
        return None;
    }
    let id = user.number("id")?.to_string();
    let name = name(user).unwrap_or_else(|| id.clone());
    Some(Sender {
        name,
        username: user.text("username").map(str::to_owned),
        id,
    })
}

/// Returns what a user, a bot, a group or a channel is called.
pub(super) fn name(of: Fields<'_>) -> Option<String> {
    let full = [of.text("first_name"), of.text("last_name")]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    let name = of
        .text("title")
        .map(str::to_owned)
        .or(Some(full).filter(|name| !name.trim().is_empty()));
    name.or_else(|| of.text("username").map(|name| format!("@{name}")))
        .map(|name| text::shorten(&name, NAME_MAX))
}

/// Returns who wrote a message, or said it in the name of a chat, by the name they show.
pub(super) fn author(message: Fields<'_>) -> Option<String> {
    [message.object("sender_chat"), message.object("from")]
        .into_iter()
        .flatten()
        .find_map(name)
}

/// Returns true when the words of a message are not those of who sent it. What another bot wrote for
/// them is not their own either.
pub(super) fn is_forwarded(message: Fields<'_>) -> bool {
    message
        .all()
        .any(|(name, _)| name.starts_with("forward_") || name == "via_bot")
}

/// Returns whose words a message passes on: by `forward_origin`, by the fields that came before it,
/// or the bot that wrote them.
pub(super) fn forwarded_from(message: Fields<'_>) -> Option<String> {
    let old = || {
        let signature = message.text("forward_signature");
        let chat = message
            .object("forward_from_chat")
            .and_then(name)
            .map(|title| signed(title, signature));
        let hidden = || {
            message
                .text("forward_sender_name")
                .map(|name| text::shorten(name, NAME_MAX))
        };
        chat.or_else(|| message.object("forward_from").and_then(name))
            .or_else(hidden)
    };
    let bot = || message.object("via_bot").and_then(name);
    message
        .object("forward_origin")
        .and_then(origin)
        .or_else(old)
        .or_else(bot)
}

/// Returns who is named by a `MessageOrigin`.
pub(super) fn origin(origin: Fields<'_>) -> Option<String> {
    let chat = || {
        ["sender_chat", "chat"]
            .into_iter()
            .find_map(|field| origin.object(field).and_then(name))
    };
    let user = origin.object("sender_user").and_then(name);
    user.or_else(|| {
        origin
            .text("sender_user_name")
            .map(|name| text::shorten(name, NAME_MAX))
    })
    .or_else(|| chat().map(|title| signed(title, origin.text("author_signature"))))
}

/// Puts who signed a post behind the title of the channel.
fn signed(title: String, signature: Option<&str>) -> String {
    match signature {
        Some(signature) => format!("{title} ({})", text::shorten(signature, NAME_MAX)),
        None => title,
    }
}
