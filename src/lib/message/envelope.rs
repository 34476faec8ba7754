//! [`Envelope`]: the one type for every input, whatever door it came through.

use serde::{Deserialize, Serialize};

use super::media::{Media, Quoted};
use super::press;

/// Where an input came from; decides framing, priority and whether the reply is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A message in Telegram.
    Telegram,
    /// A message from `agent-send`, a line in the FIFO, or standard input.
    Cli,
    /// An event that nobody is told of.
    System,
    /// An event that the owner is told of.
    Notify,
}

impl Source {
    /// Returns the name used in keys, tables and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Telegram => "telegram",
            Source::Cli => "cli",
            Source::System => "system",
            Source::Notify => "notify",
        }
    }

    /// Returns the left side of `[routing]` that chooses the model.
    pub fn role(self) -> &'static str {
        match self {
            Source::Telegram => "telegram",
            Source::Cli => "cli",
            Source::System | Source::Notify => "system",
        }
    }

    /// Returns true when a person waits for the answer: then it goes first.
    pub fn is_person(self) -> bool {
        matches!(self, Source::Telegram | Source::Cli)
    }
}

/// Whose words a text is. Decided by the daemon's own state, never by a field of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The owner's own words: they may move the agent's hands.
    Owner,
    /// Somebody else's: data, never an order.
    Other,
}

/// Who wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// The channel's stable id (Telegram: the numeric user id; cli: the `--from` name).
    pub id: String,
    /// What to call them.
    pub name: String,
    /// Their @username, without the @.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
}

/// Where a reply goes on its channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChatRef {
    /// The channel's chat id.
    pub chat: String,
    /// The forum topic, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
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

/// A file that came with a message and is ours now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Where it lies, below `state/downloads`.
    pub path: String,
    /// What it is called.
    pub filename: String,
    /// Its MIME type, when the sender knew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// The name of a conversation: `agent:<name>:<channel>:<kind>:<id>` or `cli:<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(pub String);

/// What kind of conversation a key names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// With one person in a channel, or with all of them together.
    Dm,
    /// In a group.
    Group,
    /// In the shell, and whatever is named there.
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
        (parts.next() == Some(JOINED) && parts.next() == Some("dm")).then(|| parts.next()).flatten()
    }

    /// Returns true for the direct conversation with the one id `sender` alone, without a topic.
    pub fn is_dm_of(&self, sender: &str) -> bool {
        self.person().is_none() && self.0.starts_with("agent:") && self.0.rsplit_once(":dm:").is_some_and(|(_, id)| id == sender)
    }

    /// Returns the kind of conversation it names.
    pub fn kind(&self) -> KeyKind {
        let kind = self.0.strip_prefix("agent:").map(|rest| rest.split(':').nth(2));
        match kind {
            None => KeyKind::Cli,
            Some(Some("group")) => KeyKind::Group,
            Some(_) => KeyKind::Dm,
        }
    }
}

/// What stands in a key in the place of the channel when several share the conversation.
const JOINED: &str = "person";

impl std::fmt::Display for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A word that goes to the daemon and never to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Command {
    /// Greet.
    Start,
    /// List the commands.
    Help,
    /// Archive the session and begin a new one (in the lane's order).
    New {
        /// The configured model that answers in the new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// What the new one begins with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// Sum up the older part of the conversation (in the lane's order).
    Compact,
    /// Take back what a run changed in files (in the lane's order).
    Undo {
        /// Its id; `None` = the newest of this conversation that changed any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
    },
    /// Say which model answers in this conversation, or change it (in the lane's order).
    Model {
        /// The configured name; `default` = the usual one; `None` = say which there are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<String>,
    },
    /// Send the text, and the files below it, as they are, at once.
    Deliver {
        /// An emoji that is put on the message `reply_to` instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        emoji: Option<String>,
    },
    /// The order was carried out when it was taken in; say this, at once.
    Done {
        /// What is said.
        text: String,
    },
    /// Stop the run of this session (`all`: of every session), at once.
    Stop {
        /// Every session, not only this one.
        all: bool,
    },
    /// What the daemon is doing, at once.
    Status,
    /// What it cost, at once.
    Cost,
    /// The owner's word about something that was asked, at once.
    Approval {
        /// The request, or the batch it came in.
        id: String,
        /// Yes or no.
        verdict: Approval,
        /// Why not, for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// An order that makes no sense; it is answered with the reason, at once.
    Refused {
        /// Why.
        reason: String,
    },
}

impl Command {
    /// Begins anew, and nothing else.
    pub const ANEW: Self = Self::New { model: None, words: None };

    /// Returns the command that goes by `word` (without its slash), in any letter case; `rest` is what
    /// stands after it, for those that take something: `/new WORDS`, `/reset MODEL WORDS`, `/model NAME`,
    /// `/approve ID`, `/deny ID WHY`.
    pub fn spoken(word: &str, rest: &str) -> Option<Self> {
        let some = |text: &str| Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned);
        match word.to_ascii_lowercase().as_str() {
            "start" => Some(Self::Start),
            "help" => Some(Self::Help),
            "new" => Some(Self::New { model: None, words: some(rest) }),
            "reset" => {
                let rest = rest.trim();
                let (model, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                Some(Self::New { model: some(model), words: some(words) })
            }
            "compact" => Some(Self::Compact),
            "undo" => Some(Self::Undo { run: some(rest) }),
            "model" => Some(Self::Model { choice: some(rest) }),
            "stop" => Some(Self::Stop { all: false }),
            "status" => Some(Self::Status),
            "cost" => Some(Self::Cost),
            "approve" => Some(press::spoken(Approval::Approve, rest)),
            "deny" => Some(press::spoken(Approval::Deny, rest)),
            _ => None,
        }
    }

    /// Returns true for what is answered before lanes and model.
    pub fn at_once(&self) -> bool {
        !matches!(self, Command::New { .. } | Command::Compact | Command::Undo { .. } | Command::Model { .. })
    }

    /// Returns true for what changes a conversation for all who share it.
    pub fn changes_the_conversation(&self) -> bool {
        matches!(self, Command::New { .. } | Command::Compact)
    }

    /// Returns true when words after it are a part of it.
    pub fn takes_words(&self) -> bool {
        matches!(
            self,
            Command::New { .. } | Command::Undo { .. } | Command::Model { .. } | Command::Approval { .. } | Command::Done { .. }
        )
    }
}

/// The owner's word about something that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Yes, this once.
    Approve,
    /// Yes, and the very same thing again in this conversation.
    Session,
    /// No.
    Deny,
}

/// A button below a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// What stands on it.
    pub label: String,
    /// What comes back when it is pressed, at most 64 bytes.
    pub data: String,
}

/// An accepted input on its way through the pipeline; stored as JSON in `queue.db`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The id it is remembered by for 14 days: `tg:<bot>:<update_id>` or the command's id.
    pub id: String,
    /// The door it came through.
    pub source: Source,
    /// Who wrote.
    pub sender: Sender,
    /// Whether that is an owner: decides what they may ask for.
    pub from_owner: bool,
    /// Whose words the text is: an owner may pass on somebody else's.
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
    /// What came beside the words, in words: `location 52.52, 13.405`, `sticker 😀` …
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
    /// How much the model is told beside the conversation; everything when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// True when a caller reads `replies/<id>.json`.
    #[serde(default)]
    pub wants_reply: bool,
    /// True when that caller reads `replies/<id>.part` while the reply is written.
    #[serde(default)]
    pub stream: bool,
    /// When we took it, milliseconds since 1970 UTC.
    pub received_at: i64,
}

impl Envelope {
    /// Returns what a conversation that begins with this is called. One of the shell has a name; an
    /// event that goes to somebody begins a conversation with them, not with its source.
    pub fn contact(&self) -> &str {
        if let Some(person) = self.session_key.person() {
            return person;
        }
        match (&self.route, self.source) {
            (Some(route), Source::Notify) => &route.chat.chat,
            (_, Source::Telegram) => self.group.as_ref().unwrap_or(&self.sender.name),
            _ => self.session_key.0.strip_prefix("cli:").unwrap_or(&self.session_key.0),
        }
    }

    /// Returns an input that says `text`; everything else is to be set by whoever took it in.
    pub fn new(id: String, source: Source, sender: Sender, session_key: SessionKey, text: String, received_at: i64) -> Self {
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
            attachments: Vec::new(),
            command: None,
            press: None,
            model: None,
            tier: None,
            wants_reply: false,
            stream: false,
            received_at,
        }
    }
}
