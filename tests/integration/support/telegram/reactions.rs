//! setMessageReaction, and which emoji it takes.

use serde_json::Value;

use super::{State, api::Refusal, params::Params};

/// The emoji (core.telegram.org/bots/api#reactiontypeemoji, Bot API 10.1); one with the sign for "as a
/// picture" behind it is another.
const EMOJI: &str = "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡";

/// Puts the bot's reaction on the message `key`, or takes it away.
pub(super) fn set(state: &mut State, key: (i64, i64), params: &Params) -> Result<Value, Refusal> {
    if !state.messages.contains_key(&key) {
        return Err(Refusal::bad("message to react not found"));
    }
    let reactions = params.json("reaction");
    let reactions = reactions.as_array().map(Vec::as_slice).unwrap_or_default();
    match reactions {
        [] => _ = state.reactions.remove(&key),
        [one] if one["type"] == "emoji" => {
            let emoji = one["emoji"].as_str().unwrap_or_default();
            if !EMOJI.split(' ').any(|known| known == emoji) {
                return Err(Refusal::bad("REACTION_INVALID"));
            }
            state.reactions.insert(key, emoji.to_owned());
        }
        [_] => return Err(Refusal::bad("REACTION_INVALID")),
        _ => return Err(Refusal::bad("REACTIONS_TOO_MANY")),
    }
    Ok(Value::Bool(true))
}
