//! From Telegram: updates by long polling or webhook, and the files that come with them.

pub(crate) mod download;
pub(crate) mod poll;
pub(crate) mod repair_json;
pub(crate) mod slash_commands;
pub(crate) mod update;
pub(crate) mod webhook;
