//! The lines of a transcript.

use serde::{Deserialize, Serialize};

use super::prompt_trace::Prompt;
use crate::message::{About, Block, Message, Role, StopReason, ToolCall, ToolResult, Trust, Usage};
use crate::trust::Provenance;

/// One line: `{"v":1,"ts":"…","seq":7,"type":"message", …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The version of the line, 1.
    pub v: u32,
    /// When it happened, RFC 3339 UTC.
    pub ts: String,
    /// Its number in the session, from 1, without gaps.
    pub seq: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Kind {
    /// The head of every file: whose transcript it is.
    Session(Head),
    /// Somebody spoke.
    Message(Spoken),
    /// What a turn began with; nothing of it is sent.
    Prompt(Prompt),
    /// A tool began; without this line it never did.
    ToolCall {
        /// The run.
        run_id: String,
        /// The call's id; its arguments are in the assistant message before.
        id: String,
        /// The tool.
        name: String,
    },
    /// A tool ended.
    ToolResult {
        /// The run.
        run_id: String,
        /// The tool.
        name: String,
        /// How long it took.
        duration_ms: u64,
        /// What it did in the world, in a few words: `wrote notes.md`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<String>,
        /// What it answered.
        #[serde(flatten)]
        result: ToolResult,
    },
    /// The older part of the conversation is no longer sent; a summary stands for it. It stays in the
    /// transcript.
    Compaction(Compaction),
    /// Before a compaction the model was asked to keep what matters; no answer of it is part of the
    /// conversation.
    Flush {
        /// The run.
        run_id: String,
        /// What was kept, in the words of the tools that kept it.
        receipts: Vec<String>,
    },
    /// A rule or a limit that no compaction may lose.
    Pin {
        /// The run.
        run_id: String,
        /// Its words.
        text: String,
    },
    /// A pinned rule holds no longer.
    Unpin {
        /// The run.
        run_id: String,
        /// Its words.
        text: String,
    },
    /// What the owner chose for this conversation.
    Setting {
        /// The configured model; `None` = the usual one.
        model: Option<String>,
    },
    /// A turn failed or was stopped.
    Error {
        /// The run.
        run_id: String,
        /// Why.
        text: String,
        /// When set, the messages from this seq on are no longer part of the conversation:
        /// the model never answered them and nothing was done for them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forget_from: Option<u64>,
    },
    /// What stood here was erased, see agent-consolidate(1).
    Forgotten {
        /// The run it belonged to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<String>,
    },
    /// A line of a newer version; kept, not understood.
    #[serde(other)]
    Unknown,
}

/// What a compaction did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compaction {
    /// The run.
    pub run_id: String,
    /// Messages before this event are no longer sent.
    pub kept_from: u64,
    /// But for this one: what was being worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<u64>,
    /// What stands for them.
    pub summary: String,
    /// Who wrote it.
    pub by: SummaryBy,
    /// Characters that a block of what is still sent may have; longer ones lost their middle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_block: Option<usize>,
    /// Tokens of the next request as it would have been, and as it is now.
    pub tokens: (u64, u64),
}

/// Who wrote a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SummaryBy {
    /// A model.
    Model,
    /// Nobody: it counts and quotes.
    Statistics,
}

/// The head of a transcript file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The session.
    pub session_id: String,
    /// Its key.
    pub key: String,
    /// Whom we talk to.
    pub contact: String,
    /// When it began, RFC 3339 UTC.
    pub created_at: String,
}

/// A message as it was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spoken {
    /// Who.
    pub role: Role,
    /// What.
    pub content: Vec<Block>,
    /// The run it belongs to.
    pub run_id: String,
    /// The input it carries (user messages of people).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbox_id: Option<String>,
    /// Whose words they are (user messages of people).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Where its blocks came from, in their order, when one is untrusted. Without it `trust` speaks for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
    /// What an event is about (user messages that no person wrote).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// The number in `queue.db` of the newest note in it (user messages of people).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_note: Option<i64>,
    /// The model that said it (assistant messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why it stopped (assistant messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// Its tokens (assistant messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it cost in nano US dollars; absent when unpriced (assistant messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_nano_usd: Option<i64>,
}

impl Spoken {
    /// Returns a message of `run_id`; everything else is unset.
    pub fn new(role: Role, content: Vec<Block>, run_id: &str) -> Self {
        Self {
            role,
            content,
            run_id: run_id.to_owned(),
            inbox_id: None,
            trust: None,
            provenance: Vec::new(),
            about: None,
            newest_note: None,
            model: None,
            stop: None,
            usage: None,
            cost_nano_usd: None,
        }
    }

    /// Returns the message as the model sees it.
    pub fn message(&self) -> Message {
        Message::new(self.role, self.content.clone())
    }

    /// Returns true when untrusted text is in it, or the model had read some when it said this.
    pub fn is_untrusted(&self) -> bool {
        self.trust == Some(Trust::Other) || self.provenance.iter().any(Provenance::is_untrusted)
    }

    /// Returns its tool calls.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(Block::tool_call)
    }
}
