//! The record of a turn's prompt: sizes, places and scores, for `--explain`. It contains no text of a conversation, and is
//! never sent to a model.

use serde::{Deserialize, Serialize};

/// What stood in the first request of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// The run.
    pub run_id: String,
    /// The inputs it answers, in order; `queue.db` forgets them.
    pub inputs: Vec<String>,
    /// The door they came through.
    pub source: String,
    /// The run that sent it, when it is a sub-agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The configured model.
    pub model: String,
    /// When the first of them was taken, RFC 3339 UTC.
    pub received_at: String,
    /// When the last of them was taken: until then it was waited for more.
    pub gathered_at: String,
    /// When the turn began.
    pub started_at: String,
    /// What is sent, in the order in which it is sent.
    pub blocks: Vec<PromptBlock>,
    /// What was remembered, as it is before the message; then what was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<Recollection>,
}

/// A piece of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptBlock {
    /// A file, `Skills`, or what it is: `tools`, `conversation`, `message`.
    pub name: String,
    /// How long it stays the same.
    pub tier: PromptTier,
    /// Its estimated tokens.
    pub tokens: u64,
    /// Whether there was no room for all of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// What changes together, most stable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptTier {
    /// What the model may call.
    Tools,
    /// Persona and tool notes.
    Stable,
    /// Curated memory and the like.
    SemiStable,
    /// What was said before; it only grows.
    Conversation,
    /// What is new with this message.
    Message,
}

/// Something that was remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recollection {
    /// `commitment`, `fact`, `episode` or `passage`.
    pub kind: String,
    /// Where it is: `path:line`, or `commitment 12`, `episode 5`.
    pub place: String,
    /// How near it is to the message, of its kind; `None` for what comes up by its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Whether there was no room for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}
