//! A model's reasoning as servers return it, and the part that they require back.
//!
//! It is never shown. Two fields are kept, only with an answer that calls tools:
//!
//! - `reasoning_content`: DeepSeek answers 400 when it is missing from a message with calls (its guide
//!   "Thinking Mode"), Kimi and GLM think on from it; llama-server and vLLM take it.
//! - `reasoning_details` of OpenRouter: its guide "Reasoning Tokens" wants the list back unmodified.
//!
//! `reasoning` alone (Groq, Ollama, OpenRouter in addition to its list) is for people, and Groq refuses it in
//! a request. Without calls DeepSeek ignores the field, and its older models refused it.
//! All read 2026-11.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::message::Block;
use crate::provider::json::Json;
use crate::provider::wire::Turn;

const CONTENT: &str = "reasoning_content";
const DETAILS: &str = "reasoning_details";

/// The reasoning of an answer while it comes in.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    content: Option<String>,
    details: Vec<Value>,
}

impl Reasoning {
    /// Takes what a piece of the answer, or the whole, has of it.
    pub(super) fn take(&mut self, message: &Value) {
        if let Some(piece) = message[CONTENT].as_str() {
            self.content.get_or_insert_default().push_str(piece);
        }
        for detail in message[DETAILS].as_array().into_iter().flatten() {
            match self.details.last_mut() {
                Some(last) if is_continued(last, detail) => go_on(last, detail),
                _ => self.details.push(detail.clone()),
            }
        }
    }

    /// Returns what is to be kept; `None` when there is nothing.
    pub(super) fn kept(self) -> Option<Value> {
        if !self.details.is_empty() {
            return Some(json!({DETAILS: self.details}));
        }
        self.content.map(|content| json!({CONTENT: content}))
    }
}

/// Returns true when `piece` continues with `last`: a stream cuts a detail into pieces of one type and index.
fn is_continued(last: &Value, piece: &Value) -> bool {
    let whole = piece["type"] == "reasoning.encrypted";
    !whole
        && last["type"] == piece["type"]
        && last["index"] == piece["index"]
        && piece["index"].is_number()
}

fn go_on(last: &mut Value, piece: &Value) {
    let (Some(last), Some(piece)) = (last.as_object_mut(), piece.as_object()) else {
        return;
    };
    for (key, value) in piece {
        match (last.get_mut(key), value) {
            (_, Value::Null) => {}
            (Some(Value::String(text)), Value::String(more))
                if ["text", "summary"].contains(&key.as_str()) =>
            {
                text.push_str(more)
            }
            _ => drop(last.insert(key.clone(), value.clone())),
        }
    }
}

/// Puts what was kept of `turn` into the message it becomes; of several pieces the texts and lists are joined.
pub(super) fn send_back<'a>(turn: &Turn<'a>, message: &mut Json<'a>) {
    for key in [CONTENT, DETAILS] {
        let mut sent: Option<Cow<'a, Value>> = None;
        let kept = turn.blocks.iter().filter_map(|block| match block {
            Block::Thinking(thinking) => thinking.data.get(key),
            _ => None,
        });
        for piece in kept {
            match (sent.as_mut().map(Cow::to_mut), piece) {
                (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
                (Some(Value::Array(list)), Value::Array(more)) => list.extend_from_slice(more),
                _ => sent = Some(Cow::Borrowed(piece)),
            }
        }
        if let Some(sent) = sent {
            message.add(key, sent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_detail_are_joined_and_others_stand_alone() {
        let mut reasoning = Reasoning::default();
        let text = |text: &str| json!({"reasoning_details": [{"type": "reasoning.text", "text": text, "index": 0, "signature": null}]});
        reasoning.take(&text("I "));
        reasoning.take(&text("look."));
        reasoning.take(&json!({"reasoning_details": [{"type": "reasoning.text", "signature": "sig", "index": 0}]}));
        reasoning.take(&json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "a", "index": 1}]}));
        reasoning.take(&json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "b", "index": 1}]}));
        reasoning.take(&json!({"reasoning_content": "for people", "reasoning": "for people"}));
        let expected = json!({"reasoning_details": [
            {"type": "reasoning.text", "text": "I look.", "index": 0, "signature": "sig"},
            {"type": "reasoning.encrypted", "data": "a", "index": 1},
            {"type": "reasoning.encrypted", "data": "b", "index": 1},
        ]});
        assert_eq!(reasoning.kept(), Some(expected));
    }

    #[test]
    fn an_empty_content_is_kept_and_a_missing_one_is_not() {
        let kept = |message: Value| {
            let mut reasoning = Reasoning::default();
            reasoning.take(&message);
            reasoning.kept()
        };
        assert_eq!(
            kept(json!({"reasoning_content": ""})),
            Some(json!({"reasoning_content": ""}))
        );
        assert_eq!(
            [
                json!({"reasoning_content": null}),
                json!({"reasoning": "hm"})
            ]
            .map(kept),
            [None, None]
        );
    }
}
