//! `[session]`: which messages share a conversation, and when a conversation ends.

use std::collections::BTreeMap;

use chrono::NaiveTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::message::KeyKind;

/// `[session]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Session {
    /// Which direct messages share a conversation; default `sender`.
    pub dm_scope: DmScope,
    /// Which group messages share a conversation; default `chat`.
    pub group_scope: GroupScope,
    /// When a person's message starts a new conversation automatically; default `never`.
    pub reset: Reset,
    /// The time of day, `HH:MM` in the agent's zone, after which `daily` begins a new one; default `04:00`.
    pub reset_at: TimeOfDay,
    /// Minutes after a person's last message and its answer after which `idle` begins a new one, at least 1; default 60.
    pub idle_minutes: u64,
    /// The same for single kinds of conversations.
    pub reset_for: ResetFor,
    /// Turns of the old conversation that an automatically started one begins with, at most
    /// [`MAX_CARRIED`]; default 0.
    pub carry_turns: usize,
    /// Person to the ids (`channel:id`) that are the same person; default none.
    pub identity_links: BTreeMap<String, Vec<String>>,
}

/// The most turns that may be carried over (specification §10).
pub const MAX_CARRIED: usize = 20;

impl Default for Session {
    fn default() -> Self {
        Self {
            dm_scope: DmScope::Sender,
            group_scope: GroupScope::Chat,
            reset: Reset::Never,
            reset_at: TimeOfDay::default(),
            idle_minutes: 60,
            reset_for: ResetFor::default(),
            carry_turns: 0,
            identity_links: BTreeMap::new(),
        }
    }
}

impl Session {
    /// Returns when a conversation of this kind expires.
    pub fn reset_of(&self, kind: KeyKind) -> Reset {
        let own = match kind {
            KeyKind::Dm => self.reset_for.dm,
            KeyKind::Group => self.reset_for.group,
            KeyKind::Cli => self.reset_for.cli,
        };
        own.unwrap_or(self.reset)
    }

    /// Returns what the person is called who has `id` on `channel`.
    pub fn person_of(&self, channel: &str, id: &str) -> Option<&str> {
        let is = |link: &String| link.split_once(':') == Some((channel, id));
        self.identity_links
            .iter()
            .find(|(_, links)| links.iter().any(is))
            .map(|(person, _)| person.as_str())
    }
}

/// When a conversation is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reset {
    /// When somebody says so.
    #[default]
    Never,
    /// Every day at `reset_at`.
    Daily,
    /// After `idle_minutes` without a message of a person.
    Idle,
    /// Whichever comes first.
    Both,
}

/// `[session.reset_for]`; what is not set is as `reset` says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct ResetFor {
    /// Direct messages.
    pub dm: Option<Reset>,
    /// Groups.
    pub group: Option<Reset>,
    /// The shell.
    pub cli: Option<Reset>,
}

/// A time of day, written `HH:MM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeOfDay(pub NaiveTime);

impl Default for TimeOfDay {
    fn default() -> Self {
        Self(NaiveTime::from_hms_opt(4, 0, 0).unwrap_or_default())
    }
}

impl Serialize for TimeOfDay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.format("%H:%M"))
    }
}

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let whole = text.len() == 5;
        NaiveTime::parse_from_str(&text, "%H:%M")
            .ok()
            .filter(|_| whole)
            .map(Self)
            .ok_or_else(|| {
                serde::de::Error::custom(format!(
                    "`{text}` is no time of day, expected HH:MM from `00:00` to `23:59`"
                ))
            })
    }
}

/// Which direct messages share a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DmScope {
    /// Those of one sender.
    #[default]
    Sender,
    /// Those of one chat.
    Chat,
    /// All.
    Main,
}

/// Which group messages share a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupScope {
    /// Those of one chat.
    #[default]
    Chat,
    /// Those of one sender in a chat.
    Sender,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_hours_and_minutes() {
        let read = |text: &str| {
            serde_json::from_value::<TimeOfDay>(text.into())
                .ok()
                .and_then(|at| serde_json::to_value(at).ok())
        };
        for good in ["04:00", "00:00", "23:59"] {
            assert_eq!(read(good), Some(good.into()));
        }
        for bad in [
            "",
            "4",
            "4:00",
            "24:00",
            "04:60",
            "04:00:00",
            "noon",
            "٠٤:٠٠",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_kind_of_conversation_may_have_its_own_end() {
        let session = Session {
            reset: Reset::Daily,
            reset_for: ResetFor {
                group: Some(Reset::Never),
                cli: Some(Reset::Idle),
                ..ResetFor::default()
            },
            ..Session::default()
        };
        let of = |kind| session.reset_of(kind);
        assert_eq!(
            [of(KeyKind::Dm), of(KeyKind::Group), of(KeyKind::Cli)],
            [Reset::Daily, Reset::Never, Reset::Idle]
        );
    }

    #[test]
    fn an_id_is_its_persons_and_nobody_elses() {
        let links = [
            ("ada", vec!["telegram:1001", "cli:ada:home"]),
            ("bob", vec!["telegram:10", "cli:1001"]),
        ];
        let links = links.map(|(name, ids)| {
            (
                name.to_owned(),
                ids.into_iter().map(str::to_owned).collect(),
            )
        });
        let session = Session {
            identity_links: links.into(),
            ..Session::default()
        };
        let check = |channel, id, expected| {
            assert_eq!(session.person_of(channel, id), expected, "{channel}:{id}")
        };
        check("telegram", "1001", Some("ada"));
        check("cli", "1001", Some("bob"));
        check("cli", "ada:home", Some("ada"));
        check("cli", "ada", None);
        check("telegram", "100", None);
        check("", "telegram:1001", None);
    }
}
