//! [`Address`]: a person, or a chat, on one of the channels.
//!
//! As text a bare number is Telegram's (`1001`); every other names its channel (`matrix:@ada:example.org`), so that no
//! two channels share an id. people.json has numbers as numbers.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The channel whose ids are bare numbers.
pub const NUMBERED: &str = "telegram";
/// The longest id on a channel, bytes: a Matrix id has at most 255, a mail address 254 (RFC 5321).
pub const MAX_ID: usize = 300;

/// A person, or a chat, on one of the channels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// Of the channel [`NUMBERED`].
    Number(i64),
    /// Of another.
    Named {
        /// The channel.
        channel: String,
        /// Its id there.
        id: String,
    },
}

impl Address {
    /// Returns the address of `id` on `channel`; `None` when that channel has no such ids.
    pub fn new(channel: &str, id: &str) -> Option<Self> {
        if channel == NUMBERED {
            return id.parse().ok().map(Self::Number);
        }
        (is_channel_name(channel) && is_id(id)).then(|| Self::Named {
            channel: channel.to_owned(),
            id: id.to_owned(),
        })
    }

    /// Returns what `text` means: `1001`, or `NAME:ID`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse() {
            return Some(Self::Number(number));
        }
        let (channel, id) = text.split_once(':')?;
        Self::new(channel, id)
    }

    /// Returns the channel.
    pub fn channel(&self) -> &str {
        match self {
            Self::Number(_) => NUMBERED,
            Self::Named { channel, .. } => channel,
        }
    }

    /// Returns the id on the channel.
    pub fn id(&self) -> Cow<'_, str> {
        match self {
            Self::Number(number) => number.to_string().into(),
            Self::Named { id, .. } => id.as_str().into(),
        }
    }
}

/// Returns true for what may be the name of a channel: 1–32 small letters, digits or `-`, a letter first, and no name that
/// means something else in the key of a conversation.
pub fn is_channel_name(name: &str) -> bool {
    let letters = name
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    (1..=32).contains(&name.len())
        && letters
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !TAKEN.contains(&name)
}

/// Returns true for what may be an id on a channel.
pub fn is_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len()) && !id.contains(char::is_control)
}

/// Names that are something else already: other channels and sources, and words in keys and scopes.
const TAKEN: [&str; 17] = [
    NUMBERED,
    "agent",
    "chat",
    "cli",
    "event",
    "heartbeat",
    "http",
    "https",
    "job",
    "main",
    "notify",
    "owner",
    "person",
    "raw",
    "report",
    "subagent",
    "system",
];

impl From<i64> for Address {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Named { channel, id } => write!(f, "{channel}:{id}"),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Named { .. } => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(i64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self::Number(number)),
            Written::Text(text) => Self::parse(&text).ok_or_else(|| {
                serde::de::Error::custom("expected a number or CHANNEL:ID for a person")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_of_one_channel_and_everything_else_names_its_own() {
        let check = |text: &str, channel: &str, id: &str| {
            let address = Address::parse(text).expect(text);
            assert_eq!((address.channel(), &*address.id()), (channel, id), "{text}");
            assert_eq!(address.to_string(), text);
            let json = serde_json::to_value(&address).expect("json");
            assert_eq!(
                serde_json::from_value::<Address>(json).expect("read"),
                address
            );
        };
        check("1001", NUMBERED, "1001");
        check("-100500", NUMBERED, "-100500");
        check("matrix:@ada:example.org", "matrix", "@ada:example.org");
        check("mail:ada@example.org", "mail", "ada@example.org");
        check("sms:1001", "sms", "1001");
        assert_ne!(Address::parse("sms:1001"), Address::parse("1001"));
        assert_eq!(Address::parse("telegram:7"), Some(Address::Number(7)));
        for bad in [
            "", "ada", "@ada", "Matrix:x", "person:1", "cli:x", "http://x", "m x:1", "a:", "a:b\n",
        ] {
            assert_eq!(Address::parse(bad), None, "{bad}");
        }
    }
}
