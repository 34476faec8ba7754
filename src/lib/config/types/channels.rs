//! `[telegram]` and `[http]`: the doors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `[telegram]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Telegram {
    /// Whether the bot runs; default false.
    pub enabled: bool,
    /// Numeric user ids of the owners; default: the first of `allow_from`.
    pub owner: Vec<i64>,
    /// The Bot API server; default `https://api.telegram.org`.
    pub api_url: String,
    /// The name of the variable, credential or `.env` entry with the bot's token; default
    /// `TELEGRAM_BOT_TOKEN`.
    pub token_env: String,
    /// Who may write to the bot directly; default `pairing`, an empty list is never open.
    pub dm_policy: DmPolicy,
    /// Numeric user ids that may write to the bot, beside the owners; default none.
    pub allow_from: Vec<i64>,
    /// Whether an answer is shown while it is written; default `off`.
    pub stream: Stream,
    /// Whether sends are paced; default: only for api.telegram.org.
    pub pace: Option<bool>,
    /// Seconds a poll waits for news, 1–50; default 50 (Telegram's longest, core.telegram.org/bots/api).
    pub poll_timeout_secs: u64,
    /// Which parts of an answer reply to the question; default `first`.
    pub reply_to_mode: ReplyTo,
    /// Which groups are heard; default `allowlist`.
    pub group_policy: GroupPolicy,
    /// The groups that are heard, by chat id (`-100…`, in quotes); default none.
    pub groups: BTreeMap<String, Group>,
}

impl Default for Telegram {
    fn default() -> Self {
        Self {
            enabled: false,
            owner: Vec::new(),
            api_url: "https://api.telegram.org".to_owned(),
            token_env: "TELEGRAM_BOT_TOKEN".to_owned(),
            dm_policy: DmPolicy::Pairing,
            allow_from: Vec::new(),
            stream: Stream::Off,
            pace: None,
            poll_timeout_secs: 50,
            reply_to_mode: ReplyTo::First,
            group_policy: GroupPolicy::Allowlist,
            groups: BTreeMap::new(),
        }
    }
}

impl Telegram {
    /// Returns the ids of the owners: `owner`, or when it is empty the first of `allow_from`.
    pub fn owners(&self) -> &[i64] {
        if self.owner.is_empty() { self.allow_from.get(..1).unwrap_or_default() } else { &self.owner }
    }
}

/// Who may write to the bot directly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DmPolicy {
    /// The listed, and whom the owner lets in by a code.
    #[default]
    Pairing,
    /// The listed only.
    Allowlist,
    /// Everybody.
    Open,
    /// Nobody.
    Disabled,
}

/// Whether an answer is shown while it is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// No: it comes when it is finished.
    #[default]
    Off,
    /// In a message that is edited.
    Edit,
    /// In a draft.
    Draft,
}

/// Which parts of an answer reply to the question.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplyTo {
    /// None.
    Off,
    /// The first.
    #[default]
    First,
    /// All.
    All,
}

/// Which groups are heard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupPolicy {
    /// Those in `[telegram.groups]`.
    #[default]
    Allowlist,
    /// None.
    Disabled,
}

/// `[telegram.groups."ID"]`: a group that is heard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Group {
    /// Whether the bot must be named to be addressed; default true.
    pub require_mention: bool,
    /// Numeric user ids that may address it here; default: the top-level `allow_from`.
    pub allow_from: Option<Vec<i64>>,
    /// `allowed` (default) or `any`.
    pub members: Members,
}

impl Default for Group {
    fn default() -> Self {
        Self { require_mention: true, allow_from: None, members: Members::Allowed }
    }
}

/// Which members of a group may address the bot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Members {
    /// The listed.
    #[default]
    Allowed,
    /// Everybody.
    Any,
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Http {
    /// Whether the API runs; default false.
    pub enabled: bool,
    /// `ADDRESS:PORT` or `unix:/path`; default `127.0.0.1:8100`.
    pub listen: String,
    /// The name of the variable, credential or `.env` entry with the bearer token; default
    /// `AGENT_HTTP_TOKEN`.
    pub token_env: String,
}

impl Default for Http {
    fn default() -> Self {
        Self { enabled: false, listen: "127.0.0.1:8100".to_owned(), token_env: "AGENT_HTTP_TOKEN".to_owned() }
    }
}
