//! [`Command`]: commands for the daemon, never sent to the model.

use serde::{Deserialize, Serialize};

use super::SessionKey;
use super::approval_reply;

/// A command for the daemon, never sent to the model.
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
    /// Let a fact or a person count no more (in the lane's order).
    Forget {
        /// Whom or what; `None` = nothing was named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        what: Option<String>,
    },
    /// Say which model answers in this conversation, or change it (in the lane's order).
    Model {
        /// The configured name; `default` = the usual one; `None` = say which there are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<String>,
    },
    /// Go on here with a conversation from another place; it is bound when the command is accepted.
    Continue {
        /// Which place, or conversation; `None` = the newest one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<String>,
        /// The conversations that may be meant, in the order in which they are tried.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        among: Vec<SessionKey>,
        /// The one that continues here; `None` when there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        with: Option<SessionKey>,
    },
    /// Make a code that links another account of the sender's, at once.
    Pair,
    /// Send the text, and the files below it, as they are, at once.
    Deliver {
        /// An emoji that is put on the message `reply_to` instead.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        emoji: Option<String>,
    },
    /// Send a sticker of `[agent.stickers]`, at once.
    Sticker {
        /// Its set.
        set: String,
        /// Its name in the set.
        sticker: String,
    },
    /// The order was carried out when it was accepted; say this, at once.
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
    /// What is to happen at its times, at once.
    Jobs,
    /// Add, change or take out a job, at once.
    Job(JobOrder),
    /// Change who may talk, at once.
    People(PeopleOrder),
    /// Wake now, if there is a reason to, at once.
    Heartbeat,
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
    /// Try dead letters again, or drop them, at once.
    DeadLetters {
        /// Which of both.
        action: DeadLetters,
        /// One, by its id, or `all`; `None` = those of this conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        letter: Option<String>,
    },
    /// An order that makes no sense; it is answered with the reason, at once.
    Refused {
        /// Why.
        reason: String,
    },
    /// Words that are nearly a command; their sender is asked which one was meant, at once.
    Slip {
        /// What they are asked.
        question: String,
    },
}

impl Command {
    /// `/new` without a model or words.
    pub const NEW: Self = Self::New {
        model: None,
        words: None,
    };

    /// What commands are called, without their slash.
    pub const NAMES: [&'static str; 18] = [
        "start", "help", "new", "reset", "compact", "undo", "forget", "model", "stop", "status",
        "cost", "jobs", "approve", "deny", "answer", "continue", "pair", "retry",
    ];

    /// Returns the command of words for people: they are sent as they are, or an emoji or the sticker `SET :: NAME` does.
    ///
    /// # Errors
    /// When the sticker is not named so.
    pub fn sending(emoji: Option<&String>, sticker: Option<&str>) -> Result<Self, String> {
        let Some(sticker) = sticker else {
            return Ok(Self::Deliver {
                emoji: emoji.cloned(),
            });
        };
        let (set, name) = sticker
            .split_once("::")
            .ok_or("a sticker is named SET :: NAME")?;
        Ok(Self::Sticker {
            set: set.trim().to_owned(),
            sticker: name.trim().to_owned(),
        })
    }

    /// Returns the command that goes by `word` (without its slash), in any letter case; `rest` is what
    /// is after it, for those that take something: `/new WORDS`, `/reset MODEL WORDS`, `/model NAME`,
    /// `/forget WHAT`, `/continue PLACE`, `/approve ID`, `/deny ID WHY`, `/answer ID WORDS`.
    pub fn spoken(word: &str, rest: &str) -> Option<Self> {
        let some = |text: &str| {
            Some(text.trim())
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        match word.to_ascii_lowercase().as_str() {
            "start" => Some(Self::Start),
            "help" => Some(Self::Help),
            "new" => Some(Self::New {
                model: None,
                words: some(rest),
            }),
            "reset" => {
                let rest = rest.trim();
                let (model, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                Some(Self::New {
                    model: some(model),
                    words: some(words),
                })
            }
            "compact" => Some(Self::Compact),
            "undo" => Some(Self::Undo { run: some(rest) }),
            "forget" => Some(Self::Forget { what: some(rest) }),
            "model" => Some(Self::Model { choice: some(rest) }),
            "continue" => Some(Self::Continue {
                place: some(rest),
                among: Vec::new(),
                with: None,
            }),
            "pair" => Some(Self::Pair),
            "retry" => Some(Self::DeadLetters {
                action: DeadLetters::Retry,
                letter: some(rest),
            }),
            "stop" => Some(Self::Stop { all: false }),
            "status" => Some(Self::Status),
            "cost" => Some(Self::Cost),
            "jobs" => Some(Self::Jobs),
            "approve" => Some(approval_reply::spoken(Approval::Approve, rest)),
            "deny" => Some(approval_reply::spoken(Approval::Deny, rest)),
            "answer" => Some(approval_reply::answered(rest)),
            _ => None,
        }
    }

    /// Returns true for what is answered before lanes and model.
    pub fn at_once(&self) -> bool {
        !matches!(
            self,
            Command::New { .. }
                | Command::Compact
                | Command::Undo { .. }
                | Command::Forget { .. }
                | Command::Model { .. }
        )
    }

    /// Returns true for what changes a conversation for all who share it.
    pub fn changes_the_conversation(&self) -> bool {
        matches!(self, Command::New { .. } | Command::Compact)
    }

    /// Returns true when words after it are a part of it.
    pub fn takes_words(&self) -> bool {
        matches!(
            self,
            Command::New { .. }
                | Command::Undo { .. }
                | Command::Forget { .. }
                | Command::Model { .. }
                | Command::Continue { .. }
                | Command::Approval { .. }
                | Command::DeadLetters { .. }
                | Command::Done { .. }
        )
    }
}

/// What is to become of dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetters {
    /// They are tried again.
    Retry,
    /// They are dropped.
    Drop,
}

impl DeadLetters {
    /// Returns what a button brings back that does so with `letter`, an id of at most 32 bytes.
    pub fn data(self, letter: &str) -> String {
        let action = match self {
            Self::Retry => 'r',
            Self::Drop => 'd',
        };
        format!("d:{action}:{letter}")
    }

    pub(super) fn pressed(data: &str) -> Option<Command> {
        let (action, letter) = data.strip_prefix("d:")?.split_once(':')?;
        let action = match action {
            "r" => Self::Retry,
            "d" => Self::Drop,
            _ => return None,
        };
        let is_id = letter
            .strip_prefix("in-")
            .is_some_and(|seq| !seq.is_empty() && seq.bytes().all(|byte| byte.is_ascii_digit()));
        is_id.then(|| Command::DeadLetters {
            action,
            letter: Some(letter.to_owned()),
        })
    }
}

/// A change of who may talk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum PeopleOrder {
    /// The one who was given this code may talk.
    Approve {
        /// The code.
        code: String,
    },
    /// This one may talk no more.
    Revoke {
        /// An address, an @username or a name.
        person: String,
    },
    /// There is to be a code that makes its sender an owner.
    Owner,
    /// This one is refused.
    Block {
        /// As of `Revoke`.
        person: String,
    },
    /// This one is refused no more.
    Unblock {
        /// As of `Revoke`.
        person: String,
    },
    /// This one is heard in groups and not answered.
    Mute {
        /// As of `Revoke`.
        person: String,
    },
    /// This one is answered again.
    Unmute {
        /// As of `Revoke`.
        person: String,
    },
}

/// What is to become of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum JobOrder {
    /// There is to be this one, in the place of one with the same id.
    Add {
        /// Its id or its name.
        job: String,
        /// What is asked for, as `jobs` reads it.
        ask: serde_json::Value,
    },
    /// It is to go.
    Remove {
        /// Its id or its name.
        job: String,
    },
    /// It runs now, in addition to its schedule.
    Run {
        /// Its id or its name.
        job: String,
    },
    /// It is to run no more by itself.
    Pause {
        /// Its id or its name.
        job: String,
    },
    /// It is to run at its times again; those that passed are gone.
    Resume {
        /// Its id or its name.
        job: String,
    },
}

impl JobOrder {
    /// Returns the job that is meant.
    pub fn job(&self) -> &str {
        match self {
            Self::Add { job, .. }
            | Self::Remove { job }
            | Self::Run { job }
            | Self::Pause { job }
            | Self::Resume { job } => job,
        }
    }
}

/// The owner's word about something that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// Yes, this once.
    Approve,
    /// Yes, and all that falls under its rule in this conversation.
    Session,
    /// Yes, and all that falls under its rule from now on.
    Always,
    /// No.
    Deny,
}

/// The expected answer to a question that is answered with text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// How it is answered: `name`, `a line for each: name: …; age: …`.
    pub how: String,
    /// The answers of which one is to be chosen; none where the words are free. `#1` stands for the first.
    pub choices: Vec<String>,
}

/// A button below a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    /// What is on it.
    pub label: String,
    /// What comes back when it is pressed, at most 64 bytes.
    pub data: String,
}
