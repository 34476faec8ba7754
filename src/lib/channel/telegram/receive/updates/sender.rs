//! The author of a message, and of what it forwards.

use serde_json::Value;

use super::fields::Fields;
use crate::message::Sender;
use crate::text::shorten;

/// The longest name that is kept: Telegram allows 64 characters for each of the two.
const NAME_MAX: usize = 130;

/// Returns the person who wrote; `None` for bots, and for what is said in the name of a group or a
/// channel: there `from` is a placeholder for old clients.
pub(super) fn sender(message: &Value) -> Option<Sender> {
    if message.field("sender_chat").is_some() {
        return None;
    }
    let user = message.object("from")?;
    // Anything but a plain no may hide a bot.
    if user.field("is_bot").is_some_and(|bot| bot != false) {
        return None;
    }
    let id = user.number("id")?.to_string();
    Some(Sender {
        name: name(user).unwrap_or_else(|| id.clone()),
        username: user.text("username").map(str::to_owned),
        id,
    })
}

/// Returns the name of a user, a bot, a group or a channel.
pub(super) fn name(of: &Value) -> Option<String> {
    let names = ["first_name", "last_name"].map(|field| of.text(field).unwrap_or_default());
    let full = names.join(" ");
    let shown = of.text("title").or(Some(full.trim()));
    match (shown.filter(|name| !name.is_empty()), of.text("username")) {
        (Some(name), _) => Some(shorten(name, NAME_MAX)),
        (None, username) => username.map(|name| shorten(&format!("@{name}"), NAME_MAX)),
    }
}

/// Returns the name of who wrote a message, or of the chat that it was written for.
pub(super) fn author(message: &Value) -> Option<String> {
    first_name(message, &["sender_chat", "from"])
}

/// Returns true when the words of a message are not those of who sent it. What another bot wrote for
/// them is not their own either.
pub(super) fn is_forwarded(message: &Value) -> bool {
    let fields = message.as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| !value.is_null())
        .any(|(name, _)| {
            name.starts_with("forward_")
                || ["via_bot", "sender_business_bot"].contains(&name.as_str())
        })
}

/// Returns the author of a forwarded message: by `forward_origin`, by the fields that came before it,
/// or the bot that wrote them.
pub(super) fn forwarded_from(message: &Value) -> Option<String> {
    let hidden = || message.text("forward_sender_name");
    message
        .object("forward_origin")
        .and_then(origin)
        .or_else(|| signed(message, &["forward_from_chat"], "forward_signature"))
        .or_else(|| first_name(message, &["forward_from"]))
        .or_else(|| hidden().map(|name| shorten(name, NAME_MAX)))
        .or_else(|| first_name(message, &["via_bot", "sender_business_bot"]))
}

/// Returns the name in a `MessageOrigin`.
pub(super) fn origin(origin: &Value) -> Option<String> {
    let hidden = || origin.text("sender_user_name");
    first_name(origin, &["sender_user"])
        .or_else(|| hidden().map(|name| shorten(name, NAME_MAX)))
        .or_else(|| signed(origin, &["sender_chat", "chat"], "author_signature"))
}

fn first_name(of: &Value, fields: &[&str]) -> Option<String> {
    let mut found = fields.iter().filter_map(|field| of.object(field));
    found.find_map(name)
}

/// Returns the title of a channel, and in brackets who signed the post.
fn signed(of: &Value, chat: &[&str], signature: &str) -> Option<String> {
    let title = first_name(of, chat)?;
    Some(match of.text(signature) {
        Some(signature) => format!("{title} ({})", shorten(signature, NAME_MAX)),
        None => title,
    })
}
