//! What every wire format needs: turns merged by role, names a vendor accepts, and the answer while
//! it is being written.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Request, Response};
use crate::message::{Block, Message, Role, StopReason, Thinking, ToolCall, Usage};
use crate::text::estimate_tokens;

/// The longest tool name: Anthropic and OpenAI both take `^[a-zA-Z0-9_-]{1,64}$` everywhere.
const MAX_NAME_CHARS: usize = 64;

/// No call has more tokens than this; larger reports are nonsense and would overflow sums.
const MAX_TOKENS: u64 = 1 << 40;

/// The key of a tool input that was no valid JSON object.
const RAW: &str = "_raw";

/// What one side says before the other speaks.
pub(super) struct Turn<'a> {
    /// Who.
    pub(super) role: Role,
    /// What, never empty.
    pub(super) blocks: Vec<&'a Block>,
}

/// Returns the name under which the thinking of the model of `request` is kept.
pub(super) fn thinker(protocol: &str, request: &Request) -> String {
    format!("{protocol}:{}", request.model)
}

/// Returns the messages with neighbours of one role merged, without blank text (vendors refuse both) and
/// without the thinking of others than `thinker`: nobody takes it, and some refuse it.
pub(super) fn turns<'a>(messages: &'a [Message], thinker: &str) -> Vec<Turn<'a>> {
    let foreign =
        |block: &&Block| matches!(block, Block::Thinking(thinking) if thinking.by != thinker);
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in messages {
        let blocks = message
            .content
            .iter()
            .filter(|block| !is_blank(block) && !foreign(block));
        match turns.last_mut() {
            Some(turn) if turn.role == message.role => turn.blocks.extend(blocks),
            _ => {
                let blocks: Vec<&Block> = blocks.collect();
                if !blocks.is_empty() {
                    turns.push(Turn {
                        role: message.role,
                        blocks,
                    });
                }
            }
        }
    }
    turns
}

/// Returns true for text that vendors refuse: nothing, or only white space.
pub(super) fn is_blank(block: &Block) -> bool {
    match block {
        Block::Text { text } | Block::Context { text } => text.trim().is_empty(),
        Block::Image { .. } | Block::Thinking(_) | Block::ToolCall(_) | Block::ToolResult(_) => {
            false
        }
    }
}

/// Stands for a picture whose bytes nobody put in; who did not may have said why instead.
pub(super) const NO_PICTURE: &str = "⟦a picture that cannot be shown to you⟧";

/// Returns a tool's answer as sent: never empty.
pub(super) fn result_text(text: &str) -> &str {
    if text.trim().is_empty() {
        "(no output)"
    } else {
        text
    }
}

/// Returns a tool name every vendor takes. Models invent names, and one bad name in the history
/// would make each later request fail.
pub(super) fn safe_name(name: &str) -> Cow<'_, str> {
    match safe_id(name) {
        name if name.is_empty() => Cow::Borrowed("unnamed"),
        name if name.len() > MAX_NAME_CHARS => {
            Cow::Owned(name.chars().take(MAX_NAME_CHARS).collect())
        }
        name => name,
    }
}

/// Returns a call id of letters, digits, `_` and `-`, as Anthropic demands; other characters become
/// `_x<hex>_`, so that different ids stay different. (Some models' ids look like `functions.exec:0`.)
pub(super) fn safe_id(id: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(fits) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(
        id.chars()
            .map(|c| {
                if fits(c) {
                    c.to_string()
                } else {
                    format!("_x{:x}_", u32::from(c))
                }
            })
            .collect(),
    )
}

/// Returns a tool input as the object it must be.
pub(super) fn input_object(input: &Value) -> Cow<'_, Value> {
    if input.is_object() {
        Cow::Borrowed(input)
    } else {
        Cow::Owned(json!({ RAW: input }))
    }
}

/// A tool call in the making.
#[derive(Debug, Default)]
pub(super) struct CallDraft {
    /// Its id, if any came yet.
    pub(super) id: String,
    /// Its name, if any came yet.
    pub(super) name: String,
    /// The input as JSON text, piece by piece.
    pub(super) json: String,
    /// The input, when it came as a value.
    pub(super) value: Option<Value>,
}

impl CallDraft {
    fn input(self) -> Value {
        let empty = Value::Object(Map::new());
        if self.json.trim().is_empty() {
            return self
                .value
                .map_or(empty, |value| input_object(&value).into_owned());
        }
        match serde_json::from_str(&self.json) {
            Ok(Value::Object(object)) => Value::Object(object),
            Ok(Value::Null) => empty,
            Ok(_) | Err(_) => json!({ RAW: self.json }),
        }
    }
}

#[derive(Debug)]
enum Part {
    Text(String),
    Call(CallDraft),
    Thinking(Value),
}

/// An assistant message in the making: parts in the order they began, each under the vendor's index.
#[derive(Debug, Default)]
pub(super) struct Draft {
    parts: Vec<(u64, Part)>,
}

impl Draft {
    /// Appends to the text with this index, which begins with its first piece.
    pub(super) fn push_text(&mut self, index: u64, piece: &str) {
        let found = self
            .parts
            .iter_mut()
            .rev()
            .find_map(|(at, part)| match part {
                Part::Text(text) if *at == index => Some(text),
                Part::Text(_) | Part::Call(_) | Part::Thinking(_) => None,
            });
        match found {
            Some(text) => text.push_str(piece),
            None => self.parts.push((index, Part::Text(piece.to_owned()))),
        }
    }

    /// Begins a call.
    pub(super) fn begin_call(&mut self, index: u64, call: CallDraft) {
        self.parts.push((index, Part::Call(call)));
    }

    /// Returns the newest call with this index.
    pub(super) fn call_mut(&mut self, index: u64) -> Option<&mut CallDraft> {
        self.parts
            .iter_mut()
            .rev()
            .find_map(|(at, part)| match part {
                Part::Call(call) if *at == index => Some(call),
                Part::Text(_) | Part::Call(_) | Part::Thinking(_) => None,
            })
    }

    /// Begins a piece of thinking, in the vendor's own form.
    pub(super) fn begin_thinking(&mut self, index: u64, data: Value) {
        self.parts.push((index, Part::Thinking(data)));
    }

    /// Puts a piece of thinking before everything else.
    pub(super) fn think_first(&mut self, data: Value) {
        self.parts.insert(0, (0, Part::Thinking(data)));
    }

    /// Appends to the text `key` of the piece of thinking with this index.
    pub(super) fn push_thinking(&mut self, index: u64, key: &str, piece: &str) {
        let found = self
            .parts
            .iter_mut()
            .rev()
            .find_map(|(at, part)| match part {
                Part::Thinking(data) if *at == index => data.as_object_mut(),
                Part::Text(_) | Part::Call(_) | Part::Thinking(_) => None,
            });
        let Some(data) = found else { return };
        match data.get_mut(key) {
            Some(Value::String(text)) => text.push_str(piece),
            _ => drop(data.insert(key.to_owned(), Value::String(piece.to_owned()))),
        }
    }

    /// Returns true when nothing came yet.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the index of the call that began last.
    pub(super) fn last_call(&self) -> Option<u64> {
        self.parts
            .iter()
            .rev()
            .find(|(_, part)| matches!(part, Part::Call(_)))
            .map(|(at, _)| *at)
    }

    /// Returns the finished answer to `request`, which was sent as `body` in `protocol`. Calls make the
    /// stop reason [`StopReason::ToolUse`] whatever the server named it, unless it was cut or refused.
    pub(super) fn finish(
        self,
        protocol: &str,
        request: &Request,
        body: &Value,
        stop: StopReason,
        counted: &Counted,
    ) -> Response {
        let mut ids: HashSet<String> = request
            .messages
            .iter()
            .flat_map(Message::tool_calls)
            .map(|call| call.id.clone())
            .collect();
        let parts = self.parts.into_iter().map(|(_, part)| match part {
            Part::Text(text) => Block::Text { text },
            Part::Call(call) => {
                let id = unique_id(&call.id, &mut ids);
                Block::ToolCall(ToolCall {
                    id,
                    name: call.name.clone(),
                    input: call.input(),
                })
            }
            Part::Thinking(data) => Block::Thinking(Thinking {
                by: thinker(protocol, request),
                data,
            }),
        });
        let mut content: Vec<Block> = parts.filter(|block| !is_blank(block)).collect();
        drop_last_thinking(&mut content);
        let message = Message {
            role: Role::Assistant,
            content,
        };
        let calls = message.tool_calls().next().is_some();
        let stop = match stop {
            StopReason::MaxTokens | StopReason::Refusal => stop,
            _ if calls => StopReason::ToolUse,
            StopReason::Pause => stop,
            StopReason::EndTurn | StopReason::ToolUse => StopReason::EndTurn,
        };
        let usage = counted.usage(request, body, &message);
        Response {
            message,
            stop,
            usage,
        }
    }
}

/// Takes thinking away that nothing follows: it belongs to what was never said, and vendors refuse a
/// message that ends on it.
pub(super) fn drop_last_thinking(content: &mut Vec<Block>) {
    while matches!(content.last(), Some(Block::Thinking(_))) {
        content.pop();
    }
}

/// What an id that we made begins with; 32 hexadecimal digits follow. OpenAI takes at most 40 letters.
const MADE: &str = "call_";

/// Returns true for the id of a call that its server gave none, or one that looks like it.
pub(super) fn is_made(id: &str) -> bool {
    id.strip_prefix(MADE)
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns `id`, or a made one when it is empty or in use: some servers number each answer's calls from 0.
fn unique_id(id: &str, used: &mut HashSet<String>) -> String {
    let id = if id.is_empty() || used.contains(id) {
        format!("{MADE}{}", Uuid::new_v4().simple())
    } else {
        id.to_owned()
    };
    used.insert(id.clone());
    id
}

/// The tokens a vendor reported so far. Streams report running totals, so the largest number counts.
#[derive(Debug, Default)]
pub(super) struct Counted {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl Counted {
    /// Takes a reported input, without what the cache served or took.
    pub(super) fn input(&mut self, tokens: Option<u64>) {
        self.input = self.input.max(tokens.unwrap_or(0).min(MAX_TOKENS));
    }

    /// Takes a reported output.
    pub(super) fn output(&mut self, tokens: Option<u64>) {
        self.output = self.output.max(tokens.unwrap_or(0).min(MAX_TOKENS));
    }

    /// Takes what the cache served and what was written to it.
    pub(super) fn cache(&mut self, read: Option<u64>, write: Option<u64>) {
        self.cache_read = self.cache_read.max(read.unwrap_or(0).min(MAX_TOKENS));
        self.cache_write = self.cache_write.max(write.unwrap_or(0).min(MAX_TOKENS));
    }

    /// Returns the usage; a side nobody counted (missing, or an impossible zero) is estimated.
    fn usage(&self, request: &Request, body: &Value, message: &Message) -> Usage {
        let no_input = self.input + self.cache_read + self.cache_write == 0;
        let no_output = self.output == 0 && !message.content.is_empty();
        Usage {
            input_tokens: if no_input {
                estimate_input(request, body)
            } else {
                self.input
            },
            output_tokens: if no_output {
                estimate_output(message)
            } else {
                self.output
            },
            cache_read_tokens: self.cache_read,
            cache_write_tokens: self.cache_write,
            estimated: no_input || no_output,
        }
    }
}

/// Returns the estimated tokens of a request: its text, and for each picture what one of a usual size
/// has (1568 pixels, Anthropic's vision guide).
fn estimate_input(request: &Request, body: &Value) -> u64 {
    const PICTURE: u64 = 1600;
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    let pictures = blocks.filter_map(|block| match block {
        Block::Image { data, .. } => data.as_deref(),
        Block::Text { .. }
        | Block::Context { .. }
        | Block::Thinking(_)
        | Block::ToolCall(_)
        | Block::ToolResult(_) => None,
    });
    let (count, chars) = pictures.fold((0, 0), |(count, chars), data| {
        (count + 1, chars + data.len() as u64)
    });
    estimate_tokens(&body.to_string()).saturating_sub(chars * 3 / 10) + count * PICTURE
}

/// Returns the estimated tokens of an answer: its text, its thinking and the inputs of its calls.
pub(super) fn estimate_output(message: &Message) -> u64 {
    let thinking = message.content.iter().map(|block| match block {
        Block::Thinking(thinking) => estimate_tokens(&thinking.data.to_string()),
        Block::Text { .. }
        | Block::Context { .. }
        | Block::Image { .. }
        | Block::ToolCall(_)
        | Block::ToolResult(_) => 0,
    });
    let calls = message
        .tool_calls()
        .map(|call| estimate_tokens(&call.name) + estimate_tokens(&call.input.to_string()));
    estimate_tokens(&message.plain_text()) + thinking.sum::<u64>() + calls.sum::<u64>()
}
