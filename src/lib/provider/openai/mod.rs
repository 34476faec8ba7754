//! OpenAI's chat completions, and every server that speaks them: OpenRouter, Ollama, llama-server, vLLM.
//!
//! Written after <https://platform.openai.com/docs/api-reference/chat> (read 2026-11) and what the
//! compatible servers leave out of it.

mod reasoning;
mod response;

use serde_json::{Map, Value, json};

use super::api_key::Key;
use super::http::Endpoint;
use super::wire;
use super::wire::Turn;
use super::{BoxFuture, Error, OnText, Provider, Request, Response};
use crate::message::{Block, Role, ToolResult};
use response::Completion;

/// What this protocol is called in [`crate::message::Thinking::by`].
const PROTOCOL: &str = "openai";

/// What stands between texts that are joined into one.
const BETWEEN: &str = "\n\n";

/// The chat completions of one server.
#[derive(Debug, Clone)]
pub struct OpenAi {
    endpoint: Endpoint,
    dialect: Dialect,
}

/// Where servers differ in what they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect {
    /// What the field for the longest answer is called.
    pub limit: LimitField,
    /// How thinking is asked for.
    pub effort: EffortField,
}

/// What every compatible server takes.
#[cfg(test)]
pub(super) const PLAIN: Dialect = Dialect {
    limit: LimitField::MaxTokens,
    effort: EffortField::ReasoningEffort,
};

/// How a server is asked for thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffortField {
    /// `reasoning_effort`: OpenAI, and most that are compatible.
    ReasoningEffort,
    /// `reasoning: {enabled}`: OpenRouter, which finds the form for each model itself.
    Reasoning,
}

/// What the field for the longest answer is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitField {
    /// `max_tokens`: the name every compatible server knows.
    MaxTokens,
    /// `max_completion_tokens`: OpenAI's own models refuse the old name.
    MaxCompletionTokens,
}

impl OpenAi {
    /// Returns a provider that posts to `{base_url}/chat/completions`. A `base_url` without a path
    /// gets `/v1`, where nearly all servers have it (Ollama and llama-server are configured by host
    /// and port); one with a path is taken as it is, because some have none
    /// (`…/v1beta/openai`, `…/api/paas/v4`). `client` should follow no redirects.
    pub fn new(client: reqwest::Client, base_url: &str, key: impl Into<Key>) -> Self {
        let endpoint = endpoint(client, base_url, "chat/completions", key.into());
        let host = endpoint.host_name();
        let own = host == "api.openai.com";
        let limit = if own {
            LimitField::MaxCompletionTokens
        } else {
            LimitField::MaxTokens
        };
        let effort = if host == "openrouter.ai" {
            EffortField::Reasoning
        } else {
            EffortField::ReasoningEffort
        };
        Self {
            endpoint,
            dialect: Dialect { limit, effort },
        }
    }
}

/// Returns `path` of the server at `base_url`; of that and the key see [`OpenAi::new`].
pub(super) fn endpoint(client: reqwest::Client, base_url: &str, path: &str, key: Key) -> Endpoint {
    Endpoint::new(client, base_url, path, |path| !path.is_empty()).with_key(
        "authorization",
        "Bearer ",
        key,
    )
}

impl Provider for OpenAi {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let body = body(request, self.dialect);
            let mut answer = Completion::default();
            self.endpoint
                .for_request(request)
                .exchange(&body, &mut answer, on_text)
                .await?;
            Ok(answer.finish(request, &body))
        })
    }
}

/// Returns the request as sent: the same request gives the same bytes, and what changes from call to
/// call (the messages) stands last. Prompt caching needs no marks here; the servers find the
/// longest known prefix themselves.
pub fn body(request: &Request, dialect: Dialect) -> Value {
    let mut messages = Vec::new();
    let system: Vec<&str> = request
        .system
        .iter()
        .map(|block| block.text.as_str())
        .filter(|text| !text.trim().is_empty())
        .collect();
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system.join("\n\n")}));
    }
    let mut calls: Vec<&str> = Vec::new();
    for turn in &wire::turns(&request.messages, &wire::thinker(PROTOCOL, request)) {
        match turn.role {
            Role::Assistant => {
                calls = calls_of(turn);
                messages.push(assistant(turn));
            }
            Role::User => user(turn, &std::mem::take(&mut calls), &mut messages),
        }
    }

    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    let limit = match dialect.limit {
        LimitField::MaxTokens => "max_tokens",
        LimitField::MaxCompletionTokens => "max_completion_tokens",
    };
    body.insert(limit.to_owned(), json!(request.max_tokens));
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    if request.thinking {
        let (field, value) = match dialect.effort {
            EffortField::ReasoningEffort => ("reasoning_effort", json!("medium")),
            EffortField::Reasoning => ("reasoning", json!({"enabled": true})),
        };
        body.insert(field.to_owned(), value);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|spec| {
            let name = wire::safe_name(&spec.name);
            json!({"type": "function", "function": {"name": name, "description": spec.description, "parameters": spec.schema}})
        });
        body.insert("tools".to_owned(), tools.collect());
        if !request.may_call {
            body.insert("tool_choice".to_owned(), json!("none"));
        }
    }
    body.insert("messages".to_owned(), Value::Array(messages));
    Value::Object(body)
}

/// Returns the text blocks of a turn as one text: strings are understood everywhere, lists of parts are not.
fn text(turn: &Turn<'_>) -> String {
    let texts: Vec<&str> = turn
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Text { text } | Block::Context { text } => Some(text.as_str()),
            Block::Image { .. } => Some(wire::NO_PICTURE),
            Block::Thinking(_) | Block::ToolCall(_) | Block::ToolResult(_) => None,
        })
        .collect();
    texts.join(BETWEEN)
}

fn calls_of<'a>(turn: &Turn<'a>) -> Vec<&'a str> {
    turn.blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolCall(call) => Some(call.id.as_str()),
            Block::Text { .. }
            | Block::Context { .. }
            | Block::Image { .. }
            | Block::Thinking(_)
            | Block::ToolResult(_) => None,
        })
        .collect()
}

fn assistant(turn: &Turn<'_>) -> Value {
    let text = text(turn);
    let calls: Vec<Value> = turn
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolCall(call) => Some(json!({
                "id": call.id,
                "type": "function",
                "function": {"name": wire::safe_name(&call.name), "arguments": wire::input_object(&call.input).to_string()},
            })),
            Block::Text { .. } | Block::Context { .. } | Block::Image { .. } | Block::Thinking(_) | Block::ToolResult(_) => None,
        })
        .collect();
    let content = if text.is_empty() {
        Value::Null
    } else {
        Value::String(text)
    };
    let mut message = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
        reasoning::send_back(turn, &mut message);
    }
    message
}

/// Adds a user turn: first the results in the order of `calls`, as the role `tool`, then the words.
fn user(turn: &Turn<'_>, calls: &[&str], messages: &mut Vec<Value>) {
    let mut results: Vec<&ToolResult> = turn
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::ToolResult(result) => Some(result),
            Block::Text { .. }
            | Block::Context { .. }
            | Block::Image { .. }
            | Block::Thinking(_)
            | Block::ToolCall(_) => None,
        })
        .collect();
    results.sort_by_key(|result| calls.iter().position(|id| *id == result.id));
    messages.extend(results.into_iter().map(tool_message));
    let shows = turn
        .blocks
        .iter()
        .any(|block| matches!(block, Block::Image { data: Some(_), .. }));
    let content = if shows {
        parts(turn)
    } else {
        Value::String(text(turn))
    };
    if content != "" {
        messages.push(json!({"role": "user", "content": content}));
    }
}

/// Returns a turn with pictures as a list of parts, each text joined as [`text`] joins it.
fn parts(turn: &Turn<'_>) -> Value {
    let mut parts = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    let flush = |texts: &mut Vec<&str>, parts: &mut Vec<Value>| {
        if !texts.is_empty() {
            parts.push(json!({"type": "text", "text": std::mem::take(texts).join(BETWEEN)}));
        }
    };
    for block in &turn.blocks {
        match block {
            Block::Image {
                content_type,
                data: Some(data),
                ..
            } => {
                flush(&mut texts, &mut parts);
                let url = format!("data:{content_type};base64,{data}");
                parts.push(json!({"type": "image_url", "image_url": {"url": url}}));
            }
            Block::Image { data: None, .. } => texts.push(wire::NO_PICTURE),
            Block::Text { text } | Block::Context { text } => texts.push(text),
            Block::Thinking(_) | Block::ToolCall(_) | Block::ToolResult(_) => {}
        }
    }
    flush(&mut texts, &mut parts);
    Value::Array(parts)
}

/// Returns a result as a message. The format has no field for failure, so the words must say it; those
/// of a command do, in their last line (`[exit 3]`), and nothing may stand before its output.
fn tool_message(result: &ToolResult) -> Value {
    let text = wire::result_text(&result.text);
    let ends = text
        .lines()
        .next_back()
        .is_some_and(|last| last.starts_with('[') && last.ends_with(']'));
    let says_so = ends
        || text
            .trim_start()
            .get(..5)
            .is_some_and(|start| start.eq_ignore_ascii_case("error"));
    let content = if result.is_error && !says_so {
        format!("Error: {text}")
    } else {
        text.to_owned()
    };
    json!({"role": "tool", "tool_call_id": result.id, "content": content})
}

#[cfg(test)]
mod tests;
