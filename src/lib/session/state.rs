//! What a transcript adds up to: a pure fold over its events.
//!
//! The snapshot file is this value as JSON; replaying the events after `last_seq` on it gives
//! the same value as replaying all of them (tested).

use serde::{Deserialize, Serialize};

use super::event::{Event, Head, Kind, Spoken};
use crate::message::{Block, Message, Role, ToolCall, ToolResult, Trust, Usage};

/// A session as it stands after `last_seq`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// The version of the snapshot, 1.
    pub v: u32,
    /// Whose session it is.
    pub head: Option<Head>,
    /// The newest event that is in here.
    pub last_seq: u64,
    /// Where that event ends.
    pub position: Position,
    /// When the newest event happened, RFC 3339 UTC.
    pub updated_at: String,
    /// The conversation.
    pub entries: Vec<Entry>,
    /// Messages of people and of the model, ever.
    pub message_count: u64,
    /// All tokens, ever.
    pub usage: Usage,
    /// Tokens of the newest model call: what fills the context window.
    pub context_tokens: u64,
    /// Nano US dollars, ever.
    pub cost_nano_usd: i64,
    /// The configured name of the model that spoke last.
    pub model: Option<String>,
    /// The turn that is not answered yet.
    pub turn: Option<Turn>,
}

/// A place in a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// The file's name.
    pub file: String,
    /// The byte after the event.
    pub offset: u64,
}

/// A message of the conversation with the event it came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The event.
    pub seq: u64,
    /// Whose words (messages of people).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// The message.
    pub message: Message,
}

/// A turn that has begun and has no final answer in the transcript, or has one that may not
/// have reached the queue yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The input it answers.
    pub inbox_id: String,
    /// The newest run that worked on it.
    pub run_id: String,
    /// The event of the user message.
    pub user_seq: u64,
    /// Tool calls that began.
    pub started: Vec<String>,
    /// Model calls made.
    pub calls: u32,
    /// Tokens of those calls.
    pub usage: Usage,
    /// Their cost; `None` when one was unpriced.
    pub cost_nano_usd: Option<i64>,
    /// Why it failed, when it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Where an interrupted turn goes on.
#[derive(Debug, Clone, PartialEq)]
pub enum Resume {
    /// The transcript has nothing of this input.
    Fresh,
    /// The model's turn to speak.
    Model,
    /// These tool calls have no result: `true` = it began, and may or may not have happened.
    Tools(Vec<(ToolCall, bool)>),
    /// The final answer is there.
    Answered,
    /// It failed, for this reason.
    Failed(String),
}

impl State {
    /// Takes in one event that ends at `position`.
    pub fn apply(&mut self, event: &Event, position: Position) {
        self.v = 1;
        self.last_seq = event.seq;
        self.position = position;
        self.updated_at.clone_from(&event.ts);
        match &event.kind {
            Kind::Session(head) => {
                self.head.get_or_insert_with(|| head.clone());
            }
            Kind::Message(spoken) => self.speak(event.seq, spoken),
            Kind::ToolCall { id, .. } => {
                if let Some(turn) = &mut self.turn {
                    turn.started.push(id.clone());
                }
            }
            Kind::ToolResult { result, .. } => self.result(event.seq, result),
            Kind::Error { forget_from, text, .. } => {
                if let Some(seq) = forget_from {
                    self.entries.retain(|entry| entry.seq < *seq);
                }
                if let Some(turn) = &mut self.turn {
                    turn.failed = Some(text.clone());
                }
            }
            Kind::Unknown => {}
        }
    }

    fn speak(&mut self, seq: u64, spoken: &Spoken) {
        self.entries.push(Entry { seq, trust: spoken.trust, message: spoken.message() });
        self.message_count += u64::from(spoken.inbox_id.is_some() || spoken.role == Role::Assistant);
        if let Some(inbox_id) = &spoken.inbox_id {
            self.turn = Some(Turn {
                inbox_id: inbox_id.clone(),
                run_id: spoken.run_id.clone(),
                user_seq: seq,
                started: Vec::new(),
                calls: 0,
                usage: Usage::default(),
                cost_nano_usd: Some(0),
                failed: None,
            });
        }
        if let Some(usage) = spoken.usage {
            self.usage += usage;
            self.context_tokens = usage.total();
            self.cost_nano_usd += spoken.cost_nano_usd.unwrap_or(0);
            self.model.clone_from(&spoken.model);
            if let Some(turn) = &mut self.turn {
                turn.run_id.clone_from(&spoken.run_id);
                turn.calls += 1;
                turn.usage += usage;
                turn.cost_nano_usd = turn.cost_nano_usd.zip(spoken.cost_nano_usd).map(|(sum, more)| sum + more);
            }
        }
    }

    /// Results of one step stand together in one user message, as the vendors want them.
    fn result(&mut self, seq: u64, result: &ToolResult) {
        let block = Block::ToolResult(result.clone());
        match self.entries.last_mut() {
            Some(last) if last.message.role == Role::User && holds_results(&last.message) => last.message.content.push(block),
            _ => {
                let message = Message { role: Role::User, content: vec![block] };
                self.entries.push(Entry { seq, trust: None, message });
            }
        }
    }

    /// Returns the conversation for the model.
    pub fn messages(&self) -> Vec<Message> {
        self.entries.iter().map(|entry| entry.message.clone()).collect()
    }

    /// Returns true when every person's text in the conversation is the owner's.
    pub fn all_words_are_the_owners(&self) -> bool {
        self.entries.iter().all(|entry| entry.trust != Some(Trust::Other))
    }

    /// Returns where the turn of `inbox_id` goes on.
    pub fn resume(&self, inbox_id: &str) -> Resume {
        let Some(turn) = self.turn.as_ref().filter(|turn| turn.inbox_id == inbox_id) else { return Resume::Fresh };
        if let Some(reason) = &turn.failed {
            return Resume::Failed(reason.clone());
        }
        let of_turn = || self.entries.iter().filter(|entry| entry.seq >= turn.user_seq);
        let Some(last) = of_turn().rev().find(|entry| entry.message.role == Role::Assistant) else { return Resume::Model };
        if last.message.tool_calls().next().is_none() {
            return Resume::Answered;
        }
        let answered = |id: &str| {
            of_turn().filter(|entry| entry.seq > last.seq).flat_map(|entry| &entry.message.content).any(|block| match block {
                Block::ToolResult(result) => result.id == id,
                Block::Text { .. } | Block::Context { .. } | Block::Image { .. } | Block::ToolCall(_) => false,
            })
        };
        let open: Vec<(ToolCall, bool)> = last
            .message
            .tool_calls()
            .filter(|call| !answered(&call.id))
            .map(|call| (call.clone(), turn.started.contains(&call.id)))
            .collect();
        if open.is_empty() { Resume::Model } else { Resume::Tools(open) }
    }
}

fn holds_results(message: &Message) -> bool {
    !message.content.is_empty() && message.content.iter().all(|block| matches!(block, Block::ToolResult(_)))
}
