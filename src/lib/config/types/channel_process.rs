//! `[channels.NAME]`: channels that are separate processes, and the settings that they share with Telegram.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Config;
use super::channels::{DmPolicy, Group, GroupPolicy, Members, ReplyTo, Stream};
use crate::message::{Address, NUMBERED};

/// `[channels.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Channel {
    /// Whether its messages are taken and answered; default false.
    pub enabled: bool,
    /// Ids of the owners on this channel; default: the first of `allow_from`.
    pub owner: Vec<String>,
    /// Who may write directly; default `pairing`, an empty list is never open.
    pub dm_policy: DmPolicy,
    /// Ids that may write directly, in addition to the owners; default none.
    pub allow_from: Vec<String>,
    /// Whether an answer is shown while it is written: `off` (default) or `edit`.
    pub stream: Stream,
    /// Whether text together with tool calls is sent as a separate message before they run; default false.
    pub interim: bool,
    /// Whether the channel is notified that an answer is being written; default true.
    pub typing: bool,
    /// Which parts of an answer reply to the question; default `first`.
    pub reply_to_mode: ReplyTo,
    /// The emoji put on a message that waits behind a turn; empty = none; default `👀`.
    pub ack_reaction: String,
    /// Which groups are read; default `allowlist`.
    pub group_policy: GroupPolicy,
    /// Names by which it is called in groups; default none. They are whole words, in any letter case.
    pub aliases: Vec<String>,
    /// The groups that are read, by chat id; default none.
    pub groups: BTreeMap<String, Group<String>>,
}

impl Default for Channel {
    fn default() -> Self {
        Self {
            enabled: false,
            owner: Vec::new(),
            dm_policy: DmPolicy::Pairing,
            allow_from: Vec::new(),
            stream: Stream::Off,
            interim: false,
            typing: true,
            reply_to_mode: ReplyTo::First,
            ack_reaction: "👀".to_owned(),
            group_policy: GroupPolicy::Allowlist,
            aliases: Vec::new(),
            groups: BTreeMap::new(),
        }
    }
}

impl Channel {
    /// Returns the ids of the owners: `owner`, or when it is empty the first of `allow_from`.
    pub fn owners(&self) -> &[String] {
        if self.owner.is_empty() {
            self.allow_from.get(..1).unwrap_or_default()
        } else {
            &self.owner
        }
    }
}

/// Who may speak in a group, on whatever channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRules {
    /// Whether the agent must be named to be addressed.
    pub require_mention: bool,
    /// Who may address it here; `None` = anyone who may write directly.
    pub allow_from: Option<Vec<Address>>,
    /// Whether everybody may.
    pub members: Members,
}

/// How answers are shown on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Display {
    /// Whether an answer is shown while it is written.
    pub stream: Stream,
    /// Whether text together with tool calls is sent as a separate message.
    pub interim: bool,
    /// Whether "typing" is shown.
    pub typing: bool,
    /// Which parts of an answer reply to the question.
    pub reply_to_mode: ReplyTo,
    /// The emoji put on a message that waits.
    pub ack_reaction: String,
}

impl Config {
    /// Returns true when the settings name `who` as an owner.
    pub fn is_owner(&self, who: &Address) -> bool {
        match who {
            Address::Number(id) => self.telegram.owners().contains(id),
            Address::Named { channel, id } => self
                .channels
                .get(channel)
                .is_some_and(|channel| channel.owners().contains(id)),
        }
    }

    /// Returns true when the settings let `who` write directly.
    pub fn is_allowed(&self, who: &Address) -> bool {
        match who {
            Address::Number(id) => self.telegram.allow_from.contains(id),
            Address::Named { channel, id } => self
                .channels
                .get(channel)
                .is_some_and(|channel| channel.allow_from.contains(id)),
        }
    }

    /// Returns the owners whom the settings name on channels that are on, those of Telegram first; then, where Telegram is
    /// off, its owners too.
    pub fn owners(&self) -> Vec<Address> {
        let mut numbered: Vec<Address> = self
            .telegram
            .owners()
            .iter()
            .copied()
            .map(Address::Number)
            .collect();
        let named = self.channels.iter().filter(|(_, channel)| channel.enabled);
        let named: Vec<Address> = named
            .flat_map(|(name, channel)| channel.owners().iter().map(move |id| (name, id)))
            .filter_map(|(name, id)| Address::new(name, id))
            .collect();
        if self.telegram.enabled {
            numbered.extend(named);
            numbered
        } else {
            named.into_iter().chain(numbered).collect()
        }
    }

    /// Returns the ids that the settings let in, in addition to the owners.
    pub fn allowed(&self) -> Vec<Address> {
        let numbered = self
            .telegram
            .allow_from
            .iter()
            .copied()
            .map(Address::Number);
        let named = self
            .channels
            .iter()
            .flat_map(|(name, channel)| channel.allow_from.iter().map(move |id| (name, id)))
            .filter_map(|(name, id)| Address::new(name, id));
        numbered.chain(named).collect()
    }

    /// Returns who may write directly on `channel`.
    pub fn dm_policy(&self, channel: &str) -> DmPolicy {
        if channel == NUMBERED {
            return self.telegram.dm_policy;
        }
        self.channels
            .get(channel)
            .map_or(DmPolicy::Disabled, |channel| channel.dm_policy)
    }

    /// Returns the names of the channels that are on.
    pub fn open_channels(&self) -> impl Iterator<Item = &str> {
        let numbered = self.telegram.enabled.then_some(NUMBERED);
        let named = self.channels.iter().filter(|(_, channel)| channel.enabled);
        numbered
            .into_iter()
            .chain(named.map(|(name, _)| name.as_str()))
    }

    /// Returns true for a channel that there is, switched on or not.
    pub fn knows_channel(&self, channel: &str) -> bool {
        channel == NUMBERED || self.channels.contains_key(channel)
    }

    /// Returns who may speak in the group `chat` of `channel`; `None` when it is not read.
    pub fn group(&self, channel: &str, chat: &str) -> Option<GroupRules> {
        if channel == NUMBERED {
            let group = self.telegram.groups.get(chat)?;
            return (self.telegram.group_policy != GroupPolicy::Disabled).then(|| GroupRules {
                require_mention: group.require_mention,
                allow_from: group
                    .allow_from
                    .as_ref()
                    .map(|ids| ids.iter().copied().map(Address::Number).collect()),
                members: group.members,
            });
        }
        let settings = self.channels.get(channel)?;
        let group = settings.groups.get(chat)?;
        let address = |id: &String| Address::new(channel, id);
        (settings.group_policy != GroupPolicy::Disabled).then(|| GroupRules {
            require_mention: group.require_mention,
            allow_from: group
                .allow_from
                .as_ref()
                .map(|ids| ids.iter().filter_map(address).collect()),
            members: group.members,
        })
    }

    /// Returns how answers are shown on `channel`.
    pub fn display(&self, channel: &str) -> Display {
        match self.channels.get(channel) {
            Some(channel) => Display {
                stream: channel.stream,
                interim: channel.interim,
                typing: channel.typing,
                reply_to_mode: channel.reply_to_mode,
                ack_reaction: channel.ack_reaction.clone(),
            },
            None => Display {
                stream: self.telegram.stream,
                interim: self.telegram.interim,
                typing: self.telegram.typing,
                reply_to_mode: self.telegram.reply_to_mode,
                ack_reaction: self.telegram.ack_reaction.clone(),
            },
        }
    }
}
