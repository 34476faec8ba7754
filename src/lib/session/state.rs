//! The state derived from a transcript: a pure fold over its events.
//!
//! The snapshot file is this value as JSON; replaying the events after `last_seq` on it gives
//! the same value as replaying all of them (tested).

use serde::{Deserialize, Serialize};

use super::event::{Compaction, Event, Head, Kind, Spoken, SummaryBy};
use crate::message::{Block, Message, Role, StopReason, ToolCall, ToolResult, Trust, Usage};
use crate::text;
use crate::trust::Provenance;

/// A session as it is after `last_seq`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    /// The version of the snapshot.
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
    /// Tokens of the newest model call, or of the next one as the newest compaction leaves it: what fills
    /// the context window.
    pub context_tokens: u64,
    /// The newest event that is counted there.
    #[serde(default)]
    pub counted_seq: u64,
    /// Nano US dollars, ever.
    pub cost_nano_usd: i64,
    /// The configured name of the model that spoke last.
    pub model: Option<String>,
    /// When a person spoke last, or was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Heard>,
    /// The turn that is not answered yet.
    pub turn: Option<Turn>,
    /// Rules and limits, word for word.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// The configured model that the owner chose for this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_model: Option<String>,
    /// Compactions, ever.
    #[serde(default)]
    pub compaction_count: u64,
    /// The newest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Compacted>,
    /// Whether what matters was kept since then.
    #[serde(default)]
    pub flushed: bool,
}

/// A person's message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heard {
    /// The event.
    pub seq: u64,
    /// When it, or the newest part of its answer, was written, RFC 3339 UTC.
    pub at: String,
}

/// What is known of the newest compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Compacted {
    /// Where its event ends.
    pub position: Position,
    /// The first event that is still sent.
    pub kept_from: u64,
    /// An earlier one that is sent as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<u64>,
    /// Tokens of the next request after it.
    pub tokens: u64,
    /// Who wrote the summary.
    pub by: SummaryBy,
    /// The summary alone.
    pub summary: String,
}

/// How the message that stands for the older part of a conversation begins (specification §11).
pub const SUMMARY_HEAD: &str = "[Previous conversation summary]";

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
    /// Where its blocks came from, see [`Spoken::provenance`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub provenance: Vec<Provenance>,
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
    /// The number of the newest note in its message, see [`Spoken::newest_note`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_note: Option<i64>,
    /// Tool calls that began.
    pub started: Vec<String>,
    /// Model calls made.
    pub calls: u32,
    /// Tokens of those calls.
    pub usage: Usage,
    /// Their cost; `None` when one was unpriced.
    pub cost_nano_usd: Option<i64>,
    /// What its tools did in the world.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<String>,
    /// Whether the model read untrusted text in it: from then on to its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Why it failed, when it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Where an interrupted turn continues.
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
    /// The version of snapshots; those of another are rebuilt from the transcript.
    pub const VERSION: u32 = 5;

    /// Takes in one event that ends at `position`.
    pub fn apply(&mut self, event: &Event, position: Position) {
        self.v = Self::VERSION;
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
            Kind::ToolResult {
                result, receipt, ..
            } => {
                self.result(event.seq, result);
                if let Some(turn) = &mut self.turn {
                    turn.receipts.extend(receipt.clone());
                    turn.untrusted |= result.from.is_some();
                }
            }
            Kind::Compaction(compaction) => self.compact(event.seq, compaction),
            Kind::Flush { .. } => self.flushed = true,
            Kind::Pin { text, .. } => {
                if !self.pins.contains(text) {
                    self.pins.push(text.clone());
                }
            }
            Kind::Unpin { text, .. } => self.pins.retain(|pin| pin != text),
            Kind::Setting { model } => self.chosen_model.clone_from(model),
            Kind::Error {
                forget_from, text, ..
            } => {
                if let Some(seq) = forget_from {
                    self.entries.retain(|entry| entry.seq < *seq);
                }
                if let Some(turn) = &mut self.turn {
                    turn.failed = Some(text.clone());
                }
            }
            Kind::Prompt(_) | Kind::Forgotten { .. } | Kind::Unknown => {}
        }
    }

    fn speak(&mut self, seq: u64, spoken: &Spoken) {
        if spoken.inbox_id.is_some() && spoken.about.is_none() {
            self.heard = Some(Heard {
                seq,
                at: self.updated_at.clone(),
            });
        }
        // Who waited an hour for an answer continues from there.
        let answers = |heard: &Heard| {
            self.turn
                .as_ref()
                .is_some_and(|turn| turn.user_seq == heard.seq)
        };
        if spoken.role == Role::Assistant && self.heard.as_ref().is_some_and(answers) {
            self.heard
                .iter_mut()
                .for_each(|heard| heard.at.clone_from(&self.updated_at));
        }
        // The turn before may have had no end.
        if spoken.inbox_id.is_some() {
            self.shorten_results();
        }
        self.entries.push(Entry::of(seq, spoken));
        let ends = spoken.role == Role::Assistant
            && spoken.stop != Some(StopReason::Pause)
            && spoken.tool_calls().next().is_none();
        self.message_count +=
            u64::from(spoken.inbox_id.is_some() || spoken.role == Role::Assistant);
        if let Some(inbox_id) = &spoken.inbox_id {
            self.turn = Some(Turn {
                inbox_id: inbox_id.clone(),
                run_id: spoken.run_id.clone(),
                user_seq: seq,
                newest_note: spoken.newest_note,
                started: Vec::new(),
                calls: 0,
                usage: Usage::default(),
                cost_nano_usd: Some(0),
                receipts: Vec::new(),
                untrusted: spoken.is_untrusted(),
                failed: None,
            });
        } else if let Some(turn) = &mut self.turn {
            turn.untrusted |= spoken.is_untrusted();
        }
        if let Some(usage) = spoken.usage {
            self.usage += usage;
            (self.context_tokens, self.counted_seq) = (usage.total(), seq);
            self.cost_nano_usd += spoken.cost_nano_usd.unwrap_or(0);
            self.model.clone_from(&spoken.model);
            if let Some(turn) = &mut self.turn {
                turn.run_id.clone_from(&spoken.run_id);
                turn.calls += 1;
                turn.usage += usage;
                turn.cost_nano_usd = turn
                    .cost_nano_usd
                    .zip(spoken.cost_nano_usd)
                    .map(|(sum, more)| sum + more);
            }
        }
        if ends && spoken.stop == Some(StopReason::Refusal) {
            self.leave_out_turn(seq);
        }
        if ends {
            self.shorten_results();
        }
    }

    fn compact(&mut self, seq: u64, compaction: &Compaction) {
        let Compaction {
            kept_from,
            question,
            summary,
            by,
            longest_block,
            tokens,
            ..
        } = compaction;
        let gone = |entry: &Entry| entry.seq < *kept_from && Some(entry.seq) != *question;
        // A summary of untrusted messages is untrusted.
        let foreign = self
            .entries
            .iter()
            .any(|entry| gone(entry) && entry.is_untrusted());
        self.entries.retain(|entry| !gone(entry));
        if let Some(longest) = longest_block {
            self.entries
                .iter_mut()
                .for_each(|entry| cut_blocks(&mut entry.message, *longest));
        }
        let mut content = vec![Block::context(format!("{SUMMARY_HEAD}\n{summary}"))];
        let pins: String = self.pins.iter().map(|pin| format!("\n- {pin}")).collect();
        let mut provenance = Vec::from_iter(foreign.then_some(Provenance::Model));
        if !pins.is_empty() {
            content.push(Block::context(format!(
                "Pinned rules, word for word:{pins}"
            )));
            // An untrusted run asks before it pins one.
            provenance.extend(foreign.then_some(Provenance::Owner));
        }
        let message = Message::new(Role::User, content);
        // Its number is lower than that of any message: it is what came before them.
        self.entries.insert(
            0,
            Entry {
                seq: 0,
                trust: foreign.then_some(Trust::Other),
                provenance,
                message,
            },
        );
        (self.context_tokens, self.counted_seq) = (tokens.1, seq);
        self.compaction_count += 1;
        self.flushed = false;
        let position = self.position.clone();
        self.compacted = Some(Compacted {
            position,
            kept_from: *kept_from,
            question: *question,
            tokens: tokens.1,
            by: *by,
            summary: summary.clone(),
        });
    }

    /// Results of one step stand together in one user message, as the vendors want them.
    fn result(&mut self, seq: u64, result: &ToolResult) {
        let block = Block::ToolResult(result.clone());
        match self.entries.last_mut() {
            Some(last) if last.message.role == Role::User && holds_results(&last.message) => {
                last.message.content.push(block)
            }
            _ => {
                let message = Message::new(Role::User, vec![block]);
                self.entries.push(Entry {
                    seq,
                    trust: None,
                    provenance: Vec::new(),
                    message,
                });
            }
        }
    }

    /// Returns the estimated tokens of the next request: what the vendor counted last and what came
    /// after it; before the first count everything, on top of `overhead` (system text and tools).
    pub fn size(&self, overhead: impl FnOnce() -> u64) -> u64 {
        let base = if self.counted_seq == 0 {
            overhead()
        } else {
            self.context_tokens
        };
        base + self
            .entries
            .iter()
            .filter(|entry| entry.seq > self.counted_seq)
            .map(Entry::tokens)
            .sum::<u64>()
    }

    /// Returns the conversation for the model.
    pub fn messages(&self) -> Vec<Message> {
        self.entries
            .iter()
            .map(|entry| entry.message.clone())
            .collect()
    }

    /// Returns the last `count` turns, and all those that came after a person spoke last, but no more than
    /// `most`.
    pub fn last_turns(&self, count: usize, most: usize) -> &[Entry] {
        let heard = self.heard.as_ref().map_or(0, |heard| heard.seq);
        let begins = |entry: &Entry| entry.seq > 0 && entry.trust.is_some();
        let unheard = self
            .entries
            .iter()
            .filter(|entry| begins(entry) && entry.seq > heard)
            .count();
        let count = count.max(unheard).min(most);
        let first = self
            .entries
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, entry)| begins(entry))
            .map(|(at, _)| at);
        let first = first.take(count).last().unwrap_or(self.entries.len());
        self.entries.get(first..).unwrap_or_default()
    }

    /// Returns where the turn of `inbox_id` continues.
    pub fn resume(&self, inbox_id: &str) -> Resume {
        let Some(turn) = self.turn.as_ref().filter(|turn| turn.inbox_id == inbox_id) else {
            return Resume::Fresh;
        };
        if let Some(reason) = &turn.failed {
            return Resume::Failed(reason.clone());
        }
        let of_turn = || {
            self.entries
                .iter()
                .filter(|entry| entry.seq >= turn.user_seq)
        };
        let Some(last) = of_turn()
            .rev()
            .find(|entry| entry.message.role == Role::Assistant)
        else {
            return Resume::Model;
        };
        if last.message.tool_calls().next().is_none() {
            // A word of ours after it asks the model to continue.
            let ended = of_turn().all(|entry| entry.seq <= last.seq);
            return if ended {
                Resume::Answered
            } else {
                Resume::Model
            };
        }
        let answered = |id: &str| {
            of_turn()
                .filter(|entry| entry.seq > last.seq)
                .flat_map(|entry| &entry.message.content)
                .any(|block| match block {
                    Block::ToolResult(result) => result.id == id,
                    Block::Text { .. }
                    | Block::Context { .. }
                    | Block::Image { .. }
                    | Block::Thinking(_)
                    | Block::ToolCall(_) => false,
                })
        };
        let open: Vec<(ToolCall, bool)> = last
            .message
            .tool_calls()
            .filter(|call| !answered(&call.id))
            .map(|call| (call.clone(), turn.started.contains(&call.id)))
            .collect();
        if open.is_empty() {
            Resume::Model
        } else {
            Resume::Tools(open)
        }
    }
}

impl Entry {
    /// Returns its estimated tokens.
    pub fn tokens(&self) -> u64 {
        self.message.tokens()
    }
}

/// Takes the middle out of every text longer than `longest` characters. Thinking that is cut would be
/// refused: it goes whole.
pub fn cut_blocks(message: &mut Message, longest: usize) {
    let cut = |text: &mut String| *text = text::head_and_tail(text, longest, 70);
    message
        .content
        .retain(|block| !matches!(block, Block::Thinking(_)));
    for block in &mut message.content {
        match block {
            Block::Text { text } | Block::Context { text } => cut(text),
            Block::ToolCall(call) => cut_strings(&mut call.input, &cut),
            Block::ToolResult(result) => cut(&mut result.text),
            Block::Image { .. } | Block::Thinking(_) => {}
        }
    }
}

fn cut_strings(value: &mut serde_json::Value, cut: &impl Fn(&mut String)) {
    use serde_json::Value;
    match value {
        Value::String(text) => cut(text),
        Value::Array(items) => items.iter_mut().for_each(|item| cut_strings(item, cut)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| cut_strings(field, cut)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn holds_results(message: &Message) -> bool {
    !message.content.is_empty()
        && message
            .content
            .iter()
            .all(|block| matches!(block, Block::ToolResult(_)))
}
