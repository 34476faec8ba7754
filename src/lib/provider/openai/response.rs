//! A chat completion's answer, streamed or whole, with everything optional that some server leaves out.

use serde_json::{Value, json};

use crate::message::StopReason;
use crate::provider::OnText;
use crate::provider::classify_error::ErrorBody;
use crate::provider::http::{Answer, Fault, parse};
use crate::provider::partial_message::{CallDraft, Received};

use super::EXTRA_CONTENT;
use super::reasoning::Reasoning;
use super::think_tags::ThinkTags;

/// The text has an index of its own; calls are counted apart from it.
const TEXT: u64 = 0;

/// How Groq reports, in an answer or instead of one, that the model wrote a call which is none (its guide "Tool Use", read
/// 2026-11).
const BAD_CALL: &str = "tool_use_failed";

/// An answer while it comes in.
#[derive(Debug, Default)]
pub(in crate::provider) struct Completion {
    received: Received,
    reasoning: Reasoning,
    think_tags: ThinkTags,
}

impl Completion {
    fn push_text(&mut self, text: &str, on_text: OnText<'_>) {
        if !text.is_empty() {
            self.received.push_text(TEXT, text);
            on_text(text);
        }
    }

    /// Shows the text that might have been the beginning of a tag.
    fn end_text(&mut self, on_text: OnText<'_>) {
        let held = self.think_tags.end();
        self.push_text(&held, on_text);
    }

    fn take(&mut self, value: &Value, on_text: OnText<'_>) -> Result<(), Fault> {
        if value["error"]["code"] == BAD_CALL {
            self.think_tags = ThinkTags::default();
            self.received.make_void();
            self.received.ended = true;
            return Ok(());
        }
        if !value["error"].is_null() || value["object"] == "error" {
            return Err(reported(value));
        }
        self.count(&value["usage"]);
        let choice = &value["choices"][0];
        let message = if choice["delta"].is_object() {
            &choice["delta"]
        } else {
            &choice["message"]
        };
        self.reasoning.take(message);
        for piece in texts(&message["content"])
            .into_iter()
            .chain(texts(&message["refusal"]))
        {
            let shown = self.think_tags.take(piece);
            self.push_text(&shown, on_text);
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            self.take_call(call);
        }
        match choice["finish_reason"].as_str() {
            None | Some("") => {}
            Some("length") => self.received.stop = Some(StopReason::MaxTokens),
            Some("content_filter") => self.received.stop = Some(StopReason::Refusal),
            Some("error") => {
                return Err(Fault::Nonsense(
                    "the server gave up (finish_reason error)".to_owned(),
                ));
            }
            // stop, tool_calls and inventions: servers mix them up, the calls decide.
            Some(_) => self.received.stop = Some(StopReason::EndTurn),
        }
        if self.received.stop.is_some() {
            self.end_text(on_text);
        }
        Ok(())
    }

    /// Finds the call a piece belongs to. Pieces carry an index, except on servers that send whole
    /// calls; some of those number every call 0, so a new id with a name is a new call too.
    fn take_call(&mut self, call: &Value) {
        let id = call["id"].as_str().unwrap_or_default();
        let function = &call["function"];
        let named = function["name"]
            .as_str()
            .is_some_and(|name| !name.is_empty());
        let last = self.received.last_call();
        let next = last.map_or(0, |last| last.saturating_add(1));
        let index = match call["index"].as_u64() {
            Some(index) => index,
            None if named => next,
            None => last.unwrap_or(0),
        };
        let is_another = named
            && !id.is_empty()
            && self
                .received
                .call_mut(index)
                .is_some_and(|known| !known.id.is_empty() && known.id != id);
        let index = if is_another { next } else { index };
        let extra = &call[EXTRA_CONTENT];
        if extra.is_object() && self.received.call_mut(index).is_none() {
            self.received
                .begin_thinking(index, json!({EXTRA_CONTENT: extra}));
        }
        self.take_function(index, id, function);
    }

    fn take_function(&mut self, index: u64, id: &str, function: &Value) {
        if self.received.call_mut(index).is_none() {
            self.received.begin_call(index, CallDraft::default());
        }
        let Some(call) = self.received.call_mut(index) else {
            return;
        };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            function["name"]
                .as_str()
                .unwrap_or_default()
                .clone_into(&mut call.name);
        }
        match &function["arguments"] {
            Value::Null => {}
            Value::String(piece) => call.json.push_str(piece),
            value => call.value = Some(value.clone()),
        }
    }

    /// The prompt's tokens include those that the cache served and took; our input does not. Of xAI and Gemini the
    /// completion is without the reasoning, which only the total has.
    fn count(&mut self, usage: &Value) {
        let details = &usage["prompt_tokens_details"];
        let cached = details["cached_tokens"].as_u64();
        let written = details["cache_write_tokens"].as_u64();
        let prompt = usage["prompt_tokens"].as_u64();
        let of_cache = cached.unwrap_or(0).saturating_add(written.unwrap_or(0));
        let input = prompt.map(|prompt| prompt.saturating_sub(of_cache));
        let total = usage["total_tokens"].as_u64();
        let beyond = total
            .zip(prompt)
            .map(|(all, sent)| all.saturating_sub(sent));
        let output = usage["completion_tokens"].as_u64().max(beyond);
        self.received.count(input, output, (cached, written));
    }
}

impl Answer for Completion {
    const PROTOCOL: &'static str = "openai";

    fn event(&mut self, data: &str, on_text: OnText<'_>) -> Result<(), Fault> {
        if data.trim() == "[DONE]" {
            self.end_text(on_text);
            self.received.ended = true;
            return Ok(());
        }
        self.take(&parse(data)?, on_text)
    }

    fn whole(&mut self, value: &Value, on_text: OnText<'_>) -> Result<(), Fault> {
        self.take(value, on_text)?;
        if !self.received.ended && !value["choices"][0].is_object() {
            return Err(Fault::Nonsense("the answer has no choices".to_owned()));
        }
        self.end_text(on_text);
        self.received.ended = true;
        Ok(())
    }

    fn received(&self) -> &Received {
        &self.received
    }

    /// Reasoning is kept only with calls.
    fn into_received(mut self) -> Received {
        if self.received.last_call().is_some()
            && let Some(data) = self.reasoning.kept()
        {
            self.received.think_first(data);
        }
        self.received
    }
}

/// Returns the texts of a content: a string, or the text parts of a list.
fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns an error that came with status 200 (OpenRouter, or in the middle of any stream) under the
/// status it stands for: its number, or else the best-known words of its type and code.
fn reported(value: &Value) -> Fault {
    let body = ErrorBody::from_json(value);
    let status = match body.code {
        Some(code @ 400..=599) => code,
        _ => status_of(&body.kind),
    };
    Fault::Reported(status, body)
}

fn status_of(kind: &str) -> u16 {
    const WORDS: [(&str, u16); 8] = [
        ("rate_limit", 429),
        ("quota", 429),
        ("overloaded", 503),
        ("api_key", 401),
        ("authentication", 401),
        ("permission", 403),
        ("context_", 400),
        ("invalid_request", 400),
    ];
    WORDS
        .iter()
        .find(|(word, _)| kind.contains(word))
        .map_or(500, |(_, status)| *status)
}
