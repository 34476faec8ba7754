//! Determines the conversation of a message.

use crate::channel::Incoming;
use crate::config::{Config, DmScope, GroupScope};
use crate::message::{Address, SessionKey};
use crate::people::People;

/// Returns the conversation of a direct message of `sender` in `chat`: with a linked account it is the first one's.
pub(crate) fn dm_key(config: &Config, people: &People, sender: &Address, chat: &str) -> SessionKey {
    let first = people.first_of(sender);
    if first != sender {
        return dm_key_of(config, first, &first.id());
    }
    dm_key_of(config, sender, chat)
}

fn dm_key_of(config: &Config, sender: &Address, chat: &str) -> SessionKey {
    let channel = sender.channel();
    if let Some(person) = config.session.person_of(channel, &sender.id()) {
        return joined_key(config, person);
    }
    let name = &config.agent.name;
    match config.session.dm_scope {
        DmScope::Sender => SessionKey::dm(name, channel, &sender.id()),
        DmScope::Chat => SessionKey::dm(name, channel, chat),
        DmScope::Main => SessionKey(format!("agent:{name}:main")),
    }
}

/// Returns the one conversation of a person who has several ids.
pub(crate) fn joined_key(config: &Config, person: &str) -> SessionKey {
    match config.session.dm_scope {
        DmScope::Sender | DmScope::Chat => SessionKey::of_person(&config.agent.name, person),
        DmScope::Main => SessionKey(format!("agent:{}:main", config.agent.name)),
    }
}

/// Returns the conversation of a message of `sender` in the group `chat`.
pub(crate) fn group_key(config: &Config, sender: &str, chat: &Address) -> SessionKey {
    let key = SessionKey::group(&config.agent.name, chat.channel(), &chat.id());
    match config.session.group_scope {
        GroupScope::Chat => key,
        GroupScope::Sender => key.of_member(sender),
    }
}

/// A topic is a separate conversation.
pub(super) fn with_topic(key: SessionKey, item: &Incoming) -> SessionKey {
    match &item.chat.topic {
        Some(topic) => key.in_topic(topic),
        None => key,
    }
}
