//! A turn to run: its input, its limits, and its outcome.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::permission::Owner;
use super::subagents::SubagentSpawner;
use crate::llm::Unavailable;
use crate::memory::Viewer;
use crate::message::{Bounds, Message, Route, Source, ToolCall, Usage};
use crate::provider::SystemBlock;
use crate::session::Entry;

/// How far a turn may go.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Model calls a turn.
    pub max_turns: u32,
    /// The same for single sources.
    pub max_turns_for: BTreeMap<Source, u32>,
    /// A whole turn.
    pub run_timeout: Duration,
}

/// The form of an answer that is more than words, and what the model is shown for it.
#[derive(Clone, Copy)]
pub struct Form<'a> {
    /// Returns the conversation before this turn as the model is shown it.
    pub history: &'a (dyn Fn(&[Entry]) -> Vec<Message> + Send + Sync),
    /// Returns what follows an answer.
    pub next: &'a (dyn Fn(&str) -> Formed + Send + Sync),
    /// Returns true for a call that waits for the owner's yes; any other that needs one does not run.
    pub may_wait: &'a (dyn Fn(&ToolCall) -> bool + Send + Sync),
    /// Returns what the model reads about a failed call.
    pub failed: &'a (dyn Fn(&ToolCall, &str) -> String + Send + Sync),
    /// The JSON Schema of an answer.
    pub schema: &'a Arc<Value>,
}

/// What follows an answer that should have a form.
#[derive(Debug, Clone, PartialEq)]
pub enum Formed {
    /// The turn ends with it.
    Final,
    /// It does not have the form, and this is why; the model is told once a turn.
    Unreadable(String),
    /// It asks for these calls, and another answer follows.
    Calls(Vec<ToolCall>),
}

/// One turn to run. The user's message is in the session already.
pub struct Order<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The input it answers.
    pub inbox_id: &'a str,
    /// Who speaks, by their id.
    pub person: &'a str,
    /// What they are called.
    pub person_name: &'a str,
    /// Whether an owner wrote it.
    pub from_owner: bool,
    /// The person whose memories it may use.
    pub viewer: &'a Viewer,
    /// The chat of the conversation, if there is one.
    pub route: Option<&'a Route>,
    /// The channel's id of the message being answered.
    pub message_id: Option<&'a str>,
    /// The source of the input.
    pub source: Source,
    /// The run that its cost is charged to: for a sub-agent, the run that started it.
    pub paying_run: &'a str,
    /// The most the run may cost, US dollars.
    pub budget_usd: Option<f64>,
    /// The most its session may cost of that; `None` for all except sub-agents.
    pub share_usd: Option<f64>,
    /// The restrictions of a sub-agent; `None` for all other turns.
    pub bounds: Option<&'a Bounds>,
    /// Who sends its sub-agents.
    pub spawner: Option<Arc<dyn SubagentSpawner>>,
    /// The configured model.
    pub model: &'a str,
    /// The system text.
    pub system: Vec<SystemBlock>,
    /// Words of it that are the owner's alone: a search says none of them unasked.
    pub own_words: String,
    /// Ends the run at once.
    pub cancel: &'a CancellationToken,
    /// Whether it is ended by the person's next message: then what they asked stays in the conversation.
    pub interrupted: &'a AtomicBool,
    /// Who is asked before what needs a yes.
    pub owner: &'a dyn Owner,
    /// Reads along while the model writes.
    pub reader: &'a (dyn Fn(Written<'_>) + Send + Sync),
    /// The form of the answer; `None` = words.
    pub form: Option<Form<'a>>,
}

/// The text that the model writes, for live views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written<'a> {
    /// An answer begins; of one that broke off before it nothing counts.
    Begin,
    /// More of it.
    Text(&'a str),
    /// Text that it wrote together with tool calls, before they run; and whether it had read untrusted text.
    Beside(&'a str, bool),
}

/// How a turn ended.
#[derive(Debug)]
pub enum Ended {
    /// The agent said something; a silent answer is its silence token.
    Reply(Reply),
    /// It was stopped.
    Stopped,
    /// It cannot go on now; nothing of it ended. [`Agent::run`](super::Agent::run) goes on with it.
    Waits(Unavailable),
    /// No answer came.
    Failed {
        /// Why, for the owner's eyes.
        reason: String,
        /// Whether its time was over.
        timed_out: bool,
        /// What had been done by then.
        receipts: Vec<String>,
    },
}

/// The answer and its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The words.
    pub text: String,
    /// Tokens of all calls of the turn.
    pub usage: Usage,
    /// Nano US dollars of the turn; `None` when a call was unpriced.
    pub cost_nano_usd: Option<i64>,
    /// What its tools did in the world.
    pub receipts: Vec<String>,
}
