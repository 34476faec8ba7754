//! An assistant message while it is received: its parts, its token counts, and its stop reason.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::wire::{input_object, is_blank, thinker};
use super::{Request, Response};
use crate::message::{
    Block, Message, RAW_INPUT, Role, StopReason, Thinking, ToolCall, USUAL_PICTURE_TOKENS, Usage,
};
use crate::text;
use crate::text::estimate_tokens;

/// No call has more tokens than this; larger reports are nonsense and would overflow sums.
const MAX_TOKENS: u64 = 1 << 40;

/// What an id that we made begins with; 32 hexadecimal digits follow. OpenAI takes at most 40 letters.
const MADE_ID: &str = "call_";

/// A tool call while it is received.
#[derive(Debug, Default)]
pub(super) struct CallDraft {
    pub(super) id: String,
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
            let Some(value) = self.value else {
                return empty;
            };
            let written = value.to_string();
            return match text::json::is_too_deep(written.as_bytes()) {
                true => json!({ RAW_INPUT: written }),
                false => input_object(&value).into_owned(),
            };
        }
        match text::json::parse(self.json.as_bytes()) {
            Ok(Value::Object(object)) => Value::Object(object),
            Ok(Value::Null) => empty,
            Ok(_) | Err(_) => json!({ RAW_INPUT: self.json }),
        }
    }
}

#[derive(Debug)]
enum Part {
    Text(String),
    Call(CallDraft),
    Thinking(Value),
}

/// The parts in the order they began, each under the vendor's index.
#[derive(Debug, Default)]
pub(super) struct Received {
    parts: Vec<(u64, Part)>,
    usage: Usage,
    pub(super) stop: Option<StopReason>,
    /// Nothing more will come.
    pub(super) ended: bool,
}

impl Received {
    /// Returns what `pick` finds in the newest part with this index that has it.
    fn newest<'a, T>(
        &'a mut self,
        index: u64,
        pick: impl Fn(&'a mut Part) -> Option<&'a mut T>,
    ) -> Option<&'a mut T> {
        let mut parts = self.parts.iter_mut().rev();
        parts.find_map(|(at, part)| pick(part).filter(|_| *at == index))
    }

    /// Appends to the text with this index, which begins with its first piece.
    pub(super) fn push_text(&mut self, index: u64, piece: &str) {
        let text = self.newest(index, |part| match part {
            Part::Text(text) => Some(text),
            _ => None,
        });
        match text {
            Some(text) => text.push_str(piece),
            None => self.parts.push((index, Part::Text(piece.to_owned()))),
        }
    }

    pub(super) fn begin_call(&mut self, index: u64, call: CallDraft) {
        self.parts.push((index, Part::Call(call)));
    }

    /// Returns the newest call with this index.
    pub(super) fn call_mut(&mut self, index: u64) -> Option<&mut CallDraft> {
        self.newest(index, |part| match part {
            Part::Call(call) => Some(call),
            _ => None,
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
        let data = self.newest(index, |part| match part {
            Part::Thinking(Value::Object(data)) => Some(data),
            _ => None,
        });
        let Some(data) = data else { return };
        match data.get_mut(key) {
            Some(Value::String(text)) => text.push_str(piece),
            _ => drop(data.insert(key.to_owned(), Value::String(piece.to_owned()))),
        }
    }

    /// Makes it a pause without a word: the model wrote a call that its server could not read, and may not when it is asked
    /// to go on. Its tokens count.
    pub(super) fn make_void(&mut self) {
        self.parts.clear();
        self.stop = Some(StopReason::Pause);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the index of the call that began last.
    pub(super) fn last_call(&self) -> Option<u64> {
        let mut parts = self.parts.iter().rev();
        parts
            .find(|(_, part)| matches!(part, Part::Call(_)))
            .map(|(at, _)| *at)
    }

    /// Takes reported tokens: streams report running totals, so the largest number counts. `input` is
    /// without what the cache served and took, `cache` is both.
    pub(super) fn count(
        &mut self,
        input: Option<u64>,
        output: Option<u64>,
        cache: (Option<u64>, Option<u64>),
    ) {
        let usage = &mut self.usage;
        for (total, tokens) in [
            (&mut usage.input_tokens, input),
            (&mut usage.output_tokens, output),
            (&mut usage.cache_read_tokens, cache.0),
            (&mut usage.cache_write_tokens, cache.1),
        ] {
            *total = (*total).max(tokens.unwrap_or(0).min(MAX_TOKENS));
        }
    }

    /// Returns the finished answer to `request`, which was sent as `body` in `protocol`. Calls make the
    /// stop reason [`StopReason::ToolUse`] whatever the server named it, unless it was cut or refused.
    pub(super) fn finish(self, protocol: &str, request: &Request, body: &[u8]) -> Response {
        let mut ids: HashSet<String> = request
            .messages
            .iter()
            .flat_map(Message::tool_calls)
            .map(|call| call.id.clone())
            .collect();
        let parts = self.parts.into_iter().map(|(_, part)| match part {
            Part::Text(text) => Block::text(text),
            Part::Call(call) => Block::ToolCall(ToolCall {
                id: unique_id(&call.id, &mut ids),
                name: call.name.clone(),
                input: call.input(),
            }),
            Part::Thinking(data) => Block::Thinking(Thinking {
                by: thinker(protocol, request),
                data,
            }),
        });
        let mut content: Vec<Block> = parts.filter(|block| !is_blank(block)).collect();
        drop_last_thinking(&mut content);
        let message = Message::new(Role::Assistant, content);
        let calls = message.tool_calls().next().is_some();
        let stop = match self.stop.unwrap_or(StopReason::EndTurn) {
            stop @ (StopReason::MaxTokens | StopReason::Refusal) => stop,
            _ if calls => StopReason::ToolUse,
            StopReason::Pause => StopReason::Pause,
            StopReason::EndTurn | StopReason::ToolUse => StopReason::EndTurn,
        };
        let mut usage = self.usage;
        // A side that nobody counted (missing, or an impossible zero) is estimated.
        if usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens == 0 {
            usage.input_tokens = estimate_input(request, body);
            usage.estimated = true;
        }
        if usage.output_tokens == 0 && !message.content.is_empty() {
            usage.output_tokens = message.tokens();
            usage.estimated = true;
        }
        Response {
            message,
            stop,
            usage,
        }
    }
}

/// Takes away thinking that nothing follows: vendors refuse a message that ends with it.
pub(super) fn drop_last_thinking(content: &mut Vec<Block>) {
    while matches!(content.last(), Some(Block::Thinking(_))) {
        content.pop();
    }
}

/// Returns true for the id of a call that its server gave none, or one that looks like it.
pub(super) fn is_made_id(id: &str) -> bool {
    id.strip_prefix(MADE_ID)
        .is_some_and(|rest| rest.len() == 32 && rest.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns `id`, or a made one when it is empty or in use: some servers number each answer's calls from 0.
fn unique_id(id: &str, used: &mut HashSet<String>) -> String {
    let id = if id.is_empty() || used.contains(id) {
        format!("{MADE_ID}{}", Uuid::new_v4().simple())
    } else {
        id.to_owned()
    };
    used.insert(id.clone());
    id
}

/// Returns the estimated tokens of a request: its text, and for each picture what one of a usual size has.
fn estimate_input(request: &Request, body: &[u8]) -> u64 {
    let tokens = estimate_tokens(std::str::from_utf8(body).unwrap_or_default());
    let pictures = request.messages.iter().flat_map(Message::pictures);
    pictures.fold(tokens, |tokens, data| {
        tokens.saturating_sub(data.len() as u64 * 3 / 10) + USUAL_PICTURE_TOKENS
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_is_too_deep_is_kept_as_text() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(99), "]".repeat(99));
        let pieces = CallDraft {
            json: deep.clone(),
            ..CallDraft::default()
        };
        assert_eq!(pieces.input(), json!({ RAW_INPUT: deep }));
        let value = CallDraft {
            value: serde_json::from_str(&deep).ok(),
            ..CallDraft::default()
        };
        assert_eq!(value.input(), json!({ RAW_INPUT: deep }));
    }
}
