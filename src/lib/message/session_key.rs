//! [`SessionKey`]: the name of a conversation.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::address::Address;

/// The name of a conversation: `agent:<name>:<channel>:<kind>:<id>`, `cli:<name>` or `http:<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(pub String);

/// What is before the topic; ids have no colon of their own.
const TOPIC: &str = ":topic:";

/// What kind of conversation a key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// With one person in a channel, or with all of them together.
    Dm,
    /// In a group.
    Group,
    /// In the shell or over HTTP, and whatever is named there.
    Cli,
}

impl SessionKey {
    /// Returns the conversation with `person`, whatever door they come through.
    pub fn of_person(agent: &str, person: &str) -> Self {
        Self(format!("agent:{agent}:{JOINED}:dm:{person}"))
    }

    /// Returns whom it is with, when they come through several doors.
    pub fn person(&self) -> Option<&str> {
        let mut parts = self.0.strip_prefix("agent:")?.split(':').skip(1);
        (parts.next() == Some(JOINED) && parts.next() == Some("dm"))
            .then(|| parts.next())
            .flatten()
    }

    /// Returns the direct conversation with `id` on a channel.
    pub fn dm(agent: &str, channel: &str, id: &str) -> Self {
        Self(format!("agent:{agent}:{channel}:dm:{}", escaped(id)))
    }

    /// Returns the conversation of the group `id` on a channel.
    pub fn group(agent: &str, channel: &str, id: &str) -> Self {
        Self(format!("agent:{agent}:{channel}:group:{}", escaped(id)))
    }

    /// Returns its part that belongs to one `sender` in the group.
    pub fn of_member(&self, sender: &str) -> Self {
        Self(format!("{self}:sender:{}", escaped(sender)))
    }

    /// Returns the conversation in the topic `topic` of this chat.
    pub fn in_topic(&self, topic: &str) -> Self {
        Self(format!("{self}{TOPIC}{}", escaped(topic)))
    }

    /// Returns the conversation of the chat, whatever topic of it this is in.
    pub fn without_topic(&self) -> Self {
        let chat = self
            .0
            .split_once(TOPIC)
            .map_or(self.0.as_str(), |(chat, _)| chat);
        Self(chat.to_owned())
    }

    /// Returns the person or the group it is with, on the one channel it belongs to.
    pub fn address(&self) -> Option<Address> {
        let mut parts = self.0.strip_prefix("agent:")?.split(':').skip(1);
        let channel = parts.next().filter(|channel| *channel != JOINED)?;
        let kind = parts.next()?;
        matches!(kind, "dm" | "group")
            .then(|| Address::new(channel, &unescaped(parts.next()?)))
            .flatten()
    }

    /// Returns the address of its only person on its only channel, as text.
    pub fn dm_person(&self) -> Option<String> {
        let kind = self.0.strip_prefix("agent:")?.split(':').nth(2)?;
        (kind == "dm")
            .then(|| self.address())
            .flatten()
            .map(|address| address.to_string())
    }

    /// Returns true when the chat with `address`, or a part of it, is what it names.
    pub fn is_with(&self, address: &Address) -> bool {
        self.address().as_ref() == Some(address)
            || self.0.rsplit_once(":sender:").is_some_and(|(_, sender)| {
                let sender = sender.split(':').next().unwrap_or_default();
                unescaped(sender) == address.to_string()
            })
    }

    /// Returns true for the direct conversation with the one person `sender` alone, without a topic.
    pub fn is_dm_of(&self, sender: &str) -> bool {
        self.dm_person().as_deref() == Some(sender) && !self.0.contains(":topic:")
    }

    /// Returns what a conversation of the shell, or of the HTTP API, is called; `None` for any other.
    pub fn own_name(&self) -> Option<&str> {
        own_name(&self.0)
    }

    /// Returns the kind of conversation it names.
    pub fn kind(&self) -> KeyKind {
        let kind = self
            .0
            .strip_prefix("agent:")
            .map(|rest| rest.split(':').nth(2));
        match kind {
            None => KeyKind::Cli,
            Some(Some("group")) => KeyKind::Group,
            Some(_) => KeyKind::Dm,
        }
    }
}

/// Returns the name in `cli:<name>` and `http:<name>`: a conversation whose sender speaks as the owner.
pub fn own_name(key: &str) -> Option<&str> {
    key.strip_prefix("cli:")
        .or_else(|| key.strip_prefix("http:"))
}

/// What is in a key in the place of the channel when several share the conversation.
const JOINED: &str = "person";

/// Returns `id` as a part of a key, whose parts are divided by colons.
fn escaped(id: &str) -> Cow<'_, str> {
    if id.contains(['%', ':']) {
        id.replace('%', "%25").replace(':', "%3A").into()
    } else {
        id.into()
    }
}

fn unescaped(part: &str) -> Cow<'_, str> {
    if part.contains('%') {
        part.replace("%3A", ":").replace("%25", "%").into()
    } else {
        part.into()
    }
}

impl std::fmt::Display for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_colons_is_one_part_of_the_key_and_comes_back_whole() {
        let check = |key: SessionKey, text: &str, person: Option<&str>| {
            assert_eq!(key.0, text);
            assert_eq!(key.dm_person().as_deref(), person, "{key}");
        };
        check(
            SessionKey::dm("a", "telegram", "7"),
            "agent:a:telegram:dm:7",
            Some("7"),
        );
        let ada = SessionKey::dm("a", "matrix", "@ada:example.org");
        check(
            ada.clone(),
            "agent:a:matrix:dm:@ada%3Aexample.org",
            Some("matrix:@ada:example.org"),
        );
        check(
            ada.in_topic("$t:1"),
            "agent:a:matrix:dm:@ada%3Aexample.org:topic:$t%3A1",
            Some("matrix:@ada:example.org"),
        );
        check(
            SessionKey::dm("a", "x", "50%3A:"),
            "agent:a:x:dm:50%253A%3A",
            Some("x:50%3A:"),
        );
        check(
            SessionKey::group("a", "matrix", "!r:h"),
            "agent:a:matrix:group:!r%3Ah",
            None,
        );
        assert!(
            ada.is_dm_of("matrix:@ada:example.org")
                && !ada.in_topic("1").is_dm_of("matrix:@ada:example.org")
        );
        assert_eq!(ada.kind(), KeyKind::Dm);
        // The same number on another channel is somebody else.
        let seven = Address::Number(7);
        assert!(!SessionKey::dm("a", "sms", "7").is_with(&seven));
        let group = SessionKey::group("a", "telegram", "-5");
        assert!(
            group.of_member("7").is_with(&seven)
                && group.is_with(&Address::Number(-5))
                && !group.is_with(&seven)
        );
    }
}
