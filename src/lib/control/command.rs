//! The commands, and how they stand on a line.

use serde_json::{Map, Value};

use super::Id;
use crate::message::{Approval, JobOrder};

const VERBS_OF_LATER_BUILDS: &[&str] = &["pair"];

/// What a line may say of a job that is added, see `jobs::Ask`.
const JOB_FIELDS: [&str; 17] = [
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
];

/// What the daemon is asked to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// A message for the agent.
    User {
        /// The words and how they are to be taken.
        words: Words,
        /// Who says them; `cli` when absent.
        sender: String,
        /// The session to speak in; the sender's own when absent.
        session: Option<String>,
        /// Whether `replies/<id>.part` is to grow while the reply is written.
        stream: bool,
        /// Files that come with the words.
        attachments: Vec<Attachment>,
    },
    /// An event: the agent works on it, its reply goes to the caller only.
    System {
        /// The words and how they are to be taken.
        words: Words,
        /// What it comes from.
        source: Option<String>,
    },
    /// An event whose reply goes to the owner.
    Notify {
        /// The words and how they are to be taken.
        words: Words,
        /// What it comes from.
        source: String,
        /// What it is about.
        reference: Option<String>,
        /// What is kept with it and not shown to the model.
        data: Option<Value>,
        /// Files that come with the words.
        attachments: Vec<Attachment>,
    },
    /// Words that go to a person as they are, with no model call.
    Raw {
        /// Whom: a chat id, an @username, a name, or `owner`.
        to: String,
        /// The words; below them when files come along.
        text: String,
        /// Files.
        attachments: Vec<Attachment>,
        /// The topic of the chat.
        topic: Option<String>,
        /// The message it answers.
        reply_to: Option<String>,
        /// An emoji that is put on that message; then nothing else is sent.
        emoji: Option<String>,
    },
    /// Stop the run of a session, or all runs.
    Stop {
        /// A session; all runs when absent.
        session: Option<String>,
    },
    /// Sum up the older part of a session.
    Compact {
        /// A session; the shell's own when absent.
        session: Option<String>,
    },
    /// The owner's word about something the agent asked for.
    Approval {
        /// The request, or the batch of them.
        request: String,
        /// Yes or no.
        verdict: Approval,
        /// Why not, for the model.
        why: Option<String>,
    },
    /// Take back what a run changed in files.
    Undo {
        /// Its id; the newest run that changed any when absent.
        run: Option<String>,
    },
    /// Let a fact or a person count no more.
    Forget {
        /// A name, other name, id or username, or a fact: its number, or words of it.
        target: String,
        /// Erase it from everything that the agent keeps.
        hard: bool,
    },
    /// Add, change or take out a job.
    Job(JobOrder),
    /// Wake now, if there is a reason to.
    Heartbeat,
    /// Archive a session.
    Reset {
        /// A session, a contact, or `all`.
        target: String,
    },
    /// Read the configuration again.
    Reload,
    /// Look at this spooled command.
    Spool {
        /// Its id.
        id: Id,
    },
}

/// Words for the agent, and how they are to be taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// The words.
    pub text: String,
    /// What the caller knows beside them; the model reads it first.
    pub context: Option<String>,
    /// How much the model is told beside them.
    pub tier: Option<String>,
    /// The configured model to use.
    pub model: Option<String>,
    /// True when they are not the owner's own.
    pub untrusted: bool,
}

/// A file that comes with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// A name in `spool/new/<id>.d/`, or an absolute path.
    pub path: String,
    /// Its MIME type, when the sender knows it.
    pub content_type: Option<String>,
    /// What it is called.
    pub filename: Option<String>,
}

/// The fields of a command on a line.
pub(super) struct Fields<'a>(pub &'a Map<String, Value>);

impl Fields<'_> {
    /// A string field: absent and null are `None`.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("the field {name:?} must be a string")),
        }
    }

    fn required(&self, name: &str) -> Result<String, String> {
        self.text(name)?
            .ok_or_else(|| format!("the field {name:?} is missing"))
    }

    fn is_true(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Bool(true)))
    }

    fn words(&self) -> Result<Words, String> {
        Ok(Words {
            text: self.required("text")?,
            context: self.text("context")?,
            tier: self.text("tier")?,
            model: self.text("model")?,
            untrusted: self.is_true("untrusted"),
        })
    }

    fn attachments(&self) -> Result<Vec<Attachment>, String> {
        let list = match self.0.get("attachments") {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err("the field \"attachments\" must be a list".to_owned()),
        };
        let one = |value: &Value| -> Result<Attachment, String> {
            let fields = Fields(value.as_object().ok_or("an attachment must be an object")?);
            Ok(Attachment {
                path: fields.required("path")?,
                content_type: fields.text("content_type")?,
                filename: fields.text("filename")?,
            })
        };
        list.iter().map(one).collect()
    }

    /// A line without `request` means the request that has the id of the line.
    fn approval(&self, id: Option<&Id>) -> Result<Command, String> {
        let request = self
            .text("request")?
            .or_else(|| id.map(|id| id.as_str().to_owned()));
        let request = request.ok_or("the field \"id\" is missing")?;
        let verdict = self.required("verdict")?;
        let verdict = Approval::of_name(&verdict)
            .ok_or("the field \"verdict\" must be approve, session or deny")?;
        Ok(Command::Approval {
            request,
            verdict,
            why: self.text("why")?,
        })
    }

    /// A job that is added without an id of its own is called after the line: by the end of a UUID, which
    /// nobody wants to type, or as the line is.
    fn job(&self, id: Option<&Id>) -> Result<JobOrder, String> {
        let named = self
            .text("job")?
            .map(|job| Id::parse(&job).ok_or("the field \"job\" must match [A-Za-z0-9_-]{1,64}"));
        let named = named.transpose()?.map(|job| job.as_str().to_owned());
        let job = || {
            named
                .clone()
                .ok_or_else(|| "the field \"job\" is missing".to_owned())
        };
        match self.required("op")?.as_str() {
            "add" => {
                let of_line = || id.map_or_else(|| Id::new().short(), Id::short);
                let job = named.clone().unwrap_or_else(of_line);
                let given = JOB_FIELDS
                    .iter()
                    .filter_map(|name| Some(((*name).to_owned(), self.0.get(*name)?.clone())));
                Ok(JobOrder::Add {
                    job,
                    ask: given
                        .filter(|(_, value)| !value.is_null())
                        .collect::<Map<String, Value>>()
                        .into(),
                })
            }
            "remove" => Ok(JobOrder::Remove { job: job()? }),
            "run" => Ok(JobOrder::Run { job: job()? }),
            "pause" => Ok(JobOrder::Pause { job: job()? }),
            "resume" => Ok(JobOrder::Resume { job: job()? }),
            _ => Err("the field \"op\" must be add, remove, run, pause or resume".to_owned()),
        }
    }

    /// Reads the command called `verb`; `id` is that of the line.
    pub(super) fn command(&self, verb: &str, id: Option<&Id>) -> Result<Command, String> {
        match verb {
            "user" => Ok(Command::User {
                words: self.words()?,
                sender: self.text("sender")?.unwrap_or_else(|| "cli".to_owned()),
                session: self.text("session")?,
                stream: self.is_true("stream"),
                attachments: self.attachments()?,
            }),
            "system" => Ok(Command::System {
                words: self.words()?,
                source: self.text("source")?,
            }),
            "notify" => Ok(Command::Notify {
                words: self.words()?,
                source: self.required("source")?,
                reference: self.text("ref")?,
                data: self.0.get("data").filter(|data| !data.is_null()).cloned(),
                attachments: self.attachments()?,
            }),
            "raw" => Ok(Command::Raw {
                to: self.required("to")?,
                text: self.required("text")?,
                attachments: self.attachments()?,
                topic: self.text("topic")?,
                reply_to: self.text("reply_to")?,
                emoji: self.text("emoji")?,
            }),
            "stop" => Ok(Command::Stop {
                session: self.text("session")?,
            }),
            "compact" => Ok(Command::Compact {
                session: self.text("session")?,
            }),
            "approval" => self.approval(id),
            "undo" => Ok(Command::Undo {
                run: self.text("run")?,
            }),
            "forget" => Ok(Command::Forget {
                target: self.required("target")?,
                hard: self.is_true("hard"),
            }),
            "job" => self.job(id).map(Command::Job),
            "heartbeat" => Ok(Command::Heartbeat),
            "reset" => Ok(Command::Reset {
                target: self.required("target")?,
            }),
            "reload" => Ok(Command::Reload),
            "spool" => Ok(Command::Spool {
                id: id.cloned().ok_or("the field \"id\" is missing")?,
            }),
            other if VERBS_OF_LATER_BUILDS.contains(&other) => {
                Err(format!("the command {other:?} is not in this build"))
            }
            other => Err(format!(
                "the command {:?} is not known",
                crate::text::shorten(other, 40)
            )),
        }
    }
}

impl Command {
    /// Returns words for somebody, and nothing with them.
    pub fn raw(to: String, text: String) -> Self {
        Self::Raw {
            to,
            text,
            attachments: Vec::new(),
            topic: None,
            reply_to: None,
            emoji: None,
        }
    }

    /// Returns the files that come with it.
    pub fn attachments_mut(&mut self) -> Option<&mut Vec<Attachment>> {
        match self {
            Self::User { attachments, .. }
            | Self::Raw { attachments, .. }
            | Self::Notify { attachments, .. } => Some(attachments),
            _ => None,
        }
    }

    /// Returns the verb and the fields that [`Fields::command`] reads; null ones are left out.
    pub(super) fn fields(&self) -> (&'static str, Vec<(&'static str, Value)>) {
        let optional = |text: &Option<String>| Value::from(text.clone());
        let flag = |set: bool| if set { Value::Bool(true) } else { Value::Null };
        let files = |attachments: &[Attachment]| match attachments {
            [] => Value::Null,
            some => Value::Array(some.iter().map(Attachment::to_json).collect()),
        };
        let spoken = |words: &Words, mut more: Vec<(&'static str, Value)>| {
            let mut fields = vec![
                ("text", Value::from(words.text.as_str())),
                ("context", optional(&words.context)),
            ];
            fields.append(&mut more);
            fields.extend([
                ("tier", optional(&words.tier)),
                ("model", optional(&words.model)),
                ("untrusted", flag(words.untrusted)),
            ]);
            fields
        };
        match self {
            Command::User {
                words,
                sender,
                session,
                stream,
                attachments,
            } => {
                let more = vec![
                    ("sender", sender.as_str().into()),
                    ("session", optional(session)),
                    ("stream", flag(*stream)),
                    ("attachments", files(attachments)),
                ];
                ("user", spoken(words, more))
            }
            Command::System { words, source } => {
                ("system", spoken(words, vec![("source", optional(source))]))
            }
            Command::Notify {
                words,
                source,
                reference,
                data,
                attachments,
            } => {
                let more = vec![
                    ("source", source.as_str().into()),
                    ("ref", optional(reference)),
                    ("data", data.clone().unwrap_or_default()),
                    ("attachments", files(attachments)),
                ];
                ("notify", spoken(words, more))
            }
            Command::Raw {
                to,
                text,
                attachments,
                topic,
                reply_to,
                emoji,
            } => {
                let fields = vec![
                    ("to", to.as_str().into()),
                    ("text", text.as_str().into()),
                    ("attachments", files(attachments)),
                    ("topic", optional(topic)),
                    ("reply_to", optional(reply_to)),
                    ("emoji", optional(emoji)),
                ];
                ("raw", fields)
            }
            Command::Stop { session } => ("stop", vec![("session", optional(session))]),
            Command::Compact { session } => ("compact", vec![("session", optional(session))]),
            Command::Approval {
                request,
                verdict,
                why,
            } => {
                let fields = vec![
                    ("request", request.as_str().into()),
                    ("verdict", verdict.as_str().into()),
                    ("why", optional(why)),
                ];
                ("approval", fields)
            }
            Command::Undo { run } => ("undo", vec![("run", optional(run))]),
            Command::Forget { target, hard } => (
                "forget",
                vec![("target", target.as_str().into()), ("hard", flag(*hard))],
            ),
            Command::Job(order) => {
                let none = Value::Null;
                let (op, ask) = match order {
                    JobOrder::Add { ask, .. } => ("add", ask),
                    JobOrder::Remove { .. } => ("remove", &none),
                    JobOrder::Run { .. } => ("run", &none),
                    JobOrder::Pause { .. } => ("pause", &none),
                    JobOrder::Resume { .. } => ("resume", &none),
                };
                let asked = JOB_FIELDS
                    .iter()
                    .map(|name| (*name, ask.get(name).cloned().unwrap_or_default()));
                (
                    "job",
                    [("op", op.into()), ("job", order.job().into())]
                        .into_iter()
                        .chain(asked)
                        .collect(),
                )
            }
            Command::Heartbeat => ("heartbeat", Vec::new()),
            Command::Reset { target } => ("reset", vec![("target", target.as_str().into())]),
            Command::Reload => ("reload", Vec::new()),
            Command::Spool { id } => ("spool", vec![("id", id.as_str().into())]),
        }
    }
}

impl Attachment {
    fn to_json(&self) -> Value {
        let mut fields = Map::from_iter([("path".to_owned(), Value::from(self.path.as_str()))]);
        for (name, value) in [
            ("content_type", &self.content_type),
            ("filename", &self.filename),
        ] {
            fields.extend(
                value
                    .as_ref()
                    .map(|value| (name.to_owned(), Value::from(value.as_str()))),
            );
        }
        Value::Object(fields)
    }
}
