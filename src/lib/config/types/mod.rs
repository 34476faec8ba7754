//! The settings of `agent.toml`, typed. Every key is here once with its meaning, unit and
//! default; agent.toml(5) and the template that `init` writes are checked against these types.
//!
//! Numbers without a named source are SPEC.md's. Closed sets of words are enums, so that a wrong
//! word is refused with the list of the right ones.

mod callback;
mod channel_process;
mod channels;
mod collections;
mod compaction;
mod heartbeat;
mod hooks;
mod mcp;
mod network;
mod owner;
mod persona;
mod session;
mod tools;

use std::collections::BTreeMap;
use std::path::PathBuf;

use chrono_tz::Tz;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::message::Source;

pub use callback::Callback;
pub use channel_process::{Channel, Display, GroupRules};
pub use channels::{
    DmPolicy, Group, GroupPolicy, Http, Listen, Members, ReplyTo, Stream, Telegram,
};
pub use collections::{Collection, Readers};
pub use compaction::{Compaction, Keep, Preset, Thresholds};
pub use heartbeat::{Driver, Every, Heartbeat};
pub use hooks::{Deliver, Hook, HookSession};
pub use mcp::{Mcp, McpServer, Sampling};
pub use network::Network;
pub use owner::Owner;
pub use persona::{Stickers, Typing, Voice};
pub use session::{DmScope, GroupScope, MAX_CARRIED, Reset, ResetFor, Session, TimeOfDay};
pub use tools::{Exec, Media, Pattern, Policy, Sandbox, SearchEngine, Tools, Web};

/// All of `agent.toml`. A missing table or key means its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Config {
    /// Who the agent is and how long it may think.
    pub agent: Agent,
    /// Where the owner receives notifications.
    pub owner: Owner,
    /// How inputs wait before a turn.
    pub pipeline: Pipeline,
    /// The Telegram bot.
    pub telegram: Telegram,
    /// Channels that are processes of their own, by name; default none.
    pub channels: BTreeMap<String, Channel>,
    /// The HTTP API.
    pub http: Http,
    /// Which provider files are loaded.
    pub providers: Providers,
    /// Source or role (see [`ROLES`]) to the name of a model; default: none, so that every chat
    /// role uses the model `primary` and speech is off.
    pub routing: BTreeMap<String, String>,
    /// What the agent may do.
    pub tools: Tools,
    /// What is done with recordings.
    pub media: Media,
    /// Which messages share a conversation.
    pub session: Session,
    /// When a conversation is summarized.
    pub compaction: Compaction,
    /// What the model receives in addition to the conversation.
    pub context: Context,
    /// How much may be spent.
    pub cost: Cost,
    /// What is remembered and how it is found.
    pub memory: Memory,
    /// How far a sub-agent may go.
    pub subagents: Subagents,
    /// The receiver of the result of each message.
    pub callback: Callback,
    /// The heartbeat.
    pub heartbeat: Heartbeat,
    /// Tool servers.
    pub mcp: Mcp,
    /// Who can read the backups.
    pub backup: Backup,
    /// What is written down about the program itself.
    pub log: Log,
}

/// The left sides `[routing]` knows: the sources of messages, then the roles of helpers.
pub const ROLES: [&str; 12] = [
    "telegram",
    "channel",
    "cli",
    "http",
    "system",
    "subagent",
    "compaction",
    "consolidation",
    "sampling",
    "vision",
    "speech_to_text",
    "text_to_speech",
];

/// `[agent]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Agent {
    /// The agent's name, part of every session key: 1–64 letters, digits, `_` or `-`; default
    /// `agent`.
    pub name: String,
    /// `tools` (default) or `plan`.
    pub mode: Mode,
    /// The owner's time zone, an IANA name; days, file names and the date in the prompt follow it;
    /// default `UTC`, `init` writes the machine's.
    pub timezone: Zone,
    /// Turns that may run at the same time, at least 1; default 4.
    pub max_concurrent_runs: usize,
    /// What the user reads when a turn failed.
    pub error_message: String,
    /// Model calls a turn may make, at least 1; default 50.
    pub max_turns: u32,
    /// The same for single sources (`telegram`, `cli`, `system`, `notify`); default none.
    pub max_turns_for: BTreeMap<Source, u32>,
    /// Seconds one model call may take, at least 1; default 600.
    pub call_timeout_secs: u64,
    /// Seconds a whole turn may take, at least 1, without what it waits for you or for a sub-agent; default 1800: three
    /// calls that time out.
    pub run_timeout_secs: u64,
    /// Directories with prompts for agents, earlier wins: `agents/NAME/prompts` of each, then `prompts`
    /// of each, then those of the workspace; relative ones begin at the directory of agent.toml; default none.
    pub config_path: Vec<PathBuf>,
    /// The role prompts that go into the system text, in order: `ROLE.md` in `config_path` or
    /// `workspace/prompts`; what is not there is left out; default `["Memory"]`.
    pub roles: Vec<String>,
    /// Messages of a conversation that the model is shown in plan mode, at least 1; default 500.
    pub history_size: usize,
    /// Milliseconds to wait for more messages before a plan is made, each time again, at most 5 s in all; default 2000.
    pub plan_pause_ms: u64,
    /// Which answers in chats go out as voice messages; default `never`.
    pub voice: Voice,
    /// How long a persona takes to write.
    pub typing: Typing,
    /// What a persona may send.
    pub stickers: Stickers,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            name: "agent".to_owned(),
            mode: Mode::Tools,
            timezone: Zone::default(),
            max_concurrent_runs: 4,
            error_message: "Sorry, something went wrong and I could not finish this.".to_owned(),
            max_turns: 50,
            max_turns_for: BTreeMap::new(),
            call_timeout_secs: 600,
            run_timeout_secs: 1800,
            config_path: Vec::new(),
            roles: vec!["Memory".to_owned()],
            history_size: 500,
            plan_pause_ms: 2000,
            voice: Voice::default(),
            typing: Typing::default(),
            stickers: Stickers::default(),
        }
    }
}

/// How the model's answer is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The model calls tools and answers.
    #[default]
    Tools,
    /// The model answers with a graph of tasks.
    Plan,
}

/// A time zone, written by its IANA name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone(pub Tz);

impl Default for Zone {
    fn default() -> Self {
        Self(Tz::UTC)
    }
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

/// Returns the name of the zone that is `name` except for its letter case, spaces or a slip of two letters.
fn zone_in_any_case(name: &str) -> Option<&'static str> {
    let written = name.trim().to_lowercase().replace(' ', "_");
    let names = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
    let far = |zone: &str| crate::config::edits(&written, &zone.to_lowercase());
    let by_distance = names.map(|zone| (far(zone), zone));
    // Of a short name two letters make another one.
    let enough = if written.len() < 6 { 0 } else { 2 };
    by_distance
        .min()
        .filter(|(far, _)| *far <= enough)
        .map(|(_, zone)| zone)
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map(Self).map_err(|_| {
            let name = crate::text::visible(&crate::text::shorten(&name, 80));
            serde::de::Error::custom(match zone_in_any_case(&name) {
                Some(meant) => format!("no time zone is called `{name}`; did you mean `{meant}`?"),
                None => format!(
                    "no time zone is called `{name}`, expected an IANA name such as `Europe/Berlin` or `UTC`"
                ),
            })
        })
    }
}

/// `[pipeline]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Pipeline {
    /// Milliseconds to wait for more text of the same person in a chat before a turn begins, again
    /// after each, at most 5 s in all; 0 = at once; default 500.
    pub debounce_ms: u64,
    /// What a message does that comes while its lane is busy; default `collect`.
    pub on_busy: OnBusy,
    /// How long a message waits for a model that is away before it becomes a dead letter, `1m` to `24h`; default
    /// `24h`. A caller over HTTP waits at most 1 h, a job that comes again for as long as it takes, or in a conversation of
    /// people at most until its next time.
    pub give_up_after: Every,
}

impl Default for Pipeline {
    fn default() -> Self {
        Self {
            debounce_ms: 500,
            on_busy: OnBusy::Collect,
            give_up_after: Every(24 * 3_600_000),
        }
    }
}

/// What a message does that comes while its lane is busy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnBusy {
    /// It waits; all that waits becomes one turn.
    #[default]
    Collect,
    /// It waits; each message is a turn.
    Queue,
    /// It ends the running turn.
    Interrupt,
    /// It makes a new plan (plan mode).
    Replan,
}

/// `[providers]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Providers {
    /// Names of `providers.d/NAME.toml`; default `["offline"]`, which needs no file.
    pub load: Vec<String>,
}

impl Default for Providers {
    fn default() -> Self {
        Self {
            load: vec!["offline".to_owned()],
        }
    }
}

/// `[context]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Context {
    /// Tiers of one's own, by name; default none. One called `operational` replaces the built-in one, one called `full`
    /// the files of the built-in one; prompts and skills stay.
    pub tiers: BTreeMap<String, Tier>,
}

impl Config {
    /// Returns true for the name of a context tier: one of `[context.tiers]`, `full` or `operational`.
    pub fn has_tier(&self, name: &str) -> bool {
        ["full", "operational"].contains(&name) || self.context.tiers.contains_key(name)
    }
}

/// `[context.tiers.NAME]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Tier {
    /// The files that an input of this tier brings along, in order, by their paths in the workspace;
    /// default none.
    pub files: Vec<String>,
}

/// `[cost]`; US dollars, not negative, 0 = no cap.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Cost {
    /// The most a day in the agent's time zone may cost; default 0, `init` writes 5.0.
    pub day_usd: f64,
    /// The most a calendar month may cost; default 0.
    pub month_usd: f64,
    /// The most a session may cost, from its beginning to its reset, with the sub-agents it sends; default 0.
    pub session_usd: f64,
    /// The most one message may cost, with the sub-agents it sends; default 0.
    pub message_usd: f64,
    /// The most one run of a job may cost, whatever the job itself says; default 0.
    pub job_usd: f64,
}

impl Cost {
    /// Returns true when any cap is set: then a model without a price is refused.
    pub fn capped(&self) -> bool {
        [
            self.day_usd,
            self.month_usd,
            self.session_usd,
            self.message_usd,
            self.job_usd,
        ]
        .iter()
        .any(|usd| *usd > 0.0)
    }
}

/// `[memory]`
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Memory {
    /// The vectors of the search index.
    pub embeddings: Embeddings,
    /// What goes before a message.
    pub recall: Recall,
    /// Whether the model of `[routing] consolidation` reads changed notes, in addition to the rules; default false.
    pub notes_by_model: bool,
    /// What a search uses; default `auto`.
    pub strategy: SearchStrategy,
    /// The share of the vectors in a score, 0 to 1; default none: what was measured for the embedder, 0.1 for `local` and
    /// 0.3 for a server.
    pub vector_weight: Option<f32>,
    /// What many share, in databases of PostgreSQL, by name: a letter, then a-z, 0-9 or `_`, at most 40; default none.
    pub collections: BTreeMap<String, Collection>,
}

/// What a search of the memory uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchStrategy {
    /// `fts_first` with the vectors of a server, else `hybrid`.
    #[default]
    Auto,
    /// Words and vectors.
    Hybrid,
    /// Words, and vectors only when these find little: no message waits for a server.
    FtsFirst,
}

/// `[memory.recall]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Recall {
    /// The form of the memories; default `structured`.
    pub synthesis: Synthesis,
    /// Whether a fact says where it is from; default `natural`.
    pub fact_format: FactFormat,
    /// Whether an episode tells the mood of its conversation; default false.
    pub show_emotional_tone: bool,
    /// A line before the episodes, at most 100 characters; default none.
    pub episode_header: String,
    /// Tokens of it at most, 200 to 20,000, or 0: nothing is remembered before a message; default 1,500.
    pub max_tokens: u64,
    /// The most facts; default 20.
    pub max_facts: usize,
    /// The most episodes; default 3.
    pub max_episodes: usize,
    /// How fast facts and episodes count less, a day, 0 to 1; default 0.03.
    pub decay_per_day: f64,
    /// The weights by which kinds share `max_tokens`, in whole numbers.
    pub weights: RecallWeights,
}

impl Default for Recall {
    fn default() -> Self {
        Self {
            synthesis: Synthesis::default(),
            fact_format: FactFormat::default(),
            show_emotional_tone: false,
            episode_header: String::new(),
            max_tokens: 1_500,
            max_facts: 20,
            max_episodes: 3,
            decay_per_day: 0.03,
            weights: RecallWeights::default(),
        }
    }
}

/// `[memory.recall.weights]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct RecallWeights {
    /// Open commitments; default 40.
    pub commitments: u32,
    /// Passages of notes and conversations; default 35.
    pub passages: u32,
    /// What happened in conversations; default 25.
    pub episodes: u32,
    /// Facts; default 15.
    pub facts: u32,
}

impl Default for RecallWeights {
    fn default() -> Self {
        Self {
            commitments: 40,
            passages: 35,
            episodes: 25,
            facts: 15,
        }
    }
}

/// The form of a fact before a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FactFormat {
    /// `Ana: lives in Porto (workspace/memory/ana.md:7)`.
    #[default]
    Natural,
    /// `Ana: lives in Porto`.
    Compact,
}

/// The form of the memories before a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Synthesis {
    /// As they are; costs nothing.
    #[default]
    Structured,
    /// As a short text, by the model of the role `consolidation`.
    Narrative,
    /// As one plain sentence each, by the same.
    Factual,
}

/// `[memory.embeddings]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Embeddings {
    /// `local` (default), `none`, or the name of a loaded provider.
    pub provider: String,
    /// The model of that provider; default empty: the vendor's usual one. Empty for `local`.
    pub model: String,
    /// Dimensions; default 0: the model's own.
    pub dims: u32,
}

impl Embeddings {
    /// Returns the name of the provider that is asked; `None` when nothing leaves this machine.
    pub fn server(&self) -> Option<&str> {
        Some(self.provider.as_str()).filter(|name| !["local", "none"].contains(name))
    }
}

impl Default for Embeddings {
    fn default() -> Self {
        Self {
            provider: "local".to_owned(),
            model: String::new(),
            dims: 0,
        }
    }
}

/// `[subagents]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Subagents {
    /// The tools that no sub-agent may use, in addition to `sessions_spawn`; default what is heard by others or comes back by
    /// itself.
    pub deny: Vec<String>,
    /// The default time-out, seconds, at least 1; default 600.
    pub timeout_secs: u64,
    /// The maximum time-out that may be set, seconds; default 1800.
    pub max_timeout_secs: u64,
    /// Model calls one may make, at least 1; the agent may say fewer; default 50.
    pub max_turns: u32,
}

impl Default for Subagents {
    fn default() -> Self {
        let deny = [
            "tts",
            "react",
            "sticker",
            "schedule_message",
            "cron",
            "message",
            "send_media",
            "silent",
        ];
        Self {
            deny: deny.map(str::to_owned).to_vec(),
            timeout_secs: 600,
            max_timeout_secs: 1_800,
            max_turns: 50,
        }
    }
}

/// `[backup]`: with recipients every backup is encrypted for them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Backup {
    /// Recipients of age(1), such as `age1…` or an SSH public key; default: none.
    pub age: Vec<String>,
    /// Keys of gpg(1), best by their fingerprints; default: none.
    pub gpg: Vec<String>,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Log {
    /// The lowest level that is logged; default `info`; `-v` and `-q` take precedence on the terminal.
    pub level: Level,
    /// Days a file in `state/logs` is kept, at least 1; default 14.
    pub keep_days: u32,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: Level::Info,
            keep_days: 14,
        }
    }
}

/// How serious a log entry is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something failed.
    Error,
    /// Something is wrong, work continues.
    Warn,
    /// What a user wants to know.
    #[default]
    Info,
    /// What a programmer wants to know; may show the text of messages.
    Debug,
    /// Everything.
    Trace,
}
