//! OpenAI's chat completions, and every server that speaks them: OpenRouter, Ollama, llama-server, vLLM.
//!
//! Written after <https://platform.openai.com/docs/api-reference/chat> (read 2026-11) and what the
//! compatible servers leave out of it.

mod reasoning;
mod response;

use serde_json::{Value, json};

use super::api_key::Key;
use super::http::{Answer, Endpoint};
use super::wire;
use super::wire::Turn;
use super::{BoxFuture, Error, OnText, Provider, Request, Response};
use crate::message::{Block, Role, ToolCall, ToolResult};
use response::Completion;

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
            self.endpoint
                .complete::<Completion>(request, &body, on_text)
                .await
        })
    }
}

/// Returns the request as sent: the same request gives the same bytes, and what changes from call to
/// call (the messages) stands last. Prompt caching needs no marks here; the servers find the
/// longest known prefix themselves.
pub fn body(request: &Request, dialect: Dialect) -> Value {
    let mut messages = Vec::new();
    let system: Vec<&str> = wire::system_texts(request).collect();
    if !system.is_empty() {
        messages.push(json!({"role": "system", "content": system.join(BETWEEN)}));
    }
    let mut calls: Vec<&ToolCall> = Vec::new();
    for turn in &wire::turns(Completion::PROTOCOL, request) {
        match turn.role {
            Role::Assistant => {
                calls = turn.calls().collect();
                messages.push(assistant(turn));
            }
            Role::User => user(turn, &std::mem::take(&mut calls), &mut messages),
        }
    }

    let limit = match dialect.limit {
        LimitField::MaxTokens => "max_tokens",
        LimitField::MaxCompletionTokens => "max_completion_tokens",
    };
    let mut body = json!({"model": request.model, limit: request.max_tokens, "stream": true});
    body["stream_options"] = json!({"include_usage": true});
    if request.thinking {
        match dialect.effort {
            EffortField::ReasoningEffort => body["reasoning_effort"] = json!("medium"),
            EffortField::Reasoning => body["reasoning"] = json!({"enabled": true}),
        }
    }
    if let Some(schema) = &request.schema {
        let format = json!({"name": "answer", "strict": true, "schema": **schema});
        body["response_format"] = json!({"type": "json_schema", "json_schema": format});
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|spec| {
            let name = wire::safe_name(&spec.name);
            json!({"type": "function", "function": {"name": name, "description": spec.description, "parameters": spec.schema}})
        });
        body["tools"] = tools.collect();
        if !request.may_call {
            body["tool_choice"] = json!("none");
        }
    }
    body["messages"] = Value::Array(messages);
    body
}

fn assistant(turn: &Turn<'_>) -> Value {
    let content = match content(turn) {
        content if content == "" => Value::Null,
        content => content,
    };
    let mut message = json!({"role": "assistant", "content": content});
    let calls: Vec<Value> = turn
        .calls()
        .map(|call| {
            let arguments = wire::input_object(&call.input).to_string();
            let function = json!({"name": wire::safe_name(&call.name), "arguments": arguments});
            json!({"id": call.id, "type": "function", "function": function})
        })
        .collect();
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
        reasoning::send_back(turn, &mut message);
    }
    message
}

/// Adds a user turn: first the results in the order of `calls`, as the role `tool`, then the rest.
fn user(turn: &Turn<'_>, calls: &[&ToolCall], messages: &mut Vec<Value>) {
    messages.extend(turn.results(calls).into_iter().map(tool_message));
    let content = content(turn);
    if content != "" {
        messages.push(json!({"role": "user", "content": content}));
    }
}

/// Returns the texts and pictures of a turn: joined into one string, which is understood everywhere, or a
/// list of parts where there is a picture to be shown.
fn content(turn: &Turn<'_>) -> Value {
    let mut parts = Vec::new();
    let mut texts: Vec<&str> = Vec::new();
    let text_part = |texts: &mut Vec<&str>| {
        let text = std::mem::take(texts).join(BETWEEN);
        (!text.is_empty()).then(|| json!({"type": "text", "text": text}))
    };
    for block in &turn.blocks {
        match block {
            Block::Image {
                content_type,
                data: Some(data),
                ..
            } => {
                parts.extend(text_part(&mut texts));
                let url = format!("data:{content_type};base64,{data}");
                parts.push(json!({"type": "image_url", "image_url": {"url": url}}));
            }
            Block::Image { data: None, .. } => texts.push(wire::NO_PICTURE),
            Block::Text { text } | Block::Context { text } => texts.push(text),
            Block::Thinking(_) | Block::ToolCall(_) | Block::ToolResult(_) => {}
        }
    }
    if parts.is_empty() {
        return Value::String(texts.join(BETWEEN));
    }
    parts.extend(text_part(&mut texts));
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
