//! `[channels.NAME]`: checks names and ids, and finds probable mistakes.

use crate::config::key_names;
use crate::config::types::{Channel, Config, DmPolicy, Stream};
use crate::message::{NUMBERED, is_channel_name, is_id};

const NO_NAME: &str = "is no name of a channel: expected 1 to 32 small letters, digits or `-`, a letter first, and none of \
    the agent's own words (`telegram`, `cli`, `http`, `person`, `main`, …)";
const NO_ID: &str = "expected ids of 1 to 300 bytes without control characters";

/// Returns the first key with a fault, and what is wrong with it.
pub(super) fn fault(config: &Config) -> Option<(String, String)> {
    let unknown = config
        .owner
        .notify
        .iter()
        .find(|name| *name != NUMBERED && !config.channels.contains_key(*name));
    if let Some(name) = unknown {
        let why = format!(
            "{name:?} is no channel: expected `{NUMBERED}` or the NAME of a [channels.NAME]"
        );
        return Some(("owner.notify".to_owned(), why));
    }
    config.channels.iter().find_map(|(name, channel)| {
        let table = key_names::join("channels", name);
        if !is_channel_name(name) {
            return Some((table, NO_NAME.to_owned()));
        }
        let (key, message) = fault_in(channel)?;
        Some((key_names::join(&table, &key), message.to_owned()))
    })
}

fn fault_in(channel: &Channel) -> Option<(String, &'static str)> {
    let good = |ids: &[String]| ids.iter().all(|id| is_id(id));
    if !good(&channel.owner) {
        return Some(("owner".to_owned(), NO_ID));
    }
    if !good(&channel.allow_from) {
        return Some(("allow_from".to_owned(), NO_ID));
    }
    if channel.stream == Stream::Draft {
        return Some(("stream".to_owned(), "expected `off` or `edit`"));
    }
    channel.groups.iter().find_map(|(id, group)| {
        let table = key_names::join("groups", id);
        if !is_id(id) {
            return Some((table, NO_ID));
        }
        let listed = group.allow_from.as_deref().unwrap_or_default();
        (!good(listed)).then(|| (key_names::join(&table, "allow_from"), NO_ID))
    })
}

/// Returns keys that are probably not meant as they are, and why.
pub(super) fn doubts(config: &Config) -> Vec<(String, &'static str)> {
    let open = config
        .channels
        .iter()
        .filter(|(_, channel)| channel.enabled);
    open.filter(|(_, channel)| channel.dm_policy == DmPolicy::Allowlist && channel.owners().is_empty())
        .map(|(name, _)| {
            let table = key_names::join("channels", name);
            (
                key_names::join(&table, "enabled"),
                "is true and `owner` and `allow_from` name nobody: put your id there, or use `agent-send --pair owner`",
            )
        })
        .collect()
}
