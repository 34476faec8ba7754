//! The commands and their fields on a line.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Heard, Id, Receipt};
use crate::message::{Approval, DeadLetters, JobOrder, PeopleOrder};

/// What a line may say of a job that is added, see `jobs::Ask`.
const JOB_FIELDS: [&str; 18] = [
    "name",
    "at",
    "every",
    "cron",
    "tz",
    "text",
    "literal",
    "deliver",
    "to",
    "topic",
    "session",
    "model",
    "missed",
    "overlap",
    "delete_after_run",
    "budget_usd",
    "by",
    "untrusted",
];

/// What the daemon is asked to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case")]
pub enum Command {
    /// A message for the agent.
    User {
        /// The text and how it is to be taken.
        #[serde(flatten)]
        words: Words,
        /// The name of the sender.
        #[serde(default = "cli")]
        sender: String,
        /// The session; the sender's own when absent.
        session: Option<String>,
        /// Whether `replies/<id>.part` grows while the reply is written.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        stream: bool,
        /// Files that come with the text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// A message on a channel that is a separate process; on a line `user` with `channel`.
    #[serde(rename = "user_of_channel", skip_deserializing)]
    Heard(Box<Heard>),
    /// What became of a message that such a channel was to send.
    Delivered(Receipt),
    /// An event: the agent works on it, its reply goes to the caller only.
    System {
        /// The text and how it is to be taken.
        #[serde(flatten)]
        words: Words,
        /// The name of its source.
        source: Option<String>,
    },
    /// An event whose reply goes to the owner.
    Notify {
        /// The text and how it is to be taken.
        #[serde(flatten)]
        words: Words,
        /// The name of its source.
        source: String,
        /// What it is about.
        #[serde(rename = "ref")]
        reference: Option<String>,
        /// Data that is kept with it and not shown to the model.
        data: Option<Value>,
        /// Files that come with the text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
    },
    /// A text that is sent to a person as it is, with no model call.
    Raw {
        /// A chat id, an @username, a name, or `owner`.
        to: String,
        /// The text; the caption when files come along.
        text: String,
        /// Files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// The topic of the chat.
        topic: Option<String>,
        /// The message it replies to.
        reply_to: Option<String>,
        /// An emoji that is put on that message; then nothing else is sent.
        emoji: Option<String>,
        /// True when the text is not the owner's own: who quotes it quotes somebody else.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        untrusted: bool,
        /// A sticker of `[agent.stickers]`, `SET :: NAME`; then nothing else is sent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sticker: Option<String>,
    },
    /// Cancel the run of a session; all runs when none is named.
    Stop {
        /// The session.
        session: Option<String>,
    },
    /// Compact a session; the shell's own when none is named.
    Compact {
        /// The session.
        session: Option<String>,
    },
    /// The owner's decision about an approval request.
    Approval {
        /// The id of the request, or of its batch; that of the line when absent.
        request: String,
        /// The decision.
        verdict: Approval,
        /// Why not, for the model.
        why: Option<String>,
    },
    /// Try dead letters again, or drop them.
    DeadLetters {
        /// Which of both.
        action: DeadLetters,
        /// One, by its id, or `all`.
        letter: String,
    },
    /// Undo what a run changed in files; the newest that changed any when none is named.
    Undo {
        /// The id of the run.
        run: Option<String>,
    },
    /// Forget a fact or a person.
    Forget {
        /// A name, alias, id or username, or a fact: its number, or words of it.
        target: String,
        /// Erase it from everything that the agent keeps.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hard: bool,
    },
    /// Add, change or remove a job.
    #[serde(with = "job_line")]
    Job(JobOrder),
    /// Change who may talk, as `agent-send --pair` does.
    Pair(PeopleOrder),
    /// Run the heartbeat now, if it has a reason to.
    Heartbeat,
    /// Archive a session.
    Reset {
        /// A session, a contact, or `all`.
        target: String,
    },
    /// Read the configuration again.
    Reload,
    /// Read this spooled command.
    Spool {
        /// Its id.
        id: Id,
    },
}

/// A text for the agent, and how it is to be taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Words {
    /// The text.
    pub text: String,
    /// Additional information from the caller; the model reads it before the text.
    pub context: Option<String>,
    /// The context tier.
    pub tier: Option<String>,
    /// The configured model to use.
    pub model: Option<String>,
    /// True when the text is not the owner's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// True when the owner vouches for the context, the files and the words of a notification.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trusted: bool,
}

/// A file that comes with a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// A name in `spool/new/<id>.d/`, or an absolute path.
    pub path: String,
    /// Its MIME type, when the sender knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The SHA-256 of its bytes, by which the same file is known when the command comes again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

fn cli() -> String {
    "cli".to_owned()
}

/// A job on a line: `op`, `job`, and for `add` also the fields that `jobs::Ask` reads.
mod job_line {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    use super::{Id, JOB_FIELDS, JobOrder, Map, Value};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Op {
        Add,
        Remove,
        Run,
        Pause,
        Resume,
    }

    #[derive(Serialize, Deserialize)]
    struct Line {
        op: Op,
        job: String,
        #[serde(flatten)]
        more: Map<String, Value>,
    }

    pub(super) fn serialize<S: Serializer>(order: &JobOrder, to: S) -> Result<S::Ok, S::Error> {
        let (op, ask) = match order {
            JobOrder::Add { ask, .. } => (Op::Add, ask.as_object().cloned()),
            JobOrder::Remove { .. } => (Op::Remove, None),
            JobOrder::Run { .. } => (Op::Run, None),
            JobOrder::Pause { .. } => (Op::Pause, None),
            JobOrder::Resume { .. } => (Op::Resume, None),
        };
        let line = Line {
            op,
            job: order.job().to_owned(),
            more: ask.unwrap_or_default(),
        };
        line.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<JobOrder, D::Error> {
        let Line { op, job, mut more } = Line::deserialize(from)?;
        if matches!(op, Op::Add) && Id::parse(&job).is_none() {
            return Err(D::Error::custom(
                "the field `job` must match [A-Za-z0-9_-]{1,64}",
            ));
        }
        more.retain(|name, _| JOB_FIELDS.contains(&name.as_str()));
        Ok(match op {
            Op::Add => JobOrder::Add {
                job,
                ask: more.into(),
            },
            Op::Remove => JobOrder::Remove { job },
            Op::Run => JobOrder::Run { job },
            Op::Pause => JobOrder::Pause { job },
            Op::Resume => JobOrder::Resume { job },
        })
    }
}

impl Command {
    /// Returns a text for somebody, without anything else; `untrusted`: it is not the owner's own.
    pub fn raw(to: String, text: String, untrusted: bool) -> Self {
        Self::Raw {
            to,
            text,
            attachments: Vec::new(),
            topic: None,
            reply_to: None,
            emoji: None,
            untrusted,
            sticker: None,
        }
    }

    /// Returns true for words that are blank where nothing else comes along.
    pub fn says_nothing(&self) -> bool {
        match self {
            Self::User {
                words, attachments, ..
            }
            | Self::Notify {
                words, attachments, ..
            } => words.text.trim().is_empty() && attachments.is_empty(),
            Self::System { words, .. } => words.text.trim().is_empty(),
            Self::Raw {
                text,
                attachments,
                emoji,
                sticker,
                ..
            } => {
                let is_alone = attachments.is_empty() && emoji.is_none() && sticker.is_none();
                text.trim().is_empty() && is_alone
            }
            _ => false,
        }
    }

    /// Returns the channel whose line it is.
    pub fn channel(&self) -> Option<&str> {
        match self {
            Self::Heard(heard) => Some(&heard.channel),
            Self::Delivered(receipt) => Some(&receipt.channel),
            _ => None,
        }
    }

    /// Returns the files that come with it.
    pub fn attachments_mut(&mut self) -> Option<&mut Vec<Attachment>> {
        match self {
            Self::User { attachments, .. }
            | Self::Raw { attachments, .. }
            | Self::Notify { attachments, .. } => Some(attachments),
            Self::Heard(heard) => Some(&mut heard.attachments),
            _ => None,
        }
    }
}
