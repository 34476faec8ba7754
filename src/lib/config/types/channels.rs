//! `[telegram]` and `[http]`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Hook;
use crate::text::HostPort;

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
    /// Numeric user ids that may write to the bot, in addition to the owners; default none.
    pub allow_from: Vec<i64>,
    /// Whether an answer is shown while it is written; default `off`.
    pub stream: Stream,
    /// Whether text together with tool calls is sent as a separate message before they run; default false.
    pub interim: bool,
    /// Whether "typing" is shown while it works; default true.
    pub typing: bool,
    /// Whether sends are paced; default: only for api.telegram.org.
    pub pace: Option<bool>,
    /// Seconds a poll waits for news, 1–50; default 50 (Telegram's longest, core.telegram.org/bots/api).
    pub poll_timeout_secs: u64,
    /// The public address to which Telegram brings messages; empty (default) = they are fetched by polls.
    pub webhook: String,
    /// Which parts of an answer reply to the question; default `first`.
    pub reply_to_mode: ReplyTo,
    /// The emoji put on a message that waits behind a turn; empty = none; default `👀`.
    pub ack_reaction: String,
    /// Which groups are read; default `allowlist`.
    pub group_policy: GroupPolicy,
    /// Names by which it is called in groups, in addition to its @username; default none. They are whole
    /// words, in any letter case.
    pub aliases: Vec<String>,
    /// The groups that are read, by chat id (`-100…`, in quotes); default none.
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
            interim: false,
            typing: true,
            pace: None,
            poll_timeout_secs: 50,
            webhook: String::new(),
            reply_to_mode: ReplyTo::First,
            ack_reaction: "👀".to_owned(),
            group_policy: GroupPolicy::Allowlist,
            aliases: Vec::new(),
            groups: BTreeMap::new(),
        }
    }
}

impl Telegram {
    /// Returns the ids of the owners: `owner`, or when it is empty the first of `allow_from`.
    pub fn owners(&self) -> &[i64] {
        if self.owner.is_empty() {
            self.allow_from.get(..1).unwrap_or_default()
        } else {
            &self.owner
        }
    }
}

impl Telegram {
    /// Returns the path of the webhook's address, such as `/telegram`; `None` when there is no webhook, or
    /// its address is none that Telegram could use: `https://`, or `http://` on this machine.
    pub fn webhook_path(&self) -> Option<&str> {
        let https = self.webhook.strip_prefix("https://");
        let local = || {
            self.webhook
                .strip_prefix("http://")
                .filter(|rest| is_loopback(rest.split('/').next().unwrap_or(rest)))
        };
        let rest = https.or_else(local)?;
        let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let plain = self
            .webhook
            .chars()
            .all(|c| c.is_ascii_graphic() && !"?#@\"<>\\^`{|}".contains(c));
        (plain && !host.is_empty() && !host.starts_with(':')).then_some(path)
    }
}

fn is_loopback(authority: &str) -> bool {
    HostPort::parse(authority).is_some_and(|read| read.is_loopback())
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

/// Which groups are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupPolicy {
    /// Those in `[telegram.groups]`.
    #[default]
    Allowlist,
    /// None.
    Disabled,
}

/// `[telegram.groups."ID"]`, `[channels.NAME.groups."ID"]`: a group that is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Group<Id = i64> {
    /// Whether the bot must be named to be addressed; default true.
    pub require_mention: bool,
    /// User ids that may address it here; default: the top-level `allow_from`.
    pub allow_from: Option<Vec<Id>>,
    /// `allowed` (default) or `any`.
    pub members: Members,
}

impl<Id> Default for Group<Id> {
    fn default() -> Self {
        Self {
            require_mention: true,
            allow_from: None,
            members: Members::Allowed,
        }
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
    /// Requests that only read, a minute; more are refused for a while; default 600.
    pub reads_per_minute: u32,
    /// Requests that change something, messages above all, a minute; default 120.
    pub writes_per_minute: u32,
    /// More names under which requests may reach the API (`Host`); default none.
    pub hosts: Vec<String>,
    /// Sites whose pages may use the API from a browser, with the token: `https://chat.example`; default none.
    pub origins: Vec<String>,
    /// Whether OpenAI's clients may offer tools of their own, which the agent never calls; otherwise such a request is
    /// refused. Default false.
    pub ignore_tools: bool,
    /// Webhooks by name, `[a-z0-9_-]`, at most 64: `POST /hooks/NAME`; default none.
    pub hooks: BTreeMap<String, Hook>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            enabled: false,
            listen: "127.0.0.1:8100".to_owned(),
            token_env: "AGENT_HTTP_TOKEN".to_owned(),
            reads_per_minute: 600,
            writes_per_minute: 120,
            hosts: Vec::new(),
            origins: Vec::new(),
            ignore_tools: false,
            hooks: BTreeMap::new(),
        }
    }
}

/// Where requests are listened for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// `ADDRESS:PORT`.
    Tcp(String),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Http {
    /// Returns whether `listen` can be reached from this machine only.
    pub fn is_local(&self) -> bool {
        self.address().is_some_and(|address| match address {
            Listen::Unix(_) => true,
            Listen::Tcp(address) => is_loopback(&address),
        })
    }

    /// Returns what `listen` says; `None` when it says nothing of the kind.
    pub fn address(&self) -> Option<Listen> {
        if let Some(path) = self.listen.strip_prefix("unix:") {
            return path
                .starts_with('/')
                .then(|| Listen::Unix(PathBuf::from(path)));
        }
        let HostPort { host, port } = HostPort::parse(&self.listen)?;
        let is_good = port.is_some() && !host.is_empty() && !host.contains(char::is_whitespace);
        is_good.then(|| Listen::Tcp(self.listen.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_is_https_or_on_this_machine_and_has_a_path() {
        let check = |webhook: &str, path| {
            let telegram = Telegram {
                webhook: webhook.to_owned(),
                ..Telegram::default()
            };
            assert_eq!(telegram.webhook_path(), path, "{webhook}");
        };
        check("https://example.org/telegram", Some("/telegram"));
        check("https://example.org:8443/a/b", Some("/a/b"));
        check("https://example.org", Some("/"));
        check("http://127.0.0.1:8100/t", Some("/t"));
        check("http://localhost/t", Some("/t"));
        check("http://[::1]:80/t", Some("/t"));
        for bad in [
            "",
            "example.org/t",
            "http://example.org/t",
            "http://localhost.example.org/t",
            "https:///t",
            "https://a/ b",
            "https://a/t?x=1",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn an_address_is_a_host_with_a_port_or_a_socket() {
        let check = |listen: &str, address| {
            let http = Http {
                listen: listen.to_owned(),
                ..Http::default()
            };
            assert_eq!(http.address(), address, "{listen}");
        };
        for tcp in ["127.0.0.1:8100", "[::1]:0", "localhost:80"] {
            check(tcp, Some(Listen::Tcp(tcp.to_owned())));
        }
        check(
            "unix:/run/agent/http",
            Some(Listen::Unix("/run/agent/http".into())),
        );
        for bad in [
            "",
            "8100",
            ":8100",
            "127.0.0.1",
            "127.0.0.1:70000",
            "unix:http",
            "a b:1",
        ] {
            check(bad, None);
        }
    }
}
