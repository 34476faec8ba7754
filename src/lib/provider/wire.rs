//! For requests to all vendors: turns merged by role, and names and ids that vendors accept.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::Request;
use crate::config::Ttl;
use crate::message::{Block, RAW_INPUT, Role, ToolCall, ToolResult};

/// The longest tool name: Anthropic and OpenAI both take `^[a-zA-Z0-9_-]{1,64}$` everywhere.
const MAX_NAME_CHARS: usize = 64;

/// The messages of one side until the other speaks; never empty.
pub(super) struct Turn<'a> {
    pub(super) role: Role,
    pub(super) blocks: Vec<&'a Block>,
}

impl<'a> Turn<'a> {
    pub(super) fn calls(&self) -> impl Iterator<Item = &'a ToolCall> {
        self.blocks.iter().filter_map(|block| block.tool_call())
    }

    /// Returns the results of a user's turn in the order of `calls`, the ones of unknown calls first.
    pub(super) fn results(&self, calls: &[&ToolCall]) -> Vec<&'a ToolResult> {
        let results = self.blocks.iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            _ => None,
        });
        let mut results: Vec<&ToolResult> = results.collect();
        results.sort_by_key(|result| calls.iter().position(|call| call.id == result.id));
        results
    }
}

/// Returns the name under which the thinking of the model of `request` is kept.
pub(super) fn thinker(protocol: &str, request: &Request) -> String {
    format!("{protocol}:{}", request.model)
}

/// Returns the messages with neighbours of one role merged, without blank text (vendors refuse both) and
/// without the thinking of other models: nobody takes it, and some refuse it.
pub(super) fn turns<'a>(protocol: &str, request: &'a Request) -> Vec<Turn<'a>> {
    let thinker = thinker(protocol, request);
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in request.messages.iter() {
        let blocks = message.content.iter().filter(|block| match block {
            Block::Thinking(thinking) => thinking.by == thinker,
            block => !is_blank(block),
        });
        match turns.last_mut() {
            Some(turn) if turn.role == message.role => turn.blocks.extend(blocks),
            _ => turns.push(Turn {
                role: message.role,
                blocks: blocks.collect(),
            }),
        }
        turns.pop_if(|turn| turn.blocks.is_empty());
    }
    turns
}

/// Returns the texts of the system prompt that are not blank.
pub(super) fn system_texts(request: &Request) -> impl Iterator<Item = &str> {
    request
        .system
        .iter()
        .map(|block| block.text.as_str())
        .filter(|text| !text.trim().is_empty())
}

/// Returns true for text that vendors refuse: nothing, or only white space.
pub(super) fn is_blank(block: &Block) -> bool {
    match block {
        Block::Text { text } | Block::Context { text } => text.trim().is_empty(),
        _ => false,
    }
}

/// Returns a mark for Claude's prompt cache.
pub(super) fn cache_control(ttl: Ttl) -> Value {
    match ttl {
        Ttl::Minutes5 => json!({"type": "ephemeral"}),
        Ttl::Hour => json!({"type": "ephemeral", "ttl": "1h"}),
    }
}

/// Stands for a picture without bytes.
pub(super) const NO_PICTURE: &str = "⟦a picture that cannot be shown to you⟧";

/// Returns a tool's result as sent: never empty.
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
        Cow::Owned(json!({ RAW_INPUT: input }))
    }
}
