//! The neutral types that all rooms above use, as pure data.
//!
//! A conversation is a list of [`Message`]s made of [`Block`]s. No vendor's field name and no channel's type appears here;
//! `provider/` and `channel/` translate.

mod address;
mod agent_event;
pub mod approval_reply;
mod command;
mod envelope;
mod media;
pub mod plan;
mod session_key;

pub use address::{Address, MAX_ID, NUMBERED, is_channel_name, is_id};
pub use agent_event::{AgentEvent, Step};
pub use command::{Approval, Button, Command, DeadLetters, JobOrder, PeopleOrder, Wanted};
pub use envelope::{
    About, Attachment, Bounds, ChatRef, Envelope, Route, Sender, Source, Task, Trust, is_plain,
};
pub use media::{FileIdentity, Media, MediaKind, OutFile, Picture, Quoted, Sticker};
pub use session_key::{KeyKind, SessionKey, own_name};

use serde::{Deserialize, Serialize};

use crate::text::estimate_tokens;
use crate::trust::Provenance;

/// Who speaks in a [`Message`]. System text is not a message: it is next to the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, and the results of tools.
    User,
    /// The model.
    Assistant,
}

/// One entry of a conversation as the model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub content: Vec<Block>,
}

impl Message {
    /// Returns a message of these blocks.
    pub fn new(role: Role, content: Vec<Block>) -> Self {
        Self { role, content }
    }

    /// Returns a message of one text block.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self::new(role, vec![Block::text(text)])
    }

    /// Returns the text blocks joined by newlines, without the context head.
    pub fn plain_text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(Block::words).collect();
        texts.join("\n")
    }

    /// Returns its estimated tokens.
    pub fn tokens(&self) -> u64 {
        self.content.iter().map(Block::tokens).sum()
    }

    /// Returns the pictures of which the bytes are there, in order.
    pub fn pictures(&self) -> impl Iterator<Item = &Picture> {
        self.content.iter().filter_map(|block| match block {
            Block::Image { data, .. } => data.as_ref(),
            _ => None,
        })
    }

    /// Returns the tool calls in this message, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.content.iter().filter_map(Block::tool_call)
    }
}

/// The tokens of a picture of a usual size (1568 pixels, Anthropic's vision guide).
pub const USUAL_PICTURE_TOKENS: u64 = 1600;

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// The dynamic head of a user message (time, source): written by us, sent to the model as
    /// text, kept apart so that nobody takes it for the user's words.
    Context {
        /// The head as sent.
        text: String,
    },
    /// A picture that a person sent.
    Image {
        /// Where it lies, below `state/downloads`.
        file: String,
        /// Its MIME type, found in its bytes: JPEG, PNG, GIF or WebP.
        content_type: String,
        /// Its bytes, put in only while a request is made; without them it is named in words.
        #[serde(skip)]
        data: Option<Picture>,
    },
    /// What a model keeps of its thinking, for itself (assistant messages only). It is before the
    /// block it belongs to and is nobody's words.
    Thinking(Thinking),
    /// The model asks for a tool (assistant messages only).
    ToolCall(ToolCall),
    /// What the tool answered (user messages only).
    ToolResult(ToolResult),
}

impl Block {
    /// Returns a block of words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Returns a dynamic head.
    pub fn context(text: impl Into<String>) -> Self {
        Self::Context { text: text.into() }
    }

    /// Returns its words, where it is words.
    pub fn words(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            _ => None,
        }
    }

    /// Returns its estimated tokens.
    pub fn tokens(&self) -> u64 {
        match self {
            Self::Text { text } | Self::Context { text } => estimate_tokens(text),
            Self::Image { .. } => USUAL_PICTURE_TOKENS,
            Self::Thinking(thinking) => estimate_tokens(&thinking.data.to_string()),
            Self::ToolCall(call) => {
                estimate_tokens(&call.name) + estimate_tokens(&call.input.to_string())
            }
            Self::ToolResult(result) => estimate_tokens(&result.text),
        }
    }

    /// Returns its tool call, where it is one.
    pub fn tool_call(&self) -> Option<&ToolCall> {
        match self {
            Self::ToolCall(call) => Some(call),
            _ => None,
        }
    }
}

/// A piece of a model's thinking, as its vendor wants it back: unchanged, and only by the model that made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thinking {
    /// Who made it: the protocol and the vendor's model id, `anthropic:claude-…`.
    pub by: String,
    /// What came, in the vendor's own form; no other room looks into it.
    pub data: serde_json::Value,
}

/// The key under which arguments of a tool stand that were no JSON object, as they were written.
pub const RAW_INPUT: &str = "_raw";

/// A request of the model to run a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that pairs call and result; unique in a conversation.
    pub id: String,
    /// The tool's name as offered.
    pub name: String,
    /// The arguments: an object, or the raw text under [`RAW_INPUT`] when they were none.
    pub input: serde_json::Value,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The text for the model.
    pub text: String,
    /// True when the tool failed; the text then says why.
    #[serde(default)]
    pub is_error: bool,
    /// Where the text came from, when it is untrusted.
    #[serde(
        default,
        alias = "untrusted",
        deserialize_with = "crate::trust::of_result",
        skip_serializing_if = "Option::is_none"
    )]
    pub from: Option<Provenance>,
    /// Pictures of the answer, as untrusted as its text; shown until the turn ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<ToolPicture>,
}

/// A picture that a tool answered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolPicture {
    /// Where it lies, below `state/downloads`.
    pub file: String,
    /// Its MIME type, found in its bytes.
    pub content_type: String,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said everything.
    EndTurn,
    /// It waits for tool results.
    ToolUse,
    /// It ran into `max_tokens`; a tool call in the message may be cut.
    MaxTokens,
    /// It declined to answer.
    Refusal,
    /// The vendor made a pause: the same conversation, sent again, continues from here.
    Pause,
}

/// Tokens of one model call, as the vendor counted them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input read at the full rate, without cache reads and writes.
    pub input_tokens: u64,
    /// Output written.
    pub output_tokens: u64,
    /// Input read from the vendor's prompt cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Input written to the vendor's prompt cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// True when the vendor sent no usage and we estimated it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// Returns the sum of all tokens, cached ones included: what fills the context window.
    pub fn total(&self) -> u64 {
        self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.estimated |= other.estimated;
    }
}
