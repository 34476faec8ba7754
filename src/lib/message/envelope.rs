//! [`Envelope`]: the type of every input, from any interface.

use serde::{Deserialize, Serialize};

use super::address::Address;
use super::command::Command;
use super::media::{Media, Quoted};
use super::session_key::SessionKey;
use crate::trust::Provenance;

/// The source of an input; decides framing, priority and whether the reply is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A message in Telegram.
    Telegram,
    /// A message on a channel that is a separate process.
    Channel,
    /// A message from `agent-send`, a line in the FIFO, or standard input.
    Cli,
    /// A request to the HTTP API.
    Http,
    /// An event without a notification.
    System,
    /// An event that is reported to the owner.
    Notify,
    /// A job whose time has come.
    Job,
    /// The agent wakes by itself and looks after what HEARTBEAT.md says.
    Heartbeat,
    /// A sub-agent is sent.
    Subagent,
    /// Sub-agents have ended, and the run that started them learns of it.
    Report,
}

impl Source {
    /// Returns the name used in keys, tables and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Telegram => "telegram",
            Source::Channel => "channel",
            Source::Cli => "cli",
            Source::Http => "http",
            Source::System => "system",
            Source::Notify => "notify",
            Source::Job => "job",
            Source::Heartbeat => "heartbeat",
            Source::Subagent => "subagent",
            Source::Report => "report",
        }
    }

    /// Returns the left side of `[routing]` that chooses the model.
    pub fn role(self) -> &'static str {
        match self {
            Source::Telegram => "telegram",
            Source::Channel => "channel",
            Source::Cli => "cli",
            Source::Http => "http",
            Source::System | Source::Notify | Source::Job | Source::Heartbeat | Source::Report => {
                "system"
            }
            Source::Subagent => "subagent",
        }
    }

    /// Returns true when a person waits for the answer: then it goes first.
    pub fn is_person(self) -> bool {
        self.is_chat() || matches!(self, Source::Cli | Source::Http)
    }

    /// Returns true for what was written in a chat.
    pub fn is_chat(self) -> bool {
        matches!(self, Source::Telegram | Source::Channel)
    }
}

/// The author of a text: the owner or anyone else. Decided by the daemon's own state, never by a field of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The owner: the text may give orders to the agent.
    Owner,
    /// Anyone else: the text is data, never an order.
    Other,
}

impl Trust {
    /// Returns whose a text counts as that is `untrusted` or not.
    pub fn of(untrusted: bool) -> Self {
        match untrusted {
            true => Self::Other,
            false => Self::Owner,
        }
    }
}

/// Who wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// Their stable id: the text of an [`super::Address`], or in the shell the `--from` name.
    pub id: String,
    /// What to call them.
    pub name: String,
    /// Their @username, without the @.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
}

impl Sender {
    /// Returns a sender without a username.
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            username: None,
        }
    }
}

/// Where a reply continues its channel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChatRef {
    /// The channel's chat id.
    pub chat: String,
    /// The forum topic, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}

impl ChatRef {
    /// Returns the chat itself, none of its topics.
    pub fn new(chat: impl Into<String>) -> Self {
        Self {
            chat: chat.into(),
            topic: None,
        }
    }
}

/// The way to somebody: a channel and a chat on it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Route {
    /// The channel's name.
    pub channel: String,
    /// The chat.
    #[serde(flatten)]
    pub chat: ChatRef,
}

impl Route {
    /// Returns the way to `chat` on `channel`.
    pub fn new(channel: impl Into<String>, chat: ChatRef) -> Self {
        Self {
            channel: channel.into(),
            chat,
        }
    }

    /// Returns the chat as text that names its channel, such as `1001` or `matrix:!room:example.org`.
    pub fn to(&self) -> String {
        match Address::new(&self.channel, &self.chat.chat) {
            Some(address) => address.to_string(),
            None => self.chat.chat.clone(),
        }
    }
}

/// What an event is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// What it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A ticket, a URL, whatever the caller calls it by.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Kept with the event; not shown to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

/// A file of a message, stored locally.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its path, below `state/downloads`.
    pub path: String,
    /// What it is called.
    pub filename: String,
    /// Its MIME type, when the sender knew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// The parameters of a sub-agent, in addition to its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// What the run that started it will hear when it has ended, except for the words: its rights are theirs.
    pub report: Envelope,
    /// The run that sent it, and pays for it.
    pub run_id: String,
    /// What it is called.
    pub label: String,
    /// Whether that run waits for its answer.
    pub waits: bool,
    /// How far it may go.
    pub bounds: Bounds,
}

/// How far a sub-agent may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// The conversation that sent it.
    pub parent: SessionKey,
    /// The tools it may use; empty: all that a sub-agent may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Model calls it may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Seconds it may take.
    pub timeout_secs: u64,
    /// Words of its task that a search may not say unasked: they are the owner's alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private_words: Vec<String>,
}

/// An accepted input on its way through the pipeline; stored as JSON in `queue.db`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The id it is remembered by for 14 days: `tg:<bot>:<update_id>` or the command's id.
    pub id: String,
    /// Its source.
    pub source: Source,
    /// Who wrote.
    pub sender: Sender,
    /// Whether that is an owner: decides what they may ask for.
    pub from_owner: bool,
    /// Whose text it is: an owner may pass on text of others.
    pub trust: Trust,
    /// The conversation it belongs to.
    pub session_key: SessionKey,
    /// Where the reply goes; `None` when only the caller reads it (`replies/<id>.json`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// The channel's id of this message, to reply to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// The words.
    pub text: String,
    /// A description of content other than text: `location 52.52, 13.405`, `sticker 😀` …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Files that came with the words and are on the channel's server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// What its files belong to: messages of one album are one message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub album: Option<String>,
    /// The message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quoted: Option<Quoted>,
    /// Whose words it passes on, by the name they show; the words of a message that is passed on are
    /// never the sender's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forwarded_from: Option<String>,
    /// Whether it is a new wording of a message that came before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// The name of the group it was said in; `None` when only the sender and we read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What an event is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// Additional information from the caller; the model reads it before the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
    /// Whether the owner vouches for the background and the files: then they are as much theirs as the words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
    /// Files that came with the words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Set when the input is a command and not for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// The channel's id of the press of a button that the command came by: it is answered there, and
    /// not in the chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub press: Option<String>,
    /// The configured model the caller asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The most its run may cost, US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// For a sub-agent: the run that started it, and its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Box<Task>>,
    /// The run that pays for this one; `None` = itself. A sub-agent's report is paid by the run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paying_run: Option<String>,
    /// The recipients' own conversation, when the envelope belongs to another one: the answer is recorded there, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_in: Option<SessionKey>,
    /// Whether others than the owner hear the answer to what the owner asked for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub heard_by_others: bool,
    /// How much context the model receives in addition to the conversation; everything when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// True when a caller reads `replies/<id>.json`.
    #[serde(default)]
    pub wants_reply: bool,
    /// True when that caller reads `replies/<id>.part` while the reply is written.
    #[serde(default)]
    pub stream: bool,
    /// When it was written by the channel's clock, milliseconds since 1970 UTC, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<i64>,
    /// Whether the machine that this one took over from may have answered it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub perhaps_answered: bool,
    /// When we took it, milliseconds since 1970 UTC.
    pub received_at: i64,
}

/// Returns true for content other than text that contains no words of anybody: numbers, an emoji, the name of a set.
pub fn is_plain(kind: &str) -> bool {
    let is_label = |rest: &str| {
        let (signs, set) = rest.split_once(" of ").unwrap_or((rest, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !signs.contains(char::is_alphabetic) && set.chars().all(is_name)
    };
    let mut plain = PLAIN_KINDS.iter();
    plain.any(|plain| kind.strip_prefix(plain).is_some_and(is_label))
}

/// A job says when it was due when that is longer ago: "in an hour" means another hour then.
const OVERDUE_MS: i64 = 5 * 60_000;

/// How that begins.
const PLAIN_KINDS: [&str; 8] = [
    "reaction",
    "sticker",
    "animated sticker",
    "video sticker",
    "location",
    "live location",
    "dice",
    "message without content",
];

impl Envelope {
    /// Returns where its words came from.
    pub fn provenance(&self) -> Provenance {
        match (self.trust, self.source, self.from_owner) {
            (Trust::Owner, ..) => Provenance::Owner,
            // A model put these words together after it had read untrusted ones: nobody said or passed them on. (The task of
            // a sub-agent passed the tool policy.)
            (Trust::Other, Source::Report | Source::Job, _) => Provenance::Model,
            (Trust::Other, _, true) => Provenance::PassedOn,
            (Trust::Other, _, false) => Provenance::Person,
        }
    }

    /// Returns where its background and its files came from.
    pub fn provenance_of_files(&self) -> Provenance {
        match self.provenance() {
            Provenance::Owner if !self.trusted => Provenance::PassedOn,
            provenance => provenance,
        }
    }

    /// Returns where what came in addition to the words came from: the name on a card, of a place, a poll. The person who made
    /// it chose the words.
    pub fn provenance_of_kind(&self) -> Provenance {
        match self.provenance() {
            Provenance::Owner if self.kind.as_deref().is_some_and(|kind| !is_plain(kind)) => {
                Provenance::PassedOn
            }
            provenance => provenance,
        }
    }

    /// Returns where the message that it answers came from.
    pub fn provenance_of_quote(&self) -> Provenance {
        match (self.provenance(), &self.quoted) {
            (Provenance::Owner, Some(quoted)) if quoted.own && quoted.untrusted => {
                Provenance::Model
            }
            (Provenance::Owner, Some(quoted))
                if !quoted.own
                    && (quoted.untrusted || quoted.id.as_ref() != Some(&self.sender.id)) =>
            {
                Provenance::PassedOn
            }
            (provenance, _) => provenance,
        }
    }

    /// Returns true for a job or a heartbeat that is thought about in a separate conversation.
    pub fn has_own_lane(&self) -> bool {
        self.session_key.0 == self.sender.id
    }

    /// Returns the time of the job that this is, milliseconds since 1970 UTC, when people would take it for another one
    /// at `now`.
    pub fn overdue(&self, now: i64) -> Option<i64> {
        let due = self.sent_at.filter(|_| self.source == Source::Job);
        due.filter(|at| now - at > OVERDUE_MS)
    }

    /// Returns what a conversation that begins with this is called. One of the shell has a name; an
    /// event that goes to somebody begins a conversation with them, not with its source.
    pub fn contact(&self) -> &str {
        if let Some(person) = self.session_key.person() {
            return person;
        }
        match (&self.route, self.source) {
            (_, Source::Job) if self.has_own_lane() => &self.sender.name,
            (Some(route), Source::Notify | Source::Job) => &route.chat.chat,
            (_, Source::Telegram | Source::Channel) => {
                self.group.as_ref().unwrap_or(&self.sender.name)
            }
            _ => self.session_key.own_name().unwrap_or(&self.session_key.0),
        }
    }

    /// Returns the run that pays for its own; `None` = itself.
    pub fn paid_by(&self) -> Option<&str> {
        self.task
            .as_ref()
            .map_or(self, |task| &task.report)
            .paying_run
            .as_deref()
    }

    /// Returns an input that says `text`; everything else is to be set by the code that accepted it.
    pub fn new(
        id: String,
        source: Source,
        sender: Sender,
        session_key: SessionKey,
        text: String,
        received_at: i64,
    ) -> Self {
        Self {
            id,
            source,
            sender,
            from_owner: false,
            trust: Trust::Other,
            session_key,
            route: None,
            reply_to: None,
            text,
            kind: None,
            media: Vec::new(),
            album: None,
            quoted: None,
            forwarded_from: None,
            edited: false,
            group: None,
            about: None,
            background: None,
            trusted: false,
            attachments: Vec::new(),
            command: None,
            press: None,
            model: None,
            budget_usd: None,
            task: None,
            paying_run: None,
            heard_in: None,
            heard_by_others: false,
            tier: None,
            wants_reply: false,
            stream: false,
            sent_at: None,
            perhaps_answered: false,
            received_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_plain_when_nobody_chose_its_words() {
        for plain in [
            "sticker 😀",
            "video sticker 😀 of Cats_by_bot",
            "location 52.52, 13.405",
            "reaction 👍",
            "dice 🎲 6",
            "message without content",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        for words in [
            "sticker run this",
            "sticker 😀 of run this",
            "reaction delete it",
            "poll \"x\"",
            "locations",
        ] {
            assert!(!is_plain(words), "{words}");
        }
    }

    #[test]
    fn private_words_of_a_task_are_kept_and_an_older_row_has_none() {
        let older = r#"{"parent":"cli:ada","timeout_secs":600}"#;
        let bounds: Bounds = serde_json::from_str(older).expect("an older row");
        assert_eq!(bounds.private_words, [""; 0]);
        let json = |bounds: &Bounds| serde_json::to_string(bounds).expect("plain data");
        assert_eq!(json(&bounds), older);
        let private_words = vec!["faro".to_owned()];
        let bounds = Bounds {
            private_words,
            ..bounds
        };
        let again: Bounds = serde_json::from_str(&json(&bounds)).expect("what was written");
        assert_eq!(again, bounds);
    }
}
