//! [`AgentEvent`]: the events of a run, for monitor, log and stream.

use super::{SessionKey, StopReason, Usage};

/// One thing that happened in a run.
#[derive(Debug, Clone)]
pub struct AgentEvent {
    /// The run.
    pub run_id: String,
    /// Its conversation.
    pub session: SessionKey,
    /// What happened.
    pub step: Step,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Step {
    /// The turn began.
    Started {
        /// Whom we talk to.
        contact: String,
        /// The configured model name.
        model: String,
        /// The conversation that sent it, when it is a sub-agent.
        parent: Option<SessionKey>,
    },
    /// A model call began; `turn` counts from 1.
    Thinking {
        /// The number of the call in this run.
        turn: u32,
    },
    /// A model call failed and is tried again after a pause.
    RetryWait {
        /// Why.
        reason: String,
    },
    /// The owner is asked before something is done.
    Asking,
    /// The owner has answered a question of a running tool, which continues.
    Decided,
    /// A model call ended.
    Answered {
        /// How long it took.
        duration_ms: u64,
        /// Its tokens.
        usage: Usage,
        /// Why it stopped.
        stop: StopReason,
        /// The tools it asked for.
        tools: Vec<String>,
    },
    /// The older part of the conversation is being summed up.
    Compacting,
    /// A tool began.
    ToolStarted {
        /// Its name.
        name: String,
    },
    /// A tool says something while it works; the owner's own conversations only.
    ToolOutput {
        /// Its name.
        name: String,
        /// Its last words: short, one line, without secrets.
        tail: String,
    },
    /// A tool ended.
    ToolDone {
        /// Its name.
        name: String,
        /// How long it took.
        duration_ms: u64,
        /// Whether it failed.
        is_error: bool,
    },
    /// The turn ended, however it ended.
    Ended,
}
